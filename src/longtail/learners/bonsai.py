"""Shallow, wide label trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from scipy import sparse

from longtail.arrays import Ints, Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.cluster import companions, label_vectors, spread
from longtail.linear.forest import ForestScorer, fit_forest
from longtail.linear.reading import Reading
from longtail.linear.tree import Training, kept_at, plan_trees
from longtail.plan import Facts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Bonsai(Reading):
    """A wide tree of one or two forks: rare labels keep to their own clusters instead of filling up balanced halves.

    Paper: Khandagale et al., Bonsai (Machine Learning 2020): `bonsai(rivals=0, passes=8)`. With rivals a cluster also
    trains on rows that are taken for its own (PECOS, Yu et al., JMLR 2022): more precision, in the tail, too.
    Needs: texts or features. A soft target t is a yes of weight t and a no of weight 1 - t.
    Costs: more than `parabel`, since every row meets all children of the root and the labels of wrong clusters.
    Prefer instead: `parabel` where training time or memory is short.
    Example: longtail train wordnet "bonsai" --out model
    """

    trees: int = 3
    branches: int = 100  # clusters of a node
    depth: int = 0  # forks above the leaves; 0 chooses 1, or 2 where clusters would hold over 10 x branches labels
    grouping: Literal["features", "companions", "both"] = "features"  # what stands for a label when it is grouped
    cost: float = 1.0  # C
    passes: int = 5  # with rivals, more of them take longer and answer no better
    cut: float = 0.1
    beam: int = 10
    rivals: int = 3  # clusters that a row is taken for by mistake and trains as well; the published form has 0
    seed: int = 0

    summary: ClassVar[str] = "shallow, wide k-means label trees with linear classifiers"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.trees, self.passes, self.beam) < 1 or self.branches < 2 or self.cost <= 0 or self.cut < 0:
            raise RecipeError("bonsai takes trees, passes, beam of 1 or more, branches of 2 or more, cost above 0")
        if self.rivals < 0:
            raise RecipeError(f"setting 'rivals' of bonsai is 0 or more, got {self.rivals}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        features, rows = self.read(train)
        trust = 3 / (3 + self.rivals)  # the more a leaf knows of strangers, the less their way to it need count
        training = Training(cost=self.cost, passes=self.passes, cut=self.cut, seed=self.seed, trust=trust)

        def group(vectors: Matrix, seed: int) -> tuple[Ints, list[Longs]]:
            return spread(vectors, self.branches, self._depth(len(train.labels)), seed)

        describe = partial(self._vectors, train, rows)
        shape = (self.trees, self.beam, self.rivals)
        return fit_forest(features, rows, train.targets, describe, group, training, *shape)

    def _depth(self, labels: int) -> int:
        return self.depth or (1 if labels <= 10 * self.branches**2 else 2)

    def _vectors(self, train: Dataset, rows: Matrix) -> Matrix:
        if self.grouping == "features":
            return label_vectors(train.targets, rows)
        if self.grouping == "companions":
            return companions(train.targets)
        return sparse.hstack([label_vectors(train.targets, rows), companions(train.targets)], format="csr")

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        leaf = max(facts.labels // self.branches ** self._depth(facts.labels), 1)
        size = (self.trees, leaf, self.branches, self.passes, self.beam)
        return plan_trees(facts, *size, 19 * kept_at(self.cut), self.rivals)
