"""Mixtures of two training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.mixing import mixed, mixed_matrix
from longtail.linear.row_plan import more_rows
from longtail.plan import Facts, Plan


@dataclass(frozen=True)
class Mixup:
    """Add mixtures of two training rows: lambda of the one and 1 - lambda of the other, in what is read and in targets.

    lambda is drawn from Beta(alpha, alpha) for each. Texts have no mean: a mixed text has each word of the one with
    chance lambda and each word of the other with chance 1 - lambda, which is the mean of their word counts up to
    chance. Features are added up. The rows given stay as they are; mixtures are drawn once, before training.

    Paper: Zhang et al., mixup: beyond empirical risk minimization (ICLR 2018); compared with in Gandalf (KDD 2024).
    Needs: texts or features; soft targets, so `bm25` reads only its rows. Goes on every learner.
    Costs: training of (1 + share) x rows. Predicting costs what it did.
    Prefer instead: `gandalf` or `lever`; mixtures know nothing of the labels' texts and hardly help the tail.
    Example: longtail compare wordnet "parabel" "parabel + mixup(share=0.5)"
    """

    share: float = 1.0  # mixtures for each training row
    alpha: float = 1.0  # of the Beta distribution: 1 draws every lambda as often, less draws them near 0 and 1
    seed: int = 0

    summary: ClassVar[str] = "mixtures of two training rows and of their targets"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0 < self.share <= 100 or self.alpha <= 0:
            raise RecipeError(
                f"mixup takes a share above 0 to 100 and an alpha above 0, got share={self.share:g}, "
                f"alpha={self.alpha:g}"
            )

    def augment(self, train: Dataset) -> Dataset:
        chance = np.random.default_rng(self.seed)
        number = round(self.share * len(train))
        if number == 0 or len(train) < 2:
            return train
        one = np.concatenate([chance.permutation(len(train)) for _ in range(-(-number // len(train)))])[:number]
        other = (one + chance.integers(1, len(train), number)) % len(train)  # never the row itself
        parts = chance.beta(self.alpha, self.alpha, number)
        rows = mixed(train.rows.take(one), train.rows.take(other), parts, chance)
        targets = mixed_matrix(train.targets[one], train.targets[other], parts)
        return train.with_rows(targets=targets, origin="mixup", texts=rows.texts, features=rows.features)

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        number = self.share * facts.rows
        return more_rows(before, facts, number, 2 * self.share * facts.positives, facts.terms_per_row)
