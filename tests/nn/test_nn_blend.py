"""Weights of text, classifier and frequency, and chances, from held-out candidates."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.nn.blend import Blend, Odds, logistic


def draw(weights: list[float], rows: int = 40_000, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Columns and hits whose log odds are linear in them, the last weight being the constant."""
    chance = np.random.default_rng(seed)
    columns = [chance.random(rows).astype(np.float32) for _ in weights[:-1]]
    odds = sum(weight * column for weight, column in zip(weights, columns, strict=False)) + weights[-1]
    return columns, chance.random(rows) < 1 / (1 + np.exp(-odds))


def test_finds_the_weights_that_made_the_hits() -> None:
    (texts, classifiers, counts), hits = draw([3.0, 6.0, 1.5, -5.0])
    blend = Blend.fit(texts, classifiers, counts, hits)
    assert blend is not None
    assert (blend.text, blend.classifier, blend.frequency) == pytest.approx((3, 6, 1.5), abs=0.2)
    assert blend.length == blend.text + blend.classifier
    found = logistic([texts, classifiers, counts], hits)
    chance = 1 / (1 + np.exp(-(np.stack([texts, classifiers, counts, np.ones_like(texts)], 1) @ found)))
    assert chance.mean() == pytest.approx(hits.mean(), abs=1e-4)  # a logistic model with a constant has the right mean


def test_nearer_is_never_worse() -> None:
    (texts, classifiers, counts), hits = draw([-4.0, 8.0, 1.0, -3.0])
    blend = Blend.fit(texts, classifiers, counts, hits)
    assert blend is not None and blend.text == 0 and blend.classifier > 5
    (texts, counts), hits = draw([5.0, 2.0, -4.0])
    alone = Blend.fit(texts, None, counts, hits)
    assert alone is not None and alone.classifier == 0 and alone.text == pytest.approx(5, abs=0.3)


def test_too_few_hits_teach_nothing() -> None:
    texts = np.linspace(0, 1, 50, dtype=np.float32)
    hits = np.zeros(50, dtype=bool)
    hits[-5:] = True
    assert Blend.fit(texts, None, texts, hits) is None
    before = Odds(2.0, -1.0)
    assert before.fitted(texts, hits) is before
    assert before.fitted(texts, np.ones(50, dtype=bool)) is before


def test_one_vector_a_label_scores_as_the_two_do() -> None:
    chance = np.random.default_rng(0)
    texts, classifiers, row = (chance.normal(size=shape).astype(np.float32) for shape in ((5, 4), (5, 4), 4))
    blend = Blend(2.0, 3.0, 0.5)
    assert np.allclose(blend.vectors(texts, classifiers) @ row, 2 * texts @ row + 3 * classifiers @ row, atol=1e-5)
    assert np.allclose(blend.vectors(texts, None), 2 * texts)


def test_chances_keep_the_order_and_come_true() -> None:
    (scores,), hits = draw([4.0, -2.0])
    odds = Odds(1.0, 0.0).fitted(scores, hits)
    assert odds.slope == pytest.approx(4, abs=0.2) and odds.offset == pytest.approx(-2, abs=0.1)
    ladder = odds.of(np.array([[-1000.0, -1.0, 0.0, 1.0, 1000.0]], dtype=np.float32))
    assert (np.diff(ladder) > 0).all() and ladder.min() > 0 and ladder.max() <= 1
    falling = Odds(1.0, 0.0).fitted(scores, ~hits)  # a better score is never a smaller chance
    assert falling == Odds(1.0, 0.0)
    with pytest.raises(ValueError, match="odds grow"):
        Odds(0.0, 1.0)
