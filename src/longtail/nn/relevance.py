"""From a teacher's cosines to relevances: how likely a pair is right, given how near it is. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from longtail.arrays import AnyArray, Bools, Floats
from longtail.errors import DataError
from longtail.nn.blend import LEAST_HITS, Odds, logistic

Estimator = Literal["cosine", "logistic", "isotonic"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
Asked = Literal["auto", "cosine", "logistic", "isotonic"]  # auto: isotonic where held-out rows have enough labels


class Relevance(Protocol):
    """Chances in [0, 1] that grow with the cosine."""

    def of(self, scores: Floats) -> Floats: ...


@dataclass(frozen=True)
class Halfway:
    """(1 + cosine) / 2, which the paper found to work as well as what is calibrated."""

    def of(self, scores: Floats) -> Floats:
        chances: Floats = np.clip((1 + scores) / 2, 0, 1).astype(np.float32)
        return chances


@dataclass(frozen=True, eq=False)
class Steps:
    """A curve that never falls, straight between its corners."""

    cosines: AnyArray  # rising
    chances: AnyArray

    def of(self, scores: Floats) -> Floats:
        chances: Floats = np.interp(scores, self.cosines, self.chances).astype(np.float32)
        return chances


def settled(asked: Asked, hits: int) -> Estimator:
    """What "auto" means where there are so many held-out hits."""
    if asked == "auto":
        return "isotonic" if hits >= LEAST_HITS else "cosine"
    return asked


def enough(hits: int, asked: Asked) -> None:
    """Whether what is asked can be learned from so many held-out hits."""
    estimator = settled(asked, hits)
    if estimator != "cosine" and hits < LEAST_HITS:
        raise DataError(
            f"estimate='{estimator}' learns from held-out rows, and they have {hits} labels, fewer than {LEAST_HITS}: "
            "give more valid rows, or take estimate='cosine', which learns nothing"
        )


def estimate(estimator: Estimator, cosines: Floats, hits: Bools) -> Relevance:
    """The map from cosines to chances, learned where that is asked from candidates of held-out rows (candidates,).

    `logistic` is sigma(s + c) of LEVER's Theorem 3. A teacher's s is its cosine over its temperature, which a saved
    model does not tell, so the factor is learned with c (Platt's way). `isotonic` asks only that the chance grows.
    """
    if estimator == "cosine":
        return Halfway()
    enough(int(hits.sum()), estimator)
    if estimator == "logistic":
        slope, offset = logistic([cosines], hits).tolist()
        if slope <= 0:
            raise DataError(
                "nearer labels are not right more often on held-out rows, so the teacher has nothing to teach: "
                "train it for more epochs, or take another"
            )
        return Odds(slope, offset)
    from scipy.optimize import isotonic_regression

    order = np.argsort(cosines, kind="stable")
    rising, counts = np.unique(cosines[order].astype(np.float64), return_counts=True)
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rates = np.add.reduceat(hits[order].astype(np.float64), begins) / counts  # equal cosines have one chance
    curve = isotonic_regression(rates, weights=counts).x
    corner = np.ones(len(curve), dtype=bool)
    corner[1:-1] = (curve[1:-1] != curve[:-2]) | (curve[1:-1] != curve[2:])
    return Steps(rising[corner], curve[corner])
