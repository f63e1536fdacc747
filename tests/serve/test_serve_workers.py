"""Several workers on one socket: the answers of one process, one model in memory, a dead worker replaced."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_process import Process, wait_for

import forked
import longtail
from longtail.serve.counters import Counters
from longtail.serve.journal import Entry, Journal, journal_of
from longtail.serve.models import Served
from longtail.serve.settings import Settings
from longtail.serve.totals import STALE, Totals, bury
from longtail.store import load


def metric(process: Process, name: str) -> float:
    text = process.fetch("GET", "/metrics")[1].decode()
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if re.match(rf"{name}[{{ ]", line))


@contextmanager
def slow_request(process: Process) -> Iterator[Callable[[], bytes]]:
    """A request of which half has come; what is yielded sends the rest and returns the answer."""
    body = json.dumps({"text": "castle", "model": "means"}).encode()
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    def under_way() -> bool:
        time.sleep(1)  # the last request for metrics is out of the other worker's figures
        return metric(process, "longtail_requests_under_way") >= 2  # the slow one, and the one that asks

    with socket.create_connection(("127.0.0.1", process.port), timeout=120) as slow:
        slow.sendall(head % len(body) + body[:5])
        wait_for(under_way)

        def finish() -> bytes:
            slow.sendall(body[5:])
            return slow.recv(65536)

        yield finish


def test_they_answer_as_one_process_and_a_dead_one_is_replaced(folders: tuple[Path, Path]) -> None:
    process = Process(*folders, "--workers", 2)
    try:
        process.wait_until_ready()
        wait_for(lambda: metric(process, "longtail_ready") == 2, 120)
        expected = Served("means", folders[1])
        texts = ["apple castle", "dragon of the forest", "jungle"]
        answer = process.ask("POST", "/predict", {"texts": texts, "model": "means"})[1]
        assert answer["answers"] == expected.predict(texts, 5)
        first = process.workers()
        assert len(first) == 2

        statuses: list[int] = []

        def ask() -> None:
            statuses.extend(process.ask("POST", "/predict", {"text": "apple", "model": "means"})[0] for _ in range(20))

        askers = [threading.Thread(target=ask) for _ in range(4)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join(120)
        assert statuses == [200] * 80
        predicted = 80 + len(texts)
        wait_for(lambda: metric(process, "longtail_texts_total") == predicted)  # whichever is asked, it tells of both

        victim = sorted(first)[0]
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: len(process.workers() - {victim}) == 2 and metric(process, "longtail_ready") == 2, 120)
        assert len(first & process.workers()) == 1
        assert metric(process, "longtail_texts_total") == predicted  # counters do not fall
        assert process.ask("POST", "/predict", {"text": "apple", "model": "means"})[0] == 200
        with slow_request(process) as finish:
            process.running.send_signal(signal.SIGTERM)
            wait_for(process.refuses)  # nobody new is let in
            assert b" 200 " in finish().split(b"\r\n", 1)[0]  # and who was there is answered
        code, events = process.end()
        assert code == 0
        (told,) = [event for event in events if event["event"] == "worker"]
        assert told["pid"] == victim and told["ended"] == "signal 9 (SIGKILL)"
        assert [event.get("worker") for event in events if event["event"] == "stopped"][-1] is None
        assert sum(event["event"] == "ready" for event in events) == 3
    finally:
        process.running.kill()


def test_no_worker_outlives_the_first_process(folders: tuple[Path, Path]) -> None:
    process = Process(folders[1], "--workers", 2)
    try:
        process.wait_until_ready()
        wait_for(lambda: len(process.workers()) == 2, 120)
        alive = process.workers()
    finally:
        process.running.kill()  # SIGKILL: nobody tells the workers
        process.running.wait(60)
    wait_for(lambda: not any(_runs(pid) for pid in alive))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_the_first_worker_cannot_load_ends_the_service(folders: tuple[Path, Path]) -> None:
    weights = folders[1] / "scorer.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    words = ["-m", "longtail", "serve", str(folders[1]), "--port", "0", "--workers", "2"]
    done = forked.run(words, text=True, timeout=180)
    assert done.returncode == 2 and "scorer.safetensors" in done.stderr and "Traceback" not in done.stderr


def test_labels_are_not_added_to_one_of_several(folders: tuple[Path, Path]) -> None:
    served = Served("towers", folders[0], several=True)
    assert served.why_not is not None and "several workers" in served.why_not
    with pytest.raises(longtail.errors.DataError, match="takes no new labels: several workers"):
        served.add([Entry("new", "new")])
    assert not journal_of(folders[0]).exists()
    with Journal(journal_of(folders[0])) as journal:
        journal.add([Entry("n", "new one")])
    with pytest.raises(longtail.errors.ModelError, match="several workers"):  # its labels are not left out silently
        Served("towers", folders[0], several=True)


def test_mapped_arrays_are_those_of_the_file_and_share_its_pages(folders: tuple[Path, Path]) -> None:
    read, mapped = load(folders[0]), load(folders[0], mapped=True)
    raw = (folders[0] / "scorer.safetensors").read_bytes()
    labels: Any = mapped.scorer
    assert np.array_equal(labels.labels, read.scorer.labels)  # type: ignore[attr-defined]
    place = labels.labels.ctypes.data
    (line,) = [
        line
        for line in Path("/proc/self/maps").read_text().splitlines()
        if int(line.split("-")[0], 16) <= place < int(line.split("-")[1].split()[0], 16)
    ]
    assert "scorer.safetensors" in line and line.split()[1] == "rw-p"  # private: a write would stay in this process
    labels.labels[0, 0] += 1
    assert (folders[0] / "scorer.safetensors").read_bytes() == raw


def test_a_share_of_every_limit() -> None:
    whole = Settings(workers=3, connections=100, connections_per_address=10, queue=256, batch_size=100)
    part = whole.of_worker()
    assert (part.connections, part.connections_per_address, part.queue) == (34, 4, 100)
    assert part.bodies * 3 >= whole.bodies and part.body == whole.body
    with pytest.raises(longtail.errors.DataError, match="--workers must be at least 1"):
        Settings(workers=0)


def test_totals_add_up_and_leave_out_gauges_of_the_dead(tmp_path: Path) -> None:
    both = []
    for number, texts in ((0, 3), (1, 4)):
        counters = Counters()
        counters.texts.add(texts, model="m")
        counters.batches.observe(texts, model="m")
        counters.waiting.set(number + 1)
        counters.labels.set(10 + number, model="m")
        counters.memory.set(100 + number)
        both.append(Totals(tmp_path, number, counters))
        both[-1].write()
    text = both[0].text()
    assert 'longtail_texts_total{model="m"} 7\n' in text and "longtail_texts_waiting 3\n" in text
    assert 'longtail_batch_texts_bucket{model="m",le="4"} 2\n' in text
    assert 'longtail_batch_texts_sum{model="m"} 7\n' in text
    assert 'longtail_labels{model="m"} 10\n' in text  # what every worker has
    assert 'process_resident_memory_bytes{worker="1"} 101\n' in text

    old = json.loads((tmp_path / "1.json").read_text())
    (tmp_path / "1.json").write_text(json.dumps({**old, "time": old["time"] - 2 * STALE}))
    assert "longtail_texts_waiting 1\n" in both[0].text()  # it hangs
    both[1].write()
    assert "longtail_texts_waiting 3\n" in both[0].text()
    bury(tmp_path, 1)
    bury(tmp_path, 2)  # it never wrote
    text = both[0].text()
    assert 'longtail_texts_total{model="m"} 7\n' in text and "longtail_texts_waiting 1\n" in text
    assert 'worker="1"' not in text

    again = Counters()  # of the process that replaces worker 1
    Totals(tmp_path, 1, again).write()
    assert again.texts.value(model="m") == 4 and again.waiting.value() == 0
    assert 'longtail_texts_total{model="m"} 7\n' in both[0].text()
