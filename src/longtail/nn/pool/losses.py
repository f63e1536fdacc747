"""Losses over a pool in which a row may have many positives, as pure functions.

    scores   (rows, pool)   how well each row matches each label, already over the temperature
    targets  (rows, pool)   0 where a label is wrong, else its target in (0, 1]

A row's positives share its loss in proportion to their targets, and it counts as much as its largest target. The loss
is the mean over the rows that have a positive. Half precision is summed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from longtail.errors import DataError

PoolLoss = Callable[[Tensor, Tensor], Tensor]
SidedLoss = Callable[[Tensor, Tensor, int], Tensor]
LEAST = -1e30


def supcon(scores: Tensor, targets: Tensor, along: int = 1) -> Tensor:
    """-log softmax over the pool, averaged over a row's positives. With all labels in the pool it is PAL-N. Along 0, a
    column is what has positives."""
    found: Tensor = _Contrast.apply(*_checked(scores, targets), along, False)  # type: ignore[no-untyped-call]
    return found


def decoupled(scores: Tensor, targets: Tensor, along: int = 1) -> Tensor:
    """As `supcon`, and a row's other positives are no rivals of the one that is looked at (decoupled softmax).

    A label with a target below 1 is a rival with the rest of its weight: -log e^s / (e^s + sum of (1 - t) e^s).
    """
    found: Tensor = _Contrast.apply(*_checked(scores, targets), along, True)  # type: ignore[no-untyped-call]
    return found


class _Contrast(torch.autograd.Function):
    """A loss and its slope in one go: a matrix of scores is read some dozen times, and autograd would take three times
    as many, with a matrix kept for each."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor, along: int, leave: bool) -> Tensor:
        shares = _shares(targets, along)
        rivals = scores + torch.log1p(-targets) if leave else scores
        # Where all is right there is no rival and nothing to lose: -inf would make numbers of it that are none.
        level = rivals.logsumexp(along, keepdim=True).clamp_(min=LEAST)
        gaps = level - scores
        slopes = (rivals - level).exp_()
        if leave:
            pulls = torch.sigmoid(gaps).mul_(shares)
            gaps = softplus(gaps)
        else:
            pulls = shares
        slopes.mul_(pulls.sum(along, keepdim=True)).sub_(pulls)
        ctx.save_for_backward(slopes)
        return torch.dot(gaps.flatten(), shares.flatten())

    @staticmethod
    def backward(ctx: Any, to_loss: Tensor) -> Any:
        (slopes,) = ctx.saved_tensors
        return slopes * to_loss, None, None, None


def infonce(scores: Tensor, targets: Tensor, along: int = 1) -> Tensor:
    """-log softmax at one positive, drawn anew each time: pick one label. The row's other positives count as wrong."""
    scores, targets = _checked(scores, targets)
    if along == 0:
        return infonce(scores.T, targets.T)
    some = targets.sum(1) > 0
    odds = torch.where(some[:, None], targets, torch.ones_like(targets))
    drawn = torch.zeros_like(targets).scatter_(1, torch.multinomial(odds.float(), 1), 1.0)
    return supcon(scores, drawn * targets)


def bce(scores: Tensor, targets: Tensor, level: float = 0.0) -> Tensor:
    """Each label alone: is it right? Summed over the pool, mean over all rows.

    Scores are lowered by their level at the beginning and the logarithm of the pool's size, so that one right label is
    expected at first and not half of the pool: else all that is wrong drowns what little is right.
    """
    scores, targets = _checked(scores, targets)
    scores = scores - level - math.log(max(scores.shape[1], 1))
    return (softplus(scores) - targets * scores).sum(1).mean()


SIDED: dict[str, SidedLoss] = {"supcon": supcon, "decoupled": decoupled, "infonce": infonce}
LOSSES: dict[str, PoolLoss] = {"supcon": supcon, "decoupled": decoupled, "infonce": infonce, "bce": bce}


def level_of(scores: Tensor) -> float:
    """The logarithm of the mean of e^score: what a pool's sum is expected to be, for each of its labels."""
    return float(scores.double().logsumexp((0, 1))) - math.log(scores.numel())


def loss_of(name: str, rows: float = 0.5, level: float = 0.0) -> PoolLoss:
    """By name; "decoupled+bce" is the sum of the two. `rows` is the weight of the side from rows to labels, and what is
    left of 1 that from labels to rows; bce asks the same from either side, and is asked once. `level` is bce's."""
    parts = name.split("+")

    def total(scores: Tensor, targets: Tensor) -> Tensor:
        found = []
        for part in parts:
            if part == "bce":
                found.append(bce(scores, targets, level))
                continue
            found.append(SIDED[part](scores, targets, 1) * rows)
            if rows != 1:
                found.append(SIDED[part](scores, targets, 0) * (1 - rows))
        return torch.stack(found).sum()

    return total


def _shares(targets: Tensor, along: int) -> Tensor:
    """What each positive weighs in the mean over rows with a positive of (largest target) x (mean of the row's
    positives by their targets)."""
    total = targets.sum(along, keepdim=True)
    counted = (total > 0).sum().clamp_(min=1)
    return targets * (targets.amax(along, keepdim=True) / (total.clamp_(min=1e-12) * counted))


def _checked(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if scores.ndim != 2 or targets.shape != scores.shape:
        raise DataError(
            f"scores and targets must be matrices of one shape, got {tuple(scores.shape)} and {tuple(targets.shape)}"
        )
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return wide, targets.to(wide.dtype)
