"""Trees over rows, split by nDCG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.linear.instance_forest import Forest, grow_forest
from longtail.linear.instance_tree import Growth, ideal_gains
from longtail.linear.reading import Reading
from longtail.linear.text import Features
from longtail.plan import Facts, Plan
from longtail.progress import stage
from longtail.seams import Scorer, State, TailMethod
from longtail.threads import thread_count


@dataclass(frozen=True, eq=False)
class FastXmlScorer:
    """The trees. Scores lie in (0, 1]: the mean share of a label among the rows of the leaves that are reached."""

    features: Features
    forest: Forest
    kind: ClassVar[str] = "fastxml.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        labels, scores = self.forest.top(self.features.of(rows), k)
        return labels, np.minimum(scores, np.float32(1))  # sums of shares may pass 1 by a rounding

    def state(self) -> State:
        words = self.features.state()
        return State(words.settings, {**words.tensors, **self.forest.state()})

    @classmethod
    def restore(cls, state: State) -> FastXmlScorer:
        features, forest = Features.restore(state), Forest.restore(state.tensors)
        if forest.weights.shape[1] != features.columns:
            raise ValueError(f"trees over {forest.weights.shape[1]} features for {features.columns} columns")
        return cls(features, forest)


@dataclass(frozen=True)
class FastXml(Reading):
    """Trees that sort training rows by their labels; a row gets the labels of the rows that fall into the same leaves.

    A node sends its rows to two sides so that ranking each side's favourite labels first serves them best (nDCG), then
    learns a sparse separator between the sides from the rows' words; rows follow the separator.

    Paper: Prabhu and Varma, FastXML (KDD 2014).
    Needs: texts or features. A soft target t is a gain of t in the splits and a share of t in the leaves.
    Costs: trees x depth passes over the rows' words; a prediction walks one path a tree, whatever the number of labels.
    Prefer instead: a tree over labels for precision; `pfastrexml` where rare labels matter.
    Example: longtail train wordnet "fastxml(trees=20)" --out model
    """

    trees: int = 50
    leaf: int = 10  # rows a leaf may hold
    leaf_labels: int = 100  # labels a leaf keeps
    cost: float = 1.0  # C: weight of the separators' loss against the length of their weights
    seed: int = 0

    summary: ClassVar[str] = "trees over rows, split so that each side's label ranking serves its rows (nDCG)"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = FastXmlScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.trees, self.leaf, self.leaf_labels) < 1 or self.cost <= 0:
            raise RecipeError(
                "fastxml takes trees, leaf and leaf_labels of at least 1 and cost above 0, "
                f"got trees={self.trees}, leaf={self.leaf}, leaf_labels={self.leaf_labels}, cost={self.cost:g}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> FastXmlScorer:
        features, vectors = self.read(train)
        growth = Growth(leaf_rows=self.leaf, leaf_labels=self.leaf_labels, cost=self.cost)
        with stage("growing trees", total=self.trees) as advance:
            gains = ideal_gains(train.targets)
            forest = grow_forest(vectors, train.targets, gains, growth, self.trees, self.seed, advance)
        return FastXmlScorer(features, forest)

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        # Rows of one leaf share labels, the more so the more rows a label has: this many of the positives are left.
        distinct = min(1.45 * max(facts.positives / max(facts.labels, 1), 1.0) ** -0.39, 1.0) * facts.positives
        tree = 8 * distinct + 120 * 0.8 * facts.rows / self.leaf  # labels of leaves; weights of nodes
        trees = int(tree * self.trees)
        copies = int(8 * thread_count() * facts.row_terms)  # of a node's rows, all of them in the root
        depth = max(math.log2(max(facts.rows / self.leaf, 1.0)), 1.0)
        return Plan(
            # At last the trees are put side by side: they, the rows of their leaves, and what is made of them.
            train_bytes=max(facts.reading_bytes, facts.read_bytes + max(copies + trees, int(3.5 * trees))),
            model_bytes=20 * facts.terms + 60 * facts.labels + trees,
            train_seconds=facts.reading_seconds
            + self.trees * depth * (2.2e-7 * facts.positives + 1e-8 * facts.row_terms),
            predict_seconds=1000 * (1e-4 + facts.reading_seconds / max(facts.rows, 1) + 4e-6 * self.trees),
            steps=(("word counts", facts.reading_bytes), ("rows of nodes", copies), ("trees", trees)),
        )
