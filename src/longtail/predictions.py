"""The best few labels of each row: never dense over labels, and readable as words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longtail.arrays import Bools, Doubles, Floats, Ints, Longs, Matrix
from longtail.data.labels import LabelSet
from longtail.errors import DataError

CANDIDATES = 100  # labels a row that re-rankers learn from and may move


class Answer(NamedTuple):
    """One predicted label, as a person reads it."""

    id: str
    text: str
    score: float


@dataclass(frozen=True, eq=False)
class Predictions:
    """Top labels of each row, best first. `indices` is -1 where a row has fewer labels than places.

    Scores are not negative and larger is better; ties are in the order of label rows. With a dial above 0 the order is
    not that of the scores, which stay probabilities.
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
        """Labels a row, empty places included."""
        return int(self.indices.shape[1])

    def top(self, k: int) -> Predictions:
        """Return only the first places.

        Args:
            k: how many.

        Returns:
            Predictions with at most k labels a row.
        """
        return Predictions(self.labels, self.indices[:, :k], self.scores[:, :k])

    def above(self, threshold: float) -> Predictions:
        """Return only the labels with at least this score.

        Args:
            threshold: the smallest score that stays.

        Returns:
            Predictions of the same shape; the places of other labels are empty.
        """
        kept = self.scores >= np.float32(threshold)
        return Predictions(self.labels, np.where(kept, self.indices, -1), np.where(kept, self.scores, 0))

    def answers(self, row: int) -> list[Answer]:
        """Return the labels of one document as words.

        Args:
            row: number of the document.

        Returns:
            The labels, best first, without empty places.
        """
        return [
            Answer(self.labels.ids[label], self.labels.word(label), float(score))
            for label, score in zip(self.indices[row].tolist(), self.scores[row].tolist(), strict=True)
            if label >= 0
        ]

    def __iter__(self) -> Iterator[list[Answer]]:
        return (self.answers(row) for row in range(len(self)))

    def save(self, path: str | Path) -> Path:
        """Write the predictions and their labels to one file. An older file is replaced.

        Args:
            path: the file, usually `.npz`.

        Returns:
            The path.

        Raises:
            DataError: the file cannot be written.
        """
        from longtail.saved_predictions import save_predictions

        return save_predictions(self.labels, self.indices, self.scores, path)

    @staticmethod
    def load(path: str | Path, labels: LabelSet | None = None) -> Predictions:
        """Read what `save` wrote.

        Args:
            path: the file.
            labels: the label set of the data, to share it; none: the labels in the file.

        Returns:
            The predictions.

        Raises:
            DataError: the file is missing, damaged or of another kind, or `labels` has other ids.
        """
        from longtail.saved_predictions import load_predictions

        return Predictions(*load_predictions(path, labels))

    def columns(self, ids: Sequence[str] | None = None) -> dict[str, list[Any]]:
        """Return one entry a predicted label, column by column, as data frames take it.

        Args:
            ids: the id of each row; none: rows are numbered from 0.

        Returns:
            "row", "rank" (from 1, empty places not counted), "label", "text" and "score", all of one length.

        Raises:
            DataError: there are more or fewer ids than rows.
        """
        if ids is not None and len(ids) != len(self):
            raise DataError(f"{len(ids)} ids for {len(self)} rows of predictions; give one for each row")
        filled = self.indices >= 0
        rows, labels = np.nonzero(filled)[0].tolist(), self.indices[filled].tolist()
        return {
            "row": rows if ids is None else [ids[row] for row in rows],
            "rank": filled.cumsum(axis=1)[filled].tolist(),
            "label": [self.labels.ids[label] for label in labels],
            "text": [self.labels.word(label) for label in labels],
            "score": self.scores[filled].tolist(),
        }

    def to_pandas(self, ids: Sequence[str] | None = None) -> Any:
        """Return a pandas data frame with a line for each predicted label, see `columns`.

        Args:
            ids: the id of each row, such as `dataset.ids`; none: rows are numbered from 0.

        Returns:
            A `pandas.DataFrame`.

        Raises:
            DataError: pandas is missing, or there are more or fewer ids than rows.
        """
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise DataError(
                "to_pandas needs pandas: pip install pandas; without it, Predictions.columns() has the same columns"
            ) from None
        return pandas.DataFrame(self.columns(ids))

    def sorted(self) -> Predictions:
        """Put labels in order.

        Returns:
            Predictions with the best label first, ties by label row, empty places last.
        """
        return Predictions(self.labels, *ranked(self.indices, self.scores))

    def hits(self, targets: Matrix) -> Bools:
        """Find the places that hold a label of the row.

        Args:
            targets: csr (rows, labels).

        Returns:
            (rows, places) booleans; false for empty places.
        """
        width = np.int64(len(self.labels))
        rows = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(targets.indptr))
        keys = np.arange(len(self), dtype=np.int64)[:, None] * width + self.indices
        return (self.indices >= 0) & np.isin(keys, rows * width + targets.indices)

    def without(self, excluded: Matrix | None) -> Predictions:
        """Drop pairs; the labels behind them move up.

        Args:
            excluded: csr (rows, labels), the pairs to drop; none: nothing is dropped.

        Returns:
            Predictions with as many places, the last ones empty where pairs were dropped.
        """
        if excluded is None or excluded.nnz == 0 or len(self) == 0:
            return self
        drop = (self.indices < 0) | self.hits(excluded)
        order = np.argsort(drop, axis=1, kind="stable")  # kept places first, in their order
        dropped = np.take_along_axis(drop, order, axis=1)
        indices = np.where(dropped, np.int32(-1), np.take_along_axis(self.indices, order, axis=1))
        scores = np.where(dropped, np.float32(0), np.take_along_axis(self.scores, order, axis=1))
        return Predictions(self.labels, indices, scores)


def ranking(indices: Ints, scores: Floats | Doubles) -> Longs:
    """Find the order of each row: best first, ties by label row, empty places last.

    Args:
        indices: (rows, places) label rows, -1 = no label.
        scores: (rows, places).

    Returns:
        (rows, places) places in their new order.
    """
    order: Longs = np.lexsort((indices, np.where(indices < 0, np.inf, -scores)), axis=1)
    return order


def ranked(indices: Ints, scores: Floats) -> tuple[Ints, Floats]:
    """Sort each row: best first, ties by label row, empty places last.

    Args:
        indices: (rows, places) label rows, -1 = no label.
        scores: (rows, places).

    Returns:
        Both arrays in their new order.
    """
    order = ranking(indices, scores)
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1)
