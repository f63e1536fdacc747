"""How many numbers a training touches, counted for benchmarks: exact, and the same on every machine.

Off unless a benchmark asks for it: then kernels' callers add what they touched. A module variable and not a context
variable, because the callers run in threads; appending to a list is atomic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

_counts: dict[str, list[int]] | None = None


@contextmanager
def counting_operations() -> Iterator[dict[str, list[int]]]:
    """Count what trainings inside this block touch. One block at a time.

    Yields:
        The numbers touched, by kind, a list that grows.
    """
    global _counts
    found: dict[str, list[int]] = defaultdict(list)
    _counts = found
    try:
        yield found
    finally:
        _counts = None


def is_counting() -> bool:
    """Whether operations are counted now.

    Returns:
        False outside of `counting_operations`.
    """
    return _counts is not None


def count_touched(kind: str, number: int) -> None:
    """Add numbers that were touched, inside `counting_operations`.

    Args:
        kind: what touched it: `scores`, `once`, `groups` or `nodes`.
        number: how many numbers.
    """
    if _counts is not None:
        _counts[kind].append(int(number))
