"""Raw files in the formats of published sets, with made-up words, and the cost of a `longtail build` over them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

BATCH = 100_000


def vocabulary(size: int, seed: int = 0) -> list[bytes]:
    """Different words of two to ten letters."""
    rng = np.random.default_rng(seed)
    words: dict[bytes, None] = {}
    while len(words) < size:
        letters = rng.integers(97, 123, (size, 10), dtype=np.uint8).tobytes()
        lengths = rng.integers(2, 11, size)
        for row, length in enumerate(lengths.tolist()):
            words[letters[10 * row : 10 * row + length]] = None
    return list(words)[:size]


def phrases(number: int, words: list[bytes], low: int, high: int, seed: int) -> Iterator[bytes]:
    """So many phrases of `low` to `high` words, frequent words first: the rank r of a word is drawn as 1/r."""
    rng = np.random.default_rng(seed)
    for start in range(0, number, BATCH):
        size = min(BATCH, number - start)
        lengths = rng.integers(low, high + 1, size)
        ends = np.cumsum(lengths)
        ranks = (len(words) ** rng.random(ends[-1])).astype(np.int64) - 1
        drawn = [words[rank] for rank in ranks.tolist()]
        begin = 0
        for end in ends.tolist():
            yield b" ".join(drawn[begin:end])
            begin = end


def measured_build(arguments: list[str], rows: int, what: str) -> None:
    """Runs `longtail build ...` and prints minutes, rows a second and the memory of all its processes at once.

    The minutes of the processor do not count what else the machine does."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "longtail", "build", *arguments, "--json"], stdout=subprocess.PIPE
    )
    peak = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            peak[0] = max(peak[0], sum(map(proportional, family(process.pid))))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    output, _ = process.communicate()
    done.set()
    watcher.join()
    seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(process.returncode)
    print(output.decode().strip())
    print(
        f"{rows:,} {what}: {seconds / 60:.1f} minutes, {rows / seconds:,.0f} a second, {peak[0] / 1e9:.2f} GB at the "
        f"peak over all processes; {(used.ru_utime + used.ru_stime) / 60:.1f} minutes of the processor, on "
        f"{len(os.sched_getaffinity(0))} cores"
    )


def family(pid: int) -> list[int]:
    """A process and all its children."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found.extend(int(child) for child in task.read_text().split())
            except OSError:
                continue
    return found


def proportional(pid: int) -> int:
    """Bytes of a process in memory; of pages that several have, its share."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
