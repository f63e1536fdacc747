"""A data set over the labels of a model, which was trained on other data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.data.mended_labels import folded


def aligned(data: Dataset, known: LabelSet, fold: bool = False) -> tuple[Dataset, int]:
    """The same documents over the known labels, matched by id.

    Args:
        data: the data set.
        known: the labels of the model, whose counts are kept.
        fold: labels that differ from a known one only in case, spaces or Unicode form are that label.

    Returns:
        The data set over the known labels, followed by the labels of its targets that are not known; and how many
        those are.
    """
    own = data.labels
    column_of = np.array([known.row_of.get(label, -1) for label in own.ids], dtype=np.int64)
    if fold:
        by_form = {folded(label): row for row, label in reversed(list(enumerate(known.ids)))}
        for row in np.flatnonzero(column_of < 0).tolist():
            column_of[row] = by_form.get(folded(own.ids[row]), -1)
    used = np.zeros(len(own), dtype=np.bool_)
    used[data.targets.indices] = True
    unknown = np.flatnonzero(used & (column_of < 0))
    column_of[unknown] = len(known) + np.arange(len(unknown))
    labels = LabelSet(
        ids=(*known.ids, *(own.ids[label] for label in unknown)),
        texts=(*known.texts, *(own.texts[label] for label in unknown)),
        counts=np.concatenate([known.counts, np.zeros(len(unknown), dtype=np.int64)]),
        train_rows=known.train_rows,
        propensity=own.propensity,
    )
    targets = _renumbered(data.targets, column_of, len(labels))
    excluded = None if data.excluded is None else _renumbered(data.excluded, column_of, len(labels))
    return replace(data, labels=labels, targets=targets, excluded=excluded), len(unknown)


def _renumbered(matrix: Matrix, column_of: Longs, columns: int) -> Matrix:
    """The matrix with new column numbers; columns with the number -1 are dropped."""
    whole = sparse.coo_array(matrix)
    row, column = whole.coords
    kept = column_of[column] >= 0
    entries = whole.data[kept], (row[kept], column_of[column[kept]])
    renumbered: Matrix = sparse.csr_array(entries, shape=(matrix.shape[0], columns))
    if renumbered.dtype == np.float32 and renumbered.nnz < len(entries[0]):  # twins of a row were added up
        renumbered.data = np.minimum(renumbered.data, np.float32(1))
    return renumbered
