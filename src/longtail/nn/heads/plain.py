"""The work on one chunk of labels in plain torch: on a processor, and what the fused kernels are checked against."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from longtail.nn.heads.entries import Part

Loss = Literal["bce", "hinge"]


def wrong_slope(scores: Tensor, loss: Loss) -> Tensor:
    """In place: the derivative of the loss of a label that is wrong."""
    return scores.sigmoid_() if loss == "bce" else scores.add_(1).clamp_(min=0).mul_(2)


def right_slope(scores: Tensor, loss: Loss) -> Tensor:
    """The derivative of the loss of a label that is right."""
    return scores.sigmoid() - 1 if loss == "bce" else (1 - scores).clamp(min=0) * -2


def slopes(weights: Tensor, bias: Tensor | None, vectors: Tensor, part: Part, begin: int, loss: Loss) -> Tensor:
    """The derivative of the loss by each score of a chunk: (labels in chunk, rows), in the precision of the vectors."""
    scores = product(weights, vectors.T)
    if bias is not None:
        scores.add_(bias[:, None])
    if len(part.rows) == 0:
        return wrong_slope(scores, loss).to(vectors.dtype)
    where = (part.labels - begin, part.rows)
    few = scores[where]
    exact = part.pull * right_slope(few, loss) + part.push * wrong_slope(few, loss)
    found = wrong_slope(scores, loss)
    found[where] = exact.to(found.dtype)
    return found.to(vectors.dtype)


def product(left: Tensor, right: Tensor) -> Tensor:
    """A matrix product in float32 (float64 of float64), also of half-precision matrices."""
    if left.dtype in (torch.float32, torch.float64):
        return left @ right
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, summed in the precision of the total."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(product(left, right))
