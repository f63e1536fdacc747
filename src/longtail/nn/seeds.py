"""Seeds of torch's generators."""

from __future__ import annotations


def folded(value: int) -> int:
    """A seed that a generator takes: below 2^63, and the value itself where that is."""
    return (value ^ (value >> 63) * 0x9E3779B97F4A7C15) & 0x7FFF_FFFF_FFFF_FFFF
