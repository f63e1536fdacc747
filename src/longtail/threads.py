"""Work on several threads. Compiled kernels release the interpreter lock, so plain threads keep every core busy.

These are plain threads rather than Numba's parallel loops: kernels compile in a fraction of the time, no threading
layer is needed, and `LONGTAIL_THREADS` sets the number for all of them. It sets that of torch as well
(`nn/training/precision.py`). No model's bytes depend on it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from longtail.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count() -> int:
    """Return how many threads to use: LONGTAIL_THREADS, else the cores this process may run on.

    Returns:
        At least 1.

    Raises:
        DataError: LONGTAIL_THREADS is not a whole number above 0.
    """
    asked = asked_threads()
    if asked is not None:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def asked_threads() -> int | None:
    """Read LONGTAIL_THREADS.

    Returns:
        The number, or None where it is not set.

    Raises:
        DataError: it is not a whole number above 0.
    """
    asked = os.environ.get("LONGTAIL_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if asked:
        raise DataError(f"LONGTAIL_THREADS is a whole number above 0, got {asked!r}; set one, or none for all cores")
    return None


def in_threads(work: Callable[[int], None], items: Iterable[int], threads: int = 0) -> None:
    """Call `work` for each item. Items start in the order given.

    Args:
        work: called with an item.
        items: whole numbers, such as indices.
        threads: how many; 0: `thread_count()`.
    """
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
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, items that have not started never do


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Call `work` for each item, on several threads.

    Args:
        work: called with an item.
        items: few are asked for ahead, so they may lie in a file.

    Yields:
        The results, in the order of the items.
    """
    threads = thread_count()
    if threads == 1:
        yield from map(work, items)
        return
    coming = iter(items)
    pool = ThreadPoolExecutor(threads)
    try:
        waiting = deque(pool.submit(work, item) for item in islice(coming, 2 * threads))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(work, item) for item in islice(coming, 1))
            yield result
    finally:
        pool.shutdown(cancel_futures=True)


def over_rows(work: Callable[[int, int], None], rows: int, least: int = 256) -> None:
    """Call `work` for ranges that cover the rows, on several threads.

    Args:
        work: called with the first row of a range and the row after its last.
        rows: how many there are.
        least: rows that are worth a thread of their own.
    """
    threads = min(thread_count(), max(rows // least, 1))
    if threads == 1:
        work(0, rows)
        return
    # Four ranges a thread, so that the others need not wait for one range of long rows.
    bounds = [rows * piece // (4 * threads) for piece in range(4 * threads + 1)]
    in_threads(lambda piece: work(bounds[piece], bounds[piece + 1]), range(4 * threads), threads)
