"""Rows shared out over threads. The kernels release the interpreter lock, so plain threads keep every core busy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from longtail.errors import DataError


def thread_count() -> int:
    """Threads to use: LONGTAIL_THREADS, else the cores this process may run on."""
    asked = os.environ.get("LONGTAIL_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if asked:
        raise DataError(f"LONGTAIL_THREADS is a whole number above 0, got {asked!r}; set one, or none for all cores")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[int], None], items: Iterable[int], threads: int = 0) -> None:
    """Call work(item) for each item, in the order given, on this many threads (default: all)."""
    threads = threads or thread_count()
    if threads == 1:
        for item in items:
            work(item)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        for done in [pool.submit(work, item) for item in items]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, what has not begun never does


def over_rows(work: Callable[[int, int], None], rows: int, least: int = 256) -> None:
    """Call work(begin, end) for ranges that cover the rows, each range in one of the threads."""
    threads = min(thread_count(), max(rows // least, 1))
    if threads == 1:
        work(0, rows)
        return
    # A few ranges a thread, so that one with long rows does not leave the others waiting.
    bounds = [rows * piece // (4 * threads) for piece in range(4 * threads + 1)]
    in_threads(lambda piece: work(bounds[piece], bounds[piece + 1]), range(4 * threads), threads)
