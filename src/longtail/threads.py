"""Rows shared out over threads. The kernels release the interpreter lock, so plain threads keep every core busy."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise


def thread_count() -> int:
    """Threads to use: LONGTAIL_THREADS, else the cores this process may run on."""
    asked = os.environ.get("LONGTAIL_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def over_rows(work: Callable[[int, int], None], rows: int, least: int = 256) -> None:
    """Call work(begin, end) for ranges that cover the rows, each range in one of the threads."""
    threads = min(thread_count(), max(rows // least, 1))
    if threads == 1:
        work(0, rows)
        return
    # A few ranges a thread, so that one with long rows does not leave the others waiting.
    bounds = [rows * piece // (4 * threads) for piece in range(4 * threads + 1)]
    pool = ThreadPoolExecutor(threads)
    try:
        for done in [pool.submit(work, begin, end) for begin, end in pairwise(bounds)]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, ranges that did not begin never do
