"""From similarities to probabilities: how likely a candidate is right, given its cosine and its label's frequency.

Re-rankers multiply scores by inverse propensity, which is meant for probabilities. So `centroid` fits this on valid: on
bare cosines, `rerank` lowered even PSP.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import Bools, Doubles, Floats, Ints, Longs
from longtail.linear.solvers.logistic import newton_logistic, sigmoid

MIN_HITS = 20  # held-out hits below which five weights cannot be fitted
CLIP = 30  # of the log odds


@dataclass(frozen=True, eq=False)
class CandidateProbability:
    """A logistic model over candidates, fitted on held-out examples.

    The mean of a label's examples is a point near its only example where the label is rare, and a diffuse cloud where
    it is common. So equal cosines do not mean equal probabilities. The inputs of the model are the cosine, its ratio to
    the best cosine of the example, the log of the label's training count, and the cosine times that log.
    """

    weights: Doubles  # (5,), the last is the constant
    log_counts: Floats  # (labels,)

    @classmethod
    def fit(cls, indices: Ints, scores: Floats, hits: Bools, kept: Bools, counts: Longs) -> CandidateProbability | None:
        """Fit the model on candidates of held-out examples.

        Args:
            indices: labels of the candidates (rows, places).
            scores: their cosines (rows, places).
            hits: whether they are right (rows, places).
            kept: which of them to learn from (rows, places).
            counts: training examples of each label (labels,).

        Returns:
            The model, or None where there are too few hits to learn from.
        """
        if hits[kept].sum() < MIN_HITS or hits[kept].all():
            return None
        log_counts = np.log1p(counts).astype(np.float32)
        inputs = _inputs(indices, scores, log_counts)[kept]
        return cls(newton_logistic(inputs, hits[kept].astype(np.float64), clip=CLIP, max_iter=50), log_counts)

    def of(self, indices: Ints, scores: Floats) -> Floats:
        """The probability of each candidate (rows, places), from labels and cosines; 0 where there is no candidate."""
        cosine, relative, common, both, constant = self.weights.astype(np.float32)
        best = np.maximum(scores.max(axis=1, keepdims=True, initial=0), np.float32(1e-12))
        log_counts = self.log_counts[indices]
        log_odds = scores * (cosine + relative / best + both * log_counts) + common * log_counts
        return np.where(indices >= 0, sigmoid(log_odds + constant, CLIP), np.float32(0)).astype(np.float32, copy=False)


def _inputs(indices: Ints, scores: Floats, log_counts: Floats) -> Doubles:
    """(rows, places, 5), the constant last."""
    cosine = scores.astype(np.float64)
    best = np.maximum(cosine.max(axis=1, keepdims=True, initial=0), 1e-12)
    common = log_counts[indices].astype(np.float64)
    return np.stack([cosine, cosine / best, common, cosine * common, np.ones_like(cosine)], axis=-1)
