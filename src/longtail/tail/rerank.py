"""Re-ranking by inverse propensity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats
from longtail.data.dataset import Rows
from longtail.errors import RecipeError
from longtail.metrics.propensity import inverse_propensity
from longtail.papers import RANKNET_TAUG, Paper
from longtail.predictions import CANDIDATES, Predictions
from longtail.seams import Array, Declaration, HeldOut, Reranker, State, Whole


@dataclass(frozen=True, eq=False)
class RerankWeights:
    """One factor for each label, multiplied into the candidates' scores."""

    weights: Floats  # (labels,)
    candidates: int
    kind: ClassVar[str] = "rerank.v1"
    declared: ClassVar[Declaration] = Declaration(
        {"weights": Array("float32", "labels", least=0)}, {"candidates": Whole(1)}
    )

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        """See `Reranker.rerank`."""
        # `declared` holds a weight for each label, and `Predictions` the labels among them.
        factor = np.where(predictions.indices >= 0, self.weights[predictions.indices], np.float32(0))
        return Predictions(predictions.labels, predictions.indices, predictions.scores * factor).sorted()

    def state(self) -> State:
        """See `Scorer.state`."""
        return State({"candidates": self.candidates}, {"weights": self.weights})

    @classmethod
    def restore(cls, state: State) -> RerankWeights:
        """See `Scorer.restore`."""
        return cls(state.tensors["weights"], state.settings["candidates"])


@dataclass(frozen=True)
class Rerank:
    """Multiply each candidate's score by its label's inverse propensity, so that rare labels rise.

    Published form: the simple form of RankNet, and "re-rank" in LEVER.
    Needs: nothing; goes on every learner and on a model that cannot be trained again.
    Costs: nothing to train, one multiplication a candidate. It trades head precision for tail recall.
    Prefer instead: a method that adds knowledge about rare labels, such as `lever`, where training again is possible;
    `predict --dial` where scores are probabilities, which weighs them by the same numbers when the model predicts.
    Example: longtail compare wordnet "centroid" "centroid + rerank"
    """

    candidates: int = CANDIDATES  # labels of the learner's ranking that may move; more if more are asked for
    strength: float = 1.0  # exponent on the inverse propensity; 0 changes nothing

    summary: ClassVar[str] = "score x inverse propensity over the top candidates"
    papers: ClassVar[tuple[Paper, ...]] = (RANKNET_TAUG,)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = RerankWeights

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise RecipeError(f"setting 'candidates' of rerank is at least 1, got {self.candidates}")
        if not 0 <= self.strength <= 10:
            raise RecipeError(f"setting 'strength' of rerank lies between 0 and 10, got {self.strength:g}")

    def fit_reranker(self, held_out: HeldOut) -> RerankWeights:
        """See `Reranks.fit_reranker`."""
        weights = inverse_propensity(held_out.labels) ** self.strength
        return RerankWeights(weights.astype(np.float32), self.candidates)
