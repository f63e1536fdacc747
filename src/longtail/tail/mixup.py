"""Mixtures of two training examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.features.added_rows_plan import more_rows
from longtail.linear.features.mixed_examples import mixed, mixed_matrix
from longtail.papers import MIXUP, Paper
from longtail.plan import DataFacts, Plan


@dataclass(frozen=True)
class Mixup:
    """Add mixtures of two training examples: lambda x one + (1 - lambda) x the other, in inputs and in targets.

    lambda is drawn from Beta(alpha, alpha) for each mixture. Texts cannot be averaged: a mixed text keeps each word of
    the one text with probability lambda and each word of the other with probability 1 - lambda, which averages their
    word counts in expectation. Features are added up. The examples given stay as they are; mixtures are drawn once,
    before training. Nets over word vectors can mix the vectors of documents in each step instead, as the paper does:
    `astec(mixup_alpha=1.0)`.

    Needs: texts or features. Goes on every learner; `bm25`, which does not learn, does not change.
    Costs: training on 1 + fraction times the examples. Predicting costs what it did.
    Prefer instead: `gandalf` or `lever`; mixtures know nothing of the labels' texts and hardly help the tail.
    Example: longtail compare wordnet "parabel" "parabel + mixup(fraction=0.5)"
    """

    fraction: float = 1.0  # mixtures for each training example
    alpha: float = 1.0  # of the Beta distribution: 1 is uniform, below 1 draws lambda near 0 and 1
    seed: int = 0

    summary: ClassVar[str] = "mixtures of two training examples and of their targets"
    papers: ClassVar[tuple[Paper, ...]] = (MIXUP,)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 100 or self.alpha <= 0:
            raise RecipeError(
                f"mixup takes a fraction above 0 to 100 and an alpha above 0, got fraction={self.fraction:g}, "
                f"alpha={self.alpha:g}"
            )

    def augment(self, train: Dataset) -> Dataset:
        """See `Augments.augment`."""
        rng = np.random.default_rng(self.seed)
        number = round(self.fraction * len(train))
        if number == 0 or len(train) < 2:
            return train
        one = np.concatenate([rng.permutation(len(train)) for _ in range(-(-number // len(train)))])[:number]
        other = (one + rng.integers(1, len(train), number)) % len(train)  # never the row itself
        parts = rng.beta(self.alpha, self.alpha, number)
        rows = mixed(train.rows.take(one), train.rows.take(other), parts, rng)
        targets = mixed_matrix(train.targets[one], train.targets[other], parts)
        return train.with_rows(targets=targets, origin="mixup", texts=rows.texts, features=rows.features)

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        number = self.fraction * facts.rows
        return more_rows(before, facts, number, 2 * self.fraction * facts.positives, facts.terms_per_row)
