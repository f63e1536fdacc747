"""Texts of many requests go through a model together.

One thread computes; texts that arrive meanwhile wait in one bounded queue and leave it in batches. A batch begins with
the text that has waited longest and takes along those that ask the same model for as many labels. It waits for others
only while fewer have come than were in the batch before, and never longer than `wait`: a client alone waits for nobody.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MARGIN = 1.5  # a line takes longer than its batches: between them requests are read and answered
LEAST_RETRY, MOST_RETRY = 1, 60  # seconds a client is told to stay away


class Busy(Exception):
    """The queue is full."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"{retry_after} s")
        self.retry_after = retry_after


class TooLate(Exception):
    """The request's time is over."""


class Stopped(Exception):
    """The service is stopping."""


@dataclass(eq=False)
class Waiting:
    """Some texts of a request."""

    key: Hashable  # those with equal keys may go together
    texts: Sequence[str]
    answers: asyncio.Future[list[Any]]


class Batcher:
    """Lives on one event loop. `compute(key, texts)` gives one answer a text and runs in a thread of its own."""

    def __init__(
        self,
        compute: Callable[[Any, list[str]], list[Any]],
        *,
        batch: int = 64,
        queue: int = 256,
        wait: float = 0.003,
        watch: Callable[[Any, int, float], None] = lambda key, texts, seconds: None,
    ) -> None:
        self._compute, self._watch = compute, watch
        self._batch, self._queue, self._wait = batch, queue, wait
        self._line: deque[Waiting] = deque()
        self.waiting = 0  # texts in the line
        self._came, self._left = asyncio.Event(), asyncio.Event()
        self._wanted = 0  # texts that the worker waits for
        self._last = 0  # texts of the batch before
        self._rate = 0.0  # texts a second, lately
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="longtail-predict")
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._worker = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Whoever still waits is told so."""
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
        for one in self._line:
            if not one.answers.done():
                one.answers.set_exception(Stopped())
        self._line.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def ask(self, key: Hashable, texts: Sequence[str], deadline: float) -> list[Any]:
        """One answer a text, by `deadline` on the loop's clock.

        Many texts go piece by piece, so that a short request never waits behind all of a long one. A request that finds
        no room, or too long a line, is refused at once; one that has begun waits for room for the rest of its texts.
        """
        answers: list[Any] = []
        for begin in range(0, len(texts), self._batch):
            piece = texts[begin : begin + self._batch]
            if begin == 0 and (self.waiting + len(piece) > self._queue or self._hopeless(deadline)):
                raise Busy(self.retry_after)
            answers += await self._within(self._ask(key, piece), deadline)
        return answers

    @property
    def retry_after(self) -> int:
        """Seconds in which what waits now should be done."""
        seconds = self.waiting / self._rate if self._rate else 0.0
        return min(max(math.ceil(seconds), LEAST_RETRY), MOST_RETRY)

    def _hopeless(self, deadline: float) -> bool:
        """Whether those in line will take longer than this one has: better told now than given up later."""
        left = deadline - asyncio.get_running_loop().time()
        return bool(self._rate) and MARGIN * self.waiting / self._rate > left

    async def _ask(self, key: Hashable, piece: Sequence[str]) -> list[Any]:
        while self.waiting + len(piece) > self._queue:
            self._left.clear()
            await self._left.wait()
        one = Waiting(key, piece, asyncio.get_running_loop().create_future())
        self._line.append(one)
        self.waiting += len(piece)
        if self.waiting >= self._wanted:
            self._came.set()
        try:
            return await one.answers
        finally:
            if not one.answers.done():
                one.answers.cancel()  # nobody waits any more: it leaves the line without being computed

    async def _within(self, work: Any, deadline: float) -> list[Any]:
        try:
            async with asyncio.timeout_at(deadline):
                answers: list[Any] = await work
                return answers
        except TimeoutError:
            raise TooLate from None

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._for(1)
            if self.waiting < min(self._last, self._batch):
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._wait):
                        await self._for(min(self._last, self._batch))
            batch = self._take()
            if not batch:
                continue
            texts = [text for one in batch for text in one.texts]
            begin = time.perf_counter()
            try:
                answers = await loop.run_in_executor(self._thread, self._compute, batch[0].key, texts)
            except Exception as error:  # the model's: everybody in the batch is told, and the next batch goes on
                for one in batch:
                    if not one.answers.done():
                        one.answers.set_exception(error)
                continue
            seconds = time.perf_counter() - begin
            self._last = len(texts)
            self._rate = len(texts) / max(seconds, 1e-6) * 0.2 + self._rate * 0.8
            self._watch(batch[0].key, len(texts), seconds)
            begin_of = 0
            for one in batch:
                end_of = begin_of + len(one.texts)
                if not one.answers.done():
                    one.answers.set_result(answers[begin_of:end_of])
                begin_of = end_of

    async def _for(self, texts: int) -> None:
        """Until this many texts wait."""
        self._wanted = texts
        while self.waiting < texts:
            self._came.clear()
            await self._came.wait()

    def _take(self) -> list[Waiting]:
        """The first in the line and those that may go with it; whoever has gone away leaves."""
        batch: list[Waiting] = []
        stay: deque[Waiting] = deque()
        texts = left = 0
        for one in self._line:
            if one.answers.done():
                left += len(one.texts)
            elif (not batch or one.key == batch[0].key) and texts + len(one.texts) <= self._batch:
                batch.append(one)
                texts += len(one.texts)
            else:
                stay.append(one)
        self._line = stay
        self.waiting -= texts + left
        self._left.set()
        return batch
