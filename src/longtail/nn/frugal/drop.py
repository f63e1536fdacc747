"""Dropout that a processor draws quickly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

WHOLE = {torch.bfloat16: torch.int16, torch.float32: torch.int32}  # numbers as wide, to cut masks from


def drop(vectors: Tensor, share: float, training: bool) -> Tensor:
    """Dropout. A processor draws one number after another, which takes longer than the products between which they
    stand: there, several numbers are cut from each draw, and masks are laid over the bits."""
    if not training or share == 0 or vectors.numel() == 0:
        return vectors
    if vectors.device.type == "cpu" and vectors.dtype in WHOLE:
        found: Tensor = _Dropped.apply(vectors, share)  # type: ignore[no-untyped-call]
        return found
    return F.dropout(vectors, share, training)


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, share: float) -> Tensor:
        kind = WHOLE[vectors.dtype]
        bits = torch.iinfo(kind).bits
        chance = np.random.SFC64(int(torch.empty((), dtype=torch.int64).random_()))  # begun by torch's own
        draws = torch.from_numpy(chance.random_raw(-(-vectors.numel() * bits // 64)).view(np.int64))
        kept = draws.view(kind)[: vectors.numel()].view(vectors.shape)
        # A draw of bits - 1 bits below `least` becomes 0, every other one -1, whose bits are all set.
        least = round(share * 2 ** (bits - 1))
        kept.bitwise_and_(2 ** (bits - 1) - 1).neg_().add_(least - 1).bitwise_right_shift_(bits - 1)
        ctx.save_for_backward(kept)
        ctx.scale = 1 / (1 - least / 2 ** (bits - 1))
        return _masked(vectors, kept, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return _masked(gradients[0], kept, ctx.scale), None


def _masked(vectors: Tensor, kept: Tensor, scale: float) -> Tensor:
    return (vectors.contiguous().view(kept.dtype) & kept).view(vectors.dtype).mul_(scale)
