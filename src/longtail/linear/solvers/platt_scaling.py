"""Platt scaling: from scores to the probability of being right, fitted on held-out candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Doubles, Floats
from longtail.linear.solvers.logistic import newton_logistic

MIN_HITS = 20  # held-out hits below which nothing is fitted


@dataclass(frozen=True)
class PlattScaling:
    """The probability that a score is right: log odds = scale x score + offset. It keeps the order of scores."""

    scale: float
    offset: float

    def __post_init__(self) -> None:
        if not (self.scale > 0 and np.isfinite(self.scale) and np.isfinite(self.offset)):
            raise ValueError(
                f"Platt scaling needs a finite scale above 0 and a finite offset, got {self.scale} and {self.offset}"
            )

    def fitted(self, scores: Floats, hits: Bools) -> PlattScaling:
        """Platt scaling fitted to held-out candidates.

        Args:
            scores: (candidates,).
            hits: (candidates,) whether each is right.

        Returns:
            The fitted scaling; this one where there are too few hits or a higher score is not more often right.
        """
        if hits.sum() < MIN_HITS or hits.all():
            return self
        scale, offset = logistic([scores], hits).tolist()
        return PlattScaling(scale, offset) if scale > 0 else self

    def of(self, scores: Floats) -> Floats:
        """Probabilities of scores.

        Args:
            scores: of any shape.

        Returns:
            Probabilities above 0 of the same shape, float32.
        """
        log_odds = self.scale * scores.astype(np.float64) + self.offset
        probabilities: Floats = (1 / (1 + np.exp(-np.clip(log_odds, -80, 80)))).astype(np.float32)  # e^-80 is above 0
        return probabilities


def logistic(columns: Sequence[Floats], hits: Bools) -> Doubles:
    """Weights of a logistic model with a weak normal prior.

    Args:
        columns: inputs, each (candidates,).
        hits: whether each candidate is right (candidates,).

    Returns:
        One weight for each input, and the constant last.
    """
    inputs = np.stack([*columns, np.ones(len(hits))], axis=1).astype(np.float64)
    return newton_logistic(inputs, hits.astype(np.float64), prior_strength=1e-2, step_limit=5)
