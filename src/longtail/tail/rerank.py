"""Re-ranking by inverse propensity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats
from longtail.data.dataset import Rows
from longtail.errors import RecipeError
from longtail.metrics.propensity import inverse_propensity
from longtail.predictions import CANDIDATES, Predictions
from longtail.seams import HeldOut, Reranker, State


@dataclass(frozen=True, eq=False)
class RerankWeights:
    """One factor a label, multiplied into the candidates' scores."""

    weights: Floats  # (labels,)
    candidates: int
    kind: ClassVar[str] = "rerank.v1"

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        factor = np.where(predictions.indices >= 0, self.weights[predictions.indices], np.float32(0))
        return Predictions(predictions.labels, predictions.indices, predictions.scores * factor).sorted()

    def state(self) -> State:
        return State({"candidates": self.candidates}, {"weights": self.weights})

    @classmethod
    def restore(cls, state: State) -> RerankWeights:
        weights, candidates = state.tensors["weights"], state.settings["candidates"]
        if weights.ndim != 1 or not np.isfinite(weights).all() or not isinstance(candidates, int) or candidates < 1:
            raise ValueError("the weights of rerank are not one finite number a label")
        return cls(weights, candidates)


@dataclass(frozen=True)
class Rerank:
    """Multiply each candidate's score by its label's inverse propensity, so that rare labels rise.

    Paper: the simple form in Wei et al., RankNet + TAUG (2021), and "re-rank" in LEVER (ICLR 2024).
    Needs: nothing; goes on every learner and on a model that cannot be trained again.
    Costs: nothing to train, one multiplication a candidate. It trades head precision for tail recall.
    Prefer instead: a method that adds knowledge about rare labels, when they may be trained.
    Example: longtail compare wordnet "centroid" "centroid + rerank"
    """

    candidates: int = CANDIDATES  # labels of the learner's ranking that may move; more if more are asked for
    strength: float = 1.0  # exponent on the inverse propensity; 0 changes nothing

    summary: ClassVar[str] = "score x inverse propensity over the top candidates"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = RerankWeights

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise RecipeError(f"setting 'candidates' of rerank is at least 1, got {self.candidates}")
        if not 0 <= self.strength <= 10:
            raise RecipeError(f"setting 'strength' of rerank lies between 0 and 10, got {self.strength:g}")

    def fit_reranker(self, held_out: HeldOut) -> RerankWeights:
        weights = inverse_propensity(held_out.labels) ** self.strength
        return RerankWeights(weights.astype(np.float32), self.candidates)
