"""Processes of a torchrun job that die or stop: one line names them, nobody waits, and a restart goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longtail.cli.torchrun import written_by_an_earlier_attempt

pytest.importorskip("torch", reason="the extra nn is not installed")
if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)

WORDS = ("apple", "bridge", "castle", "dragon", "engine")
RECIPE = "renee(encoder='bag', dimension=16, batch_size=8, epochs=60)"


class Job:
    """`torchrun ... -m longtail train ...` in a folder of its own."""

    def __init__(self, folder: Path, processes: int, *words: str, patience: int = 8) -> None:
        rows = [{"text": f"{word} {other}", "labels": [word]} for word in WORDS for other in ("of", "the", "and")] * 3
        folder.mkdir()
        (folder / "data").mkdir()
        lines = [json.dumps({"id": str(number), **row}) for number, row in enumerate(rows)]
        (folder / "data" / "train.jsonl").write_text("\n".join(lines))
        self.folder, self.processes = folder, processes
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command += [*words, "-m", "longtail", "train", str(folder / "data"), RECIPE, "--out", str(folder / "model")]
        command += ["--checkpoint-dir", str(folder / "run"), "--patience", str(patience)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "LONGTAIL_THREADS": "1"}
        with (folder / "errors").open("w") as errors:
            self.starter = subprocess.Popen(command, stderr=errors, stdout=subprocess.DEVNULL, env=environment)

    def errors(self) -> list[str]:
        lines = (self.folder / "errors").read_text().splitlines()
        return [line for line in lines if line.startswith("error: ")]

    def wait_for(self, condition: Callable[[], bool], seconds: float = 300) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, (self.folder / "errors").read_text()
            time.sleep(0.05)

    def epochs(self) -> int:
        assert self.starter.poll() is None, (self.folder / "errors").read_text()
        histories = list(self.folder.glob("run/*/*/history.jsonl"))
        return len(histories[0].read_text().splitlines()) if histories else 0

    def wait_for_epochs(self, epochs: int) -> None:
        self.wait_for(lambda: self.epochs() >= epochs)

    def workers(self) -> dict[int, int]:
        """Process numbers by rank."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if int((place / "stat").read_text().rpartition(")")[2].split()[1]) == self.starter.pid:
                    variables = dict(one.split(b"=", 1) for one in (place / "environ").read_bytes().split(b"\0")[:-1])
                    found[int(variables[b"RANK"])] = int(place.name)
            except (OSError, ValueError, IndexError, KeyError):
                continue
        return found

    def checksums(self) -> object:
        return json.loads((self.folder / "model" / "manifest.json").read_text())["files"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def begin(processes: int, *words: str, **settings: int) -> Job:
        jobs.append(Job(tmp_path / f"job-{len(jobs)}", processes, *words, **settings))
        return jobs[-1]

    yield begin
    for job in jobs:
        for pid in [*job.workers().values(), job.starter.pid]:
            if job.starter.poll() is None:
                os.kill(pid, signal.SIGKILL)
        job.starter.wait()


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_lost_processes_are_named_and_restarts_go_on_to_the_same_bits(start: Callable[..., Job]) -> None:
    """One is killed, and after the restart another one stops: two others notice each, and one line names it."""
    whole = start(3, patience=60)  # nothing is lost here, however busy the machine is
    assert whole.starter.wait(300) == 0 and whole.errors() == [], (whole.folder / "errors").read_text()
    job, seen = start(3, "--max-restarts", "2"), set()
    killed, stopped = "was killed or has crashed", "not answered for 8 s (--patience)"
    for number, (rank, what, said) in enumerate(((1, signal.SIGKILL, killed), (0, signal.SIGSTOP, stopped)), 1):
        job.wait_for_epochs(job.epochs() + 3)
        before = job.workers()
        assert len(before) == 3 and not seen & set(before.values())
        os.kill(before[rank], what)
        job.wait_for(lambda wanted=number: len(job.errors()) == wanted)
        line = job.errors()[-1]
        assert f"rank {rank} of 3 (pid {before[rank]} on " in line and said in line
        assert "run the same command again: with --checkpoint-dir it resumes" in line and "--max-restarts" in line
        seen |= set(before.values())
    assert job.starter.wait(300) == 0 and len(job.errors()) == 2, (job.folder / "errors").read_text()
    assert (job.folder / "errors").read_text().count(
        ") resumes from"
    ) == 2  # a process that is told to end says where it could resume
    assert job.checksums() == whole.checksums()
    assert all(map(gone, seen))


def test_without_restarts_the_job_ends_and_nothing_stays_behind(start: Callable[..., Job]) -> None:
    job = start(2)
    job.wait_for_epochs(2)
    workers = job.workers()
    os.kill(workers[1], signal.SIGSTOP)
    assert job.starter.wait(25) == 1  # not the 30 s that torchrun waits for a stopped process
    assert "rank 1 of 2" in job.errors()[0] and len(job.errors()) == 1
    assert "a bug in longtail" not in (job.folder / "errors").read_text()
    assert not (job.folder / "model").exists() and all(map(gone, workers.values()))


STOPS_AT_THE_END = """
import os, signal
from torch import distributed
from longtail.nn.training.process_group import join_process_group
with join_process_group(patience=8) as group:
    if group.number == 1:
        destroy = distributed.destroy_process_group
        distributed.destroy_process_group = lambda: (os.kill(os.getpid(), signal.SIGSTOP), destroy())
"""
STOPS_IN_SHUTDOWN = """
import atexit, os, signal
from longtail.nn.training.process_group import join_process_group
with join_process_group(patience=4) as group:
    if group.number == 1:
        atexit.register(os.kill, os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (STOPS_AT_THE_END, "not answered for 8 s (--patience)"),
        (STOPS_IN_SHUTDOWN, "was done and has been stopped for 4 s (--patience)"),
    ],
)
def test_a_process_that_stops_after_the_training_is_named_too(work: str, reason: str, tmp_path: Path) -> None:
    """The others have met it for the last time, and have nothing more to do."""
    (tmp_path / "work.py").write_text(work)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    done = subprocess.run([*command, str(tmp_path / "work.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "rank 1 of 3" in done.stderr and done.stderr.count(reason) == 1


@pytest.mark.parametrize("stopped", [False, True])
def test_processes_end_with_torchrun(stopped: bool, start: Callable[..., Job]) -> None:
    job = start(2)
    job.wait_for_epochs(1)
    workers = job.workers()
    if stopped:
        os.kill(workers[1], signal.SIGSTOP)
    job.starter.kill()
    job.starter.wait()
    job.wait_for(lambda: all(map(gone, workers.values())), 20)


def test_only_a_model_of_the_same_job_is_replaced_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model"
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert not written_by_an_earlier_attempt(out)
    out.mkdir()
    assert written_by_an_earlier_attempt(out)  # younger than the process that started this one
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 1e9)  # as if torchrun had started long after the model
    assert not written_by_an_earlier_attempt(out)
    monkeypatch.undo()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert not written_by_an_earlier_attempt(out)
