"""How strongly rare labels are raised: the strength of `rerank` that is best on valid."""

from __future__ import annotations

import numpy as np

from longtail.automatic.auto_result import worth
from longtail.data.dataset import Dataset
from longtail.metrics import evaluate, inverse_propensity
from longtail.predictions import Predictions

STRENGTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)  # that are tried, besides none at all
LEAST_GAIN = 0.2  # points of what recipes are chosen by; less is an accident of the valid examples


def best_strength(predictions: Predictions, valid: Dataset) -> tuple[float, Predictions]:
    """Choose the strength with which a recipe's candidates are re-ranked.

    A ranking by probability has the best P@1 there is, so to raise rare labels a little costs it next to nothing,
    and PSP@5 gains at once. That is why a small strength nearly always pays, and the full one often does not.

    Args:
        predictions: candidates of the valid examples, best first, by a model that has not seen them.
        valid: the examples.

    Returns:
        The strength, 0 for none, and the predictions in its order.
    """
    least = worth(evaluate(predictions.top(5), valid)) + LEAST_GAIN
    chosen, order, rarity = 0.0, predictions, inverse_propensity(valid.labels)
    for strength in STRENGTHS:
        weights = (rarity**strength).astype(np.float32)
        factor = np.where(predictions.indices >= 0, weights[predictions.indices], np.float32(0))
        found = Predictions(predictions.labels, predictions.indices, predictions.scores * factor).sorted()
        reached = worth(evaluate(found.top(5), valid))
        if reached >= least:
            least, chosen, order = reached, strength, found
    return chosen, order


def reranked(recipe: str, strength: float) -> str:
    """Write a recipe with a re-ranker behind it.

    Args:
        recipe: the recipe.
        strength: of `rerank`.

    Returns:
        The longer recipe.
    """
    return f"{recipe} + rerank" + ("" if strength == 1 else f"(strength={strength:g})")
