"""Halves of labels, beside the slow and obvious way to find them; and what compiling leaves behind."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core import event
from scipy import sparse

from longtail.linear.csr_arrays import csr_arrays
from longtail.linear.features.sparse_features import unit_rows
from longtail.linear.trees import label_clusters as cluster
from longtail.linear.trees.label_clusters import GAIN, ROUNDS, _halved, _pairs, balanced_halves


def words(rows: int, columns: int, seed: int) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.random((rows, columns)) * (rng.random((rows, columns)) < 0.2)
    dense[:, 0] += 0.01  # no row without a word
    return unit_rows(sparse.csr_array(dense.astype(np.float32)))


@pytest.mark.parametrize("rows", [3, 4, 41, 200])
def test_halves_are_those_of_balanced_two_means(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = words(rows, 30, rows)
    lengths = np.diff(vectors.indptr)
    one, other = _pairs(np.array([rows]), np.array([5]))[:, 0]
    dense = vectors.toarray().astype(np.float64)
    first, second = dense[one], dense[other]
    before, was, touched = -np.inf, np.zeros(rows, dtype=bool), vectors.nnz
    for _ in range(ROUNDS):
        lower = np.zeros(rows, dtype=bool)
        lower[np.argsort(dense @ (second - first), kind="stable")[: (rows + 1) // 2]] = True
        sums = dense[lower].sum(axis=0), dense[~lower].sum(axis=0)
        first, second = (total / np.linalg.norm(total) for total in sums)
        now = (dense[lower] @ first).sum() + (dense[~lower] @ second).sum()
        touched += vectors.nnz + 30 + int(lengths[lower != was].sum())
        if now - before < GAIN * rows:
            break
        before, was, touched = now, lower, touched + 30
    counted: list[int] = []
    real = cluster._halve
    monkeypatch.setattr(cluster, "_halve", lambda *given: counted.append(int(real(*given))))
    found = _halved((*csr_arrays(vectors), 30), np.array([0, rows]), np.array([5]))
    assert found.tolist() == [*np.flatnonzero(lower), *np.flatnonzero(~lower)]
    assert counted == [touched]


def test_starts_are_two_different_rows_and_change_with_the_seed() -> None:
    pairs = [(int(one), int(other)) for one, other in _pairs(np.full(60, 3), np.arange(60)).T]
    assert all(one != other and {one, other} <= {0, 1, 2} for one, other in pairs)
    assert len(set(pairs)) == 6  # every one of them comes up


def test_it_does_not_matter_whose_rows_a_node_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = words(150, 60, 1)
    order, levels = balanced_halves(vectors, 3, 0)
    assert len(levels) > cluster.SMALL + 1
    monkeypatch.setattr(cluster, "LAST", 0)
    monkeypatch.setattr(cluster, "SMALL", 99)  # every node from the whole, none from a node above it
    assert np.array_equal(balanced_halves(vectors, 3, 0)[0], order)


def test_garbage_waits_only_while_a_kernel_is_compiled() -> None:
    seen: list[bool] = []

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            seen.append(gc.isenabled())

        def on_end(self, event: Any) -> None:
            pass

    listener = Listener()
    assert gc.isenabled()
    event.register("numba:compile", listener)
    try:
        assert njit(lambda value: value + 1)(1) == 2
    finally:
        event.unregister("numba:compile", listener)
    assert seen and not any(seen)
    assert gc.isenabled()
