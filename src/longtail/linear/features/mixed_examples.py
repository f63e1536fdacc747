"""Two examples made into one: part of the words of each, or the weighted mean of their features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse

from longtail.arrays import Doubles, Longs, Matrix
from longtail.data.dataset import Rows

BLOCK = 4096  # texts that are split into words at a time


def mixed(first: Rows, second: Rows, parts: Doubles, rng: np.random.Generator) -> Rows:
    """Examples that are `parts` the first and 1 - `parts` the second.

    Args:
        first: the first example of each pair.
        second: the second example of each pair.
        parts: weight of the first (rows,), from 0 to 1.
        rng: draws the words.

    Returns:
        The mixed examples: texts where both have texts, features where both have features.
    """
    texts = features = None
    if first.texts is not None and second.texts is not None:
        texts = tuple(mixed_texts(first.texts, second.texts, parts, rng))
    if first.features is not None and second.features is not None:
        features = mixed_matrix(first.features, second.features, parts)
    return Rows(texts=texts, features=features)


def mixed_texts(first: Sequence[str], second: Sequence[str], parts: Doubles, rng: np.random.Generator) -> list[str]:
    """Words of the first text, each kept with probability `part`, then words of the second, each kept with 1 - part; at
    least one of each.

    The expected word counts of such a text are part x first + (1 - part) x second, so for a bag of words this is mixup
    in expectation. An encoder that reads words in order sees two incomplete texts, one after the other.

    Args:
        first: one text for each row.
        second: one text for each row.
        parts: probability of a word of the first (rows,).
        rng: draws the words.

    Returns:
        The mixed texts.
    """
    made: list[str] = []
    for begin in range(0, len(first), BLOCK):
        share = parts[begin : begin + BLOCK]
        left = thinned(first[begin : begin + BLOCK], share, rng)
        right = thinned(second[begin : begin + BLOCK], 1 - share, rng)
        made += [f"{one} {other}" for one, other in zip(left, right, strict=True)]
    return made


def thinned(texts: Sequence[str], keep: Doubles, rng: np.random.Generator) -> list[str]:
    """Texts with words dropped at random; at least one word of a text stays.

    Args:
        texts: the texts.
        keep: probability that a word of each text stays (texts,).
        rng: draws the words.

    Returns:
        The shorter texts, words separated by one space.
    """
    words = [text.split() for text in texts]
    lengths: Longs = np.array([len(row) for row in words], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    draws = rng.random(int(starts[-1]))
    filled = lengths > 0
    smallest = np.minimum.reduceat(draws, starts[:-1][filled]) if filled.any() else draws
    kept = (draws < np.repeat(keep, lengths)) | (draws == np.repeat(smallest, lengths[filled]))
    ends = np.concatenate([[0], np.cumsum(kept)])[starts]
    flat = [word for row in words for word in row]
    picked = [flat[place] for place in np.flatnonzero(kept).tolist()]
    return [" ".join(picked[begin:end]) for begin, end in pairwise(ends.tolist())]


def mixed_matrix(first: Matrix, second: Matrix, parts: Doubles) -> Matrix:
    """parts x first + (1 - parts) x second, row by row.

    Args:
        first: csr (rows, columns).
        second: csr (rows, columns).
        parts: weight of the first (rows,).

    Returns:
        csr float32 (rows, columns), without zeros.
    """
    summed = _scaled(first, parts) + _scaled(second, 1 - parts)
    result = sparse.csr_array(summed, dtype=np.float32)
    result.eliminate_zeros()  # very small parts underflow
    return result


def _scaled(matrix: Matrix, parts: Doubles) -> Matrix:
    data = matrix.data * np.repeat(parts, np.diff(matrix.indptr))
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
