"""How much memory the machine has left and how much a piece of work took.

Training changes two rules of the C library: large blocks go back to the system as soon as they are freed, and all
threads share one pool. With its own rules the process holds up to twice what is in use. Recipes that read texts keep
one pool per thread: a tokenizer allocates without pause, and 14 threads on two cores take twice as long with one pool
(`benchmarks/tokens.py`: 3.8 s against 1.9 s). Shallow nets on a CPU keep what a step frees, because the clearing of new
pages took a third of a step (`keeping_large_blocks`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LARGE = 8 << 20  # bytes of an array that has a mapping of its own
POOL_THREADS = 2  # threads that can allocate from one pool without waiting for each other
TRIM = 32 << 20  # free bytes at the end of the pool that stay with the process
_one_pool = threading.Event()


def resident_bytes() -> int:
    """Measure the memory this process holds now.

    Returns:
        Resident bytes; where the system does not say, the most it ever held.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return _lifetime_peak()


def available_bytes() -> int:
    """Measure the memory this process can still take.

    Returns:
        Bytes that the system has free, within the limits of its containers.
    """
    free = _meminfo("MemAvailable") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([free, *_room_in_groups(), *_room_in_limits()])


def _room_in_limits() -> Iterator[int]:
    """Bytes that a limit of this process, as `ulimit -v` sets it, still allows."""
    try:
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError, IndexError):
        return
    if allowed != resource.RLIM_INFINITY:
        yield max(allowed - pages * os.sysconf("SC_PAGE_SIZE"), 0)


def _room_in_groups() -> Iterator[int]:
    """Bytes that each control group of this process still allows; cached files count as free."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group_path = line.split(":", 2)
        if controllers == "":
            root, limit, usage = Path("/sys/fs/cgroup"), "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit, usage = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = root / group_path.lstrip("/")
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

    def update(self) -> None:
        """Measure once more."""
        self.bytes = max(self.bytes, resident_bytes())


@contextmanager
def measure_peak(every_seconds: float = 0.02) -> Iterator[Peak]:
    """Watch this process's memory from a thread; kernels release the interpreter lock, so it also runs beside them.

    Args:
        every_seconds: time between two measurements.

    Yields:
        The peak so far; final when the block ends.
    """
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(every_seconds):
            peak.update()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()
        peak.update()


def release() -> None:
    """Return freed memory to the system, so that the next peak does not include it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """Make arrays above LARGE go back to the system as soon as they are freed.

    glibc raises that limit to the size of the last array that was freed, up to 32 MB: after a training with many
    short-lived arrays a process would hold more than it uses. Up to TRIM free bytes at the end of a pool stay: if they
    were returned after every node of a tree, the system would clear each page for the next node.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(-3, LARGE)  # M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(-1, TRIM)  # M_TRIM_THRESHOLD


def share_one_pool() -> None:
    """Make smaller arrays of all threads come from one pool, from now to the end of the process.

    glibc gives each thread a pool of its own and keeps there what the thread frees: a tree in training would hold twice
    as much as it uses. With one pool, threads that allocate without pause wait for each other, so there should be few
    of them; see `threads_that_allocate`.
    """
    if sys.platform == "linux" and not _one_pool.is_set():
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX; glibc reads it once and never again
            _one_pool.set()


def threads_that_allocate(threads: int) -> int:
    """Limit the threads of work that allocates small pieces without pause.

    Args:
        threads: how many there could be.

    Returns:
        How many are worth having: fewer once all threads share one pool.
    """
    return min(threads, POOL_THREADS) if _one_pool.is_set() else threads


@contextmanager
def keeping_large_blocks() -> Iterator[None]:
    """Keep freed arrays with the process until the block ends.

    For trainings on a CPU, whose steps allocate the same large arrays again and again: the system clears every page
    that it gives out, which took a third of such a step.

    Yields:
        Nothing.
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
    """Write a number of bytes for people to read.

    Args:
        number: bytes.

    Returns:
        Such as "1.4 GB".
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    while abs(number) >= 1000 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.0f} {units[0]}" if units[0] == "B" or number >= 100 else f"{number:.1f} {units[0]}"


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
