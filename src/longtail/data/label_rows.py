"""Labels as training examples: the text or features of a label stand for a document.

Every method that turns labels into examples does it here. Labels without the text or features that an example needs
are left out, and where no label has them, an error says so.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError


def labels_with_input(data: Dataset, method: str) -> Longs:
    """Finds the labels that can become examples: with a text where documents are texts, else with features.

    Args:
        data: the data set.
        method: the tail method that asks, for the message.

    Returns:
        (labels found,) rows of labels.

    Raises:
        DataError: no label has what it needs.
    """
    labels = data.labels
    if data.texts is not None:
        able = np.array([bool(text.strip()) for text in labels.texts], dtype=np.bool_)
        if not able.any():
            raise DataError(
                f"{method} turns label texts into examples, and no label has a text; add texts to labels.jsonl, or "
                f"leave {method} out"
            )
        return np.flatnonzero(able)
    assert data.features is not None
    columns = data.features.shape[1]
    if labels.features is None:
        raise DataError(
            f"{method} turns labels into examples, and labels have no features as documents have; add label features, "
            f"or leave {method} out"
        )
    if labels.features.shape[1] != columns:
        raise DataError(
            f"{method} turns labels into examples, but labels have {labels.features.shape[1]} features and documents "
            f"{columns}; give both the same columns"
        )
    return np.flatnonzero(np.diff(sparse.csr_array(labels.features).indptr) > 0)


def as_rows(data: Dataset, labels: Longs) -> Rows:
    """Labels in the form of documents. Where documents have features beside texts and labels do not, these stay empty.

    Args:
        data: the data set.
        labels: (labels given,) rows of labels.

    Returns:
        One row per label.
    """
    given = data.labels.texts_with_names
    texts = None if data.texts is None else tuple([given[label] for label in labels.tolist()])
    if data.features is None:
        return Rows(texts=texts)
    columns, own = data.features.shape[1], data.labels.features
    if own is None or own.shape[1] != columns:
        return Rows(texts=texts, features=sparse.csr_array((len(labels), columns), dtype=np.float32))
    return Rows(texts=texts, features=sparse.csr_array(own, dtype=np.float32)[labels])


def with_label_rows(data: Dataset, labels: Longs, targets: Matrix, origin: str) -> Dataset:
    """Adds labels as examples at the end of the data.

    Args:
        data: the data set.
        labels: (labels given,) rows of labels.
        targets: (labels given, labels) their targets.
        origin: the tail method that adds them.

    Returns:
        The new data set.
    """
    rows = as_rows(data, labels)
    ids = [f"{origin}:{data.labels.ids[label]}" for label in labels.tolist()]
    return data.with_rows(targets=targets, origin=origin, texts=rows.texts, features=rows.features, ids=ids)


def own_targets(labels: Longs, number: int) -> Matrix:
    """Targets in which each label has only itself.

    Args:
        labels: (labels given,) rows of labels.
        number: of labels in all.

    Returns:
        csr float32 (labels given, number)
    """
    ones = np.ones(len(labels), dtype=np.float32)
    starts = np.arange(len(labels) + 1, dtype=np.int32)
    return sparse.csr_array((ones, labels.astype(np.int32), starts), shape=(len(labels), number))
