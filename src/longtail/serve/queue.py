"""The queue of predictions: who gets in, in which order, and what makes a batch.

Order: a request is due at its arrival plus the time that it needs itself, and what is due first is computed first. So
short requests overtake a long one, but only for as long as the long one takes, and nobody starves.

Refusal: the queue takes no request that it could not finish in time, or that would make another late, because half of a
long request computed is work for nothing. The time comes from `Pace`. A request occupies at most one batch of the
queue's places, so a few long requests do not keep short ones out, and one address never gets all places (`FairShare`).
"""

from __future__ import annotations

import asyncio
import bisect
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from longtail.serve.pace import Pace
from longtail.serve.share import FairShare

MARGIN = 1.25  # the queue takes longer than its batches: requests are read and answered between them
MIN_RETRY, MAX_RETRY = 1, 60  # seconds of Retry-After
BATCH_CHARACTERS = 1 << 18  # after this many characters a batch takes no further text


class Busy(Exception):
    """The queue is full, or too long for the request."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"{retry_after} s")
        self.retry_after = retry_after


class TooLate(Exception):
    """The deadline of the request has passed."""


class Stopped(Exception):
    """The service is stopping."""


class Gone(Exception):
    """The client has disconnected."""


class ThreadLost(Exception):
    """The thread ended while it computed."""


class ModelFailed(Exception):
    """The model raised something while it computed this request, or its thread was lost; `error` is what."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


@dataclass(eq=False)
class Asked:
    """A request in the queue."""

    key: Hashable  # requests with equal keys may share a batch
    texts: Sequence[str]
    deadline: float  # on the clock of the event loop
    address: Hashable
    done: asyncio.Future[list[Any]]
    characters: int
    taken: int = 0  # texts that are computed or in the batch under way
    due: float = 0.0  # when it should be done
    places: int = 0  # of the queue
    parts: dict[int, list[Any]] = field(default_factory=dict)  # answers, by the place of their first text

    @property
    def left(self) -> int:
        """Texts that wait."""
        return len(self.texts) - self.taken

    @property
    def characters_left(self) -> int:
        """Characters of the texts that wait, as if all its texts had the same length."""
        return self.characters * self.left // len(self.texts)

    def add(self, start: int, answers: list[Any]) -> None:
        """Takes in the answers to some texts; with the last of them, the request is done.

        Args:
            start: the place of the first text.
            answers: to it and those after it.
        """
        self.parts[start] = answers
        if sum(map(len, self.parts.values())) == len(self.texts) and not self.done.done():
            self.done.set_result([answer for _, part in sorted(self.parts.items()) for answer in part])

    def fail(self, error: Exception) -> None:
        """Answers with an error; what waits of it is never computed."""
        if not self.done.done():
            self.done.set_exception(error)

    def leave(self) -> None:
        """The client is gone."""
        self.fail(Gone())


class Piece(NamedTuple):
    """Texts of a request that are in a batch."""

    asked: Asked
    start: int
    texts: Sequence[str]


