"""Calibration of probabilities: bins, expected calibration error, and what a teacher is worth on held-out data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from longtail.arrays import AnyArray, Bools
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
class FrequencyBin:
    """Labels of similar frequency, and what a teacher gave them on held-out data.

    The teacher's distance to the true probabilities is not here: targets are drawn once for each pair, so no data tells
    a wrong probability from an unlikely outcome.
    """

    low: int  # smallest and largest training count of a label
    high: int
    labels: int
    positives: int  # of the held-out documents
    found: int  # positives among the pairs that got a relevance
    expected: float  # sum of the relevances; equal to `found` where they are calibrated


@dataclass(frozen=True)
class Teaching:
    """What a tail method with a teacher did: how good the teacher was, what it added, and the time of each part."""

    teacher: str
    used: str = ""  # the name of the calibration whose probabilities became targets
    calibrations: tuple[Calibration, ...] = ()
    above: float = 0.0  # similarity from which on candidates count in `calibrations`
    frequencies: tuple[FrequencyBin, ...] = ()
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


def frequency_bins(found: Predictions, data: Dataset) -> tuple[FrequencyBin, ...]:
    """Compare predicted probabilities with hits by label frequency.

    Args:
        found: predictions whose scores are probabilities.
        data: the documents with their targets.

    Returns:
        Bins of labels whose training counts lie between a power of two and the next, rarest first.
    """
    labels = data.labels
    filled = found.indices >= 0
    right = found.hits(data.targets)[filled]
    number, named = len(labels), found.indices[filled]
    positives = np.bincount(data.targets.indices, minlength=number)
    hits = np.bincount(named, weights=right, minlength=number)
    expected = np.bincount(named, weights=found.scores[filled], minlength=number)
    doubled = np.ceil(np.log2(np.maximum(labels.counts, 1))).astype(np.int64)
    bins = []
    for place in np.unique(doubled[labels.counts > 0]).tolist():
        members = (labels.counts > 0) & (doubled == place)
        counts = labels.counts[members]
        bins.append(
            FrequencyBin(
                low=int(counts.min()),
                high=int(counts.max()),
                labels=len(counts),
                positives=int(positives[members].sum()),
                found=int(hits[members].sum()),
                expected=float(expected[members].sum()),
            )
        )
    return tuple(bins)
