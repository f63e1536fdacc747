"""Scores of models that know different labels on one scale: the probability of being right, fitted on held-out data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Doubles, Floats
from longtail.linear.solvers.logistic import newton_logistic, sigmoid
from longtail.seams import Fields, Number

MIN_SCALE = 0.05  # a better score never means a smaller probability, whatever a handful of held-out examples show
STEP_LIMIT = 1.0

DECLARED = Fields({"weight": Number(), "rival": Number(), "offset": Number()})  # as settings of a part store it


@dataclass(frozen=True)
class ScoreCalibration:
    """Log odds of being right = weight x ln score + rival x r / (1 + r) + offset.

    r is the best score that another model gives to the same example, 0 where it has no candidate: where that model is
    sure, this one's candidates are right more or less often. r is one number for each example, so the order of an
    example's candidates stays.
    """

    weight: float
    rival: float
    offset: float

    @classmethod
    def of_share(cls, share: float) -> ScoreCalibration:
        """The calibration without held-out data.

        A model that was trained on a share of the examples scores as if every example were one of them, so the odds are
        score x share.
        """
        return cls(1.0, 0.0, math.log(share))

    def fitted(self, scores: Floats, rivals: Floats, hits: Bools) -> ScoreCalibration:
        """Fit the calibration on candidates of held-out examples, with a normal prior of width 1 around this one.

        A few dozen hits overcome the prior.

        Args:
            scores: (candidates,), above 0.
            rivals: the best score of the other model for the same example (candidates,).
            hits: whether each candidate is right (candidates,).

        Returns:
            The fitted calibration.
        """
        logs, right = np.log(scores.astype(np.float64)), hits.astype(np.float64)
        inputs = np.stack([logs, _bounded(rivals), np.ones_like(logs)], axis=1)
        prior = np.array([self.weight, self.rival, self.offset])
        weights = newton_logistic(inputs, right, prior_mean=prior, step_limit=STEP_LIMIT)
        if weights[0] < MIN_SCALE:
            weights[0] = MIN_SCALE
            weights[1:] = newton_logistic(
                inputs[:, 1:], right, prior_mean=prior[1:], offset=MIN_SCALE * logs, step_limit=STEP_LIMIT
            )
        return ScoreCalibration(*weights.tolist())

    def of(self, scores: Floats, rivals: Floats) -> Floats:
        """The probability of each score (rows, places), given the best rival of each example (rows, 1); 0 stays 0."""
        logs = np.log(np.where(scores > 0, scores, 1), dtype=np.float64)
        probability = sigmoid(self.weight * logs + self.rival * _bounded(rivals) + self.offset)
        return np.where(scores > 0, probability, 0).astype(np.float32)


def _bounded(rivals: Floats) -> Doubles:
    """r / (1 + r): scores without an upper bound must not outweigh everything else."""
    wide = rivals.astype(np.float64)
    return wide / (1 + wide)
