"""Noisy copies of rows: some of their words or values dropped, some trading places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import Bools, Longs, Matrix

BLOCK = 1024  # texts held as words at a time


def noisy_texts(texts: Sequence[str], keep: float, swap: float, chance: np.random.Generator) -> list[str]:
    """One copy of each text. Words are what white space separates, so that a copy keeps its commas and capitals."""
    copies: list[str] = []
    for begin in range(0, len(texts), BLOCK):
        words = [text.split() for text in texts[begin : begin + BLOCK]]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in words], dtype=np.int64)])
        sources, kept = scramble(starts, keep, swap, chance)
        held = [word for row in words for word in row]
        ends = np.concatenate([[0], np.cumsum(kept)])[starts]  # where each row ends once words are dropped
        picked = [held[source] for source in sources[kept].tolist()]
        copies += [" ".join(picked[first:last]) for first, last in pairwise(ends.tolist())]
    return copies


def noisy_features(features: Matrix, keep: float, swap: float, chance: np.random.Generator) -> Matrix:
    """One copy of each row. Values trade places among the row's own features, so no feature is new to its row."""
    starts = features.indptr.astype(np.int64)
    sources, kept = scramble(starts, keep, swap, chance)
    ends = np.concatenate([[0], np.cumsum(kept)])[starts]
    return sparse.csr_array((features.data[sources][kept], features.indices[kept], ends), shape=features.shape)


def scramble(starts: Longs, keep: float, swap: float, chance: np.random.Generator) -> tuple[Longs, Bools]:
    """Which entry comes to stand at each place, and which places stay.

    starts: (rows + 1,), the entries of row r are starts[r] to starts[r + 1]. A share `swap` of a row's entries trades
    places in pairs, one pair at the least; each place stays with chance `keep`, one of a row at the least.
    """
    lengths, total = np.diff(starts), int(starts[-1])
    sources = np.arange(total, dtype=np.int64)
    if swap > 0:
        pairs = np.where(lengths > 1, np.maximum(np.rint(swap * lengths / 2), 1), 0).astype(np.int64)
        _trade(starts, pairs, chance.random((int(pairs.sum()), 2)), sources)
    if keep == 1 or total == 0:
        return sources, np.ones(total, dtype=np.bool_)
    draws = chance.random(total)
    filled = lengths > 0
    least = np.minimum.reduceat(draws, starts[:-1][filled])  # the row's smallest draw always stays
    return sources, (draws < keep) | (draws == np.repeat(least, lengths[filled]))


@njit(nogil=True, cache=True)
def _trade(starts, pairs, draws, sources):  # type: ignore[no-untyped-def]
    """Swap pairs of different places of a row, one pair after the other."""
    drawn = 0
    for row in range(len(pairs)):
        begin, size = starts[row], starts[row + 1] - starts[row]
        for _ in range(pairs[row]):
            first = int(draws[drawn, 0] * size)
            second = (first + 1 + int(draws[drawn, 1] * (size - 1))) % size
            drawn += 1
            sources[begin + first], sources[begin + second] = sources[begin + second], sources[begin + first]
