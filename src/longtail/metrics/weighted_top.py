"""The best places of predictions by score x weight of the label, for many rows at once."""

from __future__ import annotations

import numpy as np

from longtail.arrays import Doubles
from longtail.predictions import Predictions
from longtail.threads import over_rows

MIN_ROWS = 1024  # a piece with fewer rows costs more than it saves


def weighted_top(predictions: Predictions, weights: Doubles, k: int) -> Predictions:
    """Find the k places of each row with the largest score x weight.

    Args:
        predictions: candidates.
        weights: (labels,) a factor for each label.
        k: places to keep, at least 1.

    Returns:
        Those places, the largest product first, ties by label row; scores stay as they are.
    """
    from longtail.metrics import kernels  # Numba takes a while to import

    rows, k = len(predictions), min(k, predictions.places)
    best = np.full((rows, k), -1, dtype=np.int32)
    kept = np.zeros((rows, k), dtype=np.float32)
    if k:
        over_rows(
            lambda low, high: kernels.heaviest_places(
                predictions.indices, predictions.scores, weights, low, high, best, kept
            ),
            rows,
            MIN_ROWS,
        )
    return Predictions(predictions.labels, best, kept)
