"""Rows of one data set over the labels of another, which a model knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet


def aligned(data: Dataset, known: LabelSet) -> tuple[Dataset, int]:
    """The same rows over the known labels, with their counts; behind these, labels of the rows that are not known, and
    how many they are."""
    own = data.labels
    place_of = np.array([known.row_of.get(label, -1) for label in own.ids], dtype=np.int64)
    asked = np.zeros(len(own), dtype=np.bool_)
    asked[data.targets.indices] = True
    unknown = np.flatnonzero(asked & (place_of < 0))
    place_of[unknown] = len(known) + np.arange(len(unknown))
    labels = LabelSet(
        ids=(*known.ids, *(own.ids[label] for label in unknown)),
        texts=(*known.texts, *(own.texts[label] for label in unknown)),
        counts=np.concatenate([known.counts, np.zeros(len(unknown), dtype=np.int64)]),
        train_rows=known.train_rows,
        propensity=own.propensity,
    )
    targets = _moved(data.targets, place_of, len(labels))
    excluded = None if data.excluded is None else _moved(data.excluded, place_of, len(labels))
    return replace(data, labels=labels, targets=targets, excluded=excluded), len(unknown)


def _moved(matrix: Matrix, place_of: Longs, columns: int) -> Matrix:
    """The matrix with its columns elsewhere; what has no place is dropped."""
    whole = sparse.coo_array(matrix)
    row, column = whole.coords
    kept = place_of[column] >= 0
    entries = whole.data[kept], (row[kept], place_of[column[kept]])
    moved: Matrix = sparse.csr_array(entries, shape=(matrix.shape[0], columns))
    return moved
