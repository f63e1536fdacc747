"""Products of vectors between an encoder and its losses: where a GPU computes in bf16, of factors in bf16 with sums in
float32, as its matrix units do nothing for factors in float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def product(left: Tensor, right: Tensor, lower: bool) -> Tensor:
    """left (rows, dimension) with each of right (items, dimension): (rows, items) in float32."""
    if not lower:
        return left @ right.T
    found: Tensor = _Lower.apply(left, right)  # type: ignore[no-untyped-call]
    return found


class _Lower(torch.autograd.Function):
    """Factors are rounded, results are not: a score of vectors of length 1 moves by some ten thousandths."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        left, right = left.bfloat16(), right.bfloat16()
        ctx.save_for_backward(left, right)
        return _summed(left, right.T)

    @staticmethod
    def backward(ctx: Any, to_found: Tensor) -> Any:
        left, right = ctx.saved_tensors
        to_found = to_found.bfloat16()
        return _summed(to_found, right), _summed(to_found.T, left)


def _summed(left: Tensor, right: Tensor) -> Tensor:
    if left.device.type == "cpu":
        return left.float() @ right.float()
    return torch.mm(left, right, out_dtype=torch.float32)
