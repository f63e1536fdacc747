"""Words that may stand for each other: vectors of words from the rows they stand in, and texts with words replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from longtail.arrays import Floats, Ints, Matrix
from longtail.data.dataset import Dataset
from longtail.linear.text import Features
from longtail.linear.words import Words

BLOCK = 4096  # texts held as words at a time
ROUNDS = 4  # of multiplying with the rows; more hardly turn the directions that count
_cut = re.compile(r"(\W+)").split


def own_words(train: Dataset, most: int) -> tuple[tuple[str, ...], Matrix]:
    """The words that stand in the most training rows, at least two, and the rows' tf-idf vectors over them."""
    features, vectors = Features.learn(train, Words(min_rows=2, max_columns=most))
    assert features.vocabulary is not None
    return features.vocabulary.words, vectors


def word_vectors(rows: Matrix, dimension: int, seed: int = 0) -> Floats:
    """Vectors of words that stand in like rows (latent semantic analysis): (words, dimension) at most.

    The right singular vectors of the rows times the singular values, by a random start and a few rounds of
    multiplication: a pass over the entries each, never a matrix of words by words.
    """
    wide = min(dimension + 8, *rows.shape)  # a few more than asked, so that the last ones asked are right too
    turned = rows.T.tocsr()
    basis = np.random.default_rng(seed).standard_normal((rows.shape[1], wide)).astype(np.float32)
    for _ in range(ROUNDS):
        basis = np.linalg.qr(turned @ (rows @ basis))[0].astype(np.float32)
    _, values, turn = np.linalg.svd(rows @ basis, full_matrices=False)
    vectors: Floats = (basis @ turn.T * values)[:, :dimension].astype(np.float32)
    return vectors


@dataclass(frozen=True, eq=False)
class Synonyms:
    """For each word, the words that may take its place."""

    words: tuple[str, ...]
    near: Ints  # (words, most), nearest first, -1 behind the last

    @classmethod
    def of(cls, words: Sequence[str], found: Ints, cosines: Floats, most: int, least: float) -> Synonyms:
        """From the nearest of each word, itself among them, and their cosines (words, places): the first `most` others
        of at least `least`."""
        other = (found != np.arange(len(words))[:, None]) & (cosines >= least)
        near = np.full((len(words), most), -1, dtype=np.int32)
        row, place = np.nonzero(other)
        rank = np.cumsum(other, axis=1)[row, place] - 1
        fits = rank < most
        near[row[fits], rank[fits]] = found[row[fits], place[fits]]
        return cls(tuple(words), near)

    def swapped(self, texts: Sequence[str], change: float, chance: np.random.Generator) -> list[str | None]:
        """Each text with each word that has synonyms replaced with this chance, one word at the least; None where no
        word has any. What stands between the words stays."""
        number = {word: row for row, word in enumerate(self.words)}
        choices = (self.near >= 0).sum(axis=1)
        made: list[str | None] = []
        for begin in range(0, len(texts), BLOCK):
            pieces = [_cut(text) for text in texts[begin : begin + BLOCK]]
            held = [piece for row in pieces for piece in row]
            starts = np.concatenate([[0], np.cumsum([len(row) for row in pieces])])
            known = np.array([number.get(piece.lower(), -1) for piece in held], dtype=np.int64)
            free = (known >= 0) & (choices[known] > 0)
            draws = np.where(free, chance.random(len(held)), 2.0)
            least = np.repeat(np.minimum.reduceat(draws, starts[:-1]), np.diff(starts))
            spots = np.flatnonzero(free & ((draws < change) | (draws == least)))
            word = known[spots]
            for spot, other in zip(
                spots.tolist(), self.near[word, chance.integers(0, choices[word])].tolist(), strict=True
            ):
                held[spot] = self.words[other]
            any_free = np.maximum.reduceat(free, starts[:-1]).tolist()
            made += [
                "".join(held[first:last]) if some else None
                for (first, last), some in zip(pairwise(starts.tolist()), any_free, strict=True)
            ]
        return made
