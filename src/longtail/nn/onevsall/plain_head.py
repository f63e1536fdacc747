"""The work on one chunk of labels in plain torch: for the CPU, and the reference for the fused kernels."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from longtail.nn.onevsall.batch_targets import ChunkTargets
from longtail.nn.training.thread_invariant import sigmoid, sigmoid_

Loss = Literal["bce", "hinge"]


def negative_gradient_(scores: Tensor, loss: Loss) -> Tensor:
    """Compute, in place, the derivative of the loss of negatives by their scores.

    Args:
        scores: of any shape; overwritten.
        loss: `bce`, or the squared `hinge`.

    Returns:
        The same tensor.
    """
    return sigmoid_(scores) if loss == "bce" else scores.add_(1).clamp_(min=0).mul_(2)


def positive_gradient(scores: Tensor, loss: Loss) -> Tensor:
    """Compute the derivative of the loss of positives by their scores.

    Args:
        scores: of any shape.
        loss: `bce`, or the squared `hinge`.

    Returns:
        A tensor of the same shape.
    """
    return sigmoid(scores) - 1 if loss == "bce" else (1 - scores).clamp(min=0) * -2


def score_gradients(
    weights: Tensor, bias: Tensor | None, vectors: Tensor, part: ChunkTargets, start: int, loss: Loss
) -> Tensor:
    """Compute the derivative of the loss by each score of a chunk.

    Args:
        weights: (labels in chunk, width).
        bias: (labels in chunk,), or None.
        vectors: (rows, width) of the batch.
        part: targets of the chunk.
        start: first label of the chunk.
        loss: `bce`, or the squared `hinge`.

    Returns:
        (labels in chunk, rows), in the precision of the vectors.
    """
    scores = product(weights, vectors.T)
    if bias is not None:
        scores.add_(bias[:, None])
    if len(part.rows) == 0:
        return negative_gradient_(scores, loss).to(vectors.dtype)
    where = (part.labels - start, part.rows)
    listed = scores[where]
    exact = part.positive_weight * positive_gradient(listed, loss) + part.negative_weight * negative_gradient_(
        listed, loss
    )
    found = negative_gradient_(scores, loss)
    found[where] = exact.to(found.dtype)
    return found.to(vectors.dtype)


def product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices with a float32 result (float64 for float64), also in half precision.

    Args:
        left: (rows, inner).
        right: (inner, columns).

    Returns:
        (rows, columns).
    """
    if left.dtype in (torch.float32, torch.float64):
        return left @ right
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to `total` in place, in the precision of `total`.

    Args:
        total: (rows, columns).
        left: (rows, inner).
        right: (inner, columns).
    """
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(product(left, right))
