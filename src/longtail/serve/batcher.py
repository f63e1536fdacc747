"""Predicts the texts of many requests in batches.

One thread computes: matrix products use every core, so two batches at a time would only wait for each other. It takes
its batches from the queue itself, because a busy event loop would let it wait. What arrives meanwhile makes the next
batch. A batch waits for more texts only while fewer are in the queue than were in the
batch before, and at most `wait` seconds: a client alone never waits for others. Requests for another k do not share a
batch, because a re-ranker that is given more candidates may answer differently.

Failure: where a batch fails, its halves are computed apart until only the request that is to blame has failed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any

from longtail.serve.guarded_calls import outcome_of
from longtail.serve.queue import Asked, ModelFailed, Piece, RequestQueue, Stopped, ThreadLost, TooLate

PROBE = 5.0  # seconds between two tries of a model that fails
MAX_LOSSES = 5  # threads lost one after another without a new batch
RETRY = 0.1  # seconds for which an estimate of Retry-After is kept
CHECK = 0.25  # seconds between two checks that the thread still lives
JOIN = 5.0  # seconds that a computation gets to end when the service stops


class Batcher:
    """A queue in front of `compute`; lives on one event loop.

    Args:
        compute: called with a key and texts in a thread of its own; returns one answer per text.
        batch_size: the most texts of a batch.
        queue: the places of the queue; a request takes one per text, and at most those of one batch.
        wait: the most seconds that a batch waits for more texts.
        watch: called in that thread with key, number of texts and seconds after each batch.
        pace_of: requests of which the model needs the same time per text have the same value of this.
        probe: called with a key after a batch of which nothing could be answered; raises where the model is broken.
    """

    def __init__(
        self,
        compute: Callable[[Any, list[str]], list[Any]],
        *,
        batch_size: int = 64,
        queue: int = 256,
        wait: float = 0.003,
        watch: Callable[[Any, int, float], None] = lambda key, texts, seconds: None,
        pace_of: Callable[[Any], Hashable] = lambda key: key,
        probe: Callable[[Any], Any] = lambda key: None,
    ) -> None:
        self._compute, self._watch, self._probe = compute, watch, probe
        self._batch_size, self._wait = batch_size, wait
        self._lock = threading.Condition()  # of the next three, which the event loop and the thread change
        self._queue = RequestQueue(batch_size, queue, pace_of)
        self._wanted = 0  # texts that the thread waits for
        self._stopping = False
        self._last = 0  # texts of the batch before
        self._batch: list[Piece] = []  # under way
        self._thread: threading.Thread | None = None
        self._retry = (0.0, 1)  # an estimate, and until when it holds
        self._losses = 0  # threads that were lost at this batch
        self._watcher: asyncio.Task[None] | None = None
        self.computing_since: float | None = None  # on the clock of the event loop
        self.broken: tuple[Any, BaseException] | None = None  # the key that fails, and why
        self.dead: BaseException | None = None  # why nothing is computed any more
        self.on_death: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Starts the thread, for the running event loop.

        Raises:
            RuntimeError: the operating system gives no thread.
        """
        self._loop = asyncio.get_running_loop()
        self._start_thread()
        self._watcher = self._loop.create_task(self._keep_alive())

    async def stop(self) -> None:
        """Stops the thread; requests that still wait get `Stopped`."""
        if self._watcher is not None:
            self._watcher.cancel()
        with self._lock:
            self._stopping = True
            self._lock.notify()
        self._give_up(Stopped())
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, JOIN)

    async def ask(self, key: Hashable, texts: Sequence[str], deadline: float, address: Hashable = None) -> list[Any]:
        """Predicts the texts of one request: `enter`, then `answers`.

        Args:
            key: model and k.
            texts: the texts.
            deadline: on the clock of the event loop.
            address: of the client; None: not shared by address.

        Returns:
            One answer per text.

        Raises:
            Busy: the queue is full, or too long for the deadline.
            TooLate: the deadline has passed.
            Stopped: the service stops.
            ModelFailed: the model fails on these texts.
        """
        return await self.answers(self.enter(key, texts, deadline, address))

    def enter(self, key: Hashable, texts: Sequence[str], deadline: float, address: Hashable = None) -> Asked:
        """Puts a request into the queue, or refuses it.

        Args:
            key: model and k.
            texts: the texts.
            deadline: on the clock of the event loop.
            address: of the client; None: not shared by address.

        Returns:
            The request, for `answers`.

        Raises:
            Busy: the queue is full, or too long for the deadline.
            Stopped: nothing is computed any more.
        """
        if self.dead is not None or self._stopping:
            raise Stopped
        asked = Asked(key, texts, deadline, address, self._loop.create_future(), sum(map(len, texts)))
        with self._lock:
            self._queue.put(asked, self._loop.time())
            if self.waiting >= self._wanted:
                self._lock.notify()
        return asked

    async def answers(self, asked: Asked) -> list[Any]:
        """Waits for the answers of a request.

        Args:
            asked: what `enter` returned.

        Returns:
            One answer per text.

        Raises:
            TooLate: the deadline has passed.
            Stopped: the service stops.
            ModelFailed: the model fails on these texts.
            Gone: `asked.leave` was called.
        """
        try:
            async with asyncio.timeout_at(asked.deadline):
                return await asked.done
        except TimeoutError:
            raise TooLate from None
        finally:
            if not asked.done.cancel() and not asked.done.cancelled():  # the queue drops it without computing it
                asked.done.exception()  # nobody waits for it any more, and asyncio would complain

    def full(self, address: Hashable = None) -> bool:
        """Tells whether the queue has no place for a client: then its request need not even be read.

        Args:
            address: of the client.

        Returns:
            Whether it is full.
        """
        return self._queue.full(address)

    @property
    def waiting(self) -> int:
        """Texts in the queue."""
        return self._queue.waiting

    @property
    def retry_after(self) -> int:
        """Seconds until the texts that wait now should be done."""
        now = self._loop.time()
        if now > self._retry[0]:  # every refusal asks, and looking through the queue costs more than the refusal
            with self._lock:
                self._retry = (now + RETRY, self._queue.retry_after)
        return self._retry[1]

    # ---- the thread, and who looks after it

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._work, name="longtail-predict", daemon=True)
        self._thread.start()

    async def _keep_alive(self) -> None:
        """Starts the thread again when it is lost. Its batch is tried once more: the texts may not be to blame."""
        while True:
            await asyncio.sleep(CHECK)
            if self._thread is not None and self._thread.is_alive():
                continue
            self.computing_since = None
            self._losses += 1
            if self._losses > 1:
                for piece in self._batch:
                    piece.asked.fail(ModelFailed(ThreadLost()))
                self._batch = []
            try:
                if self._losses > MAX_LOSSES:
                    raise ThreadLost
                self._start_thread()
            except (RuntimeError, ThreadLost) as error:  # the operating system gives no thread, or it never works
                self.dead = error
                self._give_up(Stopped())
                self.on_death()
                return

    def _work(self) -> None:
        self._answer_batch()  # of a thread that was lost
        while (batch := self._next_batch()) is not None:
            self._batch, self._losses = batch, 0
            self._answer_batch()

    def _answer_batch(self) -> None:
        if self._batch:
            key = self._batch[0].asked.key
            answered, error = self._answer(self._batch)
            self._batch = []
            if answered and self.broken is not None and self.broken[0] == key:
                self.broken = None
            elif not answered and error is not None:  # one bad text does not make the model broken: try a good one
                self.broken = self.broken or (key, error)
        if self.broken is not None:
            key, _ = self.broken
            found = outcome_of(self._probe, key).error
            self.broken = None if found is None else (key, found)

    def _next_batch(self) -> list[Piece] | None:
        """Waits for texts, and a little for more of them; None: stop."""
        with self._lock:
            self._until(1, None if self.broken is None else PROBE)
            if self.waiting < min(self._last, self._batch_size):
                self._until(min(self._last, self._batch_size), self._wait)
            late = lambda one: self._call(one.fail, TooLate())  # noqa: E731
            return None if self._stopping else self._queue.take(self._loop.time(), late)

    def _until(self, texts: int, seconds: float | None) -> None:
        """Returns once this many texts wait, or the time is over."""
        self._wanted = texts
        self._lock.wait_for(lambda: self.waiting >= texts or self._stopping, seconds)

    def _answer(self, batch: list[Piece]) -> tuple[int, BaseException | None]:
        """Computes and answers; returns how many pieces were answered, and an error of the model."""
        batch = [piece for piece in batch if not piece.asked.done.done()]
        if not batch:
            return 0, None
        answers, error = outcome_of(self._computed, batch)
        self.computing_since, self._queue.busy_until = None, 0.0
        if error is not None and len(batch) > 1:
            half = len(batch) // 2
            first, last = self._answer(batch[:half]), self._answer(batch[half:])
            return first[0] + last[0], first[1] or last[1]
        if error is not None:
            self._call(batch[0].asked.fail, ModelFailed(error))
            return 0, error
        self._call(_settle, batch, answers)
        return len(batch), None

    def _computed(self, batch: list[Piece]) -> list[Any]:
        key, texts = batch[0].asked.key, [text for piece in batch for text in piece.texts]
        characters, pace = sum(map(len, texts)), self._queue.pace(key)
        self.computing_since = self._loop.time()
        self._queue.busy_until = self.computing_since + pace.seconds(len(texts), characters)
        started = time.perf_counter()
        answers = list(self._compute(key, texts))
        seconds = time.perf_counter() - started
        if len(answers) != len(texts):
            raise ValueError(f"{len(answers)} answers to {len(texts)} texts")
        self._last = len(texts)
        with self._lock:
            pace.learn(len(texts), characters, seconds)
        self._watch(key, len(texts), seconds)
        return answers

    def _call(self, work: Callable[..., None], *given: Any) -> None:
        """Calls on the event loop."""
        with suppress(RuntimeError):  # it is closed: nobody waits
            self._loop.call_soon_threadsafe(work, *given)

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            for piece in self._batch:
                piece.asked.fail(error)
            for one in self._queue.clear():
                one.fail(error)


def _settle(batch: list[Piece], answers: list[Any]) -> None:
    """Hands out the answers of a batch, on the event loop."""
    begin = 0
    for asked, start, texts in batch:
        asked.add(start, answers[begin : begin + len(texts)])
        begin += len(texts)
