"""How long classifier rows are, by how frequent their labels are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import Floats, Longs


@dataclass(frozen=True)
class NormBin:
    """Labels of about the same frequency: their numbers of training rows lie between a power of two and the next."""

    low: int  # least and most training rows of a label
    high: int
    labels: int
    middle: float  # geometric mean of the training rows
    mean: float  # of the lengths
    lowest: float  # a tenth of the labels has shorter rows
    highest: float  # a tenth of the labels has longer rows


def norm_bins(norms: Floats, counts: Longs) -> tuple[NormBin, ...]:
    """Labels with a row and a training row, in bins that double: 1, 2, 3 to 4, 5 to 8 and so on; rarest first."""
    known = np.isfinite(norms) & (counts > 0)
    lengths, rows = norms[known].astype(np.float64), counts[known]
    doubled = np.ceil(np.log2(rows)).astype(np.int64)
    found = []
    for number in np.unique(doubled):
        mine, held = lengths[doubled == number], rows[doubled == number]
        lowest, highest = np.quantile(mine, [0.1, 0.9])
        middle = float(np.exp(np.log(held).mean()))
        size = (int(held.min()), int(held.max()), len(mine))
        found.append(NormBin(*size, middle, float(mine.mean()), float(lowest), float(highest)))
    return tuple(found)
