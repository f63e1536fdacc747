from __future__ import annotations

import numpy as np
import pytest

from longtail.data import Corpus, LabelSet
from longtail.data.dataset import Rows
from longtail.metrics import inverse_propensity
from longtail.predictions import Predictions
from longtail.recipe import Recipe
from longtail.tail.rerank import RerankWeights


def test_scores_are_multiplied_by_inverse_propensity(tiny: Corpus) -> None:
    plain = Recipe.parse("centroid").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=10)
    model = Recipe.parse("centroid + rerank").fit(tiny.train, tiny.valid)
    found = model.predict(tiny.test.rows, k=10)
    weights = inverse_propensity(tiny.labels)
    for row in range(len(tiny.test)):
        before = {
            label: score for label, score in zip(plain.indices[row], plain.scores[row], strict=True) if label >= 0
        }
        expected = sorted(((-score * weights[label], label) for label, score in before.items()))
        kept = found.indices[row] >= 0
        assert found.indices[row][kept].tolist() == [label for _, label in expected]
        assert found.scores[row][kept] == pytest.approx([-score for score, _ in expected], rel=1e-5)


def test_only_the_candidates_move_and_ties_stand_by_label() -> None:
    labels = LabelSet(ids=("a", "b", "c", "d"))
    predictions = Predictions(
        labels, np.array([[0, 1, 2], [3, -1, -1]], np.int32), np.array([[1.0, 0.5, 0.1], [0.5, 0, 0]], np.float32)
    )
    found = RerankWeights(np.array([1, 2, 100, 1], np.float32), candidates=2).rerank(
        predictions, Rows(texts=("x", "y"))
    )
    assert found.indices.tolist() == [[0, 1], [3, -1]]  # 1 and 0.5 x 2 tie; c was no candidate
    assert found.scores[0] == pytest.approx([1.0, 1.0])


def test_strength_zero_changes_nothing(tiny: Corpus) -> None:
    plain = Recipe.parse("knn").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5)
    same = Recipe.parse("knn + rerank(strength=0)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5)
    assert np.array_equal(plain.indices, same.indices)
