"""The solvers against scipy's minimisers in float64."""

from __future__ import annotations

from itertools import pairwise
from threading import Barrier

import numpy as np
import pytest
from numba import njit
from scipy import sparse
from scipy.optimize import minimize

from longtail.linear.solvers.coordinate_descent import (
    ChildTargets,
    Descent,
    Limits,
    NodeRows,
    PassScratch,
    Variables,
    _aligned,
    _passes,
    _sigmoid,
    fit_children,
    fit_logistic,
)
from longtail.linear.solvers.prefetch import prefetch
from longtail.linear.solvers.pruning import pruned
from longtail.linear.trees.node_rows import LevelTargets, Scratch, gather
from longtail.threads import in_threads


def problem(seed: int, rows: int = 120, features: int = 30, children: int = 7) -> tuple[sparse.csr_array, np.ndarray]:
    """Random rows and targets, hard and soft; the last row is empty and has no target."""
    rng = np.random.default_rng(seed)
    inputs = sparse.random_array((rows, features), density=0.2, rng=rng, format="csr", dtype=np.float32)
    targets = (rng.random((rows, children)) < 0.2).astype(np.float32)
    targets[rng.random((rows, children)) < 0.1] = 0.4
    targets[-1] = 0
    return inputs, targets


def child_targets(targets: np.ndarray) -> ChildTargets:
    csr = sparse.csr_array(targets)
    return ChildTargets(csr.indptr.astype(np.int64), csr.indices.astype(np.int32).copy(), csr.data.copy())


def node_rows(inputs: sparse.csr_array) -> NodeRows:
    starts = inputs.indptr.astype(np.int64)
    return NodeRows(starts[:-1], starts[1:], inputs.indices, inputs.data, inputs.shape[1])


