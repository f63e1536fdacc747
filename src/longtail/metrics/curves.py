"""The bins of a calibration curve."""

from __future__ import annotations

from dataclasses import dataclass

from longtail.data.dataset import Dataset
from longtail.errors import DataError
from longtail.metrics.tally import tally
from longtail.predictions import Predictions


@dataclass(frozen=True)
class ScoreBin:
    """Predictions with similar scores. Where the scores are calibrated, `mean_score` and `hit_rate` agree."""

    low: float
    high: float
    count: int  # predictions with a score in [low, high); the last bin holds 1.0 too
    mean_score: float  # in [0, 1]
    hit_rate: float  # in [0, 1]


def calibration_curve(predictions: Predictions, data: Dataset, k: int = 5) -> tuple[ScoreBin, ...]:
    """Compute the bins behind ECE@k.

    Args:
        predictions: with scores in [0, 1].
        data: the documents with their targets.
        k: predictions of each document that count.

    Returns:
        The bins that hold a prediction, from low scores to high.

    Raises:
        DataError: a score lies outside [0, 1].
    """
    cells = tally(predictions, data, [k]).cells
    if cells is None:
        raise DataError(
            "a calibration curve needs scores in [0, 1], and some of these lie outside; "
            "use a model whose scores are probabilities"
        )
    number = cells.shape[1]
    return tuple(
        ScoreBin(index / number, (index + 1) / number, int(count), scores / count, hits / count)
        for index, (count, scores, hits) in enumerate(cells[0].tolist())
        if count
    )
