"""Logistic regression on a few inputs by Newton's method, as calibrations of held-out scores need it."""

from __future__ import annotations

import math

import numpy as np

from longtail.arrays import AnyArray, Doubles

TOL = 1e-8  # the fit has converged when no weight changes by more


def sigmoid(values: AnyArray, clip: float = 80.0) -> AnyArray:
    """The logistic function 1 / (1 + exp(-value)).

    Args:
        values: log odds, any shape, float32 or float64.
        clip: log odds are cut to [-clip, clip] first; at 80 a probability is still above 0 as float32.

    Returns:
        Probabilities of the same shape and dtype.
    """
    result: AnyArray = 1 / (1 + np.exp(-np.clip(values, -clip, clip)))
    return result


def newton_logistic(
    inputs: Doubles,
    hits: Doubles,
    *,
    prior_mean: Doubles | None = None,
    prior_strength: float = 1.0,
    offset: Doubles | float = 0.0,
    step_limit: float = math.inf,
    clip: float = 80.0,
    max_iter: int = 100,
) -> Doubles:
    """Weights of a logistic model with a normal prior, which keeps them finite where the data is separable.

    Args:
        inputs: (examples, weights); a constant needs a column of ones.
        hits: (examples,), 1 where the example is right and 0 where it is not.
        prior_mean: (weights,), where the prior is centred and Newton's method starts; zeros by default.
        prior_strength: one over the variance of the prior.
        offset: (examples,) or one number, added to the log odds.
        step_limit: largest change of a weight in one step, because Newton's method overshoots far from the optimum.
        clip: see `sigmoid`.
        max_iter: Newton steps at most.

    Returns:
        The weights (weights,).
    """
    mean = np.zeros(inputs.shape[1]) if prior_mean is None else prior_mean
    weights: Doubles = mean.copy()
    for _ in range(max_iter):
        probability = sigmoid(inputs @ weights + offset, clip)
        gradient = inputs.T @ (probability - hits) + prior_strength * weights - prior_strength * mean
        hessian = (inputs * (probability * (1 - probability))[:, None]).T @ inputs
        step = np.linalg.solve(hessian + prior_strength * np.eye(len(weights)), gradient)
        weights = weights - step / max(np.abs(step).max() / step_limit, 1)
        if np.abs(step).max() < TOL:
            break
    return weights
