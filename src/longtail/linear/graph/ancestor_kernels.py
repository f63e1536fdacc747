"""The compiled pass over ranked labels that looks for labels above them."""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.arrays import Floats, Ints, Longs

BEHIND = np.float32(1 - 2**-22)  # just less than 1: the narrower label keeps its place before those above it


@njit(nogil=True, cache=True)
def change_answers(
    indices: Ints, scores: Floats, starts: Longs, above: Longs, excluded: bool, new_indices: Ints, new_scores: Floats
) -> None:
    """Write what `ancestors.answers_with_ancestors` returns into `new_indices` and `new_scores`.

    Args:
        indices: (rows, places) label rows, -1 = no label.
        scores: (rows, places).
        starts: (labels + 1,)
        above: (pairs,)
        excluded: see there.
        new_indices: (rows, places) the labels; some become -1.
        new_scores: (rows, places) the scores.
    """
    # Safe: `Predictions` holds the labels among them; `starts` and `above` are of a csr matrix with a row for each
    # label, which `csr` declares for a saved model.
    rows, places = indices.shape
    for row in range(rows):
        for lower in range(places):
            label = indices[row, lower]
            if label < 0 or starts[label] == starts[label + 1]:
                continue
            higher = above[starts[label] : starts[label + 1]]
            for place in range(places):
                other = indices[row, place]
                if other < 0:
                    continue
                at = np.searchsorted(higher, other)
                if at == len(higher) or higher[at] != other:
                    continue
                if not excluded:
                    new_scores[row, place] = max(new_scores[row, place], scores[row, lower] * BEHIND)
                elif scores[row, place] <= scores[row, lower]:
                    new_indices[row, place] = -1
                    new_scores[row, place] = 0
