"""Whatever a model raises, and even a thread that is lost, costs one request and never the service."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import Running, serving

import longtail
from longtail.errors import ModelError
from longtail.serve import batcher
from longtail.serve.models import Served

POISON = "caf\u00e9"  # any letter that is not ASCII


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def panicking(trained: Path, folder: Path) -> Path:
    """A model whose tokenizer has a table of 128 entries and looks up bytes above 127, too: Rust panics there."""
    model = longtail.load_model(trained / "towers.longtail")
    encoder = model.scorer.encoder  # type: ignore[attr-defined]
    definition = json.loads(encoder.definition.tobytes())
    table = struct.pack("<I", 4 * 128) + bytes(4 * 128) + b"\0"
    definition["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}
    broken = replace(encoder, definition=np.frombuffer(json.dumps(definition).encode(), dtype=np.uint8))
    replace(model, scorer=replace(model.scorer, encoder=broken)).save(folder / "panics.longtail")  # type: ignore[type-var]
    return folder / "panics.longtail"


@pytest.fixture(scope="module")
def running(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(panicking(trained, tmp_path_factory.mktemp("panics"))) as one:
        yield one


def test_a_panic_of_the_tokenizer_costs_only_the_request_with_that_text(running: Running) -> None:
    texts = [POISON if place % 10 == 3 else f"an apple of number {place}" for place in range(40)]
    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda text: running.post("/predict", {"text": text}), texts))
    assert [reply.status for reply in replies] == [500 if text == POISON else 200 for text in texts]
    for reply in replies:
        if reply.status == 500:
            assert "ModelError" in reply.json["error"] and POISON not in reply.json["error"]
    failed = [event for event in running.events if event["event"] == "failed"]
    assert len(failed) == 4 and all(event["error"] == "ModelError" for event in failed)
    assert POISON not in running.log.getvalue()
    assert running.get("/ready").status == running.get("/health").status == 200


def test_a_panic_while_a_label_is_added_adds_nothing(running: Running) -> None:
    reply = running.post("/labels", {"labels": [{"text": POISON}]})
    assert reply.status == 500 and "ModelError" in reply.json["error"] and POISON not in reply.json["error"]
    assert running.get("/models").json["models"][0]["added"] == 0
    assert running.post("/labels", {"labels": [{"text": "plain letters"}]}).json["added"] == ["plain letters"]
    assert running.post("/predict", {"text": "plain letters"}).status == 200


class Oddity(BaseException):
    pass


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, ValueError, Oddity])
def test_whatever_is_raised_while_a_label_is_added_costs_only_that_request(
    folders: tuple[Path, Path], kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*given: Any) -> Any:
        raise kind("bad")

    with serving(folders[0]) as running:
        with monkeypatch.context() as patch:
            patch.setattr(Served, "_grown", odd)
            reply = running.post("/labels", {"labels": [{"text": "a castle"}]})
        assert reply.status == 500 and kind.__name__ in reply.json["error"]
        assert [event["error"] for event in running.events if event["event"] == "failed"] == [kind.__name__]
        assert running.post("/labels", {"labels": [{"text": "a castle"}]}).json["added"] == ["a castle"]
        assert running.get("/ready").status == 200


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, MemoryError, GeneratorExit, asyncio.CancelledError,
                                  StopIteration, RecursionError, Oddity])  # fmt: skip
def test_a_model_may_raise_anything(trained: Path, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    predict = Served.predict

    def odd(self: Served, texts: Any, k: int, dial: float, language: str) -> Any:
        if "bad" in texts:
            raise kind("bad")
        return predict(self, texts, k, dial, language)

    with serving(trained / "means.longtail") as running:
        monkeypatch.setattr(Served, "predict", odd)
        texts = ["bad" if place == 5 else "an apple" for place in range(12)]
        with ThreadPoolExecutor(12) as pool:
            replies = list(pool.map(lambda text: running.post("/predict", {"text": text}), texts))
        assert [reply.status for reply in replies] == [500 if text == "bad" else 200 for text in texts]
        assert kind.__name__ in replies[5].json["error"]
        assert running.get("/ready").status == 200


def test_the_wrong_number_of_answers_is_an_error_not_somebody_elses_answer(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(trained / "means.longtail") as running, monkeypatch.context() as patch:
        patch.setattr(Served, "predict", lambda self, texts, k, dial, language: [[]] * (len(texts) + 1))
        assert running.post("/predict", {"text": "an apple"}).status == 500
        patch.setattr(Served, "predict", lambda self, texts, k, dial, language: None)
        assert running.post("/predict", {"text": "an apple"}).status == 500


def lose_thread(running: Running) -> threading.Thread:
    """Ends the thread that predicts when it next wakes up."""
    thread = running.service.batcher._thread
    assert thread is not None and thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    return thread


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lost_thread_is_started_again(trained: Path) -> None:
    with serving(trained / "means.longtail") as running:
        assert running.post("/predict", {"text": "an apple"}).status == 200
        first = lose_thread(running)
        assert running.post("/predict", {"text": "an apple"}).status == 200
        assert running.service.batcher._thread is not first and not first.is_alive()
        assert running.get("/ready").status == 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_a_thread_it_ends_with_an_error(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(trained / "means.longtail") as running:

        def none_left(self: batcher.Batcher) -> None:
            raise RuntimeError("can't start new thread")

        service = running.service
        monkeypatch.setattr(batcher.Batcher, "_start_thread", none_left)
        lose_thread(running)
        assert running.post("/predict", {"text": "an apple"}).status == 503
        wait_for(lambda: service.failure is not None and service.state == "stopping")
        assert isinstance(service.failure, ModelError) and "cannot be started again" in str(service.failure)


def test_ready_is_true_about_a_model_that_fails_and_one_that_hangs(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batcher, "PROBE", 0.1)
    with serving(trained / "means.longtail", timeout=0.5) as running:
        with monkeypatch.context() as patch:
            patch.setattr(longtail.model.Model, "predict", lambda *given: 1 / 0)
            assert running.post("/predict", {"text": "an apple"}).status == 500
            wait_for(lambda: running.get("/ready").status == 503)
            assert "ZeroDivisionError" in running.get("/ready").json["error"]
            assert b"longtail_ready 0" in running.get("/metrics").body
        wait_for(lambda: running.get("/ready").status == 200)  # nobody asked: it tried by itself
        held = threading.Event()
        with monkeypatch.context() as patch:
            patch.setattr(Served, "predict", lambda self, texts, k, dial, language: held.wait(60))
            assert running.post("/predict", {"text": "an apple"}).status == 503
            wait_for(lambda: running.get("/ready").status == 503)
            assert "has been computed for" in running.get("/ready").json["error"]
            held.set()
        wait_for(lambda: running.get("/ready").status == 200)


def test_what_a_client_that_left_asked_for_is_not_computed(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, seen = threading.Event(), []

    def slow(self: Served, texts: Any, k: int, dial: float, language: str) -> Any:
        seen.extend(texts)
        held.wait(60)
        return [[] for _ in texts]

    with serving(trained / "means.longtail", timeout=60) as running:
        monkeypatch.setattr(Served, "predict", slow)
        first = threading.Thread(target=running.post, args=("/predict", {"text": "stays"}))
        first.start()
        wait_for(lambda: seen == ["stays"])
        body = json.dumps({"texts": ["leaves"] * 3}).encode()
        with socket.create_connection(("127.0.0.1", running.port)) as connection:
            connection.sendall(
                b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            wait_for(lambda: running.service.batcher.waiting == 3)
        wait_for(lambda: running.service.under_way == 1)
        held.set()
        first.join(60)
        assert running.post("/predict", {"text": "comes"}).status == 200
        assert seen == ["stays", "comes"]
        assert {"gone"} <= {dict(names)["reason"] for names in running.service.counters.refused._values}
