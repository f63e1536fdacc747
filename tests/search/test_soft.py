"""Soft targets from neighbours, against a slow reference that follows the paper step by step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.search.exact import Exact
from longtail.search.soft import (
    _has_entry,
    document_targets,
    index_of,
    label_targets,
    missing_rows,
    new_documents,
    other_labels,
    twin_targets,
)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def halfway(cosines: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return (1 + cosines) / 2


LABELS = unit(np.random.default_rng(0).standard_normal((40, 6)))
DOCUMENTS = unit(np.random.default_rng(1).standard_normal((70, 6)))
TARGETS = sparse.csr_array((np.random.default_rng(2).random((70, 40)) < 0.04).astype(np.float32))


def slow_labels(number: int, floor: float, share: float) -> np.ndarray:
    """The targets of each label's text: itself, then the other labels from near to far."""
    found = np.zeros((40, 40))
    for label in range(40):
        found[label, label] = 1
        cosines = LABELS @ LABELS[label]
        others = [other for other in sorted(range(40), key=lambda row: (-cosines[row], row)) if other != label]
        for other in others:
            similarity = (1 + cosines[other]) / 2
            if similarity < floor or (found[label] > 0).sum() == number:
                break
            found[label, other] = share * similarity
    return found


@pytest.mark.parametrize("number", [1, 2, 5, 40, 100])
@pytest.mark.parametrize("floor", [0.0, 0.6, 0.8])
def test_labels_of_label_rows(number: int, floor: float) -> None:
    near = other_labels(Exact(LABELS), LABELS, number - 1)
    found = label_targets(near, number, floor, halfway, 0.7)
    assert np.allclose(found.toarray(), slow_labels(number, floor, 0.7), atol=1e-6)
    if number == 1:  # plain label rows
        assert np.array_equal(found.toarray(), np.eye(40))


def test_fewer_targets_can_be_cut_from_more_neighbours() -> None:
    near = other_labels(Exact(LABELS), LABELS, 20)
    assert np.allclose(label_targets(near, 4, 0.6, halfway, 1.0).toarray(), slow_labels(4, 0.6, 1.0), atol=1e-6)


def test_a_label_with_twins_is_not_its_own_neighbour() -> None:
    same = np.repeat(LABELS[:2], 4, axis=0)
    near = other_labels(Exact(same), same, 2)
    assert near.rows.shape == (8, 2)
    assert not (near.rows == np.arange(8)[:, None]).any()
    assert (label_targets(near, 3, 0.8, halfway, 1.0).toarray().diagonal() == 1).all()


def slow_documents(positives: int, floor: float, excluded: np.ndarray) -> np.ndarray:
    found = np.zeros((70, 40))
    given = TARGETS.toarray() > 0
    for label in range(40):
        count = 1 + given[:, label].sum()  # the label's own text is one
        cosines = DOCUMENTS @ LABELS[label]
        for row in sorted(range(70), key=lambda row: (-cosines[row], row))[:positives]:
            if count >= positives or (1 + cosines[row]) / 2 < floor:
                break
            if not given[row, label] and not excluded[row, label]:
                found[row, label] = (1 + cosines[row]) / 2
                count += 1
    return found


@pytest.mark.parametrize("positives", [1, 2, 4, 6])
@pytest.mark.parametrize("floor", [0.0, 0.75])
def test_labels_with_few_rows_are_topped_up(positives: int, floor: float) -> None:
    banned = np.random.default_rng(3).random((70, 40)) < 0.1
    near = new_documents(Exact(DOCUMENTS), LABELS, TARGETS, sparse.csr_array(banned), positives)
    found = document_targets(near, 70, floor, halfway, 1.0)
    assert np.allclose(found.toarray(), slow_documents(positives, floor, banned), atol=1e-6)
    assert not (found.toarray() > 0)[TARGETS.toarray() > 0].any()


def test_a_label_with_enough_rows_gets_none() -> None:
    counts = np.asarray((TARGETS.toarray() > 0).sum(axis=0))
    assert np.array_equal(missing_rows(TARGETS, 4), np.maximum(3 - counts, 0))
    assert new_documents(Exact(DOCUMENTS), LABELS, TARGETS, None, 1).rows.shape == (40, 0)


def test_a_share_of_nothing_adds_nothing() -> None:
    near = other_labels(Exact(LABELS), LABELS, 5)
    assert label_targets(near, 6, 0.0, halfway, 0.0).nnz == 40


def test_a_graph_finds_the_same_where_it_is_thorough() -> None:
    pytest.importorskip("faiss")
    exact = other_labels(index_of(LABELS, 40, "exact", "cpu", "fp32"), LABELS, 5)
    graph = other_labels(index_of(LABELS, 40, "approximate", "cpu", "fp32"), LABELS, 5)
    assert (exact.rows == graph.rows).mean() > 0.9


@pytest.mark.parametrize("nothing", [False, True])
def test_pairs_are_found_as_the_dense_matrix_has_them(nothing: bool) -> None:
    rng = np.random.default_rng(3)
    matrix = sparse.csr_array((1, 40)) if nothing else TARGETS
    rows = rng.integers(-1, 1 if nothing else 70, (40, 30)).astype(np.int32)
    found = _has_entry(matrix, rows, np.arange(40))
    dense = matrix.toarray() > 0
    expected = [[row >= 0 and dense[row, label] for row in column] for label, column in enumerate(rows)]
    assert np.array_equal(found, expected) and found.any() != nothing


def test_documents_that_are_a_label_pass_on_their_labels() -> None:
    itself = np.random.default_rng(4).random((70, 40)) < 0.05
    itself[:, 3] = False
    found = twin_targets(TARGETS, sparse.csr_array(itself)).toarray()
    given = TARGETS.toarray()
    for label in range(40):
        rows = [given[row] for row in range(70) if itself[row, label]]
        assert np.allclose(found[label], np.mean(rows, axis=0) if rows else 0, atol=1e-6)
    assert found.max() <= 1 and found.sum() > 0
    assert twin_targets(TARGETS, None).shape == (40, 40) and twin_targets(TARGETS, None).nnz == 0
