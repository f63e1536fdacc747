"""The generalisation bounds of LEVER: what label variance costs a one-vs-all classifier, and when a teacher helps.

A classifier learns a label with S positives in N training examples; its loss weighs positives by C. With
K = Lipschitz constant x largest weight norm x largest input norm, v = variance of the loss over inputs,
G = ln(covering number / delta), E = the teacher's error, and lambda = the share of the given labels in the target:

    a = v G / N        b = sqrt(S G) C K / N        c = E C K
    gap(lambda) = sqrt(a + lambda^2 b^2) + (1 - lambda) c + G / N

lambda = 1 is Theorem 1, with the label variance bounded by Lemma 1. lambda = 0 is the teacher alone. Theorem 2's lambda
lies between and makes the gap smallest. The bounds hold up to a constant factor, so compare them with each other and do
not read them as risks. The paper prints the G / N of Theorem 1 under the root; its proof has it outside, as here.

E is the distance of the teacher's probabilities to the true ones, which no data holds: a pair's target is drawn once,
so |target - probability| contains the label variance that the theorem keeps apart, and charges a perfect teacher with
it. Calibration on held-out data bounds E from below only. So E is an assumption here, and no report shows these bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Doubles
from longtail.errors import DataError


@dataclass(frozen=True)
class Constants:
    """The constants of the bounds. The defaults have the size they have for unit vectors and log loss."""

    size: float = 1.0  # K = L W B
    loss_variance: float = 1.0  # v: of the loss over inputs, at their true relevance
    complexity: float = 10.0  # G = ln(M_N / delta)

    def __post_init__(self) -> None:
        if min(self.size, self.complexity) <= 0 or self.loss_variance < 0:
            raise DataError(
                f"the constants of a bound must be above 0, and the variance of the loss at least 0, got {self}"
            )


@dataclass(frozen=True, eq=False)
class Gaps:
    """Bounds on how far the true risk lies above the training risk, for each label: (labels,)."""

    given: Doubles  # the given labels alone: lambda = 1
    teacher: Doubles  # the teacher alone: lambda = 0
    blended: Doubles  # both, at the best lambda
    blend: Doubles  # that lambda


def label_variance(counts: AnyArray, rows: int, constants: Constants = Constants()) -> Doubles:  # noqa: B008
    """Bound the variance that sampled labels add to the loss by N K^2 / S, for C = N / S (Lemma 1).

    Args:
        counts: (labels,) training positives of each label.
        rows: number of training examples.
        constants: of the bounds.

    Returns:
        (labels,) float64.

    Raises:
        DataError: a count is below 1 or above `rows`.
    """
    return rows * constants.size**2 / _positive(counts, rows)


def theorem_1(variance: AnyArray, rows: int, constants: Constants = Constants()) -> Doubles:  # noqa: B008
    """Bound the true risk minus the training risk by sqrt(v + label variance) sqrt(G / N) + G / N (Theorem 1).

    Args:
        variance: (labels,) label variance, such as from `label_variance`.
        rows: number of training examples.
        constants: of the bounds.

    Returns:
        (labels,) float64.
    """
    complexity = constants.complexity / rows
    total = constants.loss_variance + np.asarray(variance, dtype=np.float64)
    gap: Doubles = np.sqrt(total) * np.sqrt(complexity) + complexity
    return gap


def best_blend(a: AnyArray | float, b: AnyArray | float, c: AnyArray | float) -> Doubles:
    """Find the lambda in [0, 1] with the smallest sqrt(a + lambda^2 b^2) + (1 - lambda) c (Theorem 2).

    The paper's (c / b) sqrt(a / (b^2 - c^2)) holds for a teacher with a small error (c < b), and may exceed 1. Where it
    does, and where c >= b, the given labels alone are best.

    Args:
        a: variance of the loss, see the module.
        b: of the given labels.
        c: of the teacher.

    Returns:
        lambda, float64, of the common shape of a, b and c.
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
    """Compute the bounds of each label with the given labels, with a teacher, and with both.

    Args:
        counts: (labels,) training positives of each label.
        rows: number of training examples.
        error: of the teacher, one number or (labels,), in [0, 1]; an assumption, see the module.
        constants: of the bounds.
        weight: C, one number or (labels,); None is N / S, which balances positives and negatives.

    Returns:
        The bounds and the best lambda of each label.

    Raises:
        DataError: a count is below 1 or above `rows`, or an error lies outside [0, 1].
    """
    positives = _positive(counts, rows)
    errors = np.asarray(error, dtype=np.float64)
    if not ((errors >= 0) & (errors <= 1)).all():
        raise DataError("the teacher's error is a difference of probabilities and must lie in [0, 1]")
    scale = (rows / positives if weight is None else np.asarray(weight, dtype=np.float64)) * constants.size  # C K
    complexity = constants.complexity / rows
    a = constants.loss_variance * complexity
    b = np.sqrt(positives * constants.complexity) * scale / rows
    c = errors * scale
    blend = np.broadcast_to(best_blend(a, b, c), positives.shape)

    def gap(share: AnyArray | float) -> Doubles:
        result: Doubles = np.sqrt(a + (share * b) ** 2) + (1 - share) * c + complexity
        return np.broadcast_to(result, positives.shape)

    return Gaps(gap(1.0), gap(0.0), gap(blend), blend)


def worst_teacher(
    counts: AnyArray,
    rows: int,
    constants: Constants = Constants(),  # noqa: B008
) -> Doubles:
    """Compute the teacher's error above which blending cannot help a label (c = b): sqrt(S G) / N, at most 1.

    Args:
        counts: (labels,) training positives of each label.
        rows: number of training examples.
        constants: of the bounds.

    Returns:
        (labels,) float64.

    Raises:
        DataError: a count is below 1 or above `rows`.
    """
    positives = _positive(counts, rows)
    return np.minimum(np.sqrt(positives * constants.complexity) / rows, 1.0)


def _positive(counts: AnyArray, rows: int) -> Doubles:
    positives = np.asarray(counts, dtype=np.float64)
    if rows < 1 or not (positives > 0).all() or not (positives <= rows).all():
        raise DataError(
            f"a bound needs labels with 1 to {rows} positives in {rows} training examples; leave out the others"
        )
    return positives
