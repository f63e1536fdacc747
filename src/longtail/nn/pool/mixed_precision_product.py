"""Matrix products of bf16 factors with float32 sums, for what lies between an encoder and its losses. A GPU's matrix
units do not speed up products of float32 factors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def product(left: Tensor, right: Tensor, bf16: bool) -> Tensor:
    """Products of all pairs of rows.

    Args:
        left: (rows, dimension).
        right: (items, dimension).
        bf16: whether the factors are rounded to bf16, and those of the gradients.

    Returns:
        (rows, items) in float32.
    """
    if not bf16:
        return left @ right.T
    found: Tensor = _Bf16Product.apply(left, right)  # type: ignore[no-untyped-call]
    return found


class _Bf16Product(torch.autograd.Function):
    """Factors are rounded, results are not: the score of two unit vectors changes by some ten-thousandths."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        left, right = left.bfloat16(), right.bfloat16()
        ctx.save_for_backward(left, right)
        return _float32_product(left, right.T)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        left, right = ctx.saved_tensors
        gradient = gradient.bfloat16()
        return _float32_product(gradient, right), _float32_product(gradient.T, left)


def _float32_product(left: Tensor, right: Tensor) -> Tensor:
    if left.device.type == "cpu":
        return left.float() @ right.float()
    return torch.mm(left, right, out_dtype=torch.float32)
