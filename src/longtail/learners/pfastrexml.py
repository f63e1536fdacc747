"""Trees over examples for rare labels, with a scorer for the tail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.learners.fastxml import FastXml
from longtail.linear.features.label_means import MEANS, LabelMeans
from longtail.linear.features.sparse_features import FEATURES, Features
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.linear.trees.instance_forest import INSTANCE_FOREST, InstanceForest, grow_forest
from longtail.linear.trees.instance_tree import Growth
from longtail.metrics.propensity import inverse_propensity
from longtail.papers import PFASTREXML, Paper
from longtail.plan import DataFacts, Plan
from longtail.predictions import ranked
from longtail.progress import stage
from longtail.seams import Declaration, Number, Scorer, State, TailMethod

CANDIDATES = 1000  # labels of the trees that the tail scorer re-ranks


@dataclass(frozen=True, eq=False)
class PfastreXmlScorer:
    """The trees and the labels' means. Scores are above 0 without an upper bound: rare labels weigh more than 1."""

    features: Features
    forest: InstanceForest
    means: LabelMeans
    share: float
    gamma: float
    kind: ClassVar[str] = "pfastrexml.v2"
    declared: ClassVar[Declaration] = (
        FEATURES + INSTANCE_FOREST + MEANS + Declaration(settings={"share": Number(0, 1), "gamma": Number(0)})
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        vectors = self.features.of(rows)
        near, scores = self.forest.top(vectors, CANDIDATES)
        labels, blended = ranked(near, self.means.blend(vectors, near, scores, self.share, self.gamma))
        spare = ((0, 0), (0, max(k - CANDIDATES, 0)))  # an example has at most CANDIDATES labels
        return np.pad(labels[:, :k], spare, constant_values=-1), np.pad(blended[:, :k], spare)

    def state(self) -> State:
        """See `Scorer.state`."""
        words = self.features.state()
        settings = {**words.settings, "share": self.share, "gamma": self.gamma}
        return State(settings, {**words.tensors, **self.forest.state(), **self.means.state()})

    @classmethod
    def restore(cls, state: State) -> PfastreXmlScorer:
        """See `Scorer.restore`."""
        settings, tensors = state.settings, state.tensors
        forest, means = InstanceForest.restore(tensors), LabelMeans.restore(tensors)
        return cls(Features.restore(state), forest, means, settings["share"], settings["gamma"])


@dataclass(frozen=True)
class PfastreXml(TfidfSettings):
    """FastXML's trees with labels weighted by inverse propensity, times the nearness to the mean of a label's examples.

    The final score is trees^(1 - centroid_weight) x nearness^centroid_weight over the best 1,000 labels of the trees,
    with nearness 1 / (1 + exp(gamma |x - mean|^2)): precise for labels of few, similar examples, vague for common ones.

    Needs: texts or features. A soft target t is a gain of t in the splits, in the leaves and in the means.
    Costs: as `fastxml`, and one sparse product for the means, which the model keeps.
    Prefer instead: `fastxml` where precision on common labels counts; `+ centroid` puts the tail scorer on any learner.
    Example: longtail train wordnet "pfastrexml(trees=20)" --out model
    """

    trees: int = 50
    max_leaf_rows: int = 10  # training examples of a leaf at most
    labels_per_leaf: int = 100  # labels that a leaf keeps
    cost: float = 1.0  # C: weight of the separators' loss against the norm of their weights
    centroid_weight: float = 0.2  # 1 - alpha: exponent of the tail scorer
    gamma: float = 30.0  # how fast nearness falls with the squared distance
    seed: int = 0

    summary: ClassVar[str] = "fastxml weighted by inverse propensity, with label means"
    papers: ClassVar[tuple[Paper, ...]] = (PFASTREXML,)
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = PfastreXmlScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.trees, self.max_leaf_rows, self.labels_per_leaf) < 1 or self.cost <= 0:
            raise RecipeError(
                "pfastrexml takes trees, max_leaf_rows and labels_per_leaf of at least 1 and cost above 0, got "
                f"trees={self.trees}, max_leaf_rows={self.max_leaf_rows}, labels_per_leaf={self.labels_per_leaf}, "
                f"cost={self.cost:g}"
            )
        if not 0 <= self.centroid_weight <= 1 or self.gamma < 0:
            raise RecipeError(
                "pfastrexml takes centroid_weight from 0 to 1 and gamma of at least 0, got "
                f"centroid_weight={self.centroid_weight:g}, gamma={self.gamma:g}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PfastreXmlScorer:
        """See `Learner.fit`."""
        features, vectors = self.read(train)
        with stage("averaging examples"):
            means = LabelMeans.learn(vectors, train.targets)
        growth = Growth(leaf_rows=self.max_leaf_rows, leaf_labels=self.labels_per_leaf, cost=self.cost)
        with stage("growing trees", total=self.trees) as advance:
            weights = inverse_propensity(train.labels)[train.targets.indices]
            gains = (train.targets.data * weights).astype(np.float32)  # DCG, not nDCG: no example is scaled to its best
            worth = sparse.csr_array((gains, train.targets.indices, train.targets.indptr), train.targets.shape)
            forest = grow_forest(vectors, worth, gains, growth, self.trees, self.seed, advance)
        return PfastreXmlScorer(features, forest, means, self.centroid_weight, self.gamma)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        trees = FastXml(trees=self.trees, max_leaf_rows=self.max_leaf_rows).plan(facts)
        means = int(8 * facts.mean_terms)
        return replace(
            trees,
            # Twice the means: not all memory that making them needs is returned.
            train_bytes=max(trees.train_bytes + 2 * means, facts.read_bytes + 34 * facts.mean_terms),
            model_bytes=trees.model_bytes + means,
            train_seconds=trees.train_seconds + 5e-8 * facts.positives * facts.terms_per_row,
            steps=(*trees.steps, ("label means", means)),
        )
