"""Labels by how often training has seen them: equal shares of the positives, bands, and Pos-80%."""

from __future__ import annotations

import numpy as np

from longtail.arrays import Ints, Longs
from longtail.data.labels import LabelSet
from longtail.errors import DataError

BANDS = ("head", "torso", "tail", "unseen")
TAIL_ROWS = 5  # a label with at most this many training rows is tail


def equi_volume_bins(labels: LabelSet, bins: int = 5) -> Ints:
    """The bin of each label: 0 holds the most frequent ones, -1 those never seen in training.

    Labels stand by training count, largest first, ties by row, and are cut into equal shares of the
    training positives. A label belongs to the share in which its first positive lies, so a label larger
    than a share leaves the next bin empty.
    """
    if bins < 1:
        raise DataError(f"label frequencies need at least 1 bin, got {bins}")
    total = max(1, int(labels.counts.sum()))
    share = _positives_before(labels) * bins // total
    return np.where(labels.counts > 0, share, -1).astype(np.int32)


def bands(labels: LabelSet) -> Ints:
    """The band of each label, as its place in `BANDS`.

    unseen: no training row. tail: 1 to 5 rows. head: more than 5 rows and among the most frequent labels
    that together hold the first half of the training positives. torso: the rest.
    """
    counts = labels.counts
    in_first_half = 2 * _positives_before(labels) < counts.sum()
    band = np.where(in_first_half, BANDS.index("head"), BANDS.index("torso"))
    band[counts <= TAIL_ROWS] = BANDS.index("tail")
    band[counts == 0] = BANDS.index("unseen")
    return band.astype(np.int32)


def pos80(labels: LabelSet) -> float:
    """Pos-80%: how many percent of all labels, the most frequent first, hold 80% of the training positives.

    All labels of the set count in the denominator, also those never seen in training.
    """
    held = np.cumsum(np.sort(labels.counts)[::-1])
    if len(held) == 0 or held[-1] == 0:
        return 0.0
    needed = int(np.searchsorted(5 * held, 4 * held[-1])) + 1  # whole numbers: 0.8 has no exact float
    return 100.0 * needed / len(labels)


def _positives_before(labels: LabelSet) -> Longs:
    """For each label, the training positives of all labels that stand before it by frequency."""
    order = np.argsort(-labels.counts, kind="stable")
    counts = labels.counts[order]
    before = np.empty_like(counts)
    before[order] = np.cumsum(counts) - counts
    return before
