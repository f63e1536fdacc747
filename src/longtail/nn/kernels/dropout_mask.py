"""Dropout without a stored mask: forward and backward compute it from a seed and the place of each number."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def kept(seed, place, DROPOUT: tl.constexpr):
    """Compute the factors of dropout: 1 / (1 - DROPOUT) where a number is kept, else 0.

    The random bits are an integer hash: a stronger generator would take longer than reading a stored mask.

    Args:
        seed: An integer.
        place: The index of each number.
        DROPOUT: The probability that a number is dropped.
    """
    bits = (place.to(tl.uint32) * 0x9E3779B1) ^ seed.to(tl.uint32)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = bits ^ (bits >> 16)
    return tl.where((bits >> 8).to(tl.float32) >= DROPOUT * 16777216.0, 1.0 / (1.0 - DROPOUT), 0.0)
