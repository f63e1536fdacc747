"""How much memory the machine has left and how much a piece of work took."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LARGE = 8 << 20  # bytes
FEW = 2  # threads that one pool serves without a queue
TRIM = 32 << 20  # bytes at the end of the pool that stay with the process
_one_pool = threading.Event()


def resident_bytes() -> int:
    """Memory this process holds now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return _lifetime_peak()


def available_bytes() -> int:
    """Memory this process can still take: what the system has free, within the limits of its containers."""
    free = _meminfo("MemAvailable") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([free, *_room_in_groups()])


def _room_in_groups() -> Iterator[int]:
    """What each control group above this process still allows; cached files count as free."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            root, limit, usage = Path("/sys/fs/cgroup"), "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit, usage = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = root / place.lstrip("/")
        for folder in (group, *group.parents):
            allowed, used = _number(folder / limit), _number(folder / usage)
            if allowed is not None and used is not None:
                yield max(allowed - used + _cached(folder), 0)
            if folder == root:
                break


def _cached(folder: Path) -> int:
    try:
        facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(facts.get("total_inactive_file", facts.get("inactive_file", 0)))


class Peak:
    """The most memory held inside a `measure_peak` block."""

    def __init__(self) -> None:
        self.bytes = resident_bytes()

    def look(self) -> None:
        self.bytes = max(self.bytes, resident_bytes())


@contextmanager
def measure_peak(every_seconds: float = 0.02) -> Iterator[Peak]:
    """Watch this process's memory from a thread; the kernels release the interpreter lock, so it sees them."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(every_seconds):
            peak.look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()
        peak.look()


def release() -> None:
    """Give freed memory back to the system, so that the next peak is the next piece of work's own."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """Have arrays above LARGE go back to the system as soon as they are freed.

    glibc raises that bound to the size of what was freed last, up to 32 MB: after a training with many short-lived
    arrays a process would hold more than it uses. The end of a pool stays up to TRIM: given back after every node of a
    tree, each page would be cleared for the next one.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(-3, LARGE)  # M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(-1, TRIM)  # M_TRIM_THRESHOLD


def share_one_pool() -> None:
    """Have smaller arrays of all threads come from one pool, from now to the end of the process.

    glibc keeps what a thread frees in a pool of the thread's own: a tree in training would hold twice as much as it
    uses. Threads that allocate without pause wait for each other then, so those that can should be few; see
    `threads_that_allocate`.
    """
    if sys.platform == "linux" and not _one_pool.is_set():
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX; glibc reads it once and never again
            _one_pool.set()


def threads_that_allocate(threads: int) -> int:
    """How many of these threads are worth having where each allocates small pieces without pause."""
    return min(threads, FEW) if _one_pool.is_set() else threads


@contextmanager
def keeping_large_blocks() -> Iterator[None]:
    """Arrays that are freed stay with the process until the block ends.

    For trainings on a processor, whose steps make the same large arrays again and again: the system clears every page
    that it gives out, which took a third of such a step.
    """
    if sys.platform != "linux":
        yield
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        ctypes.CDLL(None).mallopt(-1, -1)  # M_TRIM_THRESHOLD: never
    try:
        yield
    finally:
        return_large_blocks()
        release()


def readable(number: float) -> str:
    """Bytes as people say them: 1.4 GB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(number) < 1000 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError


def _lifetime_peak() -> int:
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _meminfo(name: str) -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _number(path: Path) -> int | None:
    try:
        value = int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return value if 0 < value < 2**60 else None
