"""Two rows made into one: part of the words of each, or the weighted mean of their features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse

from longtail.arrays import Doubles, Longs, Matrix
from longtail.data.dataset import Rows

BLOCK = 4096  # texts held as words at a time


def mixed(first: Rows, second: Rows, parts: Doubles, chance: np.random.Generator) -> Rows:
    """Rows that are `parts` the first and 1 - parts the second: (rows,) each."""
    texts = features = None
    if first.texts is not None and second.texts is not None:
        texts = tuple(mixed_texts(first.texts, second.texts, parts, chance))
    if first.features is not None and second.features is not None:
        features = mixed_matrix(first.features, second.features, parts)
    return Rows(texts=texts, features=features)


def mixed_texts(first: Sequence[str], second: Sequence[str], parts: Doubles, chance: np.random.Generator) -> list[str]:
    """Words of the first text, each kept with chance `part`, then words of the second, each with chance 1 - part; one
    of each at the least.

    The mean word counts of such texts are part x first + (1 - part) x second, so for a bag of words this is mixing up
    to chance; encoders that read words in order see two torn texts, one after the other.
    """
    made: list[str] = []
    for begin in range(0, len(first), BLOCK):
        share = parts[begin : begin + BLOCK]
        left = thinned(first[begin : begin + BLOCK], share, chance)
        right = thinned(second[begin : begin + BLOCK], 1 - share, chance)
        made += [f"{one} {other}" for one, other in zip(left, right, strict=True)]
    return made


def thinned(texts: Sequence[str], keep: Doubles, chance: np.random.Generator) -> list[str]:
    """Each text with each of its words kept with the text's chance, one word at the least."""
    words = [text.split() for text in texts]
    lengths: Longs = np.array([len(row) for row in words], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    draws = chance.random(int(starts[-1]))
    filled = lengths > 0
    least = np.minimum.reduceat(draws, starts[:-1][filled]) if filled.any() else draws
    kept = (draws < np.repeat(keep, lengths)) | (draws == np.repeat(least, lengths[filled]))
    ends = np.concatenate([[0], np.cumsum(kept)])[starts]
    held = [word for row in words for word in row]
    picked = [held[place] for place in np.flatnonzero(kept).tolist()]
    return [" ".join(picked[begin:end]) for begin, end in pairwise(ends.tolist())]


def mixed_matrix(first: Matrix, second: Matrix, parts: Doubles) -> Matrix:
    """parts x first + (1 - parts) x second, row by row: csr float32."""
    summed = _scaled(first, parts) + _scaled(second, 1 - parts)
    result = sparse.csr_array(summed, dtype=np.float32)
    result.eliminate_zeros()  # of parts too small for a number
    return result


def _scaled(matrix: Matrix, parts: Doubles) -> Matrix:
    data = matrix.data * np.repeat(parts, np.diff(matrix.indptr))
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
