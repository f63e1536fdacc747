"""How far chances can be believed: bins of like chance, their error, and what a teacher was worth on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from longtail.arrays import AnyArray, Bools, Doubles
from longtail.data.dataset import Dataset
from longtail.metrics.curves import ScoreBin
from longtail.predictions import Predictions

BINS = 15  # as in ECE@k


@dataclass(frozen=True)
class Calibration:
    """One way to turn a teacher's similarities into chances, against what was right on held-out rows."""

    name: str
    bins: tuple[ScoreBin, ...]

    @property
    def error(self) -> float:
        """ECE in percent: the mean over candidates of |mean chance - hit rate| of their bin."""
        number = sum(one.count for one in self.bins)
        return 100 * sum(one.count * abs(one.mean_score - one.hit_rate) for one in self.bins) / max(number, 1)


@dataclass(frozen=True)
class ErrorBin:
    """Labels of about the same frequency, and how far a teacher is off on them."""

    low: int  # least and most training rows of a label
    high: int
    labels: int
    middle: float  # geometric mean of the training rows
    error: float  # mean of |target - chance| over all pairs of a held-out row and such a label


@dataclass(frozen=True)
class Teaching:
    """What a tail method with a teacher did: how good the teacher was, what it gave, and how long each part took."""

    teacher: str
    used: str = ""  # the name of the calibration whose chances became targets
    calibrations: tuple[Calibration, ...] = ()
    errors: tuple[ErrorBin, ...] = ()
    chosen: dict[str, float] = field(default_factory=dict)  # settings, those that were searched too
    entries: int = 0  # soft targets that were added
    seconds: dict[str, float] = field(default_factory=dict)  # of "teacher", "soft labels" and "student"


def score_bins(chances: AnyArray, hits: Bools, number: int = BINS) -> tuple[ScoreBin, ...]:
    """Candidates of like chance, in equal steps of [0, 1]; steps without a candidate are left out."""
    step = np.minimum((chances * number).astype(np.int64), number - 1)
    counts = np.bincount(step, minlength=number)
    scores = np.bincount(step, weights=chances, minlength=number)
    right = np.bincount(step, weights=hits, minlength=number)
    return tuple(
        ScoreBin(
            place / number,
            (place + 1) / number,
            int(counts[place]),
            float(scores[place] / counts[place]),
            float(right[place] / counts[place]),
        )
        for place in np.flatnonzero(counts).tolist()
    )


def error_bins(found: Predictions, data: Dataset) -> tuple[ErrorBin, ...]:
    """How far the chances of `found` (its scores) are off on these rows, by label frequency in bins that double.

    A label that was not found for a row has chance 0 there, so all pairs count; targets are what happened, not how
    likely it was, so this is more than the distance to the true chances.
    """
    labels = data.labels
    there = found.indices >= 0
    right = found.hits(data.targets)[there]
    off: Doubles = np.bincount(data.targets.indices, minlength=len(labels)).astype(np.float64)
    change = np.abs(right - found.scores[there].astype(np.float64)) - right
    off += np.bincount(found.indices[there], weights=change, minlength=len(labels))
    known = labels.counts > 0
    doubled = np.ceil(np.log2(np.maximum(labels.counts, 1))).astype(np.int64)
    bins = []
    for place in np.unique(doubled[known]).tolist():
        mine = known & (doubled == place)
        counts = labels.counts[mine]
        bins.append(
            ErrorBin(
                low=int(counts.min()),
                high=int(counts.max()),
                labels=len(counts),
                middle=float(np.exp(np.log(counts).mean())),
                error=float(off[mine].sum() / max(len(data) * len(counts), 1)),
            )
        )
    return tuple(bins)
