"""The dial between frequent and rare labels, turned when a model predicts: it ranks by p x (inverse propensity)^t.

p is the probability that a label is right, t the dial. At 0 the order is that of p. At 1 a right label counts by how
rare it is, as in PSP. The score of a label stays p, so that a threshold means the same at every t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longtail.data.dataset import Dataset
from longtail.errors import DataError
from longtail.metrics.evaluate import evaluate
from longtail.metrics.propensity import inverse_propensity
from longtail.metrics.weighted_top import weighted_top
from longtail.predictions import Predictions, ranking

MAX_DIAL = 2.0
STEPS = tuple(step / 10 for step in range(11))  # of a curve
CURVE_KS = (1, 3, 5)
CURVE_MEASURES = ("P@1", "P@5", "PSP@1", "PSP@5", "C@1", "C@5", "nDCG@5")


@dataclass(frozen=True)
class DialPoint:
    """Measures at one setting of the dial."""

    dial: float
    values: dict[str, float]  # CURVE_MEASURES, in percent


def check_dial(dial: Any, name: str = "dial") -> float:
    """Check a setting of the dial.

    Args:
        dial: what was given.
        name: of the argument or option, for the message.

    Returns:
        The setting, from 0 to MAX_DIAL.

    Raises:
        DataError: it is no number, not finite, or out of range.
    """
    if (
        isinstance(dial, bool | np.bool_)
        or not isinstance(dial, int | float | np.integer | np.floating)
        or not math.isfinite(dial)
        or not 0 <= dial <= MAX_DIAL
    ):
        raise DataError(
            f"{name} is a number from 0 (by probability alone) to {MAX_DIAL:g} (rare labels first), got {dial!r}"
        )
    return float(dial)


def turned(predictions: Predictions, dial: float) -> Predictions:
    """Order candidates by p x (inverse propensity)^dial, ties by label row.

    Args:
        predictions: candidates whose scores are probabilities.
        dial: t, at least 0; 0 returns the predictions as they are.

    Returns:
        The same candidates and scores in their new order, empty places last.
    """
    if dial == 0:
        return predictions
    indices, scores = predictions.indices, predictions.scores
    weights = inverse_propensity(predictions.labels, np.maximum(indices, 0))
    order = ranking(indices, scores.astype(np.float64) * weights**dial)
    return Predictions(
        predictions.labels, np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1)
    )


def dial_curve(predictions: Predictions, data: Dataset, steps: Sequence[float] = STEPS) -> tuple[DialPoint, ...]:
    """Measure one prediction at several settings of the dial.

    Args:
        predictions: of the rows of `data`, best first, with as many candidates as the dial may move; scores are
            probabilities. Excluded pairs are gone, as `Model.predict` leaves them.
        data: the rows with their targets and excluded pairs.
        steps: settings of the dial.

    Returns:
        One point a step.
    """
    if len(data) == 0:
        return ()
    points, weights = [], inverse_propensity(data.labels)
    for step in steps:
        top = weighted_top(predictions, weights**step, CURVE_KS[-1]) if step else predictions
        measures = evaluate(top, data, ks=CURVE_KS)
        points.append(DialPoint(step, {name: measures[name] for name in CURVE_MEASURES}))
    return tuple(points)
