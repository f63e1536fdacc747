"""Mixtures of a training row and the text of one of its labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.data.dataset import Dataset
from longtail.data.label_rows import as_rows, labels_with_input, own_targets
from longtail.errors import RecipeError
from longtail.linear.mixing import mixed, mixed_matrix
from longtail.linear.row_plan import more_rows
from longtail.plan import Facts, Plan


@dataclass(frozen=True)
class LabelMixup:
    """Add mixtures of training rows and the text of one of their labels: the label counts 1, the row's others lambda.

    The label is drawn among those of the row that have a text, lambda from Beta(alpha, alpha); texts are mixed as
    `mixup` mixes them. Targets are lambda x the row's + (1 - lambda) x the label alone. The rows given stay as they
    are; mixtures are drawn once, before training.

    Paper: Label-MixUp of Kharbanda et al., Gandalf (KDD 2024), after Zhang et al., mixup (ICLR 2018).
    Needs: label texts, or label features over the columns of the rows. Goes on every learner.
    Costs: training of up to (1 + share) x rows. Predicting costs what it did.
    Prefer instead: `rows` or `gandalf`, which show a label's text without words of one row, once a label.
    Example: longtail compare wordnet "parabel" "parabel + labelmixup(share=0.5)"
    """

    share: float = 1.0  # mixtures for each training row that has a label with a text
    alpha: float = 1.0  # of the Beta distribution: 1 draws every lambda as often, less draws them near 0 and 1
    seed: int = 0

    summary: ClassVar[str] = "mixtures of training rows and the text of one of their labels"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if not 0 < self.share <= 100 or self.alpha <= 0:
            raise RecipeError(
                f"labelmixup takes a share above 0 to 100 and an alpha above 0, got share={self.share:g}, "
                f"alpha={self.alpha:g}"
            )

    def augment(self, train: Dataset) -> Dataset:
        chance = np.random.default_rng(self.seed)
        able = np.zeros(len(train.labels), dtype=np.bool_)
        able[labels_with_input(train, "labelmixup")] = True
        # Entries of labels with a text, row by row; a row draws one of its own.
        entries = np.flatnonzero(able[train.targets.indices])
        owners = np.searchsorted(train.targets.indptr, entries, side="right") - 1
        rows, begin, length = np.unique(owners, return_index=True, return_counts=True)
        number = round(self.share * len(rows))
        if number == 0:
            return train
        drawn = np.concatenate([chance.permutation(len(rows)) for _ in range(-(-number // len(rows)))])[:number]
        spots = begin[drawn] + chance.integers(0, length[drawn])
        labels = train.targets.indices[entries[spots]].astype(np.int64)
        parts = chance.beta(self.alpha, self.alpha, number)
        made = mixed(train.rows.take(rows[drawn]), as_rows(train, labels), parts, chance)
        targets = mixed_matrix(train.targets[rows[drawn]], own_targets(labels, len(train.labels)), parts)
        return train.with_rows(targets=targets, origin="labelmixup", texts=made.texts, features=made.features)

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        number = self.share * facts.rows
        return more_rows(before, facts, number, self.share * facts.positives, facts.terms_per_row)
