"""Mixtures of a training example and the text of one of its labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.label_rows import as_rows, labels_with_input, own_targets
from longtail.errors import RecipeError
from longtail.linear.features.added_rows_plan import more_rows
from longtail.linear.features.mixed_examples import mixed, mixed_matrix
from longtail.papers import GANDALF, MIXUP, Paper
from longtail.plan import DataFacts, Plan


@dataclass(frozen=True)
class LabelMixup:
    """Add mixtures of training examples and the text of one of their labels: that label has target 1, the others
    lambda.

    The label is drawn among those of the example that have a text, lambda from Beta(alpha, alpha); texts are mixed as
    in `mixup`. Targets are lambda x the example's + (1 - lambda) x the label alone. The examples given stay as they
    are; mixtures are drawn once, before training.

    Published form: Label-MixUp of the Gandalf paper.
    Needs: label texts, or label features over the columns of the documents' features. Goes on every learner.
    Costs: training on up to 1 + fraction times the examples. Predicting costs what it did.
    Prefer instead: `rows` or `gandalf`, which add a label's text once and without words of an example.
    Example: longtail compare wordnet "parabel" "parabel + labelmixup(fraction=0.5)"
    """

    fraction: float = 1.0  # mixtures for each training example that has a label with a text
    alpha: float = 1.0  # of the Beta distribution: 1 is uniform, below 1 draws lambda near 0 and 1
    seed: int = 0

    summary: ClassVar[str] = "mixtures of training examples and their labels' texts"
    papers: ClassVar[tuple[Paper, ...]] = (
        GANDALF,
        MIXUP,
    )
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 100 or self.alpha <= 0:
            raise RecipeError(
                f"labelmixup takes a fraction above 0 to 100 and an alpha above 0, got fraction={self.fraction:g}, "
                f"alpha={self.alpha:g}"
            )

    def augment(self, train: Dataset) -> Dataset:
        """See `Augments.augment`."""
        rng = np.random.default_rng(self.seed)
        has_text = np.zeros(len(train.labels), dtype=np.bool_)
        has_text[labels_with_input(train, "labelmixup")] = True
        # Targets of labels with a text, row by row; a row draws one of its own.
        entries = np.flatnonzero(has_text[train.targets.indices])
        owners = np.searchsorted(train.targets.indptr, entries, side="right") - 1
        rows, first, count = np.unique(owners, return_index=True, return_counts=True)
        number = round(self.fraction * len(rows))
        if number == 0:
            return train
        drawn = np.concatenate([rng.permutation(len(rows)) for _ in range(-(-number // len(rows)))])[:number]
        spots = first[drawn] + rng.integers(0, count[drawn])
        labels = train.targets.indices[entries[spots]].astype(np.int64)
        parts = rng.beta(self.alpha, self.alpha, number)
        made = mixed(train.rows.take(rows[drawn]), as_rows(train, labels), parts, rng)
        targets = mixed_matrix(train.targets[rows[drawn]], own_targets(labels, len(train.labels)), parts)
        return train.with_rows(targets=targets, origin="labelmixup", texts=made.texts, features=made.features)

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        number = self.fraction * facts.rows
        return more_rows(before, facts, number, self.fraction * facts.positives, facts.terms_per_row)
