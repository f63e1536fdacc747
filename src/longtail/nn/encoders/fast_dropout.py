"""Dropout that is fast on a CPU: several values of a mask are cut from one random draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

INTEGERS = {torch.bfloat16: torch.int16, torch.float32: torch.int32}  # integers of the same width, for masks


def drop(vectors: Tensor, share: float, training: bool) -> Tensor:
    """Apply dropout.

    On a CPU torch draws one random number after another, which takes longer than the matrix products around it. There,
    several numbers are cut from each 64-bit draw, and the values are masked by bits.

    Args:
        vectors: of any shape.
        share: that is set to 0.
        training: False returns the vectors unchanged.

    Returns:
        A tensor of the same shape and type.
    """
    if not training or share == 0 or vectors.numel() == 0:
        return vectors
    if vectors.device.type == "cpu" and vectors.dtype in INTEGERS:
        found: Tensor = _Dropped.apply(vectors, share)  # type: ignore[no-untyped-call]
        return found
    return F.dropout(vectors, share, training)


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, share: float) -> Tensor:
        kind = INTEGERS[vectors.dtype]
        bits = torch.iinfo(kind).bits
        generator = np.random.SFC64(int(torch.empty((), dtype=torch.int64).random_()))  # seeded from torch's generator
        draws = torch.from_numpy(generator.random_raw(-(-vectors.numel() * bits // 64)).view(np.int64))
        mask = draws.view(kind)[: vectors.numel()].view(vectors.shape)
        # A draw of bits - 1 bits below the threshold becomes 0, every other one -1, whose bits are all set.
        threshold = round(share * 2 ** (bits - 1))
        mask.bitwise_and_(2 ** (bits - 1) - 1).neg_().add_(threshold - 1).bitwise_right_shift_(bits - 1)
        ctx.save_for_backward(mask)
        ctx.scale = 1 / (1 - threshold / 2 ** (bits - 1))
        return _masked(vectors, mask, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _masked(gradients[0], mask, ctx.scale), None


def _masked(vectors: Tensor, mask: Tensor, scale: float) -> Tensor:
    return (vectors.contiguous().view(mask.dtype) & mask).view(vectors.dtype).mul_(scale)
