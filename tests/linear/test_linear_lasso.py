from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from longtail.linear.solvers.lasso import fit_sparse


@pytest.mark.parametrize("penalty", [0.1, 2.0])
def test_reaches_the_minimum(penalty: float) -> None:
    """Against L-BFGS in float64 on the same objective, the weights split into two parts that cannot be negative."""
    rng = np.random.default_rng(2)
    inputs = sparse.random_array((80, 12), density=0.3, rng=rng, format="csc", dtype=np.float32)
    targets = (rng.random((80, 5)) < 0.25).astype(np.float32)
    targets[rng.random((80, 5)) < 0.1] = 0.6
    arrays = (inputs.indptr.astype(np.int64), inputs.indices.astype(np.int32), inputs.data)
    weights = fit_sparse(*arrays, targets, np.float32(penalty), np.float32(1e-7), 20000)
    dense = inputs.toarray().astype(np.float64)
    for label in range(5):
        positive = targets[:, label].astype(np.float64)

        def loss(v: np.ndarray, positive: np.ndarray = positive) -> tuple[float, np.ndarray]:
            score = dense @ (v[:12] - v[12:24]) + v[24]
            up, down = np.maximum(0, 1 - score), np.maximum(0, 1 + score)
            by_score = -2 * positive * up + 2 * (1 - positive) * down
            gradient = dense.T @ by_score
            value = penalty * v[:24].sum() + (positive * up**2 + (1 - positive) * down**2).sum()
            return value, np.concatenate([penalty + gradient, penalty - gradient, [by_score.sum()]])

        bounds = [(0, None)] * 24 + [(None, None)]
        best = minimize(loss, np.zeros(25), jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10})
        expected = np.append(best.x[:12] - best.x[12:24], best.x[24])
        assert np.abs(weights[:, label] - expected).max() < 2e-3
        assert not weights[:-1, label][np.abs(expected[:-1]) < 1e-9].any()  # zero where the minimum is
    assert penalty < 1 or (weights[:-1] == 0).any()
