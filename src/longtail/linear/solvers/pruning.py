"""Small weights dropped: dense tables of classifiers become sparse ones."""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Floats, Ints, Longs
from longtail.linear.solvers.numba_compile import KERNEL, ZERO

TINY = np.finfo(np.float32).tiny


def pruned(weights: Floats, names: Ints, children: int, min_weight: Floats) -> tuple[Ints, Longs, AnyArray, Floats]:
    """The weights that are large enough, by feature, in the order of the table.

    Args:
        weights: (features + 1, lanes), the last row is the bias, which is left out.
        names: number of each feature in the result (features,).
        children: how many of the lanes hold a child.
        min_weight: smaller weights are dropped, zeros always; one number or (children,).

    Returns:
        Features that keep a weight, starts (features + 1,), children (uint8) and values.
    """
    features, lanes = weights.shape[0] - 1, weights.shape[1]
    bound = np.full(lanes, np.inf, dtype=np.float32)  # lanes without a child keep nothing
    bound[:children] = np.maximum(min_weight, TINY)
    which, kept = np.empty(features * lanes, dtype=np.uint8), np.empty(features * lanes, dtype=np.float32)
    lines, starts = np.empty(features + 1, dtype=np.int32), np.empty(features + 1, dtype=np.int64)
    large = np.zeros(-(-lanes // 8) * 8, dtype=np.uint8)
    found = _prune(weights, bound, large, large.view(np.uint64), which, kept, lines, starts)
    few = int(starts[found])  # one in thirty
    return names[lines[:found]], starts[: found + 1].copy(), which[:few].copy(), kept[:few].copy()


@njit(**KERNEL)
def _prune(weights, bound, large, eight, which, kept, lines, starts):  # type: ignore[no-untyped-def]
    """Fill the last four arrays from the front; returns the number of features that keep a weight.

    `eight` is `large` (lanes,) as integers of eight bytes: most are 0, and eight lanes are skipped at once.
    """
    found, at = ZERO, ZERO
    lanes = weights.shape[1]
    for feature in range(np.uintp(weights.shape[0] - 1)):
        lines[found], starts[found] = feature, at
        for lane in range(np.uintp(lanes)):
            large[lane] = abs(weights[feature, lane]) >= bound[lane]
        for group in range(np.uintp(len(eight))):
            if eight[group] != 0:
                for lane in range(np.uintp(8) * group, min(np.uintp(8) * group + np.uintp(8), np.uintp(lanes))):
                    which[at], kept[at] = lane, weights[feature, lane]  # a small weight is overwritten by the next
                    at += large[lane]
        found += at > starts[found]
    starts[found] = at
    return found
