"""Seeds of torch's generators."""

from __future__ import annotations


def fold_seed(value: int) -> int:
    """Fold a seed of any size into the range that torch's generators take.

    Args:
        value: A non-negative integer.

    Returns:
        A seed below 2^63: the value itself where it is below, else a hash of it.
    """
    return (value ^ (value >> 63) * 0x9E3779B97F4A7C15) & 0x7FFF_FFFF_FFFF_FFFF
