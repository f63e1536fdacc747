"""Kill or stop a process of a torchrun job at ten moments, and see that the job goes on to the same bits.

    python benchmarks/crash_torchrun.py [--processes 2 3] [--moments 10] [--signals KILL STOP]

Each line is one job of real processes (gloo, `--max-restarts 2`). It prints the moment as a share of an undisturbed
run, the seconds until a line named the lost process, until new processes ran, and until the job had ended; and whether
the model has the bytes of an undisturbed run. Exit status 1: a job failed, other bytes, or a process left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

RECIPE = "renee(encoder='bag', dimension=16, batch_size=8, epochs={epochs})"
WORDS = ("apple", "bridge", "castle", "dragon", "engine", "forest", "guitar")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--signals", nargs="+", default=["KILL", "STOP"], choices=["KILL", "STOP"])
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--patience", type=float, default=4.0)
    options = parser.parse_args()
    faults = 0
    print("processes  signal  rank  moment  named after  new after  ended after  same bytes  left behind")
    with TemporaryDirectory() as folder:
        data = write_data(Path(folder) / "data")
        for count in options.processes:
            before = time.monotonic()
            whole = Job(Path(folder) / f"whole-{count}", data, count, options)
            whole.finish()
            seconds, expected = time.monotonic() - before, whole.checksums()
            for name in options.signals:
                for moment in range(options.moments):
                    share, rank = (moment + 0.5) / options.moments, moment % count
                    job = Job(Path(folder) / f"{count}-{name}-{moment}", data, count, options)
                    line, fine = disturb(job, rank, signal.Signals[f"SIG{name}"], share * seconds, expected)
                    faults += not fine
                    print(f"{count:9}  {name:>6}  {rank:4}  {share:6.0%}  {line}", flush=True)
    print(f"{faults} faults")
    return int(faults > 0)


def disturb(job: Job, rank: int, number: signal.Signals, seconds: float, expected: object) -> tuple[str, bool]:
    """Send the signal after some seconds; a line of the table, and whether all is well."""
    time.sleep(seconds)
    while len(job.workers()) < job.count and job.starter.poll() is None:
        time.sleep(0.02)
    workers = job.workers()
    if rank not in workers:
        job.finish()
        return "(the job had ended before)", job.checksums() == expected
    os.kill(workers[rank], number)
    begin, named, new = time.monotonic(), None, None
    while job.starter.poll() is None:
        now = time.monotonic() - begin
        named = now if named is None and "error: rank" in job.errors() else named
        others = set(job.workers().values()) - set(workers.values())
        new = now if new is None and len(others) == job.count else new
        time.sleep(0.05)
    ended, left = time.monotonic() - begin, job.left(workers)
    same = job.starter.returncode == 0 and job.checksums() == expected
    cells = ["-" if value is None else f"{value:.1f} s" for value in (named, new, ended)]
    words = f"{cells[0]:>11}  {cells[1]:>9}  {cells[2]:>11}  {'yes' if same else 'NO':>10}  {len(left):11}"
    if not same:
        print(job.errors()[-3000:], file=sys.stderr)
    return words, same and not left


class Job:
    """A training under torchrun."""

    def __init__(self, folder: Path, data: Path, count: int, options: argparse.Namespace) -> None:
        folder.mkdir()
        self.folder, self.count = folder, count
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count),
            "--max-restarts", "2", "-m", "longtail", "train", str(data), RECIPE.format(epochs=options.epochs),
            "--out", str(folder / "model"), "--checkpoint-dir", str(folder / "run"),
            "--patience", str(options.patience),
        ]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "LONGTAIL_THREADS": "1"}
        with (folder / "errors").open("w") as errors:
            self.starter = subprocess.Popen(command, stderr=errors, stdout=subprocess.DEVNULL, env=environment)

    def errors(self) -> str:
        return (self.folder / "errors").read_text()

    def finish(self) -> None:
        if self.starter.wait() != 0:
            raise SystemExit(self.errors()[-3000:])

    def checksums(self) -> object:
        return json.loads((self.folder / "model" / "manifest.json").read_text())["files"]

    def workers(self) -> dict[int, int]:
        """Process numbers by rank."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if int((place / "stat").read_text().rpartition(")")[2].split()[1]) != self.starter.pid:
                    continue
                variables = (place / "environ").read_bytes().split(b"\0")
            except (OSError, ValueError, IndexError):
                continue
            ranks = [int(one[5:]) for one in variables if one.startswith(b"RANK=")]
            if ranks:
                found[ranks[0]] = int(place.name)
        return found

    def left(self, workers: dict[int, int]) -> list[int]:
        """Processes of the job that outlive it."""
        return [pid for pid in workers.values() if Path(f"/proc/{pid}").exists()]


def write_data(folder: Path) -> Path:
    """A data set small enough that the start of the processes takes most of the time."""
    folder.mkdir()
    rows = [{"text": f"{word} {other}", "labels": [word]} for word in WORDS for other in ("of", "the", "and")] * 3
    lines = [json.dumps({"id": str(number), **row}) for number, row in enumerate(rows)]
    (folder / "train.jsonl").write_text("\n".join(lines))
    (folder / "labels.jsonl").write_text("\n".join(json.dumps({"id": word, "text": word}) for word in WORDS))
    return folder


if __name__ == "__main__":
    sys.exit(main())
