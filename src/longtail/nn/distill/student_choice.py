"""Which soft labels a student learns from, and how good a student is on valid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.subsample import evenly_spaced
from longtail.nn.distill.soft_labels import SoftLabels
from longtail.predictions import Predictions
from longtail.seams import Scorer

VALIDATION_ROWS = 4000  # valid rows that a student is measured on
KS = (1, 3, 5)


@dataclass(frozen=True)
class SoftLabelSettings:
    """The soft labels of a student."""

    tau: int
    min_documents: int
    excluded_is_self: bool
    blend: float

    def __str__(self) -> str:
        itself = "true" if self.excluded_is_self else "false"
        return f"tau={self.tau}, min_documents={self.min_documents}, excluded_is_self={itself}, blend={self.blend:g}"

    @property
    def soft(self) -> bool:
        """Whether there are any; without them it is `rows`."""
        return self.tau > 1 or self.min_documents > 1 or self.excluded_is_self

    def softened(self, soft_labels: SoftLabels, train: Dataset) -> Dataset:
        """Add the soft labels to the rows, and the label rows behind them."""
        return soft_labels.softened(train, self.tau, self.blend, self.min_documents > 1, self.excluded_is_self)


@dataclass(frozen=True)
class Try:
    """A student that was trained to choose settings, and its measures on valid."""

    choice: SoftLabelSettings
    value: float  # P + PSP at 1, 3 and 5
    words: str  # a few measures to log

    def __str__(self) -> str:
        return f"{self.choice}: {self.words}"


def validation_value(scorer: Scorer, valid: Dataset) -> tuple[float, str]:
    """Measure a student on valid.

    Args:
        scorer: the student.
        valid: held-out rows; up to VALIDATION_ROWS of them are predicted, evenly spaced.

    Returns:
        P + PSP at 1, 3 and 5 in percent, and a few measures to log.
    """
    from longtail.metrics.evaluate import evaluate

    sample = valid.take(evenly_spaced(len(valid), VALIDATION_ROWS))
    most_excluded = 0 if sample.excluded is None else int(np.diff(sample.excluded.indptr).max(initial=0))
    wanted = min(KS[-1] + most_excluded, len(sample.labels))
    found = Predictions(sample.labels, *scorer.top(sample.rows, wanted)).without(sample.excluded)
    measures = evaluate(found, sample, ks=KS)
    value = sum(measures[f"{name}@{k}"] for name in ("P", "PSP") for k in KS)
    return value, ", ".join(f"{name} {measures[name]:.1f}" for name in ("P@1", "PSP@1", "PSP@5", "C@5"))
