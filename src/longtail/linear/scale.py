"""Scores of models that know different labels on one scale: the chance of being right, learned on held-out rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Doubles, Floats

LEAST_SLOPE = 0.05  # a better score never means a smaller chance, whatever a handful of held-out rows say


@dataclass(frozen=True)
class Scale:
    """Log odds of being right = slope x ln score + rival x r / (1 + r) + offset.

    r is the best score that another model gives to the same row, 0 where it has no answer: where that model is sure,
    this one's answers are right more or less often. It is one number a row, so the order of a row's scores stays.
    """

    slope: float
    rival: float
    offset: float

    @classmethod
    def of_share(cls, share: float) -> Scale:
        """Without held-out rows: a model that was trained on a share of the rows scores as if every row were one of
        them, so the odds are score x share."""
        return cls(1.0, 0.0, math.log(share))

    def fitted(self, scores: Floats, rivals: Floats, hits: Bools) -> Scale:
        """From candidates of held-out rows (candidates,), the best rival of each and whether it is right.

        This scale is what is believed before: a normal prior of width 1 around its weights, which a few dozen hits
        overcome.
        """
        logs, right = np.log(scores.astype(np.float64)), hits.astype(np.float64)
        inputs = np.stack([logs, _bounded(rivals), np.ones_like(logs)], axis=1)
        believed = np.array([self.slope, self.rival, self.offset])
        weights = _newton(inputs, right, np.zeros_like(logs), believed)
        if weights[0] < LEAST_SLOPE:
            weights[0] = LEAST_SLOPE
            weights[1:] = _newton(inputs[:, 1:], right, LEAST_SLOPE * logs, believed[1:])
        return Scale(*weights.tolist())

    def of(self, scores: Floats, rivals: Floats) -> Floats:
        """The chance of each score (rows, places), given the best rival of each row (rows, 1); 0 stays 0."""
        logs = np.log(np.where(scores > 0, scores, 1), dtype=np.float64)
        chance = _logistic(self.slope * logs + self.rival * _bounded(rivals) + self.offset)
        return np.where(scores > 0, chance, 0).astype(np.float32)


def _bounded(rivals: Floats) -> Doubles:
    """Scores without an upper end must not outweigh everything else."""
    wide = rivals.astype(np.float64)
    return wide / (1 + wide)


def _newton(inputs: Doubles, right: Doubles, known: Doubles, believed: Doubles) -> Doubles:
    """Weights of a logistic model with a normal prior around the believed ones; `known` is added to its log odds."""
    weights = believed.copy()
    for _ in range(100):
        chance = _logistic(inputs @ weights + known)
        slope = inputs.T @ (chance - right) + weights - believed
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights = weights - step / max(np.abs(step).max(), 1)  # at most 1 at a time: far from the end Newton overshoots
        if np.abs(step).max() < 1e-8:
            break
    return weights


def _logistic(values: Doubles) -> Doubles:
    result: Doubles = 1 / (1 + np.exp(-np.clip(values, -80, 80)))  # e^-80 is still above 0 as float32
    return result
