"""Score fusion and Platt scaling, from held-out candidates."""

from __future__ import annotations

import numpy as np
import pytest

from longtail.linear.solvers.platt_scaling import PlattScaling, logistic
from longtail.nn.dual.score_fusion import ScoreFusion


def draw(weights: list[float], rows: int = 40_000, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Columns and hits whose log odds are linear in them, the last weight being the constant."""
    rng = np.random.default_rng(seed)
    columns = [rng.random(rows).astype(np.float32) for _ in weights[:-1]]
    log_odds = sum(weight * column for weight, column in zip(weights, columns, strict=False)) + weights[-1]
    return columns, rng.random(rows) < 1 / (1 + np.exp(-log_odds))


def test_finds_the_weights_that_made_the_hits() -> None:
    (texts, classifiers, counts), hits = draw([3.0, 6.0, 1.5, -5.0])
    fusion = ScoreFusion.fit(texts, classifiers, counts, hits)
    assert fusion is not None
    assert (fusion.text, fusion.classifier, fusion.frequency) == pytest.approx((3, 6, 1.5), abs=0.2)
    assert fusion.text_norm == fusion.text + fusion.classifier
    found = logistic([texts, classifiers, counts], hits)
    probabilities = 1 / (1 + np.exp(-(np.stack([texts, classifiers, counts, np.ones_like(texts)], 1) @ found)))
    assert probabilities.mean() == pytest.approx(
        hits.mean(), abs=1e-4
    )  # a logistic model with a constant has the right mean


def test_nearer_is_never_worse() -> None:
    (texts, classifiers, counts), hits = draw([-4.0, 8.0, 1.0, -3.0])
    fusion = ScoreFusion.fit(texts, classifiers, counts, hits)
    assert fusion is not None and fusion.text == 0 and fusion.classifier > 5
    (texts, counts), hits = draw([5.0, 2.0, -4.0])
    alone = ScoreFusion.fit(texts, None, counts, hits)
    assert alone is not None and alone.classifier == 0 and alone.text == pytest.approx(5, abs=0.3)


def test_a_cosine_that_counts_against_labels_is_left_out() -> None:
    (texts, counts), hits = draw([-5.0, 2.0, 1.0])
    fusion = ScoreFusion.fit(texts, None, counts, hits)
    assert fusion is not None and fusion.text == 0 and fusion.frequency > 1


def test_too_few_hits_change_nothing() -> None:
    texts = np.linspace(0, 1, 50, dtype=np.float32)
    hits = np.zeros(50, dtype=bool)
    hits[-5:] = True
    assert ScoreFusion.fit(texts, None, texts, hits) is None
    before = PlattScaling(2.0, -1.0)
    assert before.fitted(texts, hits) is before
    assert before.fitted(texts, np.ones(50, dtype=bool)) is before


def test_one_vector_a_label_scores_as_the_two_do() -> None:
    rng = np.random.default_rng(0)
    texts, classifiers, row = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 4), (5, 4), 4))
    fusion = ScoreFusion(2.0, 3.0, 0.5)
    assert np.allclose(fusion.vectors(texts, classifiers) @ row, 2 * texts @ row + 3 * classifiers @ row, atol=1e-5)
    assert np.allclose(fusion.vectors(texts, None), 2 * texts)


def test_probabilities_keep_the_order_and_come_true() -> None:
    (scores,), hits = draw([4.0, -2.0])
    scaling = PlattScaling(1.0, 0.0).fitted(scores, hits)
    assert scaling.scale == pytest.approx(4, abs=0.2) and scaling.offset == pytest.approx(-2, abs=0.1)
    ladder = scaling.of(np.array([[-1000.0, -1.0, 0.0, 1.0, 1000.0]], dtype=np.float32))
    assert (np.diff(ladder) > 0).all() and ladder.min() > 0 and ladder.max() <= 1
    falling = PlattScaling(1.0, 0.0).fitted(scores, ~hits)  # a better score is never less probable
    assert falling == PlattScaling(1.0, 0.0)
    with pytest.raises(ValueError, match="finite scale above 0"):
        PlattScaling(0.0, 1.0)
