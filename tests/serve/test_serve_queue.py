"""The queue and the estimate of time, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import nnls

from longtail.serve.pace import FORGET, GUESS, Pace
from longtail.serve.queue import BATCH_CHARACTERS, Asked, Busy, Gone, RequestQueue


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    one = asyncio.new_event_loop()
    yield one
    one.close()


def asked(loop: asyncio.AbstractEventLoop, texts: int, now: float, key: str = "a", client: str | None = None) -> Asked:
    return Asked(key, [f"{now:07.2f}"] * texts, now + 10, client, loop.create_future(), 7 * texts)


def measured(queue: RequestQueue, seconds_per_text: float) -> None:
    queue.pace("a").learn(64, 64 * 7, 64 * seconds_per_text)


def test_the_estimate_is_the_least_squares_fit_of_recent_batches() -> None:
    rng = np.random.default_rng(0)
    for per_text, per_character in ((0.003, 0.0), (0.0005, 2e-6), (0.0, 1e-5), (0.01, 1e-7)):
        pace, rows, seconds = Pace(), [], []
        assert not pace.known and pace.seconds(10, 1000) == 10 * GUESS
        for _ in range(60):
            texts = int(rng.integers(1, 65))
            characters = int(texts * rng.integers(10, 20_000))
            rows.append((texts, characters))
            seconds.append((per_text * texts + per_character * characters) * rng.uniform(0.9, 1.1))
            pace.learn(texts, characters, seconds[-1])
        weights = np.sqrt(FORGET ** np.arange(60)[::-1])
        fit, _ = nnls(np.array(rows) * weights[:, None], np.array(seconds) * weights)
        for texts, characters in ((1, 50), (64, 64 * 100), (1, 100_000)):
            assert pace.seconds(texts, characters) == pytest.approx(fit @ (texts, characters), rel=1e-6, abs=1e-9)


def test_texts_of_one_length_are_enough_for_an_estimate() -> None:
    pace = Pace()
    for texts in (1, 64, 8, 30):
        pace.learn(texts, 50 * texts, 0.01 * texts)
    assert pace.seconds(100, 5000) == pytest.approx(1.0)


def test_short_requests_overtake_a_long_one_for_as_long_as_it_takes(loop: asyncio.AbstractEventLoop) -> None:
    queue = RequestQueue(8, 1000, lambda key: key)
    measured(queue, 0.01)
    long = asked(loop, 100, 0.0)  # takes a second
    queue.put(long, 0.0)
    early, late = asked(loop, 1, 0.5), asked(loop, 1, 1.5)
    queue.put(early, 0.5)
    assert [piece.asked for piece in queue.take(0.5, Asked.leave)] == [early, long]
    queue.put(late, 1.5)
    order = []
    while queue.waiting:
        order += [piece.asked for piece in queue.take(1.5, Asked.leave)]
    assert order[-1] is late and order.count(late) == 1
    assert long.left == 0


def test_nothing_that_is_let_in_is_too_late(loop: asyncio.AbstractEventLoop) -> None:
    """Requests of all sizes at four times the rate, on a clock that counts: all that are let in are done in time, and
    the model never waits."""
    rng = np.random.default_rng(1)
    queue = RequestQueue(64, 256, lambda key: key)
    measured(queue, 0.005)
    now, arrival, busy, last = 0.0, 0.0, 0.0, 0.0
    in_, refused, late = [], 0, []
    while now < 120:
        while arrival <= now:
            one = asked(loop, int(rng.choice([1, 8, 64, 512, 1024], p=[0.6, 0.25, 0.1, 0.03, 0.02])), arrival)
            try:
                queue.put(one, arrival)
                in_.append(one)
            except Busy:
                refused += 1
            arrival += rng.exponential(0.005 * 44.8 / 4)
        batch = queue.take(now, late.append)
        took = 0.005 * sum(len(piece.texts) for piece in batch)
        busy, now, last = busy + took, now + (took or 0.01), now
        for piece in batch:
            piece.asked.add(piece.start, list(piece.texts))
            assert not piece.asked.done.done() or now <= piece.asked.deadline
    assert last < 120 and busy / now > 0.95
    assert not late and refused > len(in_)
    sizes = [len(one.texts) for one in in_]
    assert (
        sizes.count(1024) >= 2 and sizes.count(512) > 5
    )  # long requests get in, even one that takes half the time limit


def test_a_request_that_cannot_be_done_in_time_is_refused_unless_nothing_waits(loop: asyncio.AbstractEventLoop) -> None:
    queue = RequestQueue(64, 10_000, lambda key: key)
    measured(queue, 0.1)
    queue.put(asked(loop, 500, 0.0), 0.0)  # 50 s of a limit of 10: nothing waits, so the estimate is put to the test
    queue = RequestQueue(64, 10_000, lambda key: key)
    measured(queue, 0.1)
    queue.put(asked(loop, 50, 0.0), 0.0)  # takes 5 s
    with pytest.raises(Busy) as busy:
        queue.put(asked(loop, 60, 0.0), 0.0)  # would be done after 11
    assert busy.value.retry_after == 5
    queue.put(asked(loop, 20, 0.0), 0.0)
    with pytest.raises(Busy):
        queue.put(asked(loop, 12, 0.0), 0.0)  # would itself be done in time, but not the one that it overtakes
    queue.put(asked(loop, 1, 0.0), 0.0)


def test_what_nobody_waits_for_leaves_no_trace(loop: asyncio.AbstractEventLoop) -> None:
    queue = RequestQueue(4, 8, lambda key: key)
    gone, stays = asked(loop, 3, 0.0, client="x"), asked(loop, 2, 0.1, client="y")
    queue.put(gone, 0.0)
    queue.put(stays, 0.1)
    gone.leave()
    assert [piece.asked for piece in queue.take(0.2, Asked.leave)] == [stays]
    assert isinstance(gone.done.exception(), Gone)
    assert queue.waiting == 0 and queue._shares.taken == 0 and not queue._shares._held
    assert queue.take(0.3, Asked.leave) == []


def test_long_texts_make_small_batches_and_every_text_comes_once(loop: asyncio.AbstractEventLoop) -> None:
    queue = RequestQueue(64, 256, lambda key: key)
    texts = [chr(97 + number) * (BATCH_CHARACTERS // 2) for number in range(7)]
    one = Asked("a", texts, 10.0, None, loop.create_future(), sum(map(len, texts)))
    queue.put(one, 0.0)
    pieces = []
    while queue.waiting:
        pieces += queue.take(0.0, Asked.leave)
    assert [len(piece.texts) for piece in pieces] == [2, 2, 2, 1]
    for piece in (*reversed(pieces), pieces[0]):  # in any order, and one twice
        one.add(piece.start, [text[0] for text in piece.texts])
    assert one.done.result() == list("abcdefg")
