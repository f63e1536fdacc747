"""The label graph against the slow, obvious product of all rows with all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from longtail.errors import DataError
from longtail.linear.graph import cooccurrence_kernels as kernels
from longtail.linear.graph.cooccurrence import cooccurrence, strongest, symmetric


def some_targets(rows: int, labels: int, soft: bool, seed: int, skew: float = 0.0) -> sparse.csr_array:
    """Rows with a few labels each; with skew, most of them have the first labels."""
    rng = np.random.default_rng(seed)
    probability = 0.3 / (1 + np.arange(labels)) ** skew if skew else np.full(labels, 0.08)
    dense = (rng.random((rows, labels)) < probability).astype(np.float32)
    if soft:
        dense *= rng.uniform(0.1, 1, dense.shape).astype(np.float32)
    dense[:, labels // 2] = 0  # a label that no row has
    return sparse.csr_array(dense)


def slow(targets: sparse.csr_array, threshold: float, max_labels: int | None, min_count: float) -> np.ndarray:
    """Equation 6 of the paper in float64, with the cap and the floor."""
    dense = targets.toarray().astype(np.float64)
    together, mass = dense.T @ dense, dense.sum(axis=0)
    shares = together / np.where(mass > 0, mass, 1)[:, None]
    np.fill_diagonal(shares, 0)
    shares[(shares <= threshold) | (together < min_count)] = 0
    for row in shares if max_labels is not None else ():
        row[np.lexsort((np.arange(len(row)), -row))[max_labels:]] = 0
    np.fill_diagonal(shares, 1)
    return shares


@pytest.mark.parametrize("few", [8, 8192], ids=["by rank", "by table"])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(
    ("threshold", "max_labels", "min_count"), [(0.1, None, 1), (0, 3, 1), (0.3, 2, 1), (0.1, 0, 1), (0, None, 3)]
)
def test_is_the_product_on_what_is_kept(
    few: int, soft: bool, threshold: float, max_labels: int | None, min_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both ways of counting, for labels with few and with many pairs, in plain Python.
    monkeypatch.setattr(kernels, "FEW", few)
    for kernel in ("common_rows", "all_rows", "_count_pairs", "emit_row", "longer"):
        monkeypatch.setattr(kernels, kernel, getattr(kernels, kernel).py_func)
    targets = some_targets(60, 24, soft, seed=1, skew=0.6)
    graph = cooccurrence(targets, threshold, max_labels, min_count)
    assert graph.has_canonical_format
    graph.check_format(full_check=True)
    assert np.allclose(graph.toarray(), slow(targets, threshold, max_labels, min_count), atol=1e-6)


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.0, 0.1, 0.25, 0.5]), st.sampled_from([None, 1, 4]))
def test_any_targets(seed: int, soft: bool, threshold: float, max_labels: int | None) -> None:
    targets = some_targets(40, 13, soft, seed)
    assert np.allclose(
        cooccurrence(targets, threshold, max_labels).toarray(), slow(targets, threshold, max_labels, 0), atol=1e-6
    )


def test_common_labels_are_cut_where_the_threshold_allows_it() -> None:
    """Thousands of pairs of a common label go by rank: its rare companions cannot pass and are skipped."""
    rng = np.random.default_rng(0)
    dense = (rng.random((12_000, 40)) < 0.5 / (1 + np.arange(40))).astype(np.float32)
    targets = sparse.csr_array(dense)
    assert np.diff(targets.indptr)[dense[:, 0] > 0].sum() > kernels.FEW
    assert np.allclose(cooccurrence(targets).toarray(), slow(targets, 0.1, None, 0), atol=1e-6)


def test_counts_are_the_gram_matrix() -> None:
    targets = some_targets(200, 30, False, seed=2)
    whole = (targets.T @ targets).toarray()
    assert np.array_equal(cooccurrence(targets, 0, form="count").toarray(), whole)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_do_not_matter(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = some_targets(500, 90, True, seed=3)
    before = cooccurrence(targets, 0.05, 5)
    monkeypatch.setenv("LONGTAIL_THREADS", threads)
    after = cooccurrence(targets, 0.05, 5)
    assert np.array_equal(before.indices, after.indices) and np.array_equal(before.data, after.data)


def test_a_share_at_the_threshold_is_dropped() -> None:
    """Ten rows have label 0 and one of them label 1: a share of exactly 0.1 is not above 0.1."""
    dense = np.zeros((10, 2), dtype=np.float32)
    dense[:, 0], dense[0, 1] = 1, 1
    graph = cooccurrence(sparse.csr_array(dense), 0.1).toarray()
    assert graph.tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("max_labels", [None, 2])
@pytest.mark.parametrize("soft", [False, True])
def test_symmetric_is_the_mean_of_both_sides(soft: bool, max_labels: int | None) -> None:
    targets = some_targets(300, 25, soft, seed=4, skew=0.8)
    dense = targets.toarray().astype(np.float64)
    mass = np.maximum(dense.sum(axis=0), 1e-300)
    together = dense.T @ dense
    expected = 0.5 * (together / mass[:, None] + together / mass[None, :])
    np.fill_diagonal(expected, 0)
    expected[(expected <= 0.1)] = 0
    for row in expected if max_labels is not None else ():
        row[np.lexsort((np.arange(len(row)), -row.astype(np.float32)))[max_labels:]] = 0
    np.fill_diagonal(expected, 1)
    assert np.allclose(symmetric(targets, 0.1, max_labels).toarray(), expected, atol=1e-6)


def test_strongest_keeps_the_first_of_equals() -> None:
    graph = sparse.csr_array(np.array([[0.5, 0.9, 0.5, 0.5], [0, 0, 0, 0.1]], dtype=np.float32))
    assert strongest(graph, 2).toarray().tolist() == [[0.5, np.float32(0.9), 0, 0], [0, 0, 0, np.float32(0.1)]]
    assert strongest(graph, None) is graph


def test_nothing_to_count() -> None:
    assert cooccurrence(sparse.csr_array((5, 3), dtype=np.float32)).toarray().tolist() == np.eye(3).tolist()
    assert cooccurrence(sparse.csr_array((0, 3), dtype=np.float32)).toarray().tolist() == np.eye(3).tolist()
    assert cooccurrence(sparse.csr_array((4, 0), dtype=np.float32)).shape == (0, 0)
    with pytest.raises(DataError, match="threshold=1"):
        cooccurrence(sparse.csr_array((5, 3), dtype=np.float32), 1)
