"""Nearness to label means, on any learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from longtail.data.dataset import Rows
from longtail.errors import RecipeError
from longtail.linear.means import LabelMeans
from longtail.linear.text import Features
from longtail.plan import Facts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import HeldOut, Reranker, State


@dataclass(frozen=True, eq=False)
class Nearness:
    """The mean row of each label, and how much nearness to it counts."""

    features: Features
    means: LabelMeans
    share: float
    gamma: float
    candidates: int
    kind: ClassVar[str] = "nearness.v1"

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        vectors, indices = self.features.of(rows), predictions.indices
        scores = self.means.blend(vectors, indices, predictions.scores, self.share, self.gamma)
        return Predictions(predictions.labels, indices, scores).sorted()

    def state(self) -> State:
        words = self.features.state()
        settings = {"share": self.share, "gamma": self.gamma, "candidates": self.candidates}
        return State({**words.settings, **settings}, {**words.tensors, **self.means.state()})

    @classmethod
    def restore(cls, state: State) -> Nearness:
        share, gamma, candidates = (state.settings[name] for name in ("share", "gamma", "candidates"))
        CentroidTail(share, gamma, candidates)  # refuses settings that cannot be
        features, means = Features.restore(state), LabelMeans.restore(state.tensors)
        if means.means.shape[1] != features.columns:
            raise ValueError(f"means over {means.means.shape[1]} features for {features.columns} columns")
        return cls(features, means, share, gamma, candidates)


@dataclass(frozen=True)
class CentroidTail:
    """Multiply each candidate's score^(1 - share) by its nearness^share: how close the row is to the label's mean row.

    Nearness is 1 / (1 + exp(gamma |x - mean|^2)) over tf-idf rows of length 1. A label of few, like rows has a long
    mean that a row can come close to; the mean of a common label is short and far from everything, so rare labels rise
    where the row is like theirs, and only there.

    Paper: the tail scorer of Jain, Prabhu and Varma, PfastreXML (KDD 2016), with alpha = 1 - share.
    Needs: texts or features; goes on every learner. Means come from the training rows as given.
    Costs: one sparse product to train; the model keeps a mean of each label; milliseconds a row at most.
    Prefer instead: `rerank`, which knows the label's frequency but not the row, where memory is short.
    Example: longtail compare wordnet "knn" "knn + centroid(share=0.2, gamma=30)"
    """

    share: float = 0.2  # 1 - alpha: the part of nearness in the product
    gamma: float = 30.0  # how fast nearness falls with the squared distance
    candidates: int = CANDIDATES  # labels of the learner's ranking that may move; more if more are asked for

    summary: ClassVar[str] = "score x nearness of the row to the mean of the label's rows"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = Nearness

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1 or self.gamma < 0 or self.candidates < 1:
            raise RecipeError(
                "centroid takes share from 0 to 1, gamma of at least 0 and at least 1 candidate, "
                f"got share={self.share:g}, gamma={self.gamma:g}, candidates={self.candidates}"
            )

    def fit_reranker(self, held_out: HeldOut) -> Nearness:
        with stage("averaging rows"):
            features, vectors = Features.learn(held_out.train)
            means = LabelMeans.learn(vectors, held_out.train.targets)
        return Nearness(features, means, self.share, self.gamma, self.candidates)

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        """Words are counted once more, and kept once more beside the means."""
        averaging = max(facts.reading_bytes, facts.read_bytes + 34 * facts.mean_terms)
        return replace(
            before,
            train_bytes=max(before.train_bytes, before.model_bytes + averaging),
            model_bytes=before.model_bytes + 20 * facts.terms + 8 * facts.mean_terms,
            train_seconds=before.train_seconds + facts.reading_seconds + 5e-8 * facts.positives * facts.terms_per_row,
            predict_seconds=before.predict_seconds + 1000 * facts.reading_seconds / max(facts.rows, 1),
            steps=(*before.steps, ("label means", averaging)),
        )
