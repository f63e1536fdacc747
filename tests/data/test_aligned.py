"""Rows over the labels that a model knows."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.data.aligned import aligned
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet


def test_columns_move_to_where_the_model_has_them() -> None:
    known = LabelSet(ids=("a", "b", "c"), texts=("A", "B", "C"), counts=np.array([5, 3, 1]), train_rows=7)
    own = LabelSet(ids=("x", "c", "y", "a"), texts=("X", "", "Y", "a"))
    targets = sparse.csr_array(np.array([[1, 0.5, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=np.float32))
    excluded = sparse.csr_array(np.array([[0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=bool))
    data = Dataset(labels=own, targets=targets, ids=("1", "2", "3"), texts=("t", "u", "v"), excluded=excluded)
    found, unknown = aligned(data, known)
    assert unknown == 1 and found.labels.ids == ("a", "b", "c", "x")  # no document has y
    assert found.labels.texts == ("A", "B", "C", "X") and found.labels.counts.tolist() == [5, 3, 1, 0]
    assert found.labels.train_rows == 7 and found.texts == data.texts
    assert found.targets.toarray().tolist() == [[0, 0, 0.5, 1], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert found.excluded is not None
    assert found.excluded.toarray().tolist() == [[True, False, False, False], [False, False, True, False], [False] * 4]
