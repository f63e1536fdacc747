"""Trees over examples, split by nDCG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.linear.features.sparse_features import FEATURES, Features
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.linear.trees.instance_forest import INSTANCE_FOREST, InstanceForest, grow_forest
from longtail.linear.trees.instance_tree import Growth, ideal_gains
from longtail.papers import FASTXML, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage
from longtail.seams import Declaration, Scorer, State, TailMethod
from longtail.threads import thread_count


@dataclass(frozen=True, eq=False)
class FastXmlScorer:
    """The trees. A score in (0, 1] is the mean share of a label among the training examples of the reached leaves."""

    features: Features
    forest: InstanceForest
    kind: ClassVar[str] = "fastxml.v2"
    declared: ClassVar[Declaration] = FEATURES + INSTANCE_FOREST

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        labels, scores = self.forest.top(self.features.of(rows), k)
        return labels, np.minimum(scores, np.float32(1))  # rounding may bring sums of shares above 1

    def state(self) -> State:
        """See `Scorer.state`."""
        words = self.features.state()
        return State(words.settings, {**words.tensors, **self.forest.state()})

    @classmethod
    def restore(cls, state: State) -> FastXmlScorer:
        """See `Scorer.restore`."""
        return cls(Features.restore(state), InstanceForest.restore(state.tensors))


@dataclass(frozen=True)
class FastXml(TfidfSettings):
    """Trees over training examples; an example gets the labels of the training examples in the leaves that it reaches.

    A node divides its examples into two sides so that a ranking of labels for each side has the best nDCG. Then it
    learns a sparse separator of the two sides from the examples' words; examples follow the separator.

    Needs: texts or features. A soft target t is a gain of t in the splits and a share of t in the leaves.
    Costs: trees x depth passes over the examples' words; a prediction follows one path in each tree, whatever the
    number of labels.
    Prefer instead: a tree over labels for precision; `pfastrexml` where rare labels matter.
    Example: longtail train wordnet "fastxml(trees=20)" --out model
    """

    trees: int = 50
    max_leaf_rows: int = 10  # training examples of a leaf at most
    labels_per_leaf: int = 100  # labels that a leaf keeps
    cost: float = 1.0  # C: weight of the separators' loss against the norm of their weights
    seed: int = 0

    summary: ClassVar[str] = "trees over documents, split for the best nDCG"
    papers: ClassVar[tuple[Paper, ...]] = (FASTXML,)
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = FastXmlScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.trees, self.max_leaf_rows, self.labels_per_leaf) < 1 or self.cost <= 0:
            raise RecipeError(
                "fastxml takes trees, max_leaf_rows and labels_per_leaf of at least 1 and cost above 0, got "
                f"trees={self.trees}, max_leaf_rows={self.max_leaf_rows}, labels_per_leaf={self.labels_per_leaf}, "
                f"cost={self.cost:g}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> FastXmlScorer:
        """See `Learner.fit`."""
        features, vectors = self.read(train)
        growth = Growth(leaf_rows=self.max_leaf_rows, leaf_labels=self.labels_per_leaf, cost=self.cost)
        with stage("growing trees", total=self.trees) as advance:
            gains = ideal_gains(train.targets)
            forest = grow_forest(vectors, train.targets, gains, growth, self.trees, self.seed, advance)
        return FastXmlScorer(features, forest)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        # Examples of a leaf share labels, the more examples a label has the more: so many different ones remain.
        distinct = min(1.45 * max(facts.positives / max(facts.labels, 1), 1.0) ** -0.39, 1.0) * facts.positives
        tree = 8 * distinct + 120 * 0.8 * facts.rows / self.max_leaf_rows  # labels of leaves; weights of nodes
        trees = int(tree * self.trees)
        copies = int(8 * thread_count() * facts.row_terms)  # of a node's examples, all of them in the root
        depth = max(math.log2(max(facts.rows / self.max_leaf_rows, 1.0)), 1.0)
        return Plan(
            # At the end the trees are joined: the single trees, the examples of their leaves, and the joined arrays.
            train_bytes=max(facts.reading_bytes, facts.read_bytes + max(copies + trees, int(3.5 * trees))),
            model_bytes=20 * facts.terms + 60 * facts.labels + trees,
            train_seconds=facts.reading_seconds
            + self.trees * depth * (2.2e-7 * facts.positives + 1e-8 * facts.row_terms),
            predict_seconds=1000 * (1e-4 + facts.reading_seconds / max(facts.rows, 1) + 4e-6 * self.trees),
            steps=(("word counts", facts.reading_bytes), ("examples of nodes", copies), ("trees", trees)),
        )
