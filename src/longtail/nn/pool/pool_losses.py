"""Losses over a pool in which a row may have many positives, as pure functions.

    scores   (rows, pool)   how well each row matches each label, already divided by the temperature
    targets  (rows, pool)   0 for a negative, else the soft target in (0, 1]

A row's positives share its loss in proportion to their targets, and the row's weight is its largest target. The loss is
the mean over the rows that have a positive. Scores in half precision are summed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from longtail.errors import DataError
from longtail.nn.training.thread_invariant import sigmoid, softplus

LOWEST = -1e30  # in place of -inf


@dataclass(frozen=True, eq=False)
class PoolTargets:
    """Targets of a batch, with what several losses compute from them."""

    targets: Tensor  # (rows, pool)
    real: Tensor | None = None  # (pool,) bool: which columns are labels; the others are padding. None: all are

    @cached_property
    def log_negative(self) -> Tensor:
        """(rows, pool): the logarithm of how much of a negative each label is, 1 - target; -inf for padding."""
        log_negative = torch.log1p(-self.targets)
        return log_negative if self.log_real is None else log_negative.add_(self.log_real)

    @cached_property
    def log_real(self) -> Tensor | None:
        """(pool,): 0 for labels and -inf for padding; None where there is no padding."""
        return None if self.real is None else self.real.to(self.targets.dtype).log()

    def shares(self, dim: int) -> Tensor:
        """The weight of each positive in the loss.

        Args:
            dim: 1 where a row's positives share its loss, 0 where a column's do.

        Returns:
            (rows, pool) weights; those of a row sum to its largest target over the number of rows with a positive.
        """
        return self._by_row if dim == 1 else self._by_column

    @cached_property
    def _by_row(self) -> Tensor:
        return _shared(self.targets, 1)

    @cached_property
    def _by_column(self) -> Tensor:
        return _shared(self.targets, 0)


PoolLoss = Callable[[Tensor, Tensor | PoolTargets], Tensor]
SidedLoss = Callable[[Tensor, Tensor | PoolTargets, int], Tensor]


def _shared(targets: Tensor, dim: int) -> Tensor:
    total = targets.sum(dim, keepdim=True)
    counted = (total > 0).sum().clamp_(min=1)
    return targets * (targets.amax(dim, keepdim=True) / (total.clamp_(min=1e-12) * counted))


def supcon(scores: Tensor, targets: Tensor | PoolTargets, dim: int = 1) -> Tensor:
    """-log softmax over the pool, averaged over a row's positives (SupCon; PAL-N where the pool is all labels).

    Args:
        scores: (rows, pool).
        targets: (rows, pool).
        dim: 1: rows choose labels; 0: labels choose rows.

    Returns:
        The loss, a scalar.
    """
    scores, given = _checked(scores, targets)
    found: Tensor = _Contrast.apply(scores, given.shares(dim), given.log_real, False, dim)  # type: ignore[no-untyped-call]
    return found


def decoupled(scores: Tensor, targets: Tensor | PoolTargets, dim: int = 1) -> Tensor:
    """`supcon` in which a row's positives do not compete with each other (decoupled softmax).

    A label with target t below 1 is a negative of weight 1 - t: -log e^s / (e^s + sum of (1 - t) e^s).

    Args:
        scores: (rows, pool).
        targets: (rows, pool).
        dim: 1: rows choose labels; 0: labels choose rows.

    Returns:
        The loss, a scalar.
    """
    scores, given = _checked(scores, targets)
    found: Tensor = _Contrast.apply(scores, given.shares(dim), given.log_negative, True, dim)  # type: ignore[no-untyped-call]
    return found


class _Contrast(torch.autograd.Function):
    """The loss and its gradient together. They read the matrix of scores a dozen times; autograd would read it three
    times as often and keep a matrix for each operation."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, shares: Tensor, log_weights: Tensor | None, decoupled: bool, dim: int
    ) -> Tensor:
        negatives = scores if log_weights is None else scores + log_weights
        # A row without negatives has a sum of -inf, and -inf minus -inf is NaN.
        level = negatives.logsumexp(dim, keepdim=True).clamp_(min=LOWEST)
        gaps = level - scores
        gradients = (negatives - level).exp_()
        positives = shares
        if decoupled:
            positives = sigmoid(gaps).mul_(shares)
            gaps = softplus(gaps)
        gradients.mul_(positives.sum(dim, keepdim=True)).sub_(positives)
        ctx.save_for_backward(gradients)
        return torch.dot(gaps.flatten(), shares.flatten())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (gradients,) = ctx.saved_tensors
        return gradients * gradient, None, None, None, None


def infonce(scores: Tensor, targets: Tensor | PoolTargets, dim: int = 1) -> Tensor:
    """-log softmax at one positive of each row, drawn in every call. The row's other positives count as negatives.

    Args:
        scores: (rows, pool).
        targets: (rows, pool); positives are drawn in proportion to them.
        dim: 1: rows choose labels; 0: labels choose rows.

    Returns:
        The loss, a scalar.
    """
    scores, given = _checked(scores, targets)
    if dim == 0:
        return infonce(scores.T, given.targets.T)  # padding has no positive there
    return supcon(scores, PoolTargets(_drawn(given.targets), given.real))


