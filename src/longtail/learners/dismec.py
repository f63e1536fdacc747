"""One classifier a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.beam import ForestMaker
from longtail.linear.forest import ForestScorer
from longtail.linear.reading import Reading
from longtail.linear.tree import BLOCK, HEAP, Training, fit_tree, kept_at, packed_bytes
from longtail.plan import Facts, Plan
from longtail.seams import Scorer, TailMethod
from longtail.threads import thread_count


@dataclass(frozen=True)
class Dismec(Reading):
    """One linear classifier for each label against all rows without it; small weights are dropped.

    Paper: Babbar and Schölkopf, DiSMEC (WSDM 2017). A tree whose root is its only fork.
    Needs: texts or features. A soft target t is a yes of weight t and a no of weight 1 - t.
    Costs: rows x words x labels: the most of the linear learners, to train and to predict.
    Prefer instead: `parabel` or `bonsai` for more than some ten thousand labels.
    Example: longtail train wordnet "dismec" --out model
    """

    cost: float = 1.0  # C
    passes: int = 8
    cut: float = 0.01  # weights below this are dropped
    seed: int = 0

    summary: ClassVar[str] = "one-vs-all linear classifiers, squared hinge, pruned"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1 or self.cost <= 0 or self.cut < 0:
            raise RecipeError("dismec takes passes of 1 or more, cost above 0, cut of 0 or more")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        features, rows = self.read(train)
        order = np.arange(len(train.labels), dtype=np.int32)
        levels = [np.array([0, len(order)], dtype=np.int64)]
        training = Training(cost=self.cost, passes=self.passes, cut=self.cut, seed=self.seed)
        maker = ForestMaker()
        maker.tree(order, levels)
        fit_tree(rows, train.targets, order, levels, training, maker.keep)
        return ForestScorer(features, maker.made(), beam=1)

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        weights = packed_bytes(facts, 17 * kept_at(self.cut))
        scratch = 4 * thread_count() * BLOCK * (facts.terms + facts.rows)  # weights and dual variables of a block
        work = self.passes * facts.row_terms * facts.labels
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
