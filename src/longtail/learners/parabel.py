"""Balanced label trees with linear classifiers.

`cost` is 1.5 by default. The published 1 has 0.05 to 0.07 more P@1 on valid, but 0.4 to 0.5 less PSP@1 and more than a
point less coverage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from longtail.arrays import Ints, Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.linear.trees.label_clusters import balanced_halves, label_vectors, merge_levels
from longtail.linear.trees.label_forest import ForestScorer, fit_forest
from longtail.linear.trees.train_tree import Training
from longtail.linear.trees.tree_plan import kept_weights, plan_trees
from longtail.papers import PARABEL, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Parabel(TfidfSettings):
    """Labels with similar examples share a branch of a balanced tree; an example is routed down by a linear classifier
    at every fork. Several trees from different seeds are averaged.

    Published form: `branches=2`. More `branches` merge levels of halves, as PECOS and omikuji do: fewer forks to
    pass, and better figures.
    Needs: texts or features. A soft target t is a positive of weight t and a negative of weight 1 - t.
    Costs: examples x words x depth; each node trains only on its own examples.
    Prefer instead: `bonsai` for a little more precision at more time; `bm25` where labels have no examples.
    Example: longtail train wordnet "parabel" --out model
    """

    trees: int = 3
    max_leaf_labels: int = 100  # labels of a leaf at most
    branches: int = 16  # children of a node, a power of two
    cost: float = 1.5  # C; the published 1 loses a point of coverage and gains a twentieth of precision
    max_iter: int = 8  # passes over a node's examples
    weight_threshold: float = 0.1  # weights below this are dropped
    beam: int = 10  # nodes kept on each level in prediction
    seed: int = 0

    summary: ClassVar[str] = "balanced label trees with linear classifiers, beam search"
    papers: ClassVar[tuple[Paper, ...]] = (PARABEL,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {"branches": 2, "trees": 3, "max_leaf_labels": 100, "cost": 1.0, "max_iter": 20, "beam": 10},
            "defaults of the authors' code, by its help text",
        )
    }
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer
    runs_in_jobs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            min(self.trees, self.max_leaf_labels, self.max_iter, self.beam) < 1
            or self.cost <= 0
            or self.weight_threshold < 0
        ):
            raise RecipeError(
                "parabel takes trees, max_leaf_labels, max_iter and beam of at least 1, cost above 0 and "
                f"weight_threshold of at least 0, got trees={self.trees}, max_leaf_labels={self.max_leaf_labels}, "
                f"max_iter={self.max_iter}, beam={self.beam}, cost={self.cost:g}, "
                f"weight_threshold={self.weight_threshold:g}"
            )
        if self.branches < 2 or self.branches & (self.branches - 1):
            raise RecipeError(f"setting 'branches' of parabel is a power of two such as 2 or 16, got {self.branches}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        """See `Learner.fit`."""
        features, rows = self.read(train)
        training = Training(
            cost=self.cost, max_iter=self.max_iter, weight_threshold=self.weight_threshold, seed=self.seed
        )

        def cluster(vectors: Matrix, seed: int) -> tuple[Ints, list[Longs]]:
            order, levels = balanced_halves(vectors, self.max_leaf_labels, seed)
            return order, merge_levels(levels, self.branches)

        describe = partial(label_vectors, train.targets, rows)
        return fit_forest(features, rows, train.targets, describe, cluster, training, self.trees, self.beam)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        leaf_labels = 0.75 * self.max_leaf_labels  # halving ends anywhere between half of a leaf and all
        weights = 23 * kept_weights(self.weight_threshold)
        return plan_trees(facts, self.trees, leaf_labels, self.branches, self.max_iter, self.beam, weights)
