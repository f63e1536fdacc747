"""Predict every label above a score instead of the top k: the measures, and thresholds chosen by F1 or precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.cutoff import Cutoff, CutoffChoice
from longtail.data.dataset import Dataset
from longtail.errors import DataError, counted
from longtail.predictions import Predictions


@dataclass(frozen=True)
class AtThreshold:
    """Measures, in percent, where every label with at least this score is predicted."""

    threshold: float
    precision: float  # right predictions / predictions
    recall: float  # right predictions / true labels
    f1: float  # their harmonic mean, over all pairs of row and label ("micro")
    macro_f1: float  # mean of each label's own F1 over all labels of the set, 0 where undefined
    labels_per_row: float
    empty_rows: float  # rows without a prediction


def at_threshold(predictions: Predictions, data: Dataset, threshold: float) -> AtThreshold:
    """Measure the predictions with at least this score.

    Args:
        predictions: of the rows of `data`, in the same order, with a k large enough: labels beyond it count as not
            predicted.
        data: the rows with their targets.
        threshold: the lowest score that is predicted.

    Returns:
        The measures.

    Raises:
        DataError: the rows do not match.
    """
    _check(predictions, data)
    kept = predictions.above(threshold)
    filled, hits = kept.indices >= 0, kept.hits(data.targets)
    labels = len(data.labels)
    predicted, found, true = (
        np.bincount(members, minlength=labels)
        for members in (kept.indices[filled], kept.indices[hits], data.targets.indices)
    )
    both = predicted + true
    macro = np.divide(2 * found, both, out=np.zeros(labels), where=both > 0)
    number, right, all_true = int(filled.sum()), int(hits.sum()), int(data.targets.nnz)
    return AtThreshold(
        threshold=threshold,
        precision=100.0 * right / max(number, 1),
        recall=100.0 * right / max(all_true, 1),
        f1=200.0 * right / max(number + all_true, 1),
        macro_f1=100.0 * float(macro.sum()) / max(labels, 1),
        labels_per_row=number / len(data),
        empty_rows=100.0 * float((~filled.any(axis=1)).mean()),
    )


def best_threshold(predictions: Predictions, data: Dataset) -> float:
    """Find the threshold with the best F1 over all pairs of row and label. Choose it on data you do not report on.

    Args:
        predictions: of the rows of `data`, in the same order.
        data: the rows with their targets.

    Returns:
        The threshold; among equals the highest.

    Raises:
        DataError: the rows do not match, or no prediction is right.
    """
    _check(predictions, data)
    filled = predictions.indices >= 0
    scores, hits = predictions.scores[filled], predictions.hits(data.targets)[filled]
    if not hits.any():
        raise DataError("no prediction for these examples is right, so no threshold is better than another")
    order = np.argsort(-scores, kind="stable")
    scores, found = scores[order], np.cumsum(hits[order])
    f1 = 2 * found / (np.arange(1, len(found) + 1) + data.targets.nnz)
    f1[:-1][scores[:-1] == scores[1:]] = 0  # a threshold takes all predictions of equal score or none
    return float(str(scores[int(np.argmax(f1))]))  # the shortest decimal that rounds to this float32


def threshold_of_precision(predictions: Predictions, data: Dataset, precision: float) -> float:
    """Find the lowest threshold with a precision over all pairs. Choose it on data you do not report on.

    Args:
        predictions: of the rows of `data`, in the same order.
        data: the rows with their targets.
        precision: right predictions / predictions that is wanted at least, 0 to 1.

    Returns:
        The threshold.

    Raises:
        DataError: the rows do not match, or no threshold has this precision.
    """
    _check(predictions, data)
    filled = predictions.indices >= 0
    scores, hits = predictions.scores[filled], predictions.hits(data.targets)[filled]
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    shares = np.cumsum(hits[order]) / np.arange(1, len(scores) + 1)
    shares[:-1][scores[:-1] == scores[1:]] = 0  # a threshold takes all predictions of equal score or none
    reached = np.flatnonzero(shares >= precision)
    if not len(reached):
        raise DataError(
            f"no threshold has a precision of {precision:g} on these examples; the best is "
            f"{shares.max(initial=0):.3f}: ask for less, or train a better model"
        )
    return float(str(scores[int(reached[-1])]))


def choose_cutoff(predictions: Predictions, data: Dataset, choice: CutoffChoice) -> Cutoff:
    """Choose which labels are predicted, on data you do not report on.

    Args:
        predictions: of the rows of `data`, in the same order, with a k large enough.
        data: the rows with their targets.
        choice: what is wanted.

    Returns:
        The cutoff.

    Raises:
        DataError: see `best_threshold` and `threshold_of_precision`.
    """
    found = predictions if choice.most is None else predictions.top(choice.most)
    if choice.precision is None:
        threshold = best_threshold(found, data)
    else:
        threshold = threshold_of_precision(found, data, choice.precision)
    return Cutoff(threshold, choice.most, str(choice))


def _check(predictions: Predictions, data: Dataset) -> None:
    if len(data) == 0 or len(predictions) != len(data):
        raise DataError(
            f"{counted(len(predictions), 'prediction')} for {counted(len(data), 'document')}; predict the same ones"
        )
