"""Re-ranking by a sparse linear classifier of each label that is trained on what the learner takes for that label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Doubles, Floats, Matrix
from longtail.data.dataset import Dataset, Rows
from longtail.errors import RecipeError
from longtail.linear.features.label_means import LabelMeans
from longtail.linear.features.sparse_features import FEATURES, Features, matrix_from, matrix_state
from longtail.linear.solvers.candidate_svc import fit_candidates
from longtail.metrics.evaluate import evaluate
from longtail.papers import XR_TRANSFORMER, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import note, stage
from longtail.seams import Array, Declaration, HeldOut, Number, Reranker, State, Whole, csr

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # of the ranker, tried on valid
SMALLEST = 1e-37


@dataclass(frozen=True, eq=False)
class SparseRanker:
    """A sparse classifier of each label, and the weight of what it says."""

    features: Features
    weights: Matrix  # csr (labels, features)
    bias: Floats  # (labels,)
    ranker_weight: float
    candidates: int  # labels of the learner's ranking that may move; more if more are asked for
    kind: ClassVar[str] = "sparserank.v1"
    declared: ClassVar[Declaration] = (
        FEATURES
        + csr("ranker", "labels", "columns", ascending=True)
        + Declaration({"bias": Array("float32", "labels")}, {"ranker_weight": Number(0, 1), "candidates": Whole(1)})
    )

    def margins(self, vectors: Matrix, predictions: Predictions) -> Doubles:
        """What the ranker says of each candidate.

        Args:
            vectors: csr (rows, features).
            predictions: the candidates.

        Returns:
            (rows, places) margins, above 0 for right; 0 where there is no candidate.
        """
        labels = predictions.indices
        products = LabelMeans(self.weights)  # its distance |w|^2 + 1 - 2 w.x holds the product
        squares = products.squares[np.maximum(labels, 0)]
        found: Doubles = (squares + 1 - products.distances(vectors, labels)) / 2 + self.bias[np.maximum(labels, 0)]
        return np.where(labels >= 0, found, 0.0)

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        """See `Reranker.rerank`: score^(1 - w) x exp(-max(0, 1 - margin)^3)^w."""
        if self.ranker_weight == 0:
            return predictions
        return blended(predictions, self.margins(self.features.of(rows), predictions), self.ranker_weight)

    def state(self) -> State:
        """See `Scorer.state`."""
        words = self.features.state()
        tensors = {**words.tensors, **matrix_state("ranker", self.weights), "bias": self.bias}
        settings = {"ranker_weight": self.ranker_weight, "candidates": self.candidates}
        return State({**words.settings, **settings}, tensors)

    @classmethod
    def restore(cls, state: State) -> SparseRanker:
        """See `Scorer.restore`."""
        weights, settings = matrix_from("ranker", state.tensors), state.settings
        bias = state.tensors["bias"]
        return cls(Features.restore(state), weights, bias, settings["ranker_weight"], settings["candidates"])


@dataclass(frozen=True)
class SparseRank:
    """Re-rank by a linear classifier of each label over words, trained on the learner's own candidates.

    A label's classifier learns from its examples and from those for which the learner names the label: it need only
    tell apart what the learner takes for each other. The score becomes score^(1 - w) x exp(-max(0, 1 - margin)^3)^w.
    The weight w is chosen on valid, by P@1 + PSP@5; 0 leaves the learner as it is.

    Published form: the last stage of XR-Transformer and ELIAS's ranker also see the encoder's vector; here words alone.
    Needs: texts or features; goes on every learner. Soft targets weigh positives.
    Costs: predicting the training examples; examples x candidates x words; the model keeps the words of each label.
    Prefer instead: `centroid`, which trains nothing; `fuse`, which combines whole learners.
    Example: longtail compare wordnet "knn" "knn + sparserank"
    """

    candidates: int = 20  # labels of each training example that the ranker learns from
    positive_cost: float = 1.0  # C of the positives
    negative_cost: float = 1.0  # C of the negatives
    max_iter: int = 20  # passes over a label's examples
    weight_threshold: float = 0.01  # smaller weights are dropped
    ranker_weight: float | None = None  # w; none: chosen on valid

    summary: ClassVar[str] = "re-ranks by a sparse classifier a label, of the candidates"
    papers: ClassVar[tuple[Paper, ...]] = (XR_TRANSFORMER,)
    presets: ClassVar[dict[str, Preset]] = {
        "paper": Preset(
            {"candidates": 100, "positive_cost": 1.0, "negative_cost": 1.0, "weight_threshold": 0.001},
            "the published code, Amazon-670K",
        )
    }
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = SparseRanker

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= CANDIDATES or self.max_iter < 1 or self.weight_threshold < 0:
            raise RecipeError(
                f"sparserank takes candidates from 1 to {CANDIDATES}, max_iter of at least 1 and weight_threshold of "
                f"at least 0, got candidates={self.candidates}, max_iter={self.max_iter}, "
                f"weight_threshold={self.weight_threshold:g}"
            )
        if not (0 < self.positive_cost < np.inf and 0 < self.negative_cost < np.inf):
            raise RecipeError(
                "settings 'positive_cost' and 'negative_cost' of sparserank are above 0, got "
                f"{self.positive_cost:g} and {self.negative_cost:g}"
            )
        if self.ranker_weight is not None and not 0 <= self.ranker_weight <= 1:
            raise RecipeError(f"setting 'ranker_weight' of sparserank lies in [0, 1], got {self.ranker_weight:g}")

    def fit_reranker(self, held_out: HeldOut) -> SparseRanker:
        """See `Reranks.fit_reranker`."""
        train = held_out.train
        with stage("counting words"):
            features, vectors = Features.learn(train)
        pairs = candidate_targets(held_out.fitted(self.candidates), train)
        weights, bias = fit_candidates(
            vectors,
            pairs,
            positive_cost=self.positive_cost,
            negative_cost=self.negative_cost,
            max_iter=self.max_iter,
            threshold=self.weight_threshold,
        )
        weight = 0.5 if self.ranker_weight is None else self.ranker_weight
        ranker = SparseRanker(features, weights, bias, weight, self.candidates)
        if self.ranker_weight is not None:
            return ranker
        predictions, rows = held_out.valid()
        if rows.targets.nnz == 0:
            return ranker
        chosen = _best_weight(ranker, predictions.top(self.candidates), rows)
        unchanged = ", so the learner's ranking stays as it is" if chosen == 0 else ""
        note(f"sparserank: chosen ranker_weight={chosen:g}{unchanged}")
        return replace(ranker, ranker_weight=chosen)

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`: candidates of all rows, and the words of each label."""
        pairs = facts.rows * self.candidates + facts.positives
        words = int(min(pairs * facts.terms_per_row, 0.2 * facts.labels * facts.terms))
        learning = facts.reading_bytes + 20 * pairs + 16 * words
        predicting = before.predict_seconds * facts.rows / 1000
        return replace(
            before,
            train_bytes=max(before.train_bytes, before.model_bytes + learning),
            model_bytes=before.model_bytes + 20 * facts.terms + 8 * words,
            train_seconds=before.train_seconds
            + facts.reading_seconds
            + predicting
            + 4e-9 * pairs * facts.terms_per_row * self.max_iter,
            predict_seconds=before.predict_seconds + 1000 * facts.reading_seconds / max(facts.rows, 1) + 0.05,
            steps=(*before.steps, ("candidates of the training examples", learning)),
        )


