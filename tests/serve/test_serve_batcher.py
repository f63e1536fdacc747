"""The batcher alone: what goes together, what is refused, what happens to those who wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from longtail.serve.batcher import Batcher
from longtail.serve.queue import Busy, ModelFailed, Stopped, TooLate


class Slow:
    """Answers a text with itself and its key, and remembers what came together. Waits until the test lets it go."""

    def __init__(self, held: bool = False) -> None:
        self.batches: list[tuple[Any, list[str]]] = []
        self.go = threading.Event()
        if not held:
            self.go.set()

    def __call__(self, key: Any, texts: list[str]) -> list[Any]:
        self.batches.append((key, texts))
        assert self.go.wait(60)
        if "bad" in texts:
            raise ValueError("a bad text")
        return [(key, text) for text in texts]


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 120))


def soon(seconds: float = 60) -> float:
    return asyncio.get_running_loop().time() + seconds


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_texts_that_arrive_while_one_is_computed_go_together() -> None:
    async def scene() -> None:
        model = Slow(held=True)
        batcher = Batcher(model, batch_size=8)
        batcher.start()
        first = asyncio.create_task(batcher.ask("a", ["one"], soon()))
        await until(lambda: model.batches)
        others = [asyncio.create_task(batcher.ask("a", [f"text {n}"], soon())) for n in range(11)]
        await until(lambda: batcher.waiting == 11)
        model.go.set()
        assert await first == [("a", "one")]
        assert [await other for other in others] == [[("a", f"text {n}")] for n in range(11)]
        assert [len(texts) for _, texts in model.batches] == [1, 8, 3]
        assert batcher.waiting == 0
        await batcher.stop()

    play(scene())


def test_only_equal_keys_go_together_and_the_first_in_line_goes_first() -> None:
    async def scene() -> None:
        model = Slow(held=True)
        batcher = Batcher(model, batch_size=8)
        batcher.start()
        asked = [asyncio.create_task(batcher.ask("first", ["x"], soon()))]
        await until(lambda: model.batches)
        for key, text in (("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")):
            asked.append(asyncio.create_task(batcher.ask(key, [text], soon())))
            await asyncio.sleep(0)
        model.go.set()
        await asyncio.gather(*asked)
        assert model.batches == [("first", ["x"]), ("a", ["1", "3"]), ("b", ["2", "4"])]
        await batcher.stop()

    play(scene())


def test_a_client_alone_waits_for_nobody() -> None:
    async def scene() -> None:
        model = Slow()
        batcher = Batcher(model, wait=5)
        batcher.start()
        begin = time.monotonic()
        for _ in range(5):
            await batcher.ask("a", ["text"], soon())
        assert time.monotonic() - begin < 2
        await batcher.stop()

    play(scene())


def test_the_wait_for_others_is_bounded() -> None:
    async def scene() -> None:
        model = Slow()
        batcher = Batcher(model, batch_size=8, wait=0.2)
        batcher.start()
        await batcher.ask("a", ["1", "2", "3", "4"], soon())
        begin = time.monotonic()
        await batcher.ask("a", ["alone"], soon())  # four came before: it waits for others, and none comes
        assert 0.15 < time.monotonic() - begin < 3
        four = batcher.ask("a", ["1", "2", "3", "4"], soon())
        begin = time.monotonic()
        await four
        assert time.monotonic() - begin < 0.15  # as many as came before: no wait
        await batcher.stop()

    play(scene())


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    async def scene() -> None:
        model = Slow(held=True)
        batcher = Batcher(model, batch_size=4, queue=6)
        batcher.start()
        asked = [asyncio.create_task(batcher.ask("a", ["computed"], soon()))]
        await until(lambda: model.batches)
        asked += [asyncio.create_task(batcher.ask("a", ["1", "2"], soon())) for _ in range(3)]
        await until(lambda: batcher.waiting == 6)
        with pytest.raises(Busy) as refused:
            await batcher.ask("a", ["one more"], soon())
        assert 1 <= refused.value.retry_after <= 60
        model.go.set()
        await asyncio.gather(*asked)
        assert await batcher.ask("a", ["now"], soon()) == [("a", "now")]
        await batcher.stop()

    play(scene())


def test_a_long_request_goes_in_pieces_and_lets_a_short_one_through() -> None:
    async def scene() -> None:
        model = Slow(held=True)
        batcher = Batcher(model, batch_size=4, queue=8)
        batcher.start()
        many = [str(n) for n in range(22)]
        long = asyncio.create_task(batcher.ask("long", many, soon()))
        await until(lambda: model.batches)
        short = asyncio.create_task(batcher.ask("short", ["me"], soon()))
        await until(lambda: batcher.waiting == 19)
        model.go.set()
        assert await long == [("long", text) for text in many] and await short == [("short", "me")]
        assert model.batches[1] == ("short", ["me"])
        assert max(len(texts) for _, texts in model.batches) <= 4
        await batcher.stop()

    play(scene())


def test_a_request_that_is_too_late_gets_an_error_and_is_never_computed() -> None:
    async def scene() -> None:
        model = Slow(held=True)
        batcher = Batcher(model)
        batcher.start()
        first = asyncio.create_task(batcher.ask("a", ["slow"], soon()))
        await until(lambda: model.batches)
        with pytest.raises(TooLate):
            await batcher.ask("a", ["late"], soon(0.05))
        model.go.set()
        await first
        assert await batcher.ask("a", ["next"], soon()) == [("a", "next")]
        assert [texts for _, texts in model.batches] == [["slow"], ["next"]]
        assert batcher.waiting == 0
        await batcher.stop()

    play(scene())


def test_an_error_of_the_model_reaches_its_batch_and_no_other() -> None:
    async def scene() -> None:
        batcher = Batcher(Slow())
        batcher.start()
        with pytest.raises(ModelFailed) as failed:
            await batcher.ask("a", ["bad"], soon())
        assert isinstance(failed.value.error, ValueError) and "a bad text" in str(failed.value.error)
        assert await batcher.ask("a", ["good"], soon()) == [("a", "good")]
        await batcher.stop()

    play(scene())


def test_stopping_tells_those_who_wait() -> None:
    async def scene() -> None:
        model = Slow(held=True)
        batcher = Batcher(model)
        batcher.start()
        asyncio.create_task(batcher.ask("a", ["computed"], soon())).add_done_callback(lambda task: task.exception())
        await until(lambda: model.batches)
        waiting = asyncio.create_task(batcher.ask("a", ["waits"], soon()))
        await until(lambda: batcher.waiting == 1)
        model.go.set()
        await batcher.stop()
        with pytest.raises(Stopped):
            await waiting

    play(scene())


def test_a_line_too_long_for_the_time_left_refuses_at_once() -> None:
    def slow(key: Any, texts: list[str]) -> list[Any]:
        time.sleep(0.02 * len(texts))  # 50 texts a second
        return texts

    async def scene() -> None:
        batcher = Batcher(slow, batch_size=4, queue=1000, wait=0)
        batcher.start()
        for _ in range(30):
            await batcher.ask("a", ["1", "2", "3", "4"], soon())
        begin = time.monotonic()
        outcomes = await asyncio.gather(
            *(batcher.ask("a", ["text"], soon(1.0)) for _ in range(200)), return_exceptions=True
        )
        kinds = [type(one) for one in outcomes]
        assert kinds.count(Busy) > 100 and kinds.count(list) >= 15
        assert kinds.count(TooLate) <= 10 and time.monotonic() - begin < 5
        await batcher.stop()

    play(scene())
