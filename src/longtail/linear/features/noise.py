"""Noisy copies of examples: some of their words or values are dropped, some trade places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import Bools, Longs, Matrix

BLOCK = 1024  # texts that are split into words at a time


def noisy_texts(texts: Sequence[str], keep: float, swap: float, rng: np.random.Generator) -> list[str]:
    """One noisy copy of each text. Words are separated by white space, so a copy keeps its commas and capitals.

    Args:
        texts: the texts.
        keep: probability that a word stays.
        swap: share of a text's words that trade places.
        rng: draws the noise.

    Returns:
        The copies.
    """
    copies: list[str] = []
    for begin in range(0, len(texts), BLOCK):
        words = [text.split() for text in texts[begin : begin + BLOCK]]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in words], dtype=np.int64)])
        sources, kept = scramble(starts, keep, swap, rng)
        flat = [word for row in words for word in row]
        ends = np.concatenate([[0], np.cumsum(kept)])[starts]  # where each row ends once words are dropped
        picked = [flat[source] for source in sources[kept].tolist()]
        copies += [" ".join(picked[first:last]) for first, last in pairwise(ends.tolist())]
    return copies


def noisy_features(features: Matrix, keep: float, swap: float, rng: np.random.Generator) -> Matrix:
    """One noisy copy of each row. Values trade places among the row's own features, so no feature is new to its row.

    Args:
        features: csr (rows, columns).
        keep: probability that an entry stays.
        swap: share of a row's values that trade places.
        rng: draws the noise.

    Returns:
        The copies: csr (rows, columns).
    """
    starts = features.indptr.astype(np.int64)
    sources, kept = scramble(starts, keep, swap, rng)
    ends = np.concatenate([[0], np.cumsum(kept)])[starts]
    return sparse.csr_array((features.data[sources][kept], features.indices[kept], ends), shape=features.shape)


def scramble(starts: Longs, keep: float, swap: float, rng: np.random.Generator) -> tuple[Longs, Bools]:
    """Swap and drop entries of rows at random.

    Args:
        starts: (rows + 1,), row r has the entries starts[r] to starts[r + 1].
        keep: probability that a place stays; at least one of a row does.
        swap: share of a row's entries that trade places in pairs; at least one pair where it is above 0.
        rng: draws pairs and places.

    Returns:
        The entry that is now at each place (entries,), and which places stay (entries,).
    """
    lengths, total = np.diff(starts), int(starts[-1])
    sources = np.arange(total, dtype=np.int64)
    if swap > 0:
        pairs = np.where(lengths > 1, np.maximum(np.rint(swap * lengths / 2), 1), 0).astype(np.int64)
        _trade(starts, pairs, rng.random((int(pairs.sum()), 2)), sources)
    if keep == 1 or total == 0:
        return sources, np.ones(total, dtype=np.bool_)
    draws = rng.random(total)
    filled = lengths > 0
    smallest = np.minimum.reduceat(draws, starts[:-1][filled])  # the place of a row's smallest draw always stays
    return sources, (draws < keep) | (draws == np.repeat(smallest, lengths[filled]))


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