class RequestQueue:
    """Requests by their due times. The caller holds a lock where more than one thread uses it.

    Args:
        batch_size: the most texts of a batch.
        places: of the queue; a request takes one per text, and at most `batch_size`.
        pace_of: the same value for keys whose texts take the model the same time.
    """

    def __init__(self, batch_size: int, places: int, pace_of: Callable[[Any], Hashable]) -> None:
        self._batch_size, self._pace_of = batch_size, pace_of
        self._queue: list[Asked] = []
        self._shares = FairShare(places)
        self._paces: defaultdict[Hashable, Pace] = defaultdict(Pace)
        self.waiting = 0  # texts
        self.busy_until = 0.0  # when the batch under way should be done

    def pace(self, key: Hashable) -> Pace:
        """How long the model of a key takes.

        Args:
            key: of a request.

        Returns:
            Its pace so far.
        """
        return self._paces[self._pace_of(key)]

    def put(self, asked: Asked, now: float) -> None:
        """Takes a request in.

        Args:
            asked: the request.
            now: the time.

        Raises:
            Busy: the queue is full, or too long for the deadline.
        """
        own = self.pace(asked.key).seconds(len(asked.texts), asked.characters)
        spare = max(asked.deadline - now - MARGIN * own, 0.0)
        asked.due = now + min(own, spare / 2)
        if self.full(asked.address) or self._hopeless(asked, own, now):
            raise Busy(self.retry_after)
        bisect.insort(self._queue, asked, key=attrgetter("due"))
        asked.places = min(len(asked.texts), self._batch_size)
        self._shares.take(asked.address, asked.places)
        self.waiting += len(asked.texts)

    def full(self, address: Hashable = None) -> bool:
        """Tells whether the queue has no place for a client: then its request need not even be read.

        Args:
            address: of the client.

        Returns:
            Whether it is full.
        """
        return not self._shares.allows(address)

    @property
    def retry_after(self) -> int:
        """Seconds until the texts that wait now should be done."""
        seconds = sum(self._rest(one) for one in self._queue if not one.done.done())
        return min(max(math.ceil(seconds), MIN_RETRY), MAX_RETRY)

    def take(self, now: float, late: Callable[[Asked], None]) -> list[Piece]:
        """Takes the texts that are due first and those that may share their batch; drops what nobody waits for.

        Args:
            now: the time.
            late: called with each request that can no longer be done in time.

        Returns:
            The batch.
        """
        batch: list[Piece] = []
        stay: list[Asked] = []
        room, characters = self._batch_size, 0
        for one in self._queue:
            if one.done.done() or self._too_late(one, now):
                if not one.done.done():
                    late(one)
                self._leave_queue(one, one.left)
                continue
            if room and characters < BATCH_CHARACTERS and (not batch or one.key == batch[0].asked.key):
                start = one.taken
                end = start
                while end < len(one.texts) and room and characters < BATCH_CHARACTERS:
                    characters += len(one.texts[end])
                    end, room = end + 1, room - 1
                self._leave_queue(one, end - start)
                batch.append(Piece(one, start, one.texts[start:end]))
            if one.left:
                stay.append(one)
        self._queue = stay
        return batch

    def clear(self) -> list[Asked]:
        """Empties the queue.

        Returns:
            The requests that waited.
        """
        left, self._queue = self._queue, []
        for one in left:
            self._leave_queue(one, one.left)
        return left

    def _hopeless(self, asked: Asked, own: float, now: float) -> bool:
        """Whether taking the request in would make it late, or another that waits and that it would overtake.

        Refusing it now is better than giving up later.
        """
        if not self.pace(asked.key).known:
            return False
        seconds = max(self.busy_until - now, 0.0)  # until all of these texts are done
        entered = False
        for one in self._queue:
            if one.done.done():
                continue
            if not entered and one.due > asked.due:
                if _misses(asked, seconds, own, now):
                    return True
                entered = True
            seconds += self._rest(one)
            if entered and MARGIN * seconds <= one.deadline - now < MARGIN * (seconds + own):
                return True
        return not entered and _misses(asked, seconds, own, now)

    def _rest(self, one: Asked) -> float:
        """Seconds that the texts of a request which still wait will take."""
        return self.pace(one.key).seconds(one.left, one.characters_left)

    def _too_late(self, one: Asked, now: float) -> bool:
        """Whether the rest of a request would take longer than it has, while others could use the time."""
        pace = self.pace(one.key)
        needed = self._rest(one) if pace.known and len(self._queue) > 1 else 0.0
        return now + needed > one.deadline

    def _leave_queue(self, one: Asked, texts: int) -> None:
        one.taken += texts
        self.waiting -= texts
        places = min(one.left, self._batch_size)
        if places != one.places:
            self._shares.take(one.address, places - one.places)
            one.places = places


def _misses(asked: Asked, ahead: float, own: float, now: float) -> bool:
    """Whether the estimate says that a request will be late. One with nothing ahead is tried anyway: that corrects the
    estimate."""
    return ahead > 0 and MARGIN * (ahead + own) > asked.deadline - now
