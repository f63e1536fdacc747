"""How much the text of a label, its classifier and its frequency say about whether it is right: learned on held-out
rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Bools, Doubles, Floats

LEAST_HITS = 20  # held-out hits below which the weights cannot be learned


@dataclass(frozen=True)
class Odds:
    """The chance that a score is right: log odds = slope x score + offset. It keeps the order."""

    slope: float
    offset: float

    def __post_init__(self) -> None:
        if not (self.slope > 0 and np.isfinite(self.slope) and np.isfinite(self.offset)):
            raise ValueError(f"odds grow with the score, got a slope of {self.slope} and an offset of {self.offset}")

    def fitted(self, scores: Floats, hits: Bools) -> Odds:
        """From scores of held-out candidates; these odds stay where there are too few hits to learn from."""
        if hits.sum() < LEAST_HITS or hits.all():
            return self
        slope, offset = logistic([scores], hits).tolist()
        return Odds(slope, offset) if slope > 0 else self

    def of(self, scores: Floats) -> Floats:
        log_odds = self.slope * scores.astype(np.float64) + self.offset
        chances: Floats = (1 / (1 + np.exp(-np.clip(log_odds, -80, 80)))).astype(np.float32)  # e^-80 is above 0
        return chances


@dataclass(frozen=True)
class Blend:
    """Log odds = text x cosine to the label's text + classifier x cosine to its classifier + frequency x ln(1 + n) +
    a constant, with n the label's training rows.

    It is linear in the row's vector, so the two vectors of a label fold into one: what is saved and searched is no
    larger than either.
    """

    text: float
    classifier: float = 0.0
    frequency: float = 0.0

    @classmethod
    def fit(cls, texts: Floats, classifiers: Floats | None, log_counts: Floats, hits: Bools) -> Blend | None:
        """From candidates of held-out rows (candidates,): cosines, ln(1 + n) and whether they are right. A weight on a
        cosine is never below 0: nearer is better. None where there are too few hits to learn from."""
        if hits.sum() < LEAST_HITS or hits.all():
            return None
        columns = {"text": texts, "frequency": log_counts}
        if classifiers is not None:
            columns["classifier"] = classifiers
        while True:
            found = dict(zip(columns, logistic([*columns.values()], hits).tolist(), strict=False))
            below = [name for name in ("text", "classifier") if found.get(name, 0.0) < 0]
            if not below or len(columns) - len(below) < 2:
                return cls(**({"text": 0.0} | {name: max(found[name], 0.0) for name in columns}))
            del columns[min(below, key=found.__getitem__)]

    @property
    def length(self) -> float:
        """The length of a label's vector while its classifier stands where its text does."""
        return self.text + self.classifier

    def vectors(self, texts: Floats, classifiers: Floats | None) -> Floats:
        """One vector a label (labels, dimension)."""
        joined: AnyArray = np.float32(self.text) * texts
        if classifiers is not None:
            joined = joined + np.float32(self.classifier) * classifiers
        return joined.astype(np.float32, copy=False)


def logistic(columns: Sequence[Floats], hits: Bools) -> Doubles:
    """Weights of a logistic model by Newton's method, the constant last; a weak pull to 0 keeps separable data
    finite."""
    inputs = np.stack([*columns, np.ones(len(hits))], axis=1).astype(np.float64)
    right = hits.astype(np.float64)
    weights = np.zeros(inputs.shape[1])
    for _ in range(100):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ weights, -80, 80)))
        slope = inputs.T @ (chance - right) + 1e-2 * weights
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + 1e-2 * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights = weights - step / max(np.abs(step).max() / 5, 1)  # far from the end Newton overshoots
        if np.abs(step).max() < 1e-8:
            break
    return weights
