"""What label variance costs a one-vs-all classifier, and how far to trust a teacher: the bounds of LEVER.

A label with S of N rows is learned by a classifier whose loss weighs positives by C. Written with
K = Lipschitz constant x longest weights x longest input, v = variance of the loss over inputs, G = ln(covering number /
delta), E = the teacher's error, and lambda = the share of the given labels in the target:

    a = v G / N        b = sqrt(S G) C K / N        c = E C K
    gap(lambda) = sqrt(a + lambda^2 b^2) + (1 - lambda) c + G / N

lambda = 1 is Theorem 1 with the label variance bounded by Lemma 1, lambda = 0 the teacher alone, and the lambda between
that makes the gap smallest is Theorem 2's. The constants hide in an O(): compare bounds with each other, do not read
them as risks. The paper prints G / N of Theorem 1 under the root; its proof has it outside, and so has this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Doubles
from longtail.errors import DataError


@dataclass(frozen=True)
class Constants:
    """What the bounds know of the classifier. The defaults are of the size that unit vectors and log loss have."""

    size: float = 1.0  # K = L W B
    loss_variance: float = 1.0  # v: of the loss over inputs, at their true relevance
    complexity: float = 10.0  # G = ln(M_N / delta)

    def __post_init__(self) -> None:
        if min(self.size, self.complexity) <= 0 or self.loss_variance < 0:
            raise DataError(f"the constants of a bound are above 0, the variance of the loss at least 0, got {self}")


@dataclass(frozen=True, eq=False)
class Gaps:
    """How far the true risk may lie above the one in training, for each label: (labels,)."""

    given: Doubles  # from the given labels alone: lambda = 1
    teacher: Doubles  # from the teacher alone: lambda = 0
    blended: Doubles  # from both, at the best lambda
    blend: Doubles  # that lambda


def label_variance(counts: AnyArray, rows: int, constants: Constants = Constants()) -> Doubles:  # noqa: B008
    """Lemma 1: the variance that sampled labels add to the loss is at most N K^2 / S, where C = N / S."""
    return rows * constants.size**2 / _positive(counts, rows)


def theorem_1(variance: AnyArray, rows: int, constants: Constants = Constants()) -> Doubles:  # noqa: B008
    """Risk above that in training: sqrt(v + label variance) sqrt(G / N) + G / N, given the label variance."""
    known = constants.complexity / rows
    gap: Doubles = np.sqrt(constants.loss_variance + np.asarray(variance, dtype=np.float64)) * np.sqrt(known) + known
    return gap


def best_blend(a: AnyArray | float, b: AnyArray | float, c: AnyArray | float) -> Doubles:
    """The lambda in [0, 1] with the smallest sqrt(a + lambda^2 b^2) + (1 - lambda) c: Theorem 2.

    The paper's (c / b) sqrt(a / (b^2 - c^2)) is for a teacher whose error is small (c < b), and may lie above 1; where
    it does, and where c >= b, the given labels alone are best.
    """
    a, b, c = (np.asarray(part, dtype=np.float64) for part in (a, b, c))
    better = c < b
    room = np.where(better, b * b - c * c, 1.0)
    found: Doubles = np.where(better, c / np.where(b > 0, b, 1.0) * np.sqrt(a / room), 1.0)
    return np.minimum(found, 1.0)


def gaps(
    counts: AnyArray,
    rows: int,
    error: AnyArray | float,
    constants: Constants = Constants(),  # noqa: B008
    weight: AnyArray | float | None = None,
) -> Gaps:
    """The bounds of labels with so many of the rows, and a teacher that errs by so much on each.

    `error` is one number or one a label, at best measured on held-out rows (`Relevance.errors`). `weight` is C; where
    nothing is said it is N / S, which balances positives and negatives.
    """
    held = _positive(counts, rows)
    missed = np.asarray(error, dtype=np.float64)
    if not ((missed >= 0) & (missed <= 1)).all():
        raise DataError("the teacher's error is a difference of chances and lies in [0, 1]")
    pull = (rows / held if weight is None else np.asarray(weight, dtype=np.float64)) * constants.size  # C K
    known = constants.complexity / rows
    a = constants.loss_variance * known
    b = np.sqrt(held * constants.complexity) * pull / rows
    c = missed * pull
    blend = np.broadcast_to(best_blend(a, b, c), held.shape)

    def gap(share: AnyArray | float) -> Doubles:
        result: Doubles = np.sqrt(a + (share * b) ** 2) + (1 - share) * c + known
        return np.broadcast_to(result, held.shape)

    return Gaps(gap(1.0), gap(0.0), gap(blend), blend)


def worst_teacher(
    counts: AnyArray,
    rows: int,
    constants: Constants = Constants(),  # noqa: B008
) -> Doubles:
    """The error of a teacher up to which blending can help a label (c = b): sqrt(S G) / N, at most 1."""
    held = _positive(counts, rows)
    return np.minimum(np.sqrt(held * constants.complexity) / rows, 1.0)


def _positive(counts: AnyArray, rows: int) -> Doubles:
    held = np.asarray(counts, dtype=np.float64)
    if rows < 1 or not (held > 0).all() or not (held <= rows).all():
        raise DataError(
            f"a bound is for labels with 1 to {rows} of {rows} training rows; leave out those without a row"
        )
    return held
