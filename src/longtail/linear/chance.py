"""From similarities to chances: how likely a candidate is right, given how near it is and how common its label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Bools, Doubles, Floats, Ints, Longs

LEAST_HITS = 20  # held-out hits below which five weights cannot be fitted


@dataclass(frozen=True, eq=False)
class Chance:
    """A logistic model over candidates, fitted on held-out rows.

    The mean of a label's rows is a point near its one row when the label is rare and a diffuse cloud when it is
    common, so equal cosines do not mean equal chances. The model sees the cosine, its ratio to the row's best, the
    log of the label's training count, and the cosine times that log.
    """

    weights: Doubles  # (5,), the last is the constant
    log_counts: Floats  # (labels,)

    @classmethod
    def fit(cls, indices: Ints, scores: Floats, hits: Bools, kept: Bools, counts: Longs) -> Chance | None:
        """From the kept candidates of held-out rows (rows, places); None when there are too few hits to learn from."""
        if hits[kept].sum() < LEAST_HITS or hits[kept].all():
            return None
        log_counts = np.log1p(counts).astype(np.float32)
        inputs, right = _inputs(indices, scores, log_counts)[kept], hits[kept].astype(np.float64)
        weights = np.zeros(inputs.shape[1])
        for _ in range(50):  # Newton's method; a weak pull to 0 keeps separable data finite
            chance = _logistic(inputs @ weights)
            slope = inputs.T @ (chance - right) + weights
            curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.eye(len(weights))
            step = np.linalg.solve(curve, slope)
            weights -= step
            if np.abs(step).max() < 1e-8:
                break
        return cls(weights, log_counts)

    def of(self, indices: Ints, scores: Floats) -> Floats:
        """The chance of each candidate (rows, places); 0 where there is none."""
        near, nearer, common, both, constant = self.weights.astype(np.float32)
        best = np.maximum(scores.max(axis=1, keepdims=True, initial=0), np.float32(1e-12))
        value = scores * (near + nearer / best + both * self.log_counts[indices]) + common * self.log_counts[indices]
        return np.where(indices >= 0, _logistic(value + constant), np.float32(0)).astype(np.float32, copy=False)


def _inputs(indices: Ints, scores: Floats, log_counts: Floats) -> Doubles:
    near = scores.astype(np.float64)
    best = np.maximum(near.max(axis=1, keepdims=True, initial=0), 1e-12)
    common = log_counts[indices].astype(np.float64)
    return np.stack([near, near / best, common, near * common, np.ones_like(near)], axis=-1)


def _logistic(values: AnyArray) -> AnyArray:
    result: AnyArray = 1 / (1 + np.exp(-np.clip(values, -30, 30)))
    return result
