"""Labels by training count: equi-volume bins, bands (head, torso, tail, unseen) and Pos-80%."""

from __future__ import annotations

import numpy as np

from longtail.arrays import Ints, Longs
from longtail.data.labels import LabelSet
from longtail.errors import DataError

BANDS = ("head", "torso", "tail", "unseen")
TAIL_ROWS = 5  # a label with at most this many training examples is tail


def equi_volume_bins(labels: LabelSet, bins: int = 5) -> Ints:
    """Cut labels into bins with equal shares of the training positives.

    Labels are sorted by training count, largest first, ties by row. A label belongs to the share in which its
    first positive lies, so a label larger than a share leaves the next bin empty.

    Args:
        labels: with their training counts.
        bins: number of bins.

    Returns:
        (labels,) int32: 0 for the most frequent labels, -1 for those never seen in training.

    Raises:
        DataError: `bins` is below 1.
    """
    if bins < 1:
        raise DataError(f"label frequencies need at least 1 bin, got {bins}")
    total = max(1, int(labels.counts.sum()))
    share = _positives_before(labels) * bins // total
    return np.where(labels.counts > 0, share, -1).astype(np.int32)


def bands(labels: LabelSet) -> Ints:
    """Assign each label to a band.

    unseen: no training example. tail: 1 to 5 examples. head: more than 5 examples, and among the most
    frequent labels that together hold the first half of the training positives. torso: the rest.

    Args:
        labels: with their training counts.

    Returns:
        (labels,) int32, the index into `BANDS`.
    """
    counts = labels.counts
    in_first_half = 2 * _positives_before(labels) < counts.sum()
    band = np.where(in_first_half, BANDS.index("head"), BANDS.index("torso"))
    band[counts <= TAIL_ROWS] = BANDS.index("tail")
    band[counts == 0] = BANDS.index("unseen")
    return band.astype(np.int32)


def pos80(labels: LabelSet) -> float:
    """Compute Pos-80%: the percentage of labels, most frequent first, that hold 80% of the training positives.

    Args:
        labels: with their training counts.

    Returns:
        A percentage of all labels, including those never seen in training.
    """
    positives = np.cumsum(np.sort(labels.counts)[::-1])
    if len(positives) == 0 or positives[-1] == 0:
        return 0.0
    needed = int(np.searchsorted(5 * positives, 4 * positives[-1])) + 1  # integers: 0.8 has no exact float
    return 100.0 * needed / len(labels)


def _positives_before(labels: LabelSet) -> Longs:
    """For each label, the training positives of all labels that are more frequent, or as frequent and earlier."""
    order = np.argsort(-labels.counts, kind="stable")
    counts = labels.counts[order]
    before = np.empty_like(counts)
    before[order] = np.cumsum(counts) - counts
    return before
