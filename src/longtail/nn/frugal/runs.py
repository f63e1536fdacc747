"""Texts as runs of words with weights: what nets over word vectors read, cut on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import AnyArray, Floats, Longs, Matrix
from longtail.nn.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Run:
    """Some texts one after another."""

    words: Tensor  # (words of all texts,) int64: rows of a table of word vectors
    weights: Tensor  # (words of all texts,) float32
    begins: Tensor  # (texts,) int64
    lengths: Tensor  # (texts,) int64
    turned: Run | None = None  # the texts of each row of the table, where somebody has them; ends with its last text


@dataclass(frozen=True, eq=False)
class Runs:
    """All texts of one side. The weights of a text have length 1, as those of a tf-idf row."""

    words: Longs  # (words of all texts,)
    weights: Floats
    offsets: Longs  # (texts + 1,)

    @classmethod
    def of(cls, tokens: Tokens, idf: Floats) -> Runs:
        words = np.asarray(tokens.ids, dtype=np.int64)
        weights = idf[words]
        squares = np.add.reduceat(weights * weights, tokens.offsets[:-1]) if len(tokens) else np.zeros(0, np.float32)
        lengths = np.sqrt(np.maximum(squares, 1e-18))
        return cls(words, (weights / np.repeat(lengths, tokens.lengths)).astype(np.float32), tokens.offsets)

    @classmethod
    def of_matrix(cls, matrix: Matrix) -> Runs:
        """Texts as rows of a sparse matrix (texts, words), taken as they are."""
        return cls(matrix.indices.astype(np.int64), matrix.data.astype(np.float32), matrix.indptr.astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def places(self, rows: Longs) -> tuple[Longs, Longs]:
        """Where the words of these texts stand, and how many each has."""
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        ends = np.cumsum(lengths)
        return np.repeat(begins - ends + lengths, lengths) + np.arange(int(lengths.sum())), lengths

    def take(self, rows: Longs, device: torch.device, place: Longs | None = None) -> Run:
        """These texts; `place` (words,) says where each word stands in the table that is read, if not at its number."""
        where, lengths = self.places(rows)
        words = self.words[where]
        begins = np.cumsum(lengths) - lengths
        placed = words if place is None else place[words]
        weights = _sent(self.weights[where], device)
        return Run(_sent(placed, device), weights, _sent(begins, device), _sent(lengths, device))

    def whole(self, device: torch.device) -> Run:
        """All texts, each word at its number."""
        return self.take(np.arange(len(self)), device)

    def turned(self, words: int) -> Runs:
        """For each word the texts that it stands in."""
        return Runs.of_matrix(self.matrix(words).T.tocsr())

    def matrix(self, words: int) -> Matrix:
        """The same as a sparse matrix (texts, words); a word that comes twice counts twice."""
        from scipy import sparse

        # A copy: what sums words up sorts them too, and convolutions read them in their order.
        found = sparse.csr_array((self.weights, self.words, self.offsets), shape=(len(self), words), copy=True)
        found.sum_duplicates()
        return found


def _sent(array: AnyArray, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
