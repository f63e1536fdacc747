from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.arrays import Ints
from longtail.data import Corpus, Dataset, LabelSet
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


def test_ties_stand_by_label() -> None:
    labels = LabelSet(ids=("a", "b", "c", "d"))
    predictions = Predictions(
        labels, np.array([[0, 1, 2], [3, -1, -1]], np.int32), np.array([[1.0, 0.5, 0.1], [0.5, 0, 0]], np.float32)
    )
    found = RerankWeights(np.array([1, 2, 1, 1], np.float32), candidates=2).rerank(predictions, Rows(texts=("x", "y")))
    assert found.indices.tolist() == [[0, 1, 2], [3, -1, -1]]  # 1 and 0.5 x 2 tie
    assert found.scores[0] == pytest.approx([1.0, 1.0, 0.1])


def test_as_many_candidates_move_as_the_setting_says() -> None:
    """120 labels, the last of them rare and weakest: it can come first only if it is among the candidates."""
    rng = np.random.default_rng(0)
    labels = LabelSet(ids=tuple(map(str, range(120))))
    words = [f"w{label}" for label in range(120)]
    rows = [sorted({label, int(rng.integers(119))}) for label in range(119) for _ in range(5)] + [[119]]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    targets = sparse.csr_array(
        (np.ones(starts[-1], np.float32), np.concatenate(rows).astype(np.int32), starts), (len(rows), 120)
    )
    texts = tuple(" ".join(["common", *(words[label] for label in row)]) for row in rows)
    data = Dataset(labels=labels, targets=targets, ids=tuple(map(str, range(len(rows)))), texts=texts)
    train = data.over(labels.counted(targets))

    def places(recipe: str, k: int) -> Ints:
        return Recipe.parse(recipe).fit(train, train.take([])).predict(["common w3 w4"], k=k).indices[0]

    everything = places("centroid + rerank(candidates=120, strength=10)", 120)
    assert (everything >= 0).all()
    assert np.array_equal(places("centroid + rerank(candidates=120, strength=10)", 5), everything[:5])
    assert not np.array_equal(places("centroid + rerank(candidates=5, strength=10)", 5), everything[:5])
    assert np.array_equal(
        places("centroid + rerank(candidates=5, strength=10)", 120), everything
    )  # more asked for, more move


def test_strength_zero_changes_nothing(tiny: Corpus) -> None:
    plain = Recipe.parse("knn").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5)
    same = Recipe.parse("knn + rerank(strength=0)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5)
    assert np.array_equal(plain.indices, same.indices)
