"""Clocks: best of several runs, runs in turns, stages of the library, memory, and what other processes used."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Timed(NamedTuple):
    """One piece of work, or the best of several runs of it."""

    seconds: float
    cpu: float  # seconds of all threads of this process
    result: Any


def timed(work: Callable[[], Any]) -> Timed:
    clock, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Timed(time.perf_counter() - clock, time.process_time() - cpu, result)


def best_of(work: Callable[[], Any], times: int = 3) -> Timed:
    """The shortest time by the clock, the shortest by the processor, and the last result."""
    clocks, cpus, result = [], [], None
    for _ in range(times):
        result = None  # two results at once would need twice the memory
        seconds, cpu, result = timed(work)
        clocks.append(seconds)
        cpus.append(cpu)
    return Timed(min(clocks), min(cpus), result)


def busy() -> float:
    """Seconds that all processes together have used the cores. Linux only."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def memory(which: str) -> int:
    """Bytes that this process holds (VmRSS) or held at most (VmHWM). Linux only. Unlike this, getrusage also counts
    what the parent held before it started this process."""
    return 1024 * int(Path("/proc/self/status").read_text().split(f"{which}:")[1].split()[0])


class Clock:
    """Seconds that passed, CPU seconds of this process, and how many cores other processes kept busy meanwhile."""

    def __enter__(self) -> Clock:
        self.begin = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.cpu, used = (now - then for now, then in zip(self._now(), self.begin, strict=True))
        self.others = max(used - self.cpu, 0) / self.seconds

    @staticmethod
    def _now() -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), busy()


class Stages:
    """A listener for `longtail.progress.listening`: how long every stage of the library took.

    `done` holds the names of the stages that a stage is part of, its own last, with its seconds, in the order of their
    ends. With `wait` the clock is read after the GPU has finished its work.
    """

    def __init__(self, wait: bool = False, show: bool = False) -> None:
        self.wait, self.show = wait, show
        self.open: list[tuple[str, float]] = []
        self.done: list[tuple[tuple[str, ...], float]] = []

    @property
    def seconds(self) -> Mapping[str, float]:
        """The last stage of each name."""
        return {names[-1]: spent for names, spent in self.done}

    def start(self, name: str, total: int | None) -> int:
        self.open.append((name, self._now()))
        return len(self.open) - 1

    def advance(self, handle: int, amount: int) -> None: ...

    def finish(self, handle: int) -> None:
        names = tuple(name for name, _ in self.open)
        self.done.append((names, self._now() - self.open.pop()[1]))
        if self.show:
            print(f"{' / '.join(names)}: {self.done[-1][1]:.2f} s", file=sys.stderr, flush=True)

    def note(self, line: str) -> None: ...

    def _now(self) -> float:
        if self.wait:
            synchronize()
        return time.perf_counter()


def synchronize() -> None:
    """Wait until the GPU, where there is one, has finished."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def reset_gpu() -> None:
    """Free what the run before has left, so that the peak on the GPU belongs to the next run."""
    import torch

    gc.collect()  # recorded kernels hold their memory until then
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def gpu_peak() -> int:
    """Bytes that were allocated on the GPU at most; 0 without one."""
    import torch

    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else 0
