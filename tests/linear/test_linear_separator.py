"""The separator against a general optimiser on the same objective, in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from longtail.linear.solvers.l1_logistic import separate


def objective(weights: NDArray[np.float64], bias: float, rows: NDArray[np.float64], sides: NDArray[np.float64],
              costs: NDArray[np.float64]) -> float:  # fmt: skip
    return float(np.abs(weights).sum() + (costs * np.logaddexp(0, -sides * (rows @ weights + bias))).sum())


def reference(rows: NDArray[np.float64], sides: NDArray[np.float64], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each weight as the difference of two that are not negative: smooth, so L-BFGS-B solves it. Bias last."""
    features = rows.shape[1]

    def value(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        up, down, bias = point[:features], point[features:-1], point[-1]
        margins = sides * (rows @ (up - down) + bias)
        by_margin = -costs * sides / (1 + np.exp(margins))
        by_weight = rows.T @ by_margin
        gradient = np.concatenate([1 + by_weight, 1 - by_weight, [by_margin.sum()]])
        return float(up.sum() + down.sum() + (costs * np.logaddexp(0, -margins)).sum()), gradient

    bounds = [(0, None)] * (2 * features) + [(None, None)]
    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(value, np.zeros(2 * features + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.append(found.x[:features] - found.x[features:-1], found.x[-1])


def solve(rows: sparse.csr_array, sides: NDArray[np.float64], costs: NDArray[np.float64], *, rounds: int = 200,
          passes: int = 200, tol: float = 1e-9) -> tuple[NDArray[np.float64], float]:  # fmt: skip
    by_feature = rows.tocsc()
    starts, members = by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32)
    found = separate(starts, members, by_feature.data.astype(np.float32), sides, costs, rounds, passes, tol)
    return found[0], float(found[1])


def problem(seed: int, rows: int = 80, features: int = 25) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, features)) < 0.3, rng.normal(size=(rows, features)), 0).astype(np.float32)
    sides = np.where(dense[:, :4].sum(axis=1) + 0.7 * rng.normal(size=rows) + 0.4 > 0, 1.0, -1.0)
    return sparse.csr_array(dense), sides


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cost", [0.3, 1.0, 5.0])
def test_finds_the_optimum_of_the_objective(seed: int, cost: float) -> None:
    rows, sides = problem(seed)
    costs = np.where(sides > 0, cost, 1.7 * cost)  # the two sides weigh differently
    weights, bias = solve(rows, sides, costs)
    dense = rows.toarray().astype(np.float64)
    expected = reference(dense, sides, costs)
    best = objective(expected[:-1], expected[-1], dense, sides, costs)
    assert objective(weights, bias, dense, sides, costs) <= best * (1 + 1e-8)
    assert weights == pytest.approx(expected[:-1], abs=2e-3)
    assert bias == pytest.approx(expected[-1], abs=2e-3)


def test_weights_are_sparse_and_meet_the_optimality_conditions() -> None:
    rows, sides = problem(11, rows=200, features=60)
    costs = np.full(200, 0.4)
    weights, bias = solve(rows, sides, costs)
    gradient = rows.T @ (-costs * sides / (1 + np.exp(sides * (rows @ weights + bias))))
    assert 0 < np.count_nonzero(weights) < 40
    assert np.abs(gradient[weights == 0]).max() <= 1 + 1e-6
    assert gradient[weights != 0] == pytest.approx(-np.sign(weights[weights != 0]), abs=1e-6)


def test_a_weak_loss_leaves_every_weight_at_zero() -> None:
    rows, sides = problem(3)
    weights, _ = solve(rows, sides, np.full(80, 0.01))
    assert not weights.any()


def test_few_rounds_come_close() -> None:
    """The settings that trees use: within a hundredth of the optimum."""
    rows, sides = problem(5, rows=400, features=80)
    costs = np.full(400, 1.0)
    dense = rows.toarray().astype(np.float64)
    exact = solve(rows, sides, costs)
    quick = solve(rows, sides, costs, rounds=10, passes=10, tol=0.01)
    assert objective(*quick, dense, sides, costs) <= 1.01 * objective(*exact, dense, sides, costs)


def test_rows_that_a_feature_separates_wholly_do_not_run_away() -> None:
    rows = sparse.csr_array(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.float32))
    weights, bias = solve(rows, np.array([1.0, 1, -1, -1]), np.full(4, 50.0))
    assert np.isfinite(weights).all() and np.isfinite(bias)
    assert ((rows @ weights + bias) > 0).tolist() == [True, True, False, False]
