"""Random walks over rows and labels against their expected visits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.errors import DataError
from longtail.linear.graph.random_walks import walks


def some_targets(soft: bool) -> sparse.csr_array:
    rng = np.random.default_rng(0)
    dense = (rng.random((60, 10)) < 0.25).astype(np.float32)
    if soft:
        dense *= rng.uniform(0.1, 1, dense.shape).astype(np.float32)
    return sparse.csr_array(dense)


@pytest.mark.parametrize("restart", [0.8, 0.2])
@pytest.mark.parametrize("soft", [False, True])
def test_visits_are_those_expected(soft: bool, restart: float) -> None:
    """Before a step T the walk is at its root with probability r, else where it was: r (I - (1 - r) T)^-1 T visits."""
    targets = some_targets(soft)
    dense = targets.toarray().astype(np.float64)
    step = (dense / dense.sum(axis=0)).T @ (dense / np.maximum(dense.sum(axis=1, keepdims=True), 1e-300))
    expected = restart * np.linalg.inv(np.eye(10) - (1 - restart) * step) @ step
    steps = 100_000
    found = walks(targets, steps=steps, restart=restart, visits=True).toarray() / steps
    assert np.abs(found - expected).max() < 0.01


def test_shares_are_visits_over_those_to_the_root() -> None:
    targets = some_targets(False)
    counts, shares = walks(targets, visits=True).toarray(), walks(targets).toarray()
    assert np.allclose(shares, np.minimum(counts / counts.diagonal()[:, None], 1))
    kept = walks(targets, threshold=0.3, most=2)
    assert (kept.diagonal() == 1).all() and (np.diff(kept.indptr) <= 3).all()
    assert kept.data.min() > 0.3
    assert np.array_equal(kept.toarray()[kept.toarray() > 0], shares[kept.toarray() > 0])


def test_the_seed_decides_and_threads_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = some_targets(True)
    first = walks(targets, steps=50, seed=1).toarray()
    monkeypatch.setenv("LONGTAIL_THREADS", "3")
    assert np.array_equal(first, walks(targets, steps=50, seed=1).toarray())
    assert not np.array_equal(first, walks(targets, steps=50, seed=2).toarray())


def test_head_labels_and_unseen_ones_keep_only_themselves() -> None:
    dense = np.ones((6, 4), dtype=np.float32)
    dense[1:, 1], dense[3:, 2], dense[:, 3] = 0, 0, 0  # 6 rows, 1, 3 and none
    graph = walks(sparse.csr_array(dense), head=5).toarray()
    assert graph[0].tolist() == [1, 0, 0, 0] and graph[3].tolist() == [0, 0, 0, 1]
    assert (graph[1:3, 0] == 0).all() and graph[1, 2] > 0


def test_settings_that_cannot_be() -> None:
    with pytest.raises(DataError, match="restart=2"):
        walks(some_targets(False), restart=2)
