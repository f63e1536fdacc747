"""Stochastic rounding to bf16 and fp8: up or down at random, so that the expected value is exact."""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST_NORMAL = 2.0**-6  # of float8 e4m3; below it, steps are 2^-9
LARGEST = 448.0  # of float8 e4m3


def stochastic_round(values: Tensor, kind: torch.dtype, generator: torch.Generator) -> Tensor:
    """Round each value to the neighbour above or below, with a probability that makes the expected value exact.

    Args:
        values: float32, of any shape.
        kind: float32 (returned as is), bfloat16 or float8_e4m3fn.
        generator: of the random bits, on the device of the values.

    Returns:
        Values of that type and the same shape.
    """
    if kind == torch.float32:
        return values
    if kind == torch.float8_e4m3fn:
        return _round_fp8(values, generator)
    bits = torch.randint(0, 1 << 16, values.shape, dtype=torch.int32, device=values.device, generator=generator)
    return ((values.view(torch.int32) + bits) & -(1 << 16)).view(torch.float32).to(kind)


def _round_fp8(values: Tensor, generator: torch.Generator) -> Tensor:
    values = values.clamp(-LARGEST, LARGEST)
    bits = torch.randint(0, 1 << 20, values.shape, dtype=torch.int32, device=values.device, generator=generator)
    normal = ((values.view(torch.int32) + bits) & -(1 << 20)).view(torch.float32).clamp(-LARGEST, LARGEST)
    subnormal = torch.floor(values * 512 + bits * 2.0**-20) / 512
    return torch.where(values.abs() < SMALLEST_NORMAL, subnormal, normal).to(torch.float8_e4m3fn)