def candidate_targets(predictions: Predictions, train: Dataset) -> Matrix:
    """The rows that each label's classifier is trained on.

    Args:
        predictions: the learner's candidates for the training rows.
        train: their targets. Excluded pairs are no negatives.

    Returns:
        csc (rows, labels): targets, and explicit zeros for candidates that are wrong. Every positive is there, even
        where the learner did not name it.
    """
    rows, labels = np.nonzero(predictions.indices >= 0)[0], predictions.indices[predictions.indices >= 0]
    named = sparse.csr_array((np.ones(len(rows), np.float32), (rows, labels)), shape=train.targets.shape)
    if train.excluded is not None:
        named = named - named.multiply(train.excluded.astype(bool))
        named = sparse.csr_array(named)
        named.eliminate_zeros()
    positives = sparse.csr_array(train.targets, dtype=np.float32)
    both = sparse.csr_array(named * 2 + positives)  # 2 and 2 + target for candidates, target for others
    held = both.tocsc()
    held.data = np.where(held.data >= 2, held.data - 2, held.data).astype(np.float32)
    return held


def blended(predictions: Predictions, margins: Doubles, weight: float) -> Predictions:
    """score^(1 - weight) x exp(-max(0, 1 - margin)^3)^weight of each candidate, best first.

    Args:
        predictions: with positive scores.
        margins: (rows, places).
        weight: from 0 to 1.

    Returns:
        The candidates in their new order.
    """
    kept = predictions.indices >= 0
    logs = (1 - weight) * np.log(np.where(kept, np.maximum(predictions.scores, np.float32(SMALLEST)), 1))
    logs = logs - weight * np.maximum(1 - margins, 0) ** 3
    scores = np.where(kept, np.maximum(np.exp(logs), SMALLEST), 0).astype(np.float32)
    return Predictions(predictions.labels, predictions.indices, scores).sorted()


def _best_weight(ranker: SparseRanker, predictions: Predictions, rows: Dataset) -> float:
    """The weight with the best P@1 + PSP@5 on valid; the smallest of equals."""
    margins = ranker.margins(ranker.features.of(rows.rows), predictions)
    best, found = -np.inf, 0.0
    for weight in WEIGHTS:
        figures = evaluate(blended(predictions, margins, weight) if weight else predictions, rows, ks=(1, 5))
        value = figures["P@1"] + figures["PSP@5"]
        if value > best:
            best, found = value, weight
    return found
