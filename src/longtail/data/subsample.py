"""A fixed subsample of a data set's rows, for work that need not see all of them."""

from __future__ import annotations

import numpy as np

from longtail.arrays import Longs


def evenly_spaced(rows: int, most: int) -> Longs:
    """Row numbers that are evenly spaced from the first row to the last: the same ones in every run.

    Args:
        rows: how many rows there are.
        most: how many of them are taken at most.

    Returns:
        (min(rows, most),) row numbers in rising order, int64; all rows where there are no more than `most`.
    """
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.int64))
