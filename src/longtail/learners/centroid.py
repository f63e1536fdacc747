"""Nearest label centroid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats, Ints, Matrix
from longtail.data.dataset import Dataset, Rows
from longtail.data.subsample import evenly_spaced
from longtail.linear.features.sparse_features import FEATURES, Features, matrix_from, matrix_state, unit_rows
from longtail.linear.features.sparse_top import sparse_top
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.linear.solvers.candidate_probability import CandidateProbability
from longtail.linear.trees.classifier_norms import column_norms
from longtail.papers import ROCCHIO, Paper
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES, Predictions, ranked
from longtail.progress import stage
from longtail.seams import Array, Declaration, Scorer, State, TailMethod, csr

FIT_ROWS = 2000  # held-out examples from which the five weights are fitted


@dataclass(frozen=True, eq=False)
class CentroidScorer:
    """Label means as an index from words to labels. Scores are in (0, 1]: probabilities, or cosines without a model."""

    features: Features
    index: Matrix  # (words, labels)
    probability: CandidateProbability | None = None  # None: scores are cosines
    kind: ClassVar[str] = "centroid.v2"
    declared: ClassVar[Declaration] = (
        FEATURES
        + csr("index", "columns", "labels")
        + Declaration(
            {
                "probability.weights": Array("float64", "5", optional=True),
                "probability.log_counts": Array("float32", "labels", least=0, optional=True),
            }
        )
    )

    @property
    def probabilities(self) -> bool:
        """See `GivesProbabilities`: cosines are none."""
        return self.probability is not None

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if self.probability is None:
            return sparse_top(self.features.of(rows), self.index, k)
        near, cosines = sparse_top(self.features.of(rows), self.index, max(k, CANDIDATES))
        found = self.probability.of(near, cosines)
        # The nearest are ranked among themselves and the others behind them, so that a longer list starts the same.
        labels, scores = ranked(near[:, :CANDIDATES], found[:, :CANDIDATES])
        if k > CANDIDATES:
            behind = ranked(near[:, CANDIDATES:], np.minimum(found[:, CANDIDATES:], scores[:, -1:]))
            labels, scores = np.hstack([labels, behind[0]]), np.hstack([scores, behind[1]])
        return labels[:, :k], scores[:, :k]

    def row_norms(self) -> Floats:
        """Norms of the label means (labels,)."""
        return column_norms(self.index)

    def state(self) -> State:
        """See `Scorer.state`."""
        words = self.features.state()
        tensors = {**words.tensors, **matrix_state("index", self.index)}
        if self.probability is not None:
            fitted = self.probability
            tensors |= {"probability.weights": fitted.weights, "probability.log_counts": fitted.log_counts}
        return State(words.settings, tensors)

    @classmethod
    def restore(cls, state: State) -> CentroidScorer:
        """See `Scorer.restore`."""
        tensors = state.tensors
        fitted = "probability.weights" in tensors
        probability = (
            CandidateProbability(tensors["probability.weights"], tensors["probability.log_counts"]) if fitted else None
        )
        return cls(Features.restore(state), matrix_from("index", tensors), probability)


@dataclass(frozen=True)
class Centroid(TfidfSettings):
    """A label is the mean of its examples; an example gets the labels whose mean is nearest by cosine.

    The nearest means are ranked by their probability of being right, fitted on held-out examples from the cosine and
    the label's frequency: plain cosines favour labels with one example so strongly that weighting them again by
    propensity makes even the tail worse. `probabilities=false` ranks by the cosine itself.

    Needs: texts or features. A soft target is the weight of its example in the mean.
    Costs: one sparse product to train; memory of the order examples x words x labels of an example.
    Prefer instead: `knn` where the examples of one label differ much from each other.
    Example: longtail train wordnet "centroid" --out model
    """

    probabilities: bool = True  # rank by probability rather than by cosine

    summary: ClassVar[str] = "nearest normalised mean of a label's tf-idf vectors"
    papers: ClassVar[tuple[Paper, ...]] = (ROCCHIO,)
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = CentroidScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> CentroidScorer:
        """See `Learner.fit`."""
        features, vectors = self.read(train)
        with stage("averaging examples"):
            means = unit_rows((train.targets.T @ vectors).tocsr())  # (labels, words)
            scorer = CentroidScorer(features, means.T.tocsr())
        return self._with_probabilities(scorer, valid) if self.probabilities and len(valid) else scorer

    def _with_probabilities(self, scorer: CentroidScorer, valid: Dataset) -> CentroidScorer:
        with stage("fitting probabilities"):
            sample = valid.take(evenly_spaced(len(valid), FIT_ROWS))
            near = Predictions(valid.labels, *scorer.top(sample.rows, CANDIDATES))
            hits, counted = near.hits(sample.targets), near.indices >= 0
            if sample.excluded is not None:
                counted &= ~near.hits(sample.excluded)
            fitted = CandidateProbability.fit(near.indices, near.scores, hits, counted, valid.labels.counts)
            return replace(scorer, probability=fitted)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        products = facts.positives * facts.terms_per_row
        fitting = 160 * CANDIDATES * min(FIT_ROWS, facts.rows // 20)
        means = 30 * facts.mean_terms  # as they are scaled and transposed; 18 of them stay with the process
        # A query meets the means that have its words; common words are in most means, which caps the number.
        met = 0.28 * facts.shared_terms / max(facts.terms_per_row, 1) * facts.mean_terms
        return Plan(
            train_bytes=max(
                facts.reading_bytes, facts.read_bytes + means, facts.read_bytes + 18 * facts.mean_terms + fitting
            ),
            model_bytes=int(20 * facts.terms + 8 * facts.mean_terms + 60 * facts.labels),
            train_seconds=facts.reading_seconds + 5e-8 * products + 1e-7 * facts.mean_terms + 0.2,
            predict_seconds=1000 * (1e-4 + facts.reading_seconds / max(facts.rows, 1) + 6e-10 * met),
            steps=(("word counts", facts.reading_bytes), ("label means", means), ("probabilities", fitting)),
        )
