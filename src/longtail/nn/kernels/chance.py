"""Dropout without a stored mask: whether a number is kept follows from the seed and its place, forward and back."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def kept(seed, place, DROPOUT: tl.constexpr):
    """1 / (1 - DROPOUT) where the number at this place is kept, else 0. An integer hash: a stronger generator would
    take longer than the memory that its numbers are meant to save."""
    bits = (place.to(tl.uint32) * 0x9E3779B1) ^ seed.to(tl.uint32)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = bits ^ (bits >> 16)
    return tl.where((bits >> 8).to(tl.float32) >= DROPOUT * 16777216.0, 1.0 / (1.0 - DROPOUT), 0.0)
