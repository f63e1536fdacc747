"""Losses over a pool in which a row may have many positives, as pure functions.

    scores   (rows, pool)   how well each row matches each label, already over the temperature
    targets  (rows, pool)   0 where a label is wrong, else its target in (0, 1]

A row's positives share its loss in proportion to their targets, and it counts as much as its largest target. The loss
is the mean over the rows that have a positive. Half precision is summed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from longtail.errors import DataError

LEAST = -1e30


@dataclass(frozen=True, eq=False)
class Weighed:
    """Targets of a batch with what several losses over them share."""

    targets: Tensor
    real: Tensor | None = None  # (pool,) bool: the labels that are there, the others fill it up; None: all

    @cached_property
    def rest(self) -> Tensor:
        """The logarithm of how much of a rival each label is."""
        rest = torch.log1p(-self.targets)
        return rest if self.absent is None else rest.add_(self.absent)

    @cached_property
    def absent(self) -> Tensor | None:
        """The logarithm of whether a label is there."""
        return None if self.real is None else self.real.to(self.targets.dtype).log()

    def shares(self, along: int) -> Tensor:
        """What each positive weighs in the mean over rows with a positive of (largest target) x (mean of the row's
        positives by their targets); along 0, over columns."""
        return self._by_row if along == 1 else self._by_column

    @cached_property
    def _by_row(self) -> Tensor:
        return _shared(self.targets, 1)

    @cached_property
    def _by_column(self) -> Tensor:
        return _shared(self.targets, 0)


PoolLoss = Callable[[Tensor, Tensor | Weighed], Tensor]
SidedLoss = Callable[[Tensor, Tensor | Weighed, int], Tensor]


def _shared(targets: Tensor, along: int) -> Tensor:
    total = targets.sum(along, keepdim=True)
    counted = (total > 0).sum().clamp_(min=1)
    return targets * (targets.amax(along, keepdim=True) / (total.clamp_(min=1e-12) * counted))


def supcon(scores: Tensor, targets: Tensor | Weighed, along: int = 1) -> Tensor:
    """-log softmax over the pool, averaged over a row's positives. With all labels in the pool it is PAL-N. Along 0, a
    column is what has positives."""
    scores, given = _checked(scores, targets)
    found: Tensor = _Contrast.apply(scores, given.shares(along), given.absent, False, along)  # type: ignore[no-untyped-call]
    return found


def decoupled(scores: Tensor, targets: Tensor | Weighed, along: int = 1) -> Tensor:
    """As `supcon`, and a row's other positives are no rivals of the one that is looked at (decoupled softmax).

    A label with a target below 1 is a rival with the rest of its weight: -log e^s / (e^s + sum of (1 - t) e^s).
    """
    scores, given = _checked(scores, targets)
    found: Tensor = _Contrast.apply(scores, given.shares(along), given.rest, True, along)  # type: ignore[no-untyped-call]
    return found


class _Contrast(torch.autograd.Function):
    """A loss and its slope in one go: a matrix of scores is read some dozen times, and autograd would take three times
    as many, with a matrix kept for each."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, shares: Tensor, rest: Tensor | None, decoupled: bool, along: int) -> Tensor:
        rivals = scores if rest is None else scores + rest
        # Where all is right there is no rival and nothing to lose: -inf would make numbers of it that are none.
        level = rivals.logsumexp(along, keepdim=True).clamp_(min=LEAST)
        gaps = level - scores
        slopes = (rivals - level).exp_()
        pulls = shares
        if decoupled:
            pulls = torch.sigmoid(gaps).mul_(shares)
            gaps = softplus(gaps)
        slopes.mul_(pulls.sum(along, keepdim=True)).sub_(pulls)
        ctx.save_for_backward(slopes)
        return torch.dot(gaps.flatten(), shares.flatten())

    @staticmethod
    def backward(ctx: Any, to_loss: Tensor) -> Any:
        (slopes,) = ctx.saved_tensors
        return slopes * to_loss, None, None, None, None


def infonce(scores: Tensor, targets: Tensor | Weighed, along: int = 1) -> Tensor:
    """-log softmax at one positive, drawn anew each time: pick one label. The row's other positives count as wrong."""
    scores, given = _checked(scores, targets)
    if along == 0:
        return infonce(scores.T, given.targets.T)  # where a label that is not there has no positive
    some = given.targets.sum(1) > 0
    odds = torch.where(some[:, None], given.targets, torch.ones_like(given.targets))
    # As torch.multinomial draws one, but that asks the device whether the odds are sound.
    first = (odds / torch.empty_like(odds).exponential_()).argmax(1, keepdim=True)
    drawn = torch.zeros_like(odds).scatter_(1, first, 1.0)
    return supcon(scores, Weighed(drawn * given.targets, given.real))


def bce(scores: Tensor, targets: Tensor | Weighed, level: float = 0.0) -> Tensor:
    """Each label alone: is it right? Summed over the pool, mean over all rows.

    Scores are lowered by their level at the beginning and the logarithm of the pool's size, so that one right label is
    expected at first and not half of the pool: else all that is wrong drowns what little is right.
    """
    scores, given = _checked(scores, targets)
    if given.real is None:
        scores = scores - (level + math.log(max(scores.shape[1], 1)))
        return (softplus(scores) - given.targets * scores).sum(1).mean()
    scores = scores - (level + given.real.to(scores.dtype).sum().clamp(min=1).log())
    return ((softplus(scores) - given.targets * scores) * given.real).sum(1).mean()


SIDED: dict[str, SidedLoss] = {"supcon": supcon, "decoupled": decoupled, "infonce": infonce}
LOSSES: dict[str, PoolLoss] = {"supcon": supcon, "decoupled": decoupled, "infonce": infonce, "bce": bce}


def level_of(scores: Tensor) -> float:
    """The logarithm of the mean of e^score: what a pool's sum is expected to be, for each of its labels."""
    return float(scores.double().logsumexp((0, 1))) - math.log(scores.numel())


def loss_of(name: str, rows: float = 0.5, level: float = 0.0) -> PoolLoss:
    """By name; "decoupled+bce" is the sum of the two. `rows` is the weight of the side from rows to labels, and what is
    left of 1 that from labels to rows; bce asks the same from either side, and is asked once. `level` is bce's."""
    parts = name.split("+")

    def total(scores: Tensor, targets: Tensor | Weighed) -> Tensor:
        _, targets = _checked(scores, targets)
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


def _checked(scores: Tensor, targets: Tensor | Weighed) -> tuple[Tensor, Weighed]:
    wide = scores if scores.dtype == torch.float64 else scores.float()
    given = targets if isinstance(targets, Weighed) else Weighed(targets.to(wide.dtype))
    if scores.ndim != 2 or given.targets.shape != scores.shape:
        raise DataError(
            f"scores and targets must be matrices of one shape, got {tuple(scores.shape)} and "
            f"{tuple(given.targets.shape)}"
        )
    return wide, given
