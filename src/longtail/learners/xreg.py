"""Label trees for graded relevances."""

from __future__ import annotations

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
from longtail.papers import XREG, Paper
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Xreg(TfidfSettings):
    """`parabel`'s tree for targets in (0, 1]: a node's target is the largest of its labels', relative to its parent's,
    so that the probabilities down a path multiply to the label's own target. Log loss.

    Needs: texts or features; made for soft targets.
    Costs: about three times `parabel`.
    Prefer instead: `parabel` where all targets are 1.
    Example: longtail train wordnet "xreg" --out model
    """

    trees: int = 3
    max_leaf_labels: int = 100  # labels of a leaf at most
    branches: int = 16  # children of a node, a power of two
    cost: float = 10.0  # C
    max_iter: int = 8  # passes over a node's examples
    weight_threshold: float = 0.05  # weights below this share of their classifier's largest are dropped
    beam: int = 10  # nodes kept on each level in prediction
    seed: int = 0

    summary: ClassVar[str] = "label trees that regress graded relevance"
    papers: ClassVar[tuple[Paper, ...]] = (XREG,)
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer
    runs_in_jobs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            min(self.trees, self.max_leaf_labels, self.max_iter, self.beam) < 1
            or self.cost <= 0
            or not 0 <= self.weight_threshold < 1
        ):
            raise RecipeError(
                "xreg takes trees, max_leaf_labels, max_iter and beam of at least 1, cost above 0 and weight_threshold "
                f"from 0 to below 1, got trees={self.trees}, max_leaf_labels={self.max_leaf_labels}, "
                f"max_iter={self.max_iter}, beam={self.beam}, cost={self.cost:g}, "
                f"weight_threshold={self.weight_threshold:g}"
            )
        if self.branches < 2 or self.branches & (self.branches - 1):
            raise RecipeError(f"setting 'branches' of xreg is a power of two such as 2 or 16, got {self.branches}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        """See `Learner.fit`."""
        features, rows = self.read(train)
        training = Training(
            cost=self.cost,
            tol=0.01,
            max_iter=self.max_iter,
            weight_threshold=self.weight_threshold,
            relative_threshold=True,
            log_loss=True,
            seed=self.seed,
        )

        def cluster(vectors: Matrix, seed: int) -> tuple[Ints, list[Longs]]:
            order, levels = balanced_halves(vectors, self.max_leaf_labels, seed)
            return order, merge_levels(levels, self.branches)

        describe = partial(label_vectors, train.targets, rows)
        return fit_forest(features, rows, train.targets, describe, cluster, training, self.trees, self.beam)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        leaf_labels = 0.75 * self.max_leaf_labels  # as for `parabel`
        weights = 20 * kept_weights(2 * self.weight_threshold)
        return plan_trees(facts, self.trees, leaf_labels, self.branches, 3 * self.max_iter, self.beam, weights)
