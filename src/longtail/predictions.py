"""The best few labels of each row. Sparse in labels, words out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from longtail.arrays import Bools, Floats, Ints, Matrix
from longtail.data.labels import LabelSet
from longtail.errors import DataError

CANDIDATES = 100  # kept for re-ranking and before excluded pairs are dropped


class Answer(NamedTuple):
    """One predicted label, as a person reads it."""

    id: str
    text: str
    score: float


@dataclass(frozen=True, eq=False)
class Predictions:
    """Top labels per row, best first. `indices` is -1 where a row has fewer labels than places.

    Scores are not negative and larger is better; ties stand in order of the label's row.
    """

    labels: LabelSet
    indices: Ints  # (rows, places) label rows, -1 = no label
    scores: Floats  # (rows, places), 0 where there is no label

    def __post_init__(self) -> None:
        indices = np.ascontiguousarray(self.indices, dtype=np.int32)
        scores = np.ascontiguousarray(self.scores, dtype=np.float32)
        if indices.ndim != 2 or indices.shape != scores.shape:
            raise DataError(f"predictions need equal 2-d shapes, got {indices.shape} and {scores.shape}")
        if indices.size and (indices.min() < -1 or indices.max() >= len(self.labels)):
            raise DataError(f"predicted label rows must lie in -1..{len(self.labels) - 1}")
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "scores", scores)

    def __len__(self) -> int:
        return int(self.indices.shape[0])

    def __repr__(self) -> str:
        return f"Predictions({len(self):,} rows, {self.places} places, {len(self.labels):,} labels)"

    @property
    def places(self) -> int:
        return int(self.indices.shape[1])

    def top(self, k: int) -> Predictions:
        """Only the first k places."""
        return Predictions(self.labels, self.indices[:, :k], self.scores[:, :k])

    def above(self, threshold: float) -> Predictions:
        """Only labels with at least this score."""
        kept = self.scores >= np.float32(threshold)
        return Predictions(self.labels, np.where(kept, self.indices, -1), np.where(kept, self.scores, 0))

    def answers(self, row: int) -> list[Answer]:
        """One row in words, best first."""
        return [
            Answer(self.labels.ids[label], self.labels.word(label), float(score))
            for label, score in zip(self.indices[row].tolist(), self.scores[row].tolist(), strict=True)
            if label >= 0
        ]

    def __iter__(self) -> Iterator[list[Answer]]:
        return (self.answers(row) for row in range(len(self)))

    def sorted(self) -> Predictions:
        """Best first, ties by label row, empty places last."""
        return Predictions(self.labels, *ranked(self.indices, self.scores))

    def hits(self, targets: Matrix) -> Bools:
        """Which places hold a label of the row: (rows, places)."""
        width = np.int64(len(self.labels))
        rows = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(targets.indptr))
        keys = np.arange(len(self), dtype=np.int64)[:, None] * width + self.indices
        return (self.indices >= 0) & np.isin(keys, rows * width + targets.indices)

    def without(self, excluded: Matrix | None) -> Predictions:
        """Drop the excluded (row, label) pairs; what stood behind them moves up."""
        if excluded is None or excluded.nnz == 0 or len(self) == 0:
            return self
        drop = (self.indices < 0) | self.hits(excluded)
        order = np.argsort(drop, axis=1, kind="stable")  # kept places first, in their order
        gone = np.take_along_axis(drop, order, axis=1)
        indices = np.where(gone, np.int32(-1), np.take_along_axis(self.indices, order, axis=1))
        scores = np.where(gone, np.float32(0), np.take_along_axis(self.scores, order, axis=1))
        return Predictions(self.labels, indices, scores)


def ranked(indices: Ints, scores: Floats) -> tuple[Ints, Floats]:
    """Each row put in order: best first, ties by label row, empty places last."""
    order = np.lexsort((indices, np.where(indices < 0, np.inf, -scores)), axis=1)
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1)
