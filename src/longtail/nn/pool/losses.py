"""Losses over a pool in which a row may have many positives, as pure functions.

    scores   (rows, pool)   how well each row matches each label, already over the temperature
    targets  (rows, pool)   0 where a label is wrong, else its target in (0, 1]

A row's positives share its loss in proportion to their targets, and it counts as much as its largest target. The loss
is the mean over the rows that have a positive. Half precision is summed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from longtail.errors import DataError

PoolLoss = Callable[[Tensor, Tensor], Tensor]


def supcon(scores: Tensor, targets: Tensor) -> Tensor:
    """-log softmax over the pool, averaged over a row's positives. With all labels in the pool it is PAL-N."""
    scores, targets = _checked(scores, targets)
    return _shared(scores.logsumexp(1, keepdim=True) - scores, targets)


def decoupled(scores: Tensor, targets: Tensor) -> Tensor:
    """As `supcon`, and a row's other positives are no rivals of the one that is looked at (decoupled softmax).

    A label with a target below 1 is a rival with the rest of its weight: -log e^s / (e^s + sum of (1 - t) e^s).
    """
    scores, targets = _checked(scores, targets)
    some = (targets < 1).any(1, keepdim=True)
    rest = torch.log1p(-targets).masked_fill(~some, 0)
    rivals = (scores + rest).logsumexp(1, keepdim=True)
    # A row without rivals has nothing to lose; the sum of no terms would have no gradient that is a number.
    return _shared(softplus(rivals - scores) * some, targets)


def infonce(scores: Tensor, targets: Tensor) -> Tensor:
    """-log softmax at one positive, drawn anew each time: pick one label. The row's other positives count as wrong."""
    scores, targets = _checked(scores, targets)
    some = targets.sum(1) > 0
    odds = torch.where(some[:, None], targets, torch.ones_like(targets))
    drawn = torch.zeros_like(targets).scatter_(1, torch.multinomial(odds.float(), 1), 1.0)
    return _shared(scores.logsumexp(1, keepdim=True) - scores, drawn * targets)


def bce(scores: Tensor, targets: Tensor, level: float = 0.0) -> Tensor:
    """Each label alone: is it right? Summed over the pool, mean over all rows.

    Scores are lowered by their level at the beginning and the logarithm of the pool's size, so that one right label is
    expected at first and not half of the pool: else all that is wrong drowns what little is right.
    """
    scores, targets = _checked(scores, targets)
    scores = scores - level - math.log(max(scores.shape[1], 1))
    return (softplus(scores) - targets * scores).sum(1).mean()


LOSSES: dict[str, PoolLoss] = {"supcon": supcon, "decoupled": decoupled, "infonce": infonce, "bce": bce}


def level_of(scores: Tensor) -> float:
    """The logarithm of the mean of e^score: what a pool's sum is expected to be, for each of its labels."""
    return float(scores.double().logsumexp((0, 1))) - math.log(scores.numel())


def loss_of(name: str, rows: float = 0.5, level: float = 0.0) -> PoolLoss:
    """By name; "decoupled+bce" is the sum of the two. `rows` is the weight of the side from rows to labels, and what is
    left of 1 that from labels to rows; bce asks the same from either side, and is asked once. `level` is bce's."""
    parts = [LOSSES[part] for part in name.split("+")]

    def total(scores: Tensor, targets: Tensor) -> Tensor:
        found = []
        for part in parts:
            if part is bce:
                found.append(bce(scores, targets, level))
            elif rows == 1:
                found.append(part(scores, targets))
            else:
                found.append(rows * part(scores, targets) + (1 - rows) * part(scores.T, targets.T))
        return torch.stack(found).sum()

    return total


def _shared(each: Tensor, targets: Tensor) -> Tensor:
    """The mean over rows with a positive of (largest target) x (mean of its positives' losses by their targets)."""
    total = targets.sum(1)
    loss = each.masked_fill(targets == 0, 0).mul(targets).sum(1) / total.clamp(min=1e-12)
    counted = (total > 0).sum().clamp(min=1)
    return (loss * targets.amax(1)).sum() / counted


def _checked(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if scores.ndim != 2 or targets.shape != scores.shape:
        raise DataError(
            f"scores and targets must be matrices of one shape, got {tuple(scores.shape)} and {tuple(targets.shape)}"
        )
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return wide, targets.to(wide.dtype)
