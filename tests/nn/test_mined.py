"""The nearest wrong items against a plain sort, on both ways to search."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.nn.dual import mined_negatives as mined
from longtail.nn.dual.mined_negatives import nearest_wrong


@pytest.mark.parametrize("place", ["cpu", "cpu:0"])  # cpu:0 goes the way of other devices
def test_nearest_wrong_is_a_sort_without_what_is_right(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mined, "BLOCK", 32)  # of the 70 rows, so that blocks end within them
    monkeypatch.setattr(mined, "ROWS", 5)
    rng = np.random.default_rng(0)
    rows, items = (rng.integers(-2, 3, (many, 4)).astype(np.float32) for many in (70, 300))  # many equal scores
    targets = sparse.csr_array((rng.random((70, 300)) < 0.03).astype(np.float32))
    shuffled = targets.copy()  # entries of a row in another order
    for row in range(70):
        here = slice(*targets.indptr[row : row + 2])
        shuffled.indices[here] = targets.indices[here][::-1]
    expected = []
    for row, scores in enumerate(rows @ items.T):
        right = set(targets[[row]].indices.tolist())
        expected.append([item for item in np.argsort(-scores, kind="stable") if item not in right][:6])
    for given in (targets, shuffled):
        found = nearest_wrong(torch.from_numpy(rows), torch.from_numpy(items), given, 6, torch.device(place))
        assert found.dtype == np.int64
        few = np.diff(targets.indptr) <= np.quantile(np.diff(targets.indptr), 0.99)
        assert few.sum() > 60 and found[few].tolist() == np.array(expected)[few].tolist()


@pytest.mark.parametrize("place", ["cpu", "cpu:0"])
def test_where_there_are_no_more_wrong_items(place: str) -> None:
    rows, items = torch.eye(3), torch.eye(3)
    targets = sparse.csr_array(np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=np.float32))
    found = nearest_wrong(rows, items, targets, 2, torch.device(place))
    assert found.tolist() == [[2, -1], [1, 0], [-1, -1]]
    none = sparse.csr_array((3, 3), dtype=np.float32)
    assert nearest_wrong(rows, items, none, 1, torch.device(place)).tolist() == [[0], [1], [2]]
