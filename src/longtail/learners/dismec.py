"""One linear classifier for each label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.linear.trees.label_forest import ForestScorer, dense_columns_of, train_forest
from longtail.linear.trees.train_tree import BLOCK, Training
from longtail.linear.trees.tree_plan import HEAP, kept_weights, packed_bytes
from longtail.papers import DISMEC, Paper
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod
from longtail.threads import thread_count


@dataclass(frozen=True)
class Dismec(TfidfSettings):
    """One linear classifier for each label against all examples without it; small weights are dropped.

    Published form: the same; it is trained here as a tree of one node.
    Needs: texts or features. A soft target t is a positive of weight t and a negative of weight 1 - t.
    Costs: examples x words x labels: the most of the linear learners, to train and to predict.
    Prefer instead: `parabel` or `bonsai` for more than about ten thousand labels.
    Example: longtail train wordnet "dismec" --out model
    """

    cost: float = 1.0  # C
    max_iter: int = 8  # passes over the examples
    weight_threshold: float = 0.01  # weights below this are dropped
    seed: int = 0

    summary: ClassVar[str] = "one-vs-all linear classifiers, squared hinge, pruned"
    papers: ClassVar[tuple[Paper, ...]] = (DISMEC,)
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer
    runs_in_jobs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_iter < 1 or self.cost <= 0 or self.weight_threshold < 0:
            raise RecipeError(
                "dismec takes max_iter of at least 1, cost above 0 and weight_threshold of at least 0, got "
                f"max_iter={self.max_iter}, cost={self.cost:g}, weight_threshold={self.weight_threshold:g}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        """See `Learner.fit`."""
        features, rows = self.read(train)
        order = np.arange(len(train.labels), dtype=np.int32)
        levels = [np.array([0, len(order)], dtype=np.int64)]
        training = Training(
            cost=self.cost, max_iter=self.max_iter, weight_threshold=self.weight_threshold, seed=self.seed
        )
        return ForestScorer(
            features,
            train_forest(rows, train.targets, [(order, levels)], training, dense=dense_columns_of(features, rows)),
            beam=1,
        )

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        weights = packed_bytes(facts, 17 * kept_weights(self.weight_threshold))
        scratch = 4 * thread_count() * BLOCK * (facts.terms + facts.rows)  # weights and dual variables of a block
        work = self.max_iter * facts.row_terms * facts.labels
        return Plan(
            train_bytes=max(facts.reading_bytes, facts.read_bytes + HEAP // 4 + weights + scratch),
            model_bytes=20 * facts.terms + weights + 90 * facts.labels,
            train_seconds=facts.reading_seconds + 3e-10 * work + 0.5,
            predict_seconds=1000 * (1e-4 + 3e-9 * facts.labels * facts.terms_per_row),
            steps=(
                ("word counts", facts.reading_bytes),
                ("weights", weights),
                ("classifiers in training", scratch),
            ),
        )
