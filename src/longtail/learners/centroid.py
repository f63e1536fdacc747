"""Nearest label centroid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats, Ints, Matrix
from longtail.data.dataset import Dataset, Rows
from longtail.linear.chance import Chance
from longtail.linear.norms import column_norms
from longtail.linear.reading import Reading
from longtail.linear.text import Features, matrix_from, matrix_state, unit_rows
from longtail.linear.top import sparse_top
from longtail.plan import Facts, Plan
from longtail.predictions import CANDIDATES, Predictions, ranked
from longtail.progress import stage
from longtail.seams import Scorer, State, TailMethod

CHANCE_ROWS = 2000  # held-out rows that five weights are learned from


@dataclass(frozen=True, eq=False)
class CentroidScorer:
    """Label means as an index from words to labels. Scores lie in (0, 1]: chances, or cosines where there are none."""

    features: Features
    index: Matrix  # (words, labels)
    chance: Chance | None = None
    kind: ClassVar[str] = "centroid.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        if self.chance is None:
            return sparse_top(self.features.of(rows), self.index, k)
        near, cosines = sparse_top(self.features.of(rows), self.index, max(k, CANDIDATES))
        chances = self.chance.of(near, cosines)
        # The nearest are ranked among themselves and the others behind them, so that a longer list starts the same.
        labels, scores = ranked(near[:, :CANDIDATES], chances[:, :CANDIDATES])
        if k > CANDIDATES:
            behind = ranked(near[:, CANDIDATES:], np.minimum(chances[:, CANDIDATES:], scores[:, -1:]))
            labels, scores = np.hstack([labels, behind[0]]), np.hstack([scores, behind[1]])
        return labels[:, :k], scores[:, :k]

    def row_norms(self) -> Floats:
        return column_norms(self.index)

    def state(self) -> State:
        words = self.features.state()
        tensors = {**words.tensors, **matrix_state("index", self.index)}
        if self.chance is not None:
            tensors |= {"chance.weights": self.chance.weights, "chance.log_counts": self.chance.log_counts}
        return State(words.settings, tensors)

    @classmethod
    def restore(cls, state: State) -> CentroidScorer:
        tensors = state.tensors
        fitted = "chance.weights" in tensors
        chance = Chance(tensors["chance.weights"], tensors["chance.log_counts"]) if fitted else None
        features, index = Features.restore(state), matrix_from("index", tensors)
        if index.shape[0] != features.columns:
            raise ValueError(f"an index of {index.shape[0]} words for {features.columns} columns")
        if chance is not None and (chance.weights.shape != (5,) or chance.log_counts.shape != (index.shape[1],)):
            raise ValueError("the weights of the chances do not fit the labels")
        return cls(features, index, chance)


@dataclass(frozen=True)
class Centroid(Reading):
    """A label is the mean of its rows; a row gets the labels whose mean is nearest by cosine.

    The nearest means are ranked by their chance of being right, learned on held-out rows from the cosine and the
    label's frequency: bare cosines favour labels with one row so strongly that weighting them again by propensity
    makes even the tail worse. `chances=false` ranks by the cosine itself.

    Paper: Rocchio (1971); the tail scorer of PfastreXML (Jain et al., KDD 2016) is its close relative.
    Needs: texts or features. Soft targets weigh a row's part in the mean.
    Costs: one sparse product to train; memory of the order rows x words a row x labels a row.
    Prefer instead: `knn` where the rows of one label differ much from each other.
    Example: longtail train wordnet "centroid" --out model
    """

    chances: bool = True  # rank by chance rather than by cosine

    summary: ClassVar[str] = "nearest normalised mean of a label's tf-idf rows"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = CentroidScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> CentroidScorer:
        features, vectors = self.read(train)
        with stage("averaging rows"):
            means = unit_rows((train.targets.T @ vectors).tocsr())  # (labels, words)
            scorer = CentroidScorer(features, means.T.tocsr())
        return self._with_chances(scorer, valid) if self.chances and len(valid) else scorer

    def _with_chances(self, scorer: CentroidScorer, valid: Dataset) -> CentroidScorer:
        with stage("learning chances"):
            rows = np.linspace(0, len(valid) - 1, min(len(valid), CHANCE_ROWS)).astype(np.int64)
            sample = valid.take(np.unique(rows))
            near = Predictions(valid.labels, *scorer.top(sample.rows, CANDIDATES))
            hits, counted = near.hits(sample.targets), near.indices >= 0
            if sample.excluded is not None:
                counted &= ~near.hits(sample.excluded)
            return replace(scorer, chance=Chance.fit(near.indices, near.scores, hits, counted, valid.labels.counts))

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        products = facts.positives * facts.terms_per_row
        chances = 160 * CANDIDATES * min(CHANCE_ROWS, facts.rows // 20)
        means = 30 * facts.mean_terms  # as they are scaled and turned; 18 of them stay with the process
        # A query meets the means that hold its words; common words are in most means, which caps the number.
        met = 0.28 * facts.shared_terms / max(facts.terms_per_row, 1) * facts.mean_terms
        return Plan(
            train_bytes=max(
                facts.reading_bytes, facts.read_bytes + means, facts.read_bytes + 18 * facts.mean_terms + chances
            ),
            model_bytes=int(20 * facts.terms + 8 * facts.mean_terms + 60 * facts.labels),
            train_seconds=facts.reading_seconds + 5e-8 * products + 1e-7 * facts.mean_terms + 0.2,
            predict_seconds=1000 * (1e-4 + facts.reading_seconds / max(facts.rows, 1) + 6e-10 * met),
            steps=(("word counts", facts.reading_bytes), ("label means", means), ("chances", chances)),
        )
