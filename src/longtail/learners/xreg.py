"""A label tree for relevances."""

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
class Xreg(Reading):
    """`parabel`'s tree for targets in (0, 1]: a node's target is the largest of its labels', taken relative to its
    parent's, so that the chances down a path multiply to the label's own target. Log loss.

    Paper: Prabhu et al., XReg (WSDM 2020).
    Needs: texts or features; made for soft targets.
    Costs: about three times `parabel`.
    Prefer instead: `parabel` where all targets are 1.
    Example: longtail train wordnet "xreg" --out model
    """

    trees: int = 3
    leaf: int = 100  # most labels in a leaf
    branches: int = 16  # children of a node, a power of two
    cost: float = 10.0  # C
    passes: int = 8
    cut: float = 0.05  # weights below this share of their classifier's largest are dropped
    beam: int = 10
    seed: int = 0

    summary: ClassVar[str] = "label trees that regress relevances: relative targets, log loss"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.trees, self.leaf, self.passes, self.beam) < 1 or self.cost <= 0 or not 0 <= self.cut < 1:
            raise RecipeError("xreg takes trees, leaf, passes, beam of 1 or more, cost above 0, cut of 0 to 1")
        if self.branches < 2 or self.branches & (self.branches - 1):
            raise RecipeError(f"setting 'branches' of xreg is a power of two such as 2 or 16, got {self.branches}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        features, rows = self.read(train)
        training = Training(
            cost=self.cost,
            limit=0.01,
            passes=self.passes,
            cut=self.cut,
            cut_is_share=True,
            chances=True,
            seed=self.seed,
        )

        def group(vectors: Matrix, seed: int) -> tuple[Ints, list[Longs]]:
            order, levels = halve(vectors, self.leaf, seed)
            return order, merged(levels, self.branches)

        describe = partial(label_vectors, train.targets, rows)
        return fit_forest(features, rows, train.targets, describe, group, training, self.trees, self.beam)

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        kept, leaf = 20 * kept_at(2 * self.cut), 0.75 * self.leaf  # as for `parabel`
        return plan_trees(facts, self.trees, leaf, self.branches, 3 * self.passes, self.beam, kept)
