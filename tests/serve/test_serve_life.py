"""The command from start to stop: ready when warm, drained on SIGTERM, nothing acknowledged lost to kill -9."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from serve_process import Process, wait_for
from serving import serving

import forked
from longtail.data import Corpus
from longtail.errors import DataError, ModelError
from longtail.recipe import Recipe
from longtail.serve.models import Served, load_models
from longtail.serve.settings import TOKEN_VARIABLE


def test_it_starts_drains_and_leaves(folders: tuple[Path, Path]) -> None:
    process = Process(folders[1], **{TOKEN_VARIABLE: "a-token-from-the-environment"})
    try:
        assert process.ask("GET", "/health") == (200, {"status": "alive"})
        process.wait_until_ready()
        assert process.ask("POST", "/predict", {"text": "apple"})[0] == 401
        bearer = {"Authorization": "Bearer a-token-from-the-environment"}

        def under_way() -> int:
            metrics = process.fetch("GET", "/metrics", **bearer)[1].decode()
            return int(metrics.partition("\nlongtail_requests_under_way ")[2].split()[0])

        assert process.ask("POST", "/predict", {"text": "apple"}, **bearer)[0] == 200
        with socket.create_connection(("127.0.0.1", process.port), timeout=120) as slow:
            body = json.dumps({"text": "castle"}).encode()
            slow.sendall(
                b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Authorization: Bearer a-token-from-the-environment\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body[:5]
            )
            wait_for(lambda: under_way() == 2)  # the slow request, and the one that asks
            process.running.send_signal(signal.SIGTERM)
            wait_for(process.refuses)  # nobody new is let in
            slow.sendall(body[5:])  # and who was there is answered
            assert b" 200 " in slow.recv(65536).split(b"\r\n", 1)[0]
        code, events = process.end()
        assert code == 0
        assert [event["event"] for event in events if event["event"] != "request"] == ["listening", "ready", "stopped"]
    finally:
        process.running.kill()


def test_kill_9_loses_no_acknowledged_label(folders: tuple[Path, Path]) -> None:
    process = Process(folders[0])
    acknowledged: list[str] = []
    try:
        process.wait_until_ready()

        def add(worker: int) -> None:
            for number in range(10_000):
                name = f"label {worker} of number {number}"
                try:
                    status, answer = process.ask("POST", "/labels", {"labels": [{"text": name}]})
                except (OSError, http.client.HTTPException, ValueError):
                    return
                if status == 200:
                    acknowledged.extend(answer["added"])

        workers = [threading.Thread(target=add, args=(worker,), daemon=True) for worker in range(3)]
        for worker in workers:
            worker.start()
        wait_for(lambda: len(acknowledged) >= 15)
    finally:
        process.running.kill()  # SIGKILL
        process.running.wait(60)  # the kernel frees the journal's lock only when the process has ended
    for worker in workers:
        worker.join(60)
    served = Served("towers", folders[0])
    try:
        ids = served.now.model.labels.ids
        assert set(acknowledged) <= set(ids) and len(ids) <= 10 + len(acknowledged) + 3
        assert served.predict([acknowledged[-1]], 20)[0]
    finally:
        served.close()


def test_it_is_not_ready_before_it_is_warm(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    monkeypatch.setattr(Served, "warm_up", lambda self: held.wait(120))
    with serving(folders[1], ready=False) as running:
        assert running.get("/health").status == 200
        for reply in (running.get("/ready"), running.post("/predict", {"text": "apple"}), running.get("/models")):
            assert reply.status == 503 and reply.headers["retry-after"] == "1" and "starting" in reply.json["error"]
        assert b"longtail_ready 0" in running.get("/metrics").body
        held.set()
        wait_for(lambda: running.get("/ready").status == 200)
        assert running.post("/predict", {"text": "apple"}).status == 200


def test_overload_is_refused_and_passes(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    served = load_models([str(folders[1])])
    held = threading.Event()
    predict = Served.predict

    def slow(self: Served, texts: Any, k: int, dial: float, language: str) -> Any:
        assert held.wait(120)
        return predict(self, texts, k, dial, language)

    with serving(models=served, batch_size=2, queue=4, timeout=120) as running:
        monkeypatch.setattr(Served, "predict", slow)
        replies: list[Any] = []
        threads = [
            threading.Thread(target=lambda: replies.append(running.post("/predict", {"text": "apple"})))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(replies) >= 14)  # two at most are computed, and four wait
        held.set()
        for thread in threads:
            thread.join(120)
        statuses = sorted(reply.status for reply in replies)
        assert 4 <= statuses.count(200) <= 6 and set(statuses) == {200, 429}
        assert all(int(reply.headers["retry-after"]) >= 1 for reply in replies if reply.status == 429)
        assert running.post("/predict", {"text": "apple"}).status == 200


def test_what_takes_too_long_is_given_up(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(folders[1], timeout=0.3) as running:
        held = threading.Event()
        predict = Served.predict

        def slow(self: Served, texts: Any, k: int, dial: float, language: str) -> Any:
            held.wait(120)
            return predict(self, texts, k, dial, language)

        monkeypatch.setattr(Served, "predict", slow)
        begin = time.monotonic()
        reply = running.post("/predict", {"text": "apple"})
        assert reply.status == 503 and "within 0.3 s;" in reply.json["error"] and reply.headers["retry-after"]
        assert time.monotonic() - begin < 20  # the work itself lasts 120 s
        held.set()
        wait_for(lambda: running.post("/predict", {"text": "apple"}).status == 200)


def test_a_mistake_of_ours_is_a_500_without_the_text(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(folders[1]) as running:

        def broken(self: Served, texts: list[str], k: int, dial: float, language: str) -> Any:
            raise RuntimeError(f"cannot read {texts[0]}")

        with monkeypatch.context() as patch:
            patch.setattr(Served, "predict", broken)
            reply = running.post("/predict", {"text": "a secret"})
        assert reply.status == 500 and b"secret" not in reply.body and "secret" not in running.log.getvalue()
        failed = next(event for event in running.events if event["event"] == "failed")
        assert failed["error"] == "RuntimeError" and any("broken" in place for place in failed["at"])
        assert running.post("/predict", {"text": "a secret"}).status == 200


def test_a_model_that_reads_no_texts_is_refused(numbers: Corpus, tmp_path: Path) -> None:
    Recipe.parse("centroid").fit(numbers.train, numbers.valid).save(tmp_path / "numbers.longtail")
    done = forked.run(
        ["-m", "longtail", "serve", str(tmp_path / "numbers.longtail"), "--port", "0"], text=True, timeout=180
    )
    assert done.returncode == 2
    assert "error: " in done.stderr.splitlines()[-1] and "cannot read plain texts" in done.stderr


def test_what_is_wrong_is_said_before_it_listens(folders: tuple[Path, Path], tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from longtail.cli import app

    def error_of(*words: object) -> str:
        return str(CliRunner().invoke(app, ["serve", *map(str, words)]).exception)

    assert "not a model folder" in error_of(tmp_path / "missing", "--port", 0)
    assert "two models have the name means" in error_of(folders[1], folders[1], "--port", 0)
    assert "none of the labels" in error_of(folders[1], "--port", 0, "--examples", "wordnet")
    assert "no token is set" in error_of(folders[1], "--host", "0.0.0.0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen" in error_of(folders[1], "--port", taken.getsockname()[1])


def test_models_have_names(folders: tuple[Path, Path]) -> None:
    served = load_models([str(folders[1]), f"other={folders[1]}"])
    assert list(served) == ["means", "other"] and served["other"].path == folders[1]
    with pytest.raises(ModelError, match="cannot be the name of a model"):
        load_models([f"a\nb={folders[1]}"])
    first = load_models([str(folders[0])])
    with pytest.raises(ModelError, match="held by another service"):
        load_models([f"again={folders[0]}"])
    for one in (*served.values(), *first.values()):
        one.close()
    again = load_models([str(folders[0])])
    with pytest.raises(DataError, match="at least 1"):
        again["towers"].now.model.predict(["a"], 0)
    again["towers"].close()


def test_an_answer_goes_out_whole_without_waiting_for_the_client(folders: tuple[Path, Path]) -> None:
    """Head and body leave apart; held back until the head is confirmed, every answer would take 40 ms or more."""
    with serving(folders[1]) as running:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=120)
        connection.connect()

        def wait() -> float:
            begin = time.perf_counter()
            connection.request("GET", "/health")
            connection.getresponse().read()
            return time.perf_counter() - begin

        for _ in range(30):  # at first a client confirms at once
            wait()
        assert any(wait() < 0.03 for _ in range(60))  # a busy machine may slow some of them
        connection.close()


def test_the_matrix_libraries_learn_how_to_wait_before_they_are_loaded() -> None:
    asked = (
        "import sys, longtail.__main__, longtail.cli.serve; print([n for n in ('numpy', 'torch') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
