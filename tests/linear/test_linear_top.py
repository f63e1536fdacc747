from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from longtail.linear.features.sparse_top import sparse_top


def slow_top(queries: np.ndarray, index: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The whole product, sorted by value and then by column."""
    product = (queries.astype(np.float32) @ index.astype(np.float32)).astype(np.float32)
    columns, values = np.full((len(product), k), -1), np.zeros((len(product), k), np.float32)
    for row, line in enumerate(product):
        best = sorted((-value, column) for column, value in enumerate(line.tolist()) if value > 0)[:k]
        columns[row, : len(best)] = [column for _, column in best]
        values[row, : len(best)] = [-value for value, _ in best]
    return columns, values


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 12),
    st.integers(1, 10),
    st.integers(1, 30),
    st.integers(1, 40),
    st.integers(0, 10**6),
    st.floats(0, 1),
)
def test_agrees_with_the_whole_product(rows: int, terms: int, items: int, k: int, seed: int, density: float) -> None:
    """Small whole numbers, so that sums are exact and ties are common; some are negative."""
    rng = np.random.default_rng(seed)
    queries = rng.integers(-1, 3, (rows, terms)) * (rng.random((rows, terms)) < density)
    index = rng.integers(-2, 4, (terms, items)) * (rng.random((terms, items)) < density)
    columns, values = sparse_top(sparse.csr_array(queries), sparse.csr_array(index), k)
    expected = slow_top(queries, index, k)
    assert np.array_equal(columns, expected[0])
    assert np.array_equal(values, expected[1])


def test_threads_do_not_change_the_answer(monkeypatch: object) -> None:
    rng = np.random.default_rng(0)
    queries = sparse.random_array((3000, 200), density=0.05, rng=rng, format="csr", dtype=np.float32)
    index = sparse.random_array((200, 500), density=0.1, rng=rng, format="csr", dtype=np.float32)
    answers = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)  # type: ignore[attr-defined]
        answers.append(sparse_top(queries, index, 7))
    for columns, values in answers[1:]:
        assert np.array_equal(columns, answers[0][0])
        assert np.array_equal(values, answers[0][1])


def test_queries_over_other_terms_are_refused() -> None:
    """The kernel would read behind the index."""
    queries, index = sparse.csr_array(np.ones((2, 5), np.float32)), sparse.csr_array(np.ones((4, 3), np.float32))
    with pytest.raises(ValueError, match="queries have 5 terms, and the index 4"):
        sparse_top(queries, index, 2)
