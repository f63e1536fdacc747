"""The best labels by the mean of their buckets' scores, exactly: each label's score is read from one small table of the
row, once a repetition."""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit

from longtail.arrays import Floats, Ints
from longtail.search.select import Best, ordered
from longtail.threads import over_rows

ROWS = 256  # at once
CHUNK = 1 << 14  # labels at once: 16 MB of scores


def top_labels(scores: Floats, tables: Ints, k: int) -> tuple[Ints, Floats]:
    """Find the labels with the largest mean score of their buckets.

    Args:
        scores: (rows, repetitions x buckets) float32.
        tables: (repetitions, labels) int32, the bucket of each label.
        k: number of labels for each row, at most as many as there are.

    Returns:
        Labels (int32) and mean scores (float32), each (rows, k), best first, ties in order of the label.
    """
    repetitions, labels = tables.shape
    buckets = scores.shape[1] // repetitions
    places = np.ascontiguousarray((tables + buckets * np.arange(repetitions, dtype=np.int32)[:, None]).T)
    found, values = np.empty((len(scores), k), np.int32), np.empty((len(scores), k), np.float32)
    for start in range(0, len(scores), ROWS):
        part = np.ascontiguousarray(scores[start : start + ROWS], dtype=np.float32)
        best = Best.none(len(part), k, np.int32)
        for first in range(0, labels, CHUNK):
            means = np.empty((len(part), min(CHUNK, labels - first)), np.float32)
            over_rows(partial(_means, part, places[first : first + CHUNK], means), len(part), least=16)
            best.keep(means.view(np.int32), first)
        found[start : start + ROWS], values[start : start + ROWS] = ordered(*best.cut())
    return found, values


@njit(nogil=True, cache=True)
def _means(scores, places, means, low, high):  # type: ignore[no-untyped-def]
    # Safe: `HashedScorer.declared` holds every bucket below `buckets`, the scores of a repetition.
    labels, repetitions = places.shape
    for row in range(low, high):
        for label in range(labels):
            total = np.float32(0)
            for repetition in range(repetitions):
                total += scores[row, places[label, repetition]]
            means[row, label] = total / np.float32(repetitions)
