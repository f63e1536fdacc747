"""Numbers in few bits, rounded up or down by chance so that what is lost is lost on neither side."""

from __future__ import annotations

import torch
from torch import Tensor

LOWEST_NORMAL = 2.0**-6  # of float8 e4m3; below, its steps are 2^-9
LARGEST = 448.0


def by_chance(values: Tensor, kind: torch.dtype, chance: torch.Generator) -> Tensor:
    """Float32 values as the neighbour above or below in this type, each as likely as it is near."""
    if kind == torch.float32:
        return values
    if kind == torch.float8_e4m3fn:
        return _eighths(values, chance)
    bits = torch.randint(0, 1 << 16, values.shape, dtype=torch.int32, device=values.device, generator=chance)
    return ((values.view(torch.int32) + bits) & -(1 << 16)).view(torch.float32).to(kind)


def _eighths(values: Tensor, chance: torch.Generator) -> Tensor:
    values = values.clamp(-LARGEST, LARGEST)
    luck = torch.randint(0, 1 << 20, values.shape, dtype=torch.int32, device=values.device, generator=chance)
    normal = ((values.view(torch.int32) + luck) & -(1 << 20)).view(torch.float32).clamp(-LARGEST, LARGEST)
    small = torch.floor(values * 512 + luck * 2.0**-20) / 512
    return torch.where(values.abs() < LOWEST_NORMAL, small, normal).to(torch.float8_e4m3fn)
