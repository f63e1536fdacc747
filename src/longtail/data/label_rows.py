"""Labels as training rows: what a tail method needs that lets a label's own text or features stand for a row."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError


def labels_with_input(data: Dataset, method: str) -> Longs:
    """The labels that can stand as rows of this data: those with a text where rows are texts, with features where rows
    have only features. The others are left out; none at all is an error."""
    labels = data.labels
    if data.texts is not None:
        able = np.array([bool(text.strip()) for text in labels.texts], dtype=np.bool_)
        if not able.any():
            raise DataError(
                f"{method} makes rows of label texts, and no label has one; add them to labels.jsonl, or leave it out"
            )
        return np.flatnonzero(able)
    assert data.features is not None
    columns = data.features.shape[1]
    if labels.features is None:
        raise DataError(f"{method} makes rows of labels, and the labels have no features as the rows have; add them")
    if labels.features.shape[1] != columns:
        raise DataError(
            f"{method} makes rows of labels, and labels have {labels.features.shape[1]} features where rows have "
            f"{columns}; both must be over the same columns"
        )
    return np.flatnonzero(np.diff(sparse.csr_array(labels.features).indptr) > 0)


def as_rows(data: Dataset, labels: Longs) -> Rows:
    """These labels, as rows of this data are. Where rows have features beside their texts and labels do not, the
    features of the label's row are empty."""
    texts = None if data.texts is None else tuple([data.labels.texts[label] for label in labels.tolist()])
    if data.features is None:
        return Rows(texts=texts)
    columns, own = data.features.shape[1], data.labels.features
    if own is None or own.shape[1] != columns:
        return Rows(texts=texts, features=sparse.csr_array((len(labels), columns), dtype=np.float32))
    return Rows(texts=texts, features=sparse.csr_array(own, dtype=np.float32)[labels])


def with_label_rows(data: Dataset, labels: Longs, targets: Matrix, origin: str) -> Dataset:
    """The data and behind it a row for each of these labels, with these targets (rows added, labels)."""
    rows = as_rows(data, labels)
    ids = [f"{origin}:{data.labels.ids[label]}" for label in labels.tolist()]
    return data.with_rows(targets=targets, origin=origin, texts=rows.texts, features=rows.features, ids=ids)


def own_targets(labels: Longs, number: int) -> Matrix:
    """Each of these labels as its own only target: csr (labels given, number)."""
    ones = np.ones(len(labels), dtype=np.float32)
    starts = np.arange(len(labels) + 1, dtype=np.int32)
    return sparse.csr_array((ones, labels.astype(np.int32), starts), shape=(len(labels), number))
