"""Trees over rows for rare labels, with a scorer for the tail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.learners.fastxml import FastXml
from longtail.linear.instance_forest import Forest, grow_forest
from longtail.linear.instance_tree import Growth
from longtail.linear.means import LabelMeans
from longtail.linear.reading import Reading
from longtail.linear.text import Features
from longtail.metrics.propensity import inverse_propensity
from longtail.plan import Facts, Plan
from longtail.predictions import ranked
from longtail.progress import stage
from longtail.seams import Scorer, State, TailMethod

CANDIDATES = 1000  # labels of the trees that the tail scorer may move


@dataclass(frozen=True, eq=False)
class PfastreXmlScorer:
    """The trees and the labels' means. Scores are above 0 and have no upper end: rare labels weigh more than 1."""

    features: Features
    forest: Forest
    means: LabelMeans
    share: float
    gamma: float
    kind: ClassVar[str] = "pfastrexml.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        vectors = self.features.of(rows)
        near, scores = self.forest.top(vectors, CANDIDATES)
        labels, blended = ranked(near, self.means.blend(vectors, near, scores, self.share, self.gamma))
        spare = ((0, 0), (0, max(k - CANDIDATES, 0)))  # no row gets more labels, however many are asked for
        return np.pad(labels[:, :k], spare, constant_values=-1), np.pad(blended[:, :k], spare)

    def state(self) -> State:
        words = self.features.state()
        settings = {**words.settings, "share": self.share, "gamma": self.gamma}
        return State(settings, {**words.tensors, **self.forest.state(), **self.means.state()})

    @classmethod
    def restore(cls, state: State) -> PfastreXmlScorer:
        features, forest = Features.restore(state), Forest.restore(state.tensors)
        means, share, gamma = LabelMeans.restore(state.tensors), state.settings["share"], state.settings["gamma"]
        PfastreXml(share=share, gamma=gamma)  # refuses settings that cannot be
        if forest.weights.shape[1] != features.columns or means.means.shape != (
            forest.leaves.shape[1],
            features.columns,
        ):
            raise ValueError(f"trees and means of other sizes than {features.columns} columns")
        return cls(features, forest, means, share, gamma)


@dataclass(frozen=True)
class PfastreXml(Reading):
    """FastXML's trees with every label weighed by its inverse propensity, times how near the label's mean row is.

    The final score is trees^(1 - share) x nearness^share over the best 1,000 labels of the trees, with nearness
    1 / (1 + exp(gamma |x - mean|^2)): sharp for labels of few, like rows, dull for common ones.

    Paper: Jain, Prabhu and Varma, PfastreXML (KDD 2016).
    Needs: texts or features. A soft target t is a gain of t in the splits, in the leaves and in the means.
    Costs: as `fastxml`, and one sparse product for the means, which the model keeps.
    Prefer instead: `fastxml` where precision on common labels counts; `+ centroid` puts the tail scorer on any learner.
    Example: longtail train wordnet "pfastrexml(trees=20)" --out model
    """

    trees: int = 50
    leaf: int = 10  # rows a leaf may hold
    leaf_labels: int = 100  # labels a leaf keeps
    cost: float = 1.0  # C: weight of the separators' loss against the length of their weights
    share: float = 0.2  # 1 - alpha: the tail scorer's part in the product
    gamma: float = 30.0  # how fast nearness falls with the squared distance
    seed: int = 0

    summary: ClassVar[str] = "fastxml with labels weighed by inverse propensity, and nearness to label means"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = PfastreXmlScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.trees, self.leaf, self.leaf_labels) < 1 or self.cost <= 0:
            raise RecipeError(
                "pfastrexml takes trees, leaf and leaf_labels of at least 1 and cost above 0, "
                f"got trees={self.trees}, leaf={self.leaf}, leaf_labels={self.leaf_labels}, cost={self.cost:g}"
            )
        if not 0 <= self.share <= 1 or self.gamma < 0:
            raise RecipeError(
                f"pfastrexml takes share from 0 to 1 and gamma of at least 0, got share={self.share:g}, "
                f"gamma={self.gamma:g}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PfastreXmlScorer:
        features, vectors = self.read(train)
        with stage("averaging rows"):
            means = LabelMeans.learn(vectors, train.targets)
        growth = Growth(leaf_rows=self.leaf, leaf_labels=self.leaf_labels, cost=self.cost)
        with stage("growing trees", total=self.trees) as advance:
            weights = inverse_propensity(train.labels)[train.targets.indices]
            gains = (train.targets.data * weights).astype(np.float32)  # plain DCG: no row is scaled to its best
            worth = sparse.csr_array((gains, train.targets.indices, train.targets.indptr), train.targets.shape)
            forest = grow_forest(vectors, worth, gains, growth, self.trees, self.seed, advance)
        return PfastreXmlScorer(features, forest, means, self.share, self.gamma)

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        trees = FastXml(trees=self.trees, leaf=self.leaf).plan(facts)
        means = int(8 * facts.mean_terms)
        return replace(
            trees,
            # Twice the means: what was needed to make them does not all go back.
            train_bytes=max(trees.train_bytes + 2 * means, facts.read_bytes + 34 * facts.mean_terms),
            model_bytes=trees.model_bytes + means,
            train_seconds=trees.train_seconds + 5e-8 * facts.positives * facts.terms_per_row,
            steps=(*trees.steps, ("label means", means)),
        )
