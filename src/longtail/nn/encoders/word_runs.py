"""Texts as lists of weighted words, one after another: the input of nets over word vectors, cut on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Floats, Longs, Matrix
from longtail.nn.encoders.tokens import Tokens
from longtail.nn.training.to_device import to_device


@dataclass(frozen=True, eq=False)
class Run:
    """Texts of a batch, one after another, on the device."""

    words: Tensor  # (words of all texts,) int64: rows of a table of word vectors
    weights: Tensor  # (words of all texts,) float32
    starts: Tensor  # (texts,) int64
    lengths: Tensor  # (texts,) int64
    transposed: Run | None = None  # for each row of the table the texts that use it, where known


@dataclass(frozen=True, eq=False)
class Runs:
    """All documents or all labels as texts, on the host. The weights of a text have unit norm, as a tf-idf row."""

    words: Longs  # (words of all texts,)
    weights: Floats
    offsets: Longs  # (texts + 1,)

    @classmethod
    def of(cls, tokens: Tokens, idf: Floats) -> Runs:
        """Weigh tokens by tf-idf.

        Args:
            tokens: of the texts.
            idf: (words,) inverse document frequencies.

        Returns:
            The texts, their weights at unit norm.
        """
        words = np.asarray(tokens.ids, dtype=np.int64)
        weights = idf[words]
        squares = np.add.reduceat(weights * weights, tokens.offsets[:-1]) if len(tokens) else np.zeros(0, np.float32)
        norms = np.sqrt(np.maximum(squares, 1e-18))
        return cls(words, (weights / np.repeat(norms, tokens.lengths)).astype(np.float32), tokens.offsets)

    @classmethod
    def of_matrix(cls, matrix: Matrix) -> Runs:
        """Read texts off a sparse matrix.

        Args:
            matrix: csr (texts, words); entries are the weights, which are not normalised.

        Returns:
            The texts.
        """
        return cls(matrix.indices.astype(np.int64), matrix.data.astype(np.float32), matrix.indptr.astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def places(self, rows: Longs) -> tuple[Longs, Longs]:
        """Locate the words of texts.

        Args:
            rows: numbers of the texts.

        Returns:
            Positions of their words in `words`, text by text; and the number of words of each.
        """
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        ends = np.cumsum(lengths)
        return np.repeat(starts - ends + lengths, lengths) + np.arange(int(lengths.sum())), lengths

    def take(self, rows: Longs, device: torch.device, place: Longs | None = None) -> Run:
        """Copy texts to the device.

        Args:
            rows: numbers of the texts.
            device: where they go.
            place: (all words,) row of each word in the table to be read; None: its number.

        Returns:
            The texts.
        """
        where, lengths = self.places(rows)
        words = self.words[where]
        begins = np.cumsum(lengths) - lengths
        placed = words if place is None else place[words]
        weights = to_device(self.weights[where], device)
        return Run(to_device(placed, device), weights, to_device(begins, device), to_device(lengths, device))

    def whole(self, device: torch.device) -> Run:
        """Copy all texts to the device.

        Args:
            device: where they go.

        Returns:
            The texts.
        """
        return self.take(np.arange(len(self)), device)

    def transposed(self, words: int) -> Runs:
        """List, for each word, the texts that contain it.

        Args:
            words: number of all words.

        Returns:
            One list of texts for each word, with the same weights.
        """
        return Runs.of_matrix(self.matrix(words).T.tocsr())

    def matrix(self, words: int) -> Matrix:
        """Convert to a sparse matrix.

        Args:
            words: number of all words.

        Returns:
            csr (texts, words); a word that occurs twice in a text counts twice.
        """
        from scipy import sparse

        # A copy: `sum_duplicates` sorts in place, and convolutions need the order of the words.
        found = sparse.csr_array((self.weights, self.words, self.offsets), shape=(len(self), words), copy=True)
        found.sum_duplicates()
        return found
