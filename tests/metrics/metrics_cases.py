"""Small data sets and predictions for the tests, from lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet, Propensity
from longtail.predictions import Predictions


def labels_with(counts: Sequence[int], train_rows: int = 100, a: float = 0.55, b: float = 1.5) -> LabelSet:
    return LabelSet(
        ids=tuple(f"L{row}" for row in range(len(counts))),
        counts=np.array(counts, dtype=np.int64),
        train_rows=train_rows,
        propensity=Propensity(a, b),
    )


def data_with(
    labels: LabelSet,
    truth: Sequence[Sequence[int] | dict[int, float]],
    excluded: Sequence[Sequence[int]] | None = None,
) -> Dataset:
    """Rows with these true labels (or label: weight)."""
    shape = (len(truth), len(labels))
    targets = np.zeros(shape, dtype=np.float32)
    for row, true in enumerate(truth):
        for label in true:
            targets[row, label] = true[label] if isinstance(true, dict) else 1.0
    banned = None
    if excluded is not None:
        banned = np.zeros(shape, dtype=np.bool_)
        for row, labels_of_row in enumerate(excluded):
            banned[row, list(labels_of_row)] = True
    return Dataset(
        labels=labels,
        targets=sparse.csr_array(targets),
        ids=tuple(str(row) for row in range(len(truth))),
        texts=("",) * len(truth),
        excluded=None if banned is None else sparse.csr_array(banned),
    )


def predicting(
    labels: LabelSet,
    ranked: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float]] | None = None,
    places: int | None = None,
) -> Predictions:
    """These labels in this order, padded with empty places; scores fall evenly unless they are given."""
    width = max([len(row) for row in ranked], default=0) if places is None else places
    indices = np.full((len(ranked), width), -1, dtype=np.int32)
    values = np.zeros((len(ranked), width), dtype=np.float32)
    for row, order in enumerate(ranked):
        indices[row, : len(order)] = order
        given = None if scores is None else scores[row]
        values[row, : len(order)] = np.linspace(1, 0.5, len(order)) if given is None else given
    return Predictions(labels, indices, values)
