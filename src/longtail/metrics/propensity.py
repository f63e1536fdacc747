"""Inverse propensities: how much a hit on each label weighs in the propensity-scored measures.

Counts and the constants A and B come from the label set, so a re-ranker, a measure and a saved model use the same ones.
Counts are those of the whole training file, as in published figures: before valid is held out and before anything is
added.
"""

from __future__ import annotations

import math

import numpy as np

from longtail.arrays import Doubles, Ints
from longtail.data.labels import LabelSet


def inverse_propensity(labels: LabelSet, rows: Ints | None = None) -> Doubles:
    """Compute 1 + C (n + B)^-A for each label, with C = (ln N - 1)(B + 1)^A.

    n is the label's count and N the number of rows in the original training set. The label set keeps both, so rows and
    entries that a tail method adds do not change them. Below three training rows ln N - 1 is negative and would make
    weights smaller than 1; there C is 0 and every label weighs 1.

    Args:
        labels: with training counts, the number of training rows, and the constants A and B.
        rows: label rows, of any shape; none: all labels.

    Returns:
        (labels,), or of the shape of `rows`; float64, at least 1.
    """
    a, b = labels.propensity.a, labels.propensity.b
    scale = max(0.0, math.log(max(1, labels.train_rows)) - 1.0) * (b + 1.0) ** a  # C
    if scale == 0.0 or len(labels) == 0:
        return np.ones(len(labels) if rows is None else rows.shape, dtype=np.float64)
    counts = labels.counts if rows is None else labels.counts[rows]
    weights: Doubles = 1.0 + scale * (counts + b) ** -a
    return weights
