"""Nearest training examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints, Matrix
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.linear.features.sparse_features import FEATURES, Features, matrix_from, matrix_state
from longtail.linear.features.sparse_top import sparse_top
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.papers import DEEPXML, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage
from longtail.seams import Declaration, Scorer, State, TailMethod, Whole, csr

PAIRS = 1 << 23  # (document, neighbour) pairs held at once


@dataclass(frozen=True, eq=False)
class KnnScorer:
    """The training examples as an index from words to examples, and their targets. Scores are in (0, 1]."""

    features: Features
    index: Matrix  # (words, training rows)
    targets: Matrix  # (training rows, labels)
    neighbours: int
    kind: ClassVar[str] = "knn.v2"
    declared: ClassVar[Declaration] = (
        FEATURES
        + csr("index", "columns", "rows")
        + csr("targets", "rows", "labels", least=0, most=1)
        + Declaration(settings={"neighbours": Whole(1)})
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        number = min(self.neighbours, self.index.shape[1])
        step = max(PAIRS // max(number, 1), 1)
        if len(rows) > step:
            parts = [self.top(rows[start : start + step], k) for start in range(0, len(rows), step)]
            labels, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
            return labels, scores
        near, cosines = sparse_top(self.features.of(rows), self.index, number)
        weights = cosines / np.maximum(cosines.sum(axis=1, keepdims=True), np.float32(1e-12))
        found = near >= 0
        starts = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
        votes = sparse.csr_array((weights[found], near[found], starts), shape=(len(rows), self.targets.shape[0]))
        labels, scores = sparse_top(votes, self.targets, k)
        return labels, np.minimum(scores, np.float32(1))  # rounding may bring sums of shares above 1

    def with_rows(self, rows: Rows, targets: Matrix, ids: Sequence[str]) -> KnnScorer:
        """See `TakesRows.with_rows`. Words that no training example had stay unknown."""
        known = self.targets
        wider = sparse.csr_array((known.data, known.indices, known.indptr), shape=(known.shape[0], targets.shape[1]))
        return replace(
            self,
            index=sparse.hstack([self.index, self.features.of(rows).T.tocsr()], format="csr"),
            targets=sparse.vstack([wider, targets], format="csr"),
        )

    def state(self) -> State:
        """See `Scorer.state`."""
        words = self.features.state()
        tensors = {
            **words.tensors,
            **matrix_state("index", self.index),
            **matrix_state("targets", self.targets),
        }
        return State({**words.settings, "neighbours": self.neighbours}, tensors)

    @classmethod
    def restore(cls, state: State) -> KnnScorer:
        """See `Scorer.restore`."""
        index, targets = matrix_from("index", state.tensors), matrix_from("targets", state.tensors)
        return cls(Features.restore(state), index, targets, state.settings["neighbours"])


@dataclass(frozen=True)
class Knn(TfidfSettings):
    """An example gets the labels of the most similar training examples, which vote with their cosine as weight.

    Published form: the similarity-weighted vote in the shortlists of DeepXML.
    Needs: texts or features. A soft target is a vote of that weight.
    Costs: nothing to train; stores every training example; a prediction reads those that share a word with it.
    Prefer instead: `centroid` when predictions must be fast or the model small.
    Example: longtail train wordnet "knn(neighbours=20)" --out model
    """

    neighbours: int = 50  # training examples that vote

    summary: ClassVar[str] = "similarity-weighted vote of the nearest training examples"
    papers: ClassVar[tuple[Paper, ...]] = (DEEPXML,)
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = KnnScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours < 1:
            raise RecipeError(f"setting 'neighbours' of knn is at least 1, got {self.neighbours}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> KnnScorer:
        """See `Learner.fit`."""
        features, vectors = self.read(train)
        with stage("indexing examples"):
            return KnnScorer(features, vectors.T.tocsr(), train.targets.copy(), self.neighbours)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        met = facts.rows * facts.shared_terms  # entries of the index that a query meets
        return Plan(
            train_bytes=facts.reading_bytes,
            model_bytes=int(20 * facts.terms + 8 * facts.row_terms + 8 * facts.positives + 60 * facts.labels),
            train_seconds=facts.reading_seconds + 2e-8 * facts.row_terms,
            predict_seconds=1000 * (1e-4 + facts.reading_seconds / max(facts.rows, 1) + 1.1e-9 * met),
            steps=(("word counts", facts.reading_bytes), ("index of examples", int(8 * facts.row_terms))),
        )
