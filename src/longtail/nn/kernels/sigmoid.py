"""Scores plus a bias for each label to probabilities, in one pass."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

SIZE = 512  # rows of a program


@triton.jit
def _probabilities(scores, bias, rows, SIZE: tl.constexpr):
    label = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    at, inside = scores + label * rows + row, row < rows
    score = tl.load(at, inside, 0.0).to(tl.float32) + tl.load(bias + label)
    tl.store(at, tl.sigmoid(score).to(scores.dtype.element_ty), inside)


def sigmoid_(scores: Tensor, bias: Tensor) -> Tensor:
    """Replace scores by sigmoid(score + bias), in place.

    Args:
        scores: (labels, rows); overwritten.
        bias: (labels,).

    Returns:
        The same tensor.
    """
    labels, rows = scores.shape
    _probabilities[(labels, triton.cdiv(rows, SIZE))](scores, bias.contiguous(), rows, SIZE=SIZE, num_warps=4)
    return scores
