"""The solvers against scipy's minimisers in float64."""

from __future__ import annotations

from itertools import pairwise
from threading import Barrier

import numpy as np
import pytest
from numba import njit
from scipy import sparse
from scipy.optimize import minimize

from longtail.linear.ahead import fetch
from longtail.linear.node_rows import LevelTargets, Scratch, gather
from longtail.linear.solve import _chance, _lined_up, _passes, fit_chances, fit_children, pruned
from longtail.threads import in_threads


def problem(seed: int, rows: int = 120, features: int = 30, children: int = 7) -> tuple[sparse.csr_array, np.ndarray]:
    """Random rows and targets, hard and soft; the last row is empty and has no target."""
    chance = np.random.default_rng(seed)
    inputs = sparse.random_array((rows, features), density=0.2, rng=chance, format="csr", dtype=np.float32)
    targets = (chance.random((rows, children)) < 0.2).astype(np.float32)
    targets[chance.random((rows, children)) < 0.1] = 0.4
    targets[-1] = 0
    return inputs, targets


def told(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    csr = sparse.csr_array(targets)
    return csr.indptr.astype(np.int64), csr.indices.astype(np.int32).copy(), csr.data.copy()


@pytest.mark.parametrize("children", [1, 2, 17])
@pytest.mark.parametrize("cost", [0.3, 1.0])
def test_squared_hinge_reaches_the_minimum(children: int, cost: float) -> None:
    inputs, targets = problem(children, children=children)
    starts = inputs.indptr.astype(np.int64)
    weights = fit_children(
        starts[:-1], starts[1:], inputs.indices, inputs.data, 30, *told(targets), children, cost, 1e-6, 5000, 1
    )
    design = np.c_[inputs.toarray(), np.ones(len(targets))].astype(np.float64)
    for child in range(children):
        yes = targets[:, child].astype(np.float64)

        def loss(w: np.ndarray, yes: np.ndarray = yes) -> tuple[float, np.ndarray]:
            score = design @ w
            up, down = np.maximum(0, 1 - score), np.maximum(0, 1 + score)
            value = 0.5 * w @ w + cost * (yes * up**2 + (1 - yes) * down**2).sum()
            return value, w + cost * design.T @ (-2 * yes * up + 2 * (1 - yes) * down)

        best = minimize(loss, np.zeros(31), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
        assert np.abs(weights[:, child] - best.x).max() < 1e-4


@pytest.mark.parametrize("children", [1, 7, 17])
@pytest.mark.parametrize("cost", [1.0, 10.0])
def test_log_loss_reaches_the_minimum(children: int, cost: float) -> None:
    inputs, targets = problem(children, children=children)
    importance = np.random.default_rng(3).uniform(0.2, 1, len(targets)).astype(np.float32)
    starts = inputs.indptr.astype(np.int64)
    weights = fit_chances(
        starts[:-1],
        starts[1:],
        inputs.indices,
        inputs.data,
        30,
        *told(targets),
        importance,
        children,
        cost,
        1e-7,
        5000,
        1,
    )
    design = np.c_[inputs.toarray(), np.ones(len(targets))].astype(np.float64)
    for child in range(children):
        yes = targets[:, child].astype(np.float64)

        def loss(w: np.ndarray, yes: np.ndarray = yes) -> tuple[float, np.ndarray]:
            score = design @ w
            value = 0.5 * w @ w + cost * (importance * (np.logaddexp(0, score) - yes * score)).sum()
            return value, w + cost * design.T @ (importance * (1 / (1 + np.exp(-score)) - yes))

        best = minimize(loss, np.zeros(31), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
        assert np.abs(weights[:, child] - best.x).max() < 1e-4


def test_a_soft_target_of_one_is_a_yes_and_siblings_do_not_meet() -> None:
    """A child trained alone gets the weights it gets beside others, up to the tolerance of the passes."""
    inputs, targets = problem(5, children=20)
    starts = inputs.indptr.astype(np.int64)
    together = fit_children(
        starts[:-1], starts[1:], inputs.indices, inputs.data, 30, *told(targets), 20, 1.0, 1e-6, 5000, 1
    )
    for child in (0, 19):
        mine = told(targets[:, child : child + 1])
        alone = fit_children(starts[:-1], starts[1:], inputs.indices, inputs.data, 30, *mine, 1, 1.0, 1e-6, 5000, 2)
        assert np.abs(alone[:, 0] - together[:, child]).max() < 1e-4


def test_the_fast_logistic_is_good_to_float32() -> None:
    fast = njit(lambda value: _chance(np.float32(value)))
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


def test_names_rise_where_that_is_asked_for() -> None:
    inputs, _ = problem(3)
    plain = (inputs.indptr.astype(np.int64), inputs.indices.astype(np.int32), inputs.data)
    rows, place = np.array([7, 3, 90]), np.full(30, -1, dtype=np.int32)
    starts, columns, values, names = gather(rows, *plain, place, rising=True)
    found = sparse.csr_array((values, names[columns], starts), shape=(3, 30))
    assert np.array_equal(found.toarray(), inputs.toarray()[rows])
    assert (np.diff(names) > 0).all()
    assert (place == -1).all()


@pytest.mark.parametrize("least", [0.3, 0.0, np.linspace(0, 1, 13, dtype=np.float32)])
@pytest.mark.parametrize(("children", "lanes"), [(13, 16), (13, 24), (1, 1), (3, 4)])
def test_small_weights_are_dropped(children: int, lanes: int, least: float | np.ndarray) -> None:
    chance = np.random.default_rng(children)
    weights = (chance.normal(size=(41, lanes)) * (chance.random((41, lanes)) < 0.3)).astype(np.float32)
    weights[5] = 0
    names = np.arange(0, 80, 2, dtype=np.int32)
    bound = np.broadcast_to(np.float32(least), (13,))[:children]
    features, starts, which, values = pruned(weights, names, children, bound if np.ndim(least) else np.float32(least))
    kept = [(feature, child) for feature in range(40) for child in range(children)]
    kept = [(f, c) for f, c in kept if weights[f, c] != 0 and abs(weights[f, c]) >= bound[c]]
    assert list(zip(np.repeat(features, np.diff(starts)).tolist(), which.tolist(), strict=True)) == [
        (2 * feature, child) for feature, child in kept
    ]
    assert values.tolist() == [weights[at] for at in kept]


@pytest.mark.parametrize("shape", [(1, 1), (7, 8), (1000, 104), (0, 8)])
def test_tables_begin_where_a_line_of_the_cache_does(shape: tuple[int, int]) -> None:
    table = _lined_up(*shape)
    assert table.shape == shape
    assert not table.any()
    assert table.flags.c_contiguous
    assert not table.size or table.__array_interface__["data"][0] % 64 == 0


@pytest.mark.parametrize("seed", range(4))
def test_targets_of_a_level_are_those_of_its_nodes(seed: int) -> None:
    chance = np.random.default_rng(seed)
    dense = (chance.random((12, 9)) * (chance.random((12, 9)) < 0.3)).astype(np.float32)
    first_child = np.array([0, 3, 4, 9])
    dense[:, 3] = 0 if seed == 0 else dense[:, 3]  # a node without a row
    level = LevelTargets(sparse.csr_array(dense), first_child)
    for node, (first, last) in enumerate(pairwise(first_child.tolist())):
        rows = np.flatnonzero(dense[:, first:last].any(axis=1))
        told = level.of(node)
        assert level.rows(node) == len(rows)
        assert told.rows.tolist() == rows.tolist()
        assert told.importance == pytest.approx(dense[rows, first:last].max(axis=1, initial=0))
        for begin, end in ((first, last), (first, first + 1), (last - 1, last)):  # all children, and some
            starts, children, values = told.among(begin, end)
            found = sparse.csr_array((values, children, starts), shape=(len(rows), end - begin))
            assert np.array_equal(found.toarray(), dense[rows, begin:end])


@pytest.mark.parametrize("soft", [False, True])
def test_children_that_no_longer_move_are_done(soft: bool) -> None:
    """A yes is not a no: what a child would do as a no must not keep it from being done."""
    inputs, targets = problem(5)
    if not soft:
        targets = (targets == 1).astype(np.float32)
    starts, lanes, rows = inputs.indptr.astype(np.int64), 8, inputs.shape[0]
    lengths = 1 + (inputs.toarray() ** 2).sum(axis=1)
    yes = np.zeros(np.count_nonzero(targets), dtype=np.float32)
    weights, no = np.zeros((31, lanes), dtype=np.float32), np.zeros((rows, lanes), dtype=np.float32)
    done = np.zeros(lanes, dtype=np.bool_)
    given = (starts[:-1], starts[1:], inputs.indices, inputs.data, lengths, *told(targets), weights, no, yes)
    rest = (np.arange(rows), done, *np.empty((4, lanes), dtype=np.float32))
    made = _passes(lanes, *given, np.float32(0.5), np.float32(1e-3), 1000, 1, *rest)
    assert 3 < made < 200
    assert done.sum() >= lanes // 2
    before = weights.copy()
    _passes(lanes, *given, np.float32(0.5), np.float32(0.0), 1, -1, *rest)
    assert np.abs(weights - before).max() < 0.05  # and they were right to stop
    assert np.abs(before).max() > 0.5


def test_asking_for_memory_ahead_changes_nothing_and_may_miss() -> None:
    @njit
    def ask(array):  # type: ignore[no-untyped-def]
        fetch(array, 0)
        fetch(array, 7)
        fetch(array, 10**12)
        return array.sum()

    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert ask(table) == 66
    assert ask(np.zeros(0, dtype=np.float32)) == 0


def test_each_thread_has_a_scratch_of_its_own_that_stays_clean() -> None:
    inputs, _ = problem(2)
    plain = (inputs.indptr.astype(np.int64), inputs.indices, inputs.data)
    scratch, seen = Scratch(30), []

    def work(number: int) -> None:
        gather(np.arange(number, 100), *plain, scratch.place)
        seen.append(scratch.place)
        both.wait(10)

    both = Barrier(2)
    in_threads(work, range(2), threads=2)
    assert seen[0] is not seen[1]
    assert all((place == -1).all() for place in seen)
