"""The Newton solver of small logistic models against a general optimiser, in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from longtail.arrays import Doubles
from longtail.linear.solvers.logistic import newton_logistic, sigmoid


def problem(seed: int) -> tuple[Doubles, Doubles, Doubles]:
    """Inputs with a constant, hits, and offsets of the log odds."""
    rng = np.random.default_rng(seed)
    inputs = np.c_[rng.normal(size=(200, 3)), np.ones(200)]
    offset = rng.normal(size=200)
    log_odds = inputs @ np.array([2.0, -1.0, 0.0, 0.5]) + offset
    return inputs, (rng.random(200) < sigmoid(log_odds)).astype(np.float64), offset


@pytest.mark.parametrize("strength", [1e-2, 1.0, 30.0])
@pytest.mark.parametrize("step_limit", [0.3, 5.0, math.inf])
def test_reaches_the_optimum(strength: float, step_limit: float) -> None:
    inputs, hits, offset = problem(1)
    mean = np.array([1.0, 0.0, -2.0, 0.0])

    def loss(weights: Doubles) -> tuple[float, Doubles]:
        log_odds = inputs @ weights + offset
        value = (np.logaddexp(0, log_odds) - hits * log_odds).sum() + 0.5 * strength * ((weights - mean) ** 2).sum()
        return float(value), inputs.T @ (1 / (1 + np.exp(-log_odds)) - hits) + strength * (weights - mean)

    best = minimize(loss, mean, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
    found = newton_logistic(
        inputs, hits, prior_mean=mean, prior_strength=strength, offset=offset, step_limit=step_limit
    )
    assert found == pytest.approx(best.x, abs=1e-5)


def test_a_step_is_no_longer_than_its_limit() -> None:
    inputs, hits, _ = problem(2)
    whole = newton_logistic(inputs, hits, max_iter=1)
    short = newton_logistic(inputs, hits, max_iter=1, step_limit=0.1)
    assert np.abs(whole).max() > 0.1
    assert np.abs(short).max() == pytest.approx(0.1)
    assert short / np.abs(short).max() == pytest.approx(whole / np.abs(whole).max())


def test_separable_data_keeps_finite_weights() -> None:
    inputs = np.c_[np.linspace(-1, 1, 50), np.ones(50)]
    weights = newton_logistic(inputs, (inputs[:, 0] > 0).astype(np.float64), prior_strength=1e-2, step_limit=5)
    assert np.isfinite(weights).all() and weights[0] > 5


def test_without_examples_the_prior_stays() -> None:
    mean = np.array([0.3, -0.2])
    assert newton_logistic(np.zeros((0, 2)), np.zeros(0), prior_mean=mean).tolist() == mean.tolist()


def test_sigmoid_is_clipped_and_keeps_the_type() -> None:
    found = sigmoid(np.array([-1000, 0, 1000], np.float32))
    assert found.dtype == np.float32 and found[0] > 0 and found[1] == 0.5 and found[2] == 1
    assert sigmoid(np.array([1000.0]), clip=2)[0] == pytest.approx(1 / (1 + math.exp(-2)))
