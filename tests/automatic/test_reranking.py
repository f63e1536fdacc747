"""How strongly rare labels are raised."""

from __future__ import annotations

import numpy as np
import pytest

import longtail
from longtail.automatic.reranking import LEAST_GAIN, STRENGTHS, best_strength, reranked
from longtail.data import Corpus
from longtail.predictions import CANDIDATES, Predictions
from longtail.recipe import Recipe


def worth(predictions: Predictions, corpus: Corpus) -> float:
    measures = longtail.evaluate(predictions.top(5), corpus.valid)
    return measures["P@1"] + measures["PSP@5"]


def test_it_is_the_strength_whose_recipe_is_best_on_valid(tiny: Corpus) -> None:
    recipe = "centroid(probabilities=false)"
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    strength, order = best_strength(model.predict(tiny.valid.rows, CANDIDATES), tiny.valid)
    worths = {
        one: worth(Recipe.parse(reranked(recipe, one)).fit(tiny.train, tiny.valid).predict(tiny.valid.rows, 5), tiny)
        for one in STRENGTHS
    }
    worths[0.0] = worth(model.predict(tiny.valid.rows, 5), tiny) + LEAST_GAIN * (strength == 0)
    assert worths[strength] == max(worths.values())
    assert worth(order, tiny) == pytest.approx(worths[strength] - LEAST_GAIN * (strength == 0))


def test_rare_labels_that_are_nearly_first_are_raised_and_perfect_answers_are_left(tiny: Corpus) -> None:
    """The frequent label 0 stands before a rare true one, by little."""
    valid = tiny.valid.take(np.flatnonzero(tiny.valid.targets[:, [0]].toarray()[:, 0] == 0))
    true = valid.targets.indices[valid.targets.indptr[:-1] + 1].astype(np.int32)  # the rarer of two
    indices = np.stack([np.zeros_like(true), true], axis=1)
    scores = np.tile(np.asarray([0.501, 0.5], dtype=np.float32), (len(true), 1))
    strength, order = best_strength(Predictions(valid.labels, indices, scores), valid)
    assert strength > 0 and (order.indices[:, 0] == true).all()
    perfect = Predictions(valid.labels, true[:, None], np.ones((len(true), 1), dtype=np.float32))
    assert best_strength(perfect, valid)[0] == 0


def test_the_recipe() -> None:
    assert reranked("parabel", 1.0) == "parabel + rerank"
    assert str(Recipe.parse(reranked("parabel", 0.3))) == "parabel + rerank(strength=0.3)"
