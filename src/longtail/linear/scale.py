"""Scores of different models on one scale: the chance of being right, learned on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Doubles, Floats

LEAST_SLOPE = 0.05  # a better score never means a smaller chance, whatever a handful of held-out rows say


@dataclass(frozen=True)
class Scale:
    """Log odds of being right = slope x ln score + offset. Keeps the order of the scores."""

    slope: float
    offset: float

    @classmethod
    def fit(cls, scores: Floats, hits: Bools, share: float) -> Scale:
        """From candidates of held-out rows (candidates,) and whether each is right.

        A model that was trained on a share of the rows scores as if every row were one of them, so without any
        held-out row the odds are score x share. Held-out rows move both weights away from there; a normal prior of
        width 1 is what they have to overcome, which a few dozen hits do.
        """
        logs, right = np.log(scores.astype(np.float64)), hits.astype(np.float64)
        expected = np.array([1.0, np.log(share)])
        weights = _newton(np.stack([logs, np.ones_like(logs)], axis=1), right, np.zeros_like(logs), expected)
        if weights[0] >= LEAST_SLOPE:
            return cls(float(weights[0]), float(weights[1]))
        offset = _newton(np.ones((len(logs), 1)), right, LEAST_SLOPE * logs, expected[1:])
        return cls(LEAST_SLOPE, float(offset[0]))

    def of(self, scores: Floats) -> Floats:
        """The chance of each score; 0 stays 0."""
        logs = np.log(np.where(scores > 0, scores, 1), dtype=np.float64)
        chance = _logistic(self.slope * logs + self.offset)
        return np.where(scores > 0, chance, 0).astype(np.float32)


def _newton(inputs: Doubles, right: Doubles, known: Doubles, expected: Doubles) -> Doubles:
    """Weights of a logistic model with a normal prior around the expected ones; `known` is added to its log odds."""
    weights = expected.copy()
    for _ in range(50):
        chance = _logistic(inputs @ weights + known)
        slope = inputs.T @ (chance - right) + weights - expected
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights = weights - step / max(np.abs(step).max(), 1)  # at most 1 at a time: far from the end Newton overshoots
        if np.abs(step).max() < 1e-8:
            break
    return weights


def _logistic(values: Doubles) -> Doubles:
    result: Doubles = 1 / (1 + np.exp(-np.clip(values, -80, 80)))  # e^-80 is still above 0 as float32
    return result
