"""Calibration of probabilities: bins, expected calibration error, and the errors of a teacher on held-out data."""

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
    """One map of a teacher's similarities to probabilities, compared with the truth on held-out data."""

    name: str
    bins: tuple[ScoreBin, ...]

    @property
    def error(self) -> float:
        """ECE in percent: the mean over candidates of |mean probability - hit rate| of their bin."""
        number = sum(one.count for one in self.bins)
        return 100 * sum(one.count * abs(one.mean_score - one.hit_rate) for one in self.bins) / max(number, 1)


@dataclass(frozen=True)
class ErrorBin:
    """Labels of similar frequency, and the error of a teacher on them."""

    low: int  # smallest and largest training count of a label
    high: int
    labels: int
    middle: float  # geometric mean of the training counts
    error: float  # mean of |target - probability| over all pairs of a held-out document and such a label


@dataclass(frozen=True)
class Teaching:
    """What a tail method with a teacher did: how good the teacher was, what it added, and the time of each part."""

    teacher: str
    used: str = ""  # the name of the calibration whose probabilities became targets
    calibrations: tuple[Calibration, ...] = ()
    errors: tuple[ErrorBin, ...] = ()
    chosen: dict[str, float] = field(default_factory=dict)  # settings, including those chosen by search
    entries: int = 0  # soft targets that were added
    seconds: dict[str, float] = field(default_factory=dict)  # of "teacher", "soft labels" and "student"


def score_bins(probabilities: AnyArray, hits: Bools, number: int = BINS) -> tuple[ScoreBin, ...]:
    """Put candidates into bins of equal width by their probability.

    Args:
        probabilities: (candidates,) in [0, 1].
        hits: (candidates,) whether each is right.
        number: of bins.

    Returns:
        The bins that hold a candidate, from low to high.
    """
    step = np.minimum((probabilities * number).astype(np.int64), number - 1)
    counts = np.bincount(step, minlength=number)
    scores = np.bincount(step, weights=probabilities, minlength=number)
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
    """Measure the error of predicted probabilities by label frequency.

    All pairs of a document and a label count: a label that is not predicted has probability 0. Targets are outcomes,
    not probabilities, so the error is larger than the distance to the true probabilities.

    Args:
        found: predictions whose scores are probabilities.
        data: the documents with their targets.

    Returns:
        Bins of labels whose training counts lie between a power of two and the next, rarest first.
    """
    labels = data.labels
    filled = found.indices >= 0
    right = found.hits(data.targets)[filled]
    # Start as if nothing were predicted (each positive adds 1), then correct the pairs that are.
    error: Doubles = np.bincount(data.targets.indices, minlength=len(labels)).astype(np.float64)
    change = np.abs(right - found.scores[filled].astype(np.float64)) - right
    error += np.bincount(found.indices[filled], weights=change, minlength=len(labels))
    known = labels.counts > 0
    doubled = np.ceil(np.log2(np.maximum(labels.counts, 1))).astype(np.int64)
    bins = []
    for place in np.unique(doubled[known]).tolist():
        members = known & (doubled == place)
        counts = labels.counts[members]
        bins.append(
            ErrorBin(
                low=int(counts.min()),
                high=int(counts.max()),
                labels=len(counts),
                middle=float(np.exp(np.log(counts).mean())),
                error=float(error[members].sum() / max(len(data) * len(counts), 1)),
            )
        )
    return tuple(bins)
