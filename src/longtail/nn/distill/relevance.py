"""From a teacher's cosines to relevances: the probability that a pair is right. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from longtail.arrays import AnyArray, Bools, Floats
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import MIN_HITS, PlattScaling, logistic

Estimator = Literal["cosine", "logistic", "isotonic"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
Asked = Literal["auto", "cosine", "logistic", "isotonic"]  # auto: isotonic where held-out rows have enough labels


class Relevance(Protocol):
    """A map from cosines to probabilities in [0, 1] that never falls."""

    def of(self, scores: Floats) -> Floats:
        """Turn cosines into probabilities.

        Args:
            scores: cosines, of any shape.

        Returns:
            Probabilities of the same shape, float32.
        """


@dataclass(frozen=True)
class LinearMap:
    """(1 + cosine) / 2, which the paper found to work as well as calibrated probabilities."""

    def of(self, scores: Floats) -> Floats:
        """See `Relevance.of`."""
        probabilities: Floats = np.clip((1 + scores) / 2, 0, 1).astype(np.float32)
        return probabilities


@dataclass(frozen=True, eq=False)
class IsotonicMap:
    """A piecewise linear function that never falls."""

    cosines: AnyArray  # (corners,) rising
    probabilities: AnyArray  # (corners,)

    def of(self, scores: Floats) -> Floats:
        """See `Relevance.of`."""
        probabilities: Floats = np.interp(scores, self.cosines, self.probabilities).astype(np.float32)
        return probabilities


def resolve_estimator(asked: Asked, hits: int) -> Estimator:
    """The estimator to use.

    Args:
        asked: the setting `calibration`.
        hits: positives of the held-out rows.

    Returns:
        The one that was asked for, or what "auto" means for so many hits.
    """
    if asked == "auto":
        return "isotonic" if hits >= MIN_HITS else "cosine"
    return asked


def check_enough_hits(hits: int, asked: Asked) -> None:
    """Refuse to fit an estimator to too few hits.

    Args:
        hits: positives of the held-out rows.
        asked: the setting `calibration`.

    Raises:
        DataError: there are too few.
    """
    estimator = resolve_estimator(asked, hits)
    if estimator != "cosine" and hits < MIN_HITS:
        raise DataError(
            f"calibration='{estimator}' learns from held-out examples; they have {hits} labels, fewer than {MIN_HITS}: "
            "give more valid examples, or take calibration='cosine', which learns nothing"
        )


def estimate(estimator: Estimator, cosines: Floats, hits: Bools) -> Relevance:
    """The map from cosines to probabilities, fitted to candidates of held-out rows.

    `logistic` is sigma(s + c) of LEVER's Theorem 3. A teacher's s is its cosine over its temperature, which a saved
    model does not hold, so the scale is fitted together with c (Platt scaling). `isotonic` only assumes that the
    probability grows with the cosine. `cosine` fits nothing.

    Args:
        estimator: which map.
        cosines: (candidates,).
        hits: (candidates,) whether each is right.

    Returns:
        The map.

    Raises:
        DataError: there are too few hits, or nearer candidates are not more often right.
    """
    if estimator == "cosine":
        return LinearMap()
    check_enough_hits(int(hits.sum()), estimator)
    if estimator == "logistic":
        scale, offset = logistic([cosines], hits).tolist()
        if scale <= 0:
            raise DataError(
                "nearer labels are not right more often on held-out examples, so the teacher has nothing to teach: "
                "train it for more epochs, or take another"
            )
        return PlattScaling(scale, offset)
    from scipy.optimize import isotonic_regression

    order = np.argsort(cosines, kind="stable")
    rising, counts = np.unique(cosines[order].astype(np.float64), return_counts=True)
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means = np.add.reduceat(hits[order].astype(np.float64), begins) / counts  # equal cosines get one probability
    curve = isotonic_regression(means, weights=counts).x
    corner = np.ones(len(curve), dtype=bool)
    corner[1:-1] = (curve[1:-1] != curve[:-2]) | (curve[1:-1] != curve[2:])
    return IsotonicMap(rising[corner], curve[corner])
