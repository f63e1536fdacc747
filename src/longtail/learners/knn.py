"""Nearest training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints, Matrix
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.linear.reading import Reading
from longtail.linear.text import Features, matrix_from, matrix_state
from longtail.linear.top import sparse_top
from longtail.plan import Facts, Plan
from longtail.progress import stage
from longtail.seams import Scorer, State, TailMethod


@dataclass(frozen=True, eq=False)
class KnnScorer:
    """The training rows as an index from words to rows, and their targets. Scores lie in (0, 1]."""

    features: Features
    index: Matrix  # (words, training rows)
    targets: Matrix  # (training rows, labels)
    neighbours: int
    kind: ClassVar[str] = "knn.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        number = min(self.neighbours, self.index.shape[1])
        near, likeness = sparse_top(self.features.of(rows), self.index, number)
        likeness = likeness / np.maximum(likeness.sum(axis=1, keepdims=True), np.float32(1e-12))
        found = near >= 0
        starts = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
        votes = sparse.csr_array((likeness[found], near[found], starts), shape=(len(rows), self.targets.shape[0]))
        labels, scores = sparse_top(votes, self.targets, k)
        return labels, np.minimum(scores, np.float32(1))  # sums of shares may pass 1 by a rounding

    def state(self) -> State:
        words = self.features.state()
        tensors = {
            **words.tensors,
            **matrix_state("index", self.index),
            **matrix_state("targets", self.targets),
        }
        return State({**words.settings, "neighbours": self.neighbours}, tensors)

    @classmethod
    def restore(cls, state: State) -> KnnScorer:
        index, targets = matrix_from("index", state.tensors), matrix_from("targets", state.tensors)
        features, neighbours = Features.restore(state), state.settings["neighbours"]
        if index.shape != (features.columns, targets.shape[0]) or not isinstance(neighbours, int) or neighbours < 1:
            raise ValueError("the row index does not fit the words and the targets")
        return cls(features, index, targets, neighbours)


@dataclass(frozen=True)
class Knn(Reading):
    """A row gets the labels of the training rows most like it, each vote weighted by the cosine.

    Paper: the similarity-weighted vote used in the shortlists of DeepXML (Dahiya et al., WSDM 2021).
    Needs: texts or features. A soft target is a vote of that weight.
    Costs: nothing to train; keeps every training row; a prediction reads the rows that share a word with it.
    Prefer instead: `centroid` when predictions must be fast or the model small.
    Example: longtail train wordnet "knn(neighbours=20)" --out model
    """

    neighbours: int = 50  # training rows that vote

    summary: ClassVar[str] = "similarity-weighted vote of the nearest training rows"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = KnnScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours < 1:
            raise RecipeError(f"setting 'neighbours' of knn is at least 1, got {self.neighbours}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> KnnScorer:
        features, vectors = self.read(train)
        with stage("indexing rows"):
            return KnnScorer(features, vectors.T.tocsr(), train.targets.copy(), self.neighbours)

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        met = facts.rows * facts.shared_terms  # entries of the index that a query meets
        return Plan(
            train_bytes=facts.reading_bytes,
            model_bytes=int(20 * facts.terms + 8 * facts.row_terms + 8 * facts.positives + 60 * facts.labels),
            train_seconds=facts.reading_seconds + 2e-8 * facts.row_terms,
            predict_seconds=1000 * (1e-4 + facts.reading_seconds / max(facts.rows, 1) + 1.1e-9 * met),
            steps=(("word counts", facts.reading_bytes), ("row index", int(8 * facts.row_terms))),
        )
