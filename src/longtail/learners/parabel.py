"""Balanced label trees with linear classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from longtail.arrays import Ints, Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.cluster import halve, label_vectors, merged
from longtail.linear.forest import ForestScorer, fit_forest
from longtail.linear.reading import Reading
from longtail.linear.tree import Training, kept_at, plan_trees
from longtail.plan import Facts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Parabel(Reading):
    """Labels whose rows are alike share a branch of a balanced tree; a row walks down it with a linear classifier at
    every fork. Several trees from different starts are averaged.

    Paper: Prabhu et al., Parabel (WWW 2018). The halves are merged into `branches` (PECOS and omikuji do so too):
    fewer forks to pass and better figures than `branches=2`, the published form.
    Needs: texts or features. A soft target t is a yes of weight t and a no of weight 1 - t.
    Costs: rows x words x depth; each node trains only on its own rows.
    Prefer instead: `bonsai` for a little more precision at more time; `bm25` where labels have no rows.
    Example: longtail train wordnet "parabel" --out model
    """

    trees: int = 3
    leaf: int = 100  # most labels in a leaf
    branches: int = 16  # children of a node, a power of two
    cost: float = 1.5  # C; the published 1 gives up a point of coverage for a twentieth of precision
    passes: int = 8  # over a node's rows
    cut: float = 0.1  # weights below this are dropped
    beam: int = 10  # nodes kept on each level
    seed: int = 0

    summary: ClassVar[str] = "balanced 2-means label trees with linear classifiers, beam search"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.trees, self.leaf, self.passes, self.beam) < 1 or self.cost <= 0 or self.cut < 0:
            raise RecipeError("parabel takes trees, leaf, passes and beam of 1 or more, cost above 0, cut of 0 or more")
        if self.branches < 2 or self.branches & (self.branches - 1):
            raise RecipeError(f"setting 'branches' of parabel is a power of two such as 2 or 16, got {self.branches}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        features, rows = self.read(train)
        training = Training(cost=self.cost, passes=self.passes, cut=self.cut, seed=self.seed)

        def group(vectors: Matrix, seed: int) -> tuple[Ints, list[Longs]]:
            order, levels = halve(vectors, self.leaf, seed)
            return order, merged(levels, self.branches)

        describe = partial(label_vectors, train.targets, rows)
        return fit_forest(features, rows, train.targets, describe, group, training, self.trees, self.beam)

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        kept, leaf = 23 * kept_at(self.cut), 0.75 * self.leaf  # halving ends anywhere between half of a leaf and all
        return plan_trees(facts, self.trees, leaf, self.branches, self.passes, self.beam, kept)
