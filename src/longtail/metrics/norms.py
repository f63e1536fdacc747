"""Norms of classifier rows by label frequency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import Floats, Longs


@dataclass(frozen=True)
class NormBin:
    """Labels of similar frequency: their training counts lie between a power of two and the next."""

    low: int  # smallest and largest training count of a label
    high: int
    labels: int
    middle: float  # geometric mean of the training counts
    mean: float  # of the norms
    lowest: float  # 10th percentile of the norms
    highest: float  # 90th percentile of the norms


def norm_bins(norms: Floats, counts: Longs) -> tuple[NormBin, ...]:
    """Summarise the norms of classifier rows in bins of label frequency.

    Args:
        norms: (labels,) norm of each label's classifier row, NaN for a label without one.
        counts: (labels,) training counts.

    Returns:
        Bins of labels with counts 1, 2, 3 to 4, 5 to 8 and so on, rarest first. Labels without a classifier row or
        without a training example are left out.
    """
    known = np.isfinite(norms) & (counts > 0)
    finite, rows = norms[known].astype(np.float64), counts[known]
    doubled = np.ceil(np.log2(rows)).astype(np.int64)
    found = []
    for number in np.unique(doubled):
        members, member_counts = finite[doubled == number], rows[doubled == number]
        lowest, highest = np.quantile(members, [0.1, 0.9])
        middle = float(np.exp(np.log(member_counts).mean()))
        size = (int(member_counts.min()), int(member_counts.max()), len(members))
        found.append(NormBin(*size, middle, float(members.mean()), float(lowest), float(highest)))
    return tuple(found)
