"""Words that may replace each other: word vectors from the training examples, and texts with words replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from longtail.arrays import Floats, Ints, Matrix
from longtail.data.dataset import Dataset
from longtail.linear.features.sparse_features import Features
from longtail.linear.features.word_counts import WordCounts

BLOCK = 4096  # texts that are split into words at a time
ROUNDS = 4  # power iterations; more hardly change the leading directions
OVERSAMPLING = 8  # directions beyond those asked for, so that the last ones asked for are right too
_split = re.compile(r"(\W+)").split


def own_words(train: Dataset, max_words: int) -> tuple[tuple[str, ...], Matrix]:
    """The most frequent words of the training examples, each in at least two of them.

    Args:
        train: examples with texts.
        max_words: how many words at most.

    Returns:
        The words, and the examples' tf-idf vectors over them: csr (rows, words).
    """
    features, vectors = Features.learn(train, WordCounts(min_df=2, max_features=max_words))
    assert features.vocabulary is not None
    return features.vocabulary.words, vectors


def word_vectors(rows: Matrix, dimension: int, seed: int = 0) -> Floats:
    """Vectors of words, near each other where the words are in similar rows (latent semantic analysis).

    The right singular vectors of the rows times the singular values, by randomised power iteration: each round is a
    pass over the entries, never a matrix of words by words.

    Args:
        rows: tf-idf vectors, csr (rows, words).
        dimension: of the vectors, at most.
        seed: of the random start.

    Returns:
        (words, dimension), or fewer dimensions where the rows have fewer.
    """
    wide = min(dimension + OVERSAMPLING, *rows.shape)
    transposed = rows.T.tocsr()
    basis = np.random.default_rng(seed).standard_normal((rows.shape[1], wide)).astype(np.float32)
    for _ in range(ROUNDS):
        basis = np.linalg.qr(transposed @ (rows @ basis))[0].astype(np.float32)
    _, values, turn = np.linalg.svd(rows @ basis, full_matrices=False)
    vectors: Floats = (basis @ turn.T * values)[:, :dimension].astype(np.float32)
    return vectors


@dataclass(frozen=True, eq=False)
class Synonyms:
    """For each word, the words that may replace it."""

    words: tuple[str, ...]
    near: Ints  # (words, synonyms), nearest first, -1 behind the last

    @classmethod
    def of(
        cls, words: Sequence[str], found: Ints, cosines: Floats, max_synonyms: int, min_similarity: float
    ) -> Synonyms:
        """Synonyms from the nearest neighbours of each word.

        Args:
            words: the words.
            found: the nearest words of each word, itself among them (words, places).
            cosines: their cosines (words, places).
            max_synonyms: how many of the others to take at most.
            min_similarity: smallest cosine.

        Returns:
            The synonyms.
        """
        other = (found != np.arange(len(words))[:, None]) & (cosines >= min_similarity)
        near = np.full((len(words), max_synonyms), -1, dtype=np.int32)
        row, place = np.nonzero(other)
        rank = np.cumsum(other, axis=1)[row, place] - 1
        fits = rank < max_synonyms
        near[row[fits], rank[fits]] = found[row[fits], place[fits]]
        return cls(tuple(words), near)

    def swapped(self, texts: Sequence[str], probability: float, rng: np.random.Generator) -> list[str | None]:
        """Texts with words replaced by synonyms. Everything between the words stays.

        Args:
            texts: the texts.
            probability: that a word with synonyms is replaced; at least one word of a text is.
            rng: draws the words and their synonyms.

        Returns:
            The new texts; None where no word of the text has a synonym.
        """
        number = {word: row for row, word in enumerate(self.words)}
        choices = (self.near >= 0).sum(axis=1)
        made: list[str | None] = []
        for begin in range(0, len(texts), BLOCK):
            pieces = [_split(text) for text in texts[begin : begin + BLOCK]]
            flat = [piece for row in pieces for piece in row]
            starts = np.concatenate([[0], np.cumsum([len(row) for row in pieces])])
            known = np.array([number.get(piece.lower(), -1) for piece in flat], dtype=np.int64)
            free = (known >= 0) & (choices[known] > 0)
            draws = np.where(free, rng.random(len(flat)), 2.0)
            smallest = np.repeat(np.minimum.reduceat(draws, starts[:-1]), np.diff(starts))
            spots = np.flatnonzero(free & ((draws < probability) | (draws == smallest)))
            word = known[spots]
            for spot, other in zip(
                spots.tolist(), self.near[word, rng.integers(0, choices[word])].tolist(), strict=True
            ):
                flat[spot] = self.words[other]
            any_free = np.maximum.reduceat(free, starts[:-1]).tolist()
            made += [
                "".join(flat[first:last]) if replaced else None
                for (first, last), replaced in zip(pairwise(starts.tolist()), any_free, strict=True)
            ]
        return made
