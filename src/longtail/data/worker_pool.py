"""Work on several processes, with results in the order of the items and a bounded number of items under way."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from longtail.errors import ProcessLost
from longtail.threads import thread_count

WORTH = 24 << 20  # bytes of input from which on starting processes pays: each takes about a second
Item = TypeVar("Item")
Result = TypeVar("Result")


def processes_for(size: int) -> int:
    """How many processes an input is worth.

    Args:
        size: bytes of the input.

    Returns:
        1 for a small input, else one for each core that longtail may use.
    """
    return thread_count() if size >= WORTH else 1


class Workers:
    """Processes that are started when the first work comes, and end with the block."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def in_order(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Calls `work` for each item.

        Only a few items are taken ahead of the results, so that a long stream of items is never in memory at once.

        Args:
            work: a function that can be pickled, where there is more than one process.
            items: what it is called with; taken in this process.

        Yields:
            The results, in the order of the items.

        Raises:
            ProcessLost: a process died, most likely for lack of memory.
        """
        if self.processes == 1:
            yield from map(work, items)
            return
        if self._pool is None:
            # Fresh processes: a fork would copy locks that threads of this process may hold.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.processes, mp_context=context, initializer=_end_with_parent)
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > 2 * self.processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise ProcessLost(
                "a process of this work ended, most likely for lack of memory; free some, or set LONGTAIL_THREADS=1, "
                "and start the same command again: it goes on where it was"
            ) from None
        finally:
            for future in waiting:
                future.cancel()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work forever."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
