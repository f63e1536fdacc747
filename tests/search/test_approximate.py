"""Approximate search reports its recall, and the report is true."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from longtail.arrays import Floats
from longtail.errors import DataError, MissingExtra
from longtail.search import approximate
from longtail.search.approximate import build
from longtail.search.exact import top_k

pytest.importorskip("faiss")


def unit(rows: int, dimension: int, seed: int) -> Floats:
    vectors = np.random.default_rng(seed).standard_normal((rows, dimension), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_the_reported_recall_is_true(kind: approximate.Kind) -> None:
    vectors, queries = unit(3000, 16, 0), unit(200, 16, 1)
    index = build(vectors, kind, queries, recall=0.9)
    truth = top_k(queries, vectors, 10)[0]
    rows, _ = index.top(queries, 10)
    hits = [len(set(a) & set(b)) for a, b in zip(truth.tolist(), rows.tolist(), strict=True)]
    assert index.recall == pytest.approx(np.mean(hits) / 10)
    assert index.recall >= 0.9
    assert f"finds {index.recall:.3f} of the exact top 10 of 200 of the queries given" in str(index)
    assert "short of" not in str(index)


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_more_recall_takes_more_effort(kind: approximate.Kind) -> None:
    vectors, queries = unit(3000, 32, 0), unit(100, 32, 1)
    easy, hard = (build(vectors, kind, queries, recall=recall) for recall in (0.2, 0.99))
    assert easy.effort < hard.effort
    assert easy.recall < hard.recall


def test_a_recall_out_of_reach_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(approximate.EFFORTS, "ivf", (1, 2))
    index = build(unit(3000, 32, 0), "ivf", unit(100, 32, 1), recall=0.99)
    assert index.effort == 2
    assert str(index).endswith(", short of the 0.990 asked")


def test_scores_are_products_and_in_order() -> None:
    vectors, queries = unit(500, 8, 0), unit(20, 8, 1)
    vectors[100] = vectors[3]  # equal scores, later row
    for kind in ("hnsw", "ivf"):
        rows, scores = build(vectors, kind, recall=1.0).top(vectors[[3]], 5)
        assert rows[0, :2].tolist() == [3, 100]
        assert rows.dtype == np.int32 and scores.dtype == np.float32
        rows, scores = build(vectors, kind).top(queries, 5)
        np.testing.assert_allclose(scores, np.einsum("qkd,qd->qk", vectors[rows], queries), atol=1e-6)
        assert (np.diff(scores, axis=1) <= 0).all()


def test_places_without_a_vector_come_last() -> None:
    """One cell of many holds few vectors: the missing rows are -1 and come last."""
    vectors = np.concatenate([np.eye(8, dtype=np.float32)[[row % 8]] for row in range(400)])
    index = build(vectors, "ivf", recall=0.0)
    rows, scores = index.top(vectors[:1], 400)
    missing = rows[0] < 0
    assert missing.any() and not missing[: (~missing).sum()].any()
    assert (scores[0][missing] == -np.inf).all()


def test_fewer_vectors_than_k() -> None:
    vectors = unit(3, 4, 0)
    for kind in ("hnsw", "ivf"):
        index = build(vectors, kind)
        assert index.places == 3 and index.recall == 1
        assert index.top(vectors, 10)[0].shape == (3, 3)


def test_the_same_cells_for_a_seed() -> None:
    vectors, queries = unit(2000, 16, 0), unit(50, 16, 1)
    first, second = (build(vectors, "ivf", queries, recall=0.5, seed=4).top(queries, 10)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_bad_input() -> None:
    vectors = unit(50, 4, 0)
    with pytest.raises(DataError, match="'hnsw' or 'ivf', not 'flat'"):
        build(vectors, "flat")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="with rows, got shape"):
        build(vectors[:0])
    with pytest.raises(DataError, match="do not fit"):
        build(vectors, queries=unit(5, 3, 0))
    index = build(vectors)
    with pytest.raises(DataError, match=r"shape \(50, 3\) do not fit an index of dimension 4"):
        index.top(vectors[:, :3], 2)
    with pytest.raises(DataError, match="k must be at least 1"):
        index.top(vectors, 0)
    vectors[9, 0] = np.inf
    with pytest.raises(DataError, match="row 9 holds a number that is not finite"):
        build(vectors)


def test_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"faiss-cpu, which is not installed: pip install 'longtail\[search\]'"):
        build(unit(5, 4, 0))