@pytest.mark.parametrize("children", [1, 2, 17])
@pytest.mark.parametrize("cost", [0.3, 1.0])
def test_squared_hinge_reaches_the_minimum(children: int, cost: float) -> None:
    inputs, targets = problem(children, children=children)
    weights = fit_children(node_rows(inputs), child_targets(targets), children, Descent(cost, 1e-6, 5000, 1))
    design = np.c_[inputs.toarray(), np.ones(len(targets))].astype(np.float64)
    for child in range(children):
        positive = targets[:, child].astype(np.float64)

        def loss(w: np.ndarray, positive: np.ndarray = positive) -> tuple[float, np.ndarray]:
            score = design @ w
            up, down = np.maximum(0, 1 - score), np.maximum(0, 1 + score)
            value = 0.5 * w @ w + cost * (positive * up**2 + (1 - positive) * down**2).sum()
            return value, w + cost * design.T @ (-2 * positive * up + 2 * (1 - positive) * down)

        best = minimize(loss, np.zeros(31), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
        assert np.abs(weights[:, child] - best.x).max() < 1e-4


@pytest.mark.parametrize("children", [1, 7, 17])
@pytest.mark.parametrize("cost", [1.0, 10.0])
def test_log_loss_reaches_the_minimum(children: int, cost: float) -> None:
    inputs, targets = problem(children, children=children)
    importance = np.random.default_rng(3).uniform(0.2, 1, len(targets)).astype(np.float32)
    settings = Descent(cost, 1e-7, 5000, 1)
    weights = fit_logistic(node_rows(inputs), child_targets(targets), importance, children, settings)
    design = np.c_[inputs.toarray(), np.ones(len(targets))].astype(np.float64)
    for child in range(children):
        positive = targets[:, child].astype(np.float64)

        def loss(w: np.ndarray, positive: np.ndarray = positive) -> tuple[float, np.ndarray]:
            score = design @ w
            value = 0.5 * w @ w + cost * (importance * (np.logaddexp(0, score) - positive * score)).sum()
            return value, w + cost * design.T @ (importance * (1 / (1 + np.exp(-score)) - positive))

        best = minimize(loss, np.zeros(31), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
        assert np.abs(weights[:, child] - best.x).max() < 1e-4


def test_a_soft_target_of_one_is_a_positive_and_siblings_do_not_meet() -> None:
    """A child trained alone gets the weights it gets beside others, up to the tolerance of the passes."""
    inputs, targets = problem(5, children=20)
    together = fit_children(node_rows(inputs), child_targets(targets), 20, Descent(1.0, 1e-6, 5000, 1))
    for child in (0, 19):
        mine = child_targets(targets[:, child : child + 1])
        alone = fit_children(node_rows(inputs), mine, 1, Descent(1.0, 1e-6, 5000, 2))
        assert np.abs(alone[:, 0] - together[:, child]).max() < 1e-4


def test_the_fast_logistic_is_good_to_float32() -> None:
    fast = njit(lambda value: _sigmoid(np.float32(value)))
    for value in np.linspace(-15, 15, 301):
        assert abs(fast(value) - 1 / (1 + np.exp(-value))) < 3e-7


def test_rows_and_targets_of_a_node() -> None:
    inputs = sparse.csr_array(np.array([[0, 2, 0, 1], [3, 0, 0, 0], [0, 4, 0, 0], [0, 0, 0, 0]], dtype=np.float32))
    place = np.full(4, -1, dtype=np.int32)
    starts, columns, values, names = gather(
        np.array([0, 2, 3]), inputs.indptr.astype(np.int64), inputs.indices.astype(np.int32), inputs.data, place
    )
    assert (starts.tolist(), columns.tolist(), values.tolist()) == ([0, 2, 3, 3], [0, 1, 0], [2, 1, 4])
    assert names.tolist() == [1, 3]
    assert (place == -1).all()


def test_names_ascend_where_that_is_asked_for() -> None:
    inputs, _ = problem(3)
    arrays = (inputs.indptr.astype(np.int64), inputs.indices.astype(np.int32), inputs.data)
    rows, place = np.array([7, 3, 90]), np.full(30, -1, dtype=np.int32)
    starts, columns, values, names = gather(rows, *arrays, place, ascending=True)
    found = sparse.csr_array((values, names[columns], starts), shape=(3, 30))
    assert np.array_equal(found.toarray(), inputs.toarray()[rows])
    assert (np.diff(names) > 0).all()
    assert (place == -1).all()


@pytest.mark.parametrize("min_weight", [0.3, 0.0, np.linspace(0, 1, 13, dtype=np.float32)])
@pytest.mark.parametrize(("children", "lanes"), [(13, 16), (13, 24), (1, 1), (3, 4)])
def test_small_weights_are_dropped(children: int, lanes: int, min_weight: float | np.ndarray) -> None:
    rng = np.random.default_rng(children)
    weights = (rng.normal(size=(41, lanes)) * (rng.random((41, lanes)) < 0.3)).astype(np.float32)
    weights[5] = 0
    names = np.arange(0, 80, 2, dtype=np.int32)
    bound = np.broadcast_to(np.float32(min_weight), (13,))[:children]
    weights[7, :children] = bound  # what is just large enough stays
    features, starts, which, values = pruned(
        weights, names, children, bound if np.ndim(min_weight) else np.float32(min_weight)
    )
    kept = [(feature, child) for feature in range(40) for child in range(children)]
    kept = [(f, c) for f, c in kept if weights[f, c] != 0 and abs(weights[f, c]) >= bound[c]]
    assert list(zip(np.repeat(features, np.diff(starts)).tolist(), which.tolist(), strict=True)) == [
        (2 * feature, child) for feature, child in kept
    ]
    assert values.tolist() == [weights[at] for at in kept]


@pytest.mark.parametrize("shape", [(1, 1), (7, 8), (1000, 104), (0, 8)])
def test_tables_begin_where_a_cache_line_does(shape: tuple[int, int]) -> None:
    table = _aligned(*shape)
    assert table.shape == shape
    assert not table.any()
    assert table.flags.c_contiguous
    assert not table.size or table.__array_interface__["data"][0] % 64 == 0


@pytest.mark.parametrize("seed", range(4))
def test_targets_of_a_level_are_those_of_its_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = (rng.random((12, 9)) * (rng.random((12, 9)) < 0.3)).astype(np.float32)
    first_child = np.array([0, 3, 4, 9])
    dense[:, 3] = 0 if seed == 0 else dense[:, 3]  # a node without a row
    level = LevelTargets(sparse.csr_array(dense), first_child)
    for node, (first, last) in enumerate(pairwise(first_child.tolist())):
        rows = np.flatnonzero(dense[:, first:last].any(axis=1))
        found_targets = level.of(node)
        assert level.rows(node) == len(rows)
        assert found_targets.rows.tolist() == rows.tolist()
        assert found_targets.importance == pytest.approx(dense[rows, first:last].max(axis=1, initial=0))
        for begin, end in ((first, last), (first, first + 1), (last - 1, last)):  # all children, and some
            starts, children, values = found_targets.among(begin, end)
            found = sparse.csr_array((values, children, starts), shape=(len(rows), end - begin))
            assert np.array_equal(found.toarray(), dense[rows, begin:end])


@pytest.mark.parametrize("soft", [False, True])
def test_children_that_no_longer_change_have_converged(soft: bool) -> None:
    """A positive is not a negative: the update of a child as a negative must not keep it from converging."""
    inputs, targets = problem(5)
    if not soft:
        targets = (targets == 1).astype(np.float32)
    lanes, number = 8, inputs.shape[0]
    squared_norms = 1 + (inputs.toarray() ** 2).sum(axis=1)
    positive = np.zeros(np.count_nonzero(targets), dtype=np.float32)
    weights, negative = np.zeros((31, lanes), dtype=np.float32), np.zeros((number, lanes), dtype=np.float32)
    converged = np.zeros(lanes, dtype=np.bool_)
    given = (lanes, node_rows(inputs), child_targets(targets), Variables(weights, negative, positive))
    scratch = PassScratch(squared_norms, np.arange(number), converged, *np.empty((4, lanes), dtype=np.float32))
    made = _passes(*given, Limits(np.float32(0.5), np.float32(1e-3), 1000, 1), scratch)
    assert 3 < made < 200
    assert converged.sum() >= lanes // 2
    before = weights.copy()
    _passes(*given, Limits(np.float32(0.5), np.float32(0.0), 1, -1), scratch)
    assert np.abs(weights - before).max() < 0.05  # and they were right to stop
    assert np.abs(before).max() > 0.5


def test_prefetching_changes_nothing_and_may_miss() -> None:
    @njit
    def ask(array):  # type: ignore[no-untyped-def]
        prefetch(array, 0)
        prefetch(array, 7)
        prefetch(array, 10**12)
        return array.sum()

    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert ask(table) == 66
    assert ask(np.zeros(0, dtype=np.float32)) == 0


def test_each_thread_has_a_scratch_of_its_own_that_stays_clean() -> None:
    inputs, _ = problem(2)
    arrays = (inputs.indptr.astype(np.int64), inputs.indices, inputs.data)
    scratch, seen = Scratch(30), []

    def work(number: int) -> None:
        gather(np.arange(number, 100), *arrays, scratch.place)
        seen.append(scratch.place)
        both.wait(10)

    both = Barrier(2)
    in_threads(work, range(2), threads=2)
    assert seen[0] is not seen[1]
    assert all((place == -1).all() for place in seen)
