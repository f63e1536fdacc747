"""How much a hit on each label weighs in the propensity-scored measures."""

from __future__ import annotations

import math

import numpy as np

from longtail.arrays import Doubles
from longtail.data.labels import LabelSet


def inverse_propensity(labels: LabelSet) -> Doubles:
    """1 + C (n + B)^-A for each label, with C = (ln N - 1)(B + 1)^A.

    n is the label's count and N the number of rows of the training set as it was given: the label set
    keeps both, so rows and entries that a tail method adds do not move them. Below three training rows
    ln N - 1 is negative and would make weights smaller than 1; C is 0 there and every label weighs 1.
    """
    a, b = labels.propensity.a, labels.propensity.b
    scale = max(0.0, math.log(max(1, labels.train_rows)) - 1.0) * (b + 1.0) ** a  # C
    if scale == 0.0 or len(labels) == 0:
        return np.ones(len(labels), dtype=np.float64)
    weights: Doubles = 1.0 + scale * (labels.counts + b) ** -a
    return weights
