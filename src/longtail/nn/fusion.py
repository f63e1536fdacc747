"""One score from two: how likely a label is right, given its classifier, its text, and how common it is.

The text of a rare label is all there is to know; the classifier of a common one has seen better. How much to trust
each is learned on held-out rows: on training rows the classifier looks far too good, and test rows teach nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from longtail.arrays import AnyArray, Bools, Doubles, Floats, Ints, Longs
from longtail.errors import DataError, ModelError

INPUTS = 10
LEAST_HITS = 50  # held-out hits below which so many weights cannot be fitted
ROWS = 4096  # looked at in one go


@dataclass(frozen=True, eq=False)
class Fusion:
    """A logistic model over candidates.

    It sees both scores (cosines), each one's distance to the row's best, the log of the label's training count, the
    products of the scores with that log and with each other, and whether the label was never seen: ten numbers to save.
    """

    weights: Doubles  # (10,), the last is the constant

    def __post_init__(self) -> None:
        if self.weights.shape != (INPUTS,) or not np.isfinite(self.weights).all():
            raise ModelError(f"a fusion of scores holds {INPUTS} finite weights, got shape {self.weights.shape}")

    @classmethod
    def plain(cls) -> Fusion:
        """The order of the sum of both scores, for where there is nothing to learn from."""
        weights = np.zeros(INPUTS)
        weights[[0, 1, -1]] = 5.0, 5.0, -8.0
        return cls(weights)

    @classmethod
    def fit(cls, classifier: Floats, embedding: Floats, labels: Ints, counts: Longs, hits: Bools) -> Fusion | None:
        """From the candidates (rows, places) of held-out rows: scores, label rows (-1 = none), which of them are right.

        `counts` (all labels) are training rows of each label. None where there are too few hits to learn from.
        """
        _same_shape(classifier, embedding, labels, hits)
        kept = labels >= 0
        if hits[kept].sum() < LEAST_HITS or hits[kept].all():
            return None
        weights = np.zeros(INPUTS)
        for _ in range(50):  # Newton's method; a weak pull to 0 keeps separable data finite
            slope, curve = weights.copy(), np.eye(INPUTS)
            for rows in _pieces(len(labels)):
                inputs = _inputs(classifier[rows], embedding[rows], labels[rows], counts)[kept[rows]]
                chance = _logistic(inputs @ weights)
                slope += inputs.T @ (chance - hits[rows][kept[rows]])
                curve += (inputs * (chance * (1 - chance))[:, None]).T @ inputs
            step = np.linalg.solve(curve, slope)
            weights -= step
            if np.abs(step).max() < 1e-8:
                break
        return cls(weights)

    def of(self, classifier: Floats, embedding: Floats, labels: Ints, counts: Longs) -> Floats:
        """The chance of each candidate (rows, places), 0 where there is none."""
        _same_shape(classifier, embedding, labels)
        chances = np.zeros(labels.shape, dtype=np.float32)
        for rows in _pieces(len(labels)):
            inputs = _inputs(classifier[rows], embedding[rows], labels[rows], counts)
            chances[rows] = np.where(labels[rows] >= 0, _logistic(inputs @ self.weights), 0)
        return chances


def united(first: Ints, second: Ints) -> Ints:
    """The candidates of two lists a row, each once: in order of the label row, then -1."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    both[:, 1:][both[:, 1:] == both[:, :-1]] = -1
    last = np.where(both < 0, np.iinfo(np.int32).max, both)
    last.sort(axis=1)
    width = int((both >= 0).sum(axis=1).max(initial=0))
    return np.where(last == np.iinfo(np.int32).max, -1, last)[:, :width].astype(np.int32)


def _inputs(classifier: AnyArray, embedding: AnyArray, labels: Ints, counts: Longs) -> Doubles:
    """(rows, places, 10)"""
    none = labels < 0
    trained, written = (np.where(none, 0, each).astype(np.float64) for each in (classifier, embedding))
    seen = np.where(none, 0, counts[labels])
    common = np.log1p(seen)
    behind = [
        each - np.where(none, -np.inf, each).max(axis=1, keepdims=True, initial=-1) for each in (trained, written)
    ]
    known = [trained, written, *behind, common, trained * common, written * common, trained * written, seen == 0]
    return np.stack([*known, np.ones_like(trained)], axis=-1, dtype=np.float64)


def _pieces(rows: int) -> Iterator[slice]:
    return (slice(begin, begin + ROWS) for begin in range(0, rows, ROWS))


def _same_shape(first: AnyArray, *others: AnyArray) -> None:
    if first.ndim != 2 or any(other.shape != first.shape for other in others):
        shapes = ", ".join(str(each.shape) for each in (first, *others))
        raise DataError(f"candidates need (rows, places) arrays of one shape, got {shapes}")


def _logistic(values: AnyArray) -> AnyArray:
    result: AnyArray = 1 / (1 + np.exp(-np.clip(values, -30, 30)))
    return result
