"""Processes of a build: in order, few items ahead, and none is left when the parent is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longtail.data.worker_pool import WORTH, Workers, processes_for
from longtail.errors import DataError, ProcessLost


def slow_square(number: int) -> int:
    time.sleep(0.02 if number % 3 == 0 else 0)
    return number * number


def killed(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def refuse(number: int) -> int:
    raise DataError("is wrong", Path("file.tsv"), number)


def test_results_come_in_order_and_few_items_are_taken_ahead() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(40):
            taken += 1
            yield number

    with Workers(2) as workers:
        found = workers.in_order(slow_square, items())
        assert next(found) == 0 and taken <= 6
        assert list(found) == [number * number for number in range(1, 40)]
        assert list(workers.in_order(slow_square, [7])) == [49], "the same processes work again"


def test_an_error_of_a_worker_is_the_parents() -> None:
    with Workers(2) as workers, pytest.raises(DataError, match=r"file\.tsv:5: is wrong") as error:
        list(workers.in_order(refuse, [5]))
    assert (error.value.path, error.value.line) == (Path("file.tsv"), 5)


def test_a_worker_that_was_killed_is_told_in_words() -> None:
    with Workers(2) as workers, pytest.raises(ProcessLost, match=r"lack of memory.*goes on where it was"):
        list(workers.in_order(killed, [1]))


def test_small_inputs_start_no_process() -> None:
    assert processes_for(WORTH - 1) == 1 and processes_for(WORTH) >= 1


SCRIPT = """
import os, sys, time
from longtail.data.worker_pool import Workers
if __name__ == "__main__":
    with Workers(2) as workers:
        print(*set(workers.in_order(pid, range(8))), flush=True)
        time.sleep(60)
"""


def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    helper = "import os, time\ndef pid(number):\n    time.sleep(0.1)\n    return os.getpid()\n"
    (tmp_path / "helper.py").write_text(helper)
    (tmp_path / "script.py").write_text("from helper import pid\n" + SCRIPT)
    parent = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert workers and parent.pid not in workers
    parent.kill()
    parent.wait()
    for _ in range(400):
        if not any(alive(worker) for worker in workers):
            return
        time.sleep(0.05)
    pytest.fail(f"still there: {[worker for worker in workers if alive(worker)]}")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