def pick_one(scores: Tensor, targets: Tensor | PoolTargets, dim: int = 1) -> Tensor:
    """`decoupled` with one positive of each row, drawn in every call; the row's other positives are left out.

    The pick-one-label reduction (POL) over the same pool: what it lacks beside `decoupled` is the other positives.

    Args:
        scores: (rows, pool).
        targets: (rows, pool); positives are drawn in proportion to them.
        dim: 1: rows choose labels; 0: labels choose rows.

    Returns:
        The loss, a scalar.
    """
    scores, given = _checked(scores, targets)
    if dim == 0:
        return pick_one(scores.T, given.targets.T)  # padding has no positive there
    shares = PoolTargets(_drawn(given.targets), given.real).shares(1)
    found: Tensor = _Contrast.apply(scores, shares, given.log_negative, True, 1)  # type: ignore[no-untyped-call]
    return found


def _drawn(targets: Tensor) -> Tensor:
    """(rows, pool): the targets of one positive of each row, drawn in proportion to them; 0 elsewhere."""
    has_positive = targets.sum(1) > 0
    weights = torch.where(has_positive[:, None], targets, torch.ones_like(targets))
    # One draw per row as torch.multinomial makes it; but that waits for the device to check the weights.
    first = (weights / torch.empty_like(weights).exponential_()).argmax(1, keepdim=True)
    return torch.zeros_like(weights).scatter_(1, first, 1.0) * targets


def bce(scores: Tensor, targets: Tensor | PoolTargets, level: float = 0.0) -> Tensor:
    """Binary cross-entropy of each label by itself, summed over the pool, averaged over all rows.

    Scores are lowered by `level` and by the logarithm of the pool's size. So the first expectation is one positive per
    row and not half of the pool; otherwise the negatives would outweigh the few positives.

    Args:
        scores: (rows, pool).
        targets: (rows, pool).
        level: of the scores before training, see `level_of`.

    Returns:
        The loss, a scalar.
    """
    scores, given = _checked(scores, targets)
    if given.real is None:
        scores = scores - (level + math.log(max(scores.shape[1], 1)))
        return (softplus(scores) - given.targets * scores).sum(1).mean()
    scores = scores - (level + given.real.to(scores.dtype).sum().clamp(min=1).log())
    return ((softplus(scores) - given.targets * scores) * given.real).sum(1).mean()


def plain_bce(scores: Tensor, targets: Tensor | PoolTargets) -> Tensor:
    """Binary cross-entropy as it is written: of the scores themselves, summed over the pool, averaged over all rows.

    Args:
        scores: (rows, pool).
        targets: (rows, pool).

    Returns:
        The loss, a scalar.
    """
    scores, given = _checked(scores, targets)
    each = softplus(scores) - given.targets * scores
    return (each if given.real is None else each * given.real).sum(1).mean()


SIDED: dict[str, SidedLoss] = {"supcon": supcon, "decoupled": decoupled, "infonce": infonce, "pickone": pick_one}
LOSSES: dict[str, PoolLoss] = {
    "supcon": supcon,
    "decoupled": decoupled,
    "infonce": infonce,
    "pickone": pick_one,
    "bce": bce,
    "plainbce": plain_bce,
}


def level_of(scores: Tensor) -> float:
    """The level that `bce` takes: the logarithm of the mean of e^score.

    Args:
        scores: (rows, labels) before training.

    Returns:
        The level.
    """
    return float(scores.double().logsumexp((0, 1))) - math.log(scores.numel())


def loss_of(name: str, rows_weight: float = 0.5, level: float = 0.0) -> PoolLoss:
    """A loss by its name.

    Args:
        name: one of `LOSSES`, or a sum such as "decoupled+bce".
        rows_weight: of the direction from rows to labels; the other direction has the rest of 1. `bce` and `plainbce`
            are the same in both directions and count once.
        level: see `bce`.

    Returns:
        The loss as a function of scores and targets.
    """
    parts = name.split("+")

    def total(scores: Tensor, targets: Tensor | PoolTargets) -> Tensor:
        _, targets = _checked(scores, targets)
        found = []
        for part in parts:
            if part == "bce":
                found.append(bce(scores, targets, level))
                continue
            if part == "plainbce":
                found.append(plain_bce(scores, targets))
                continue
            found.append(SIDED[part](scores, targets, 1) * rows_weight)
            if rows_weight != 1:
                found.append(SIDED[part](scores, targets, 0) * (1 - rows_weight))
        return torch.stack(found).sum()

    return total


def _checked(scores: Tensor, targets: Tensor | PoolTargets) -> tuple[Tensor, PoolTargets]:
    wide = scores if scores.dtype == torch.float64 else scores.float()
    given = targets if isinstance(targets, PoolTargets) else PoolTargets(targets.to(wide.dtype))
    if scores.ndim != 2 or given.targets.shape != scores.shape:
        raise DataError(
            f"scores and targets must be matrices of one shape, got {tuple(scores.shape)} and "
            f"{tuple(given.targets.shape)}"
        )
    return wide, given
