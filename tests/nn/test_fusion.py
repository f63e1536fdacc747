"""Two scores become one that is better than either, and a chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.arrays import Bools, Floats, Ints, Longs
from longtail.errors import DataError, ModelError
from longtail.nn import fusion
from longtail.nn.fusion import Fusion, united

LABELS = 200


class Candidates(NamedTuple):
    classifier: Floats
    embedding: Floats
    labels: Ints
    counts: Longs
    hits: Bools


def draw(seed: int, rows: int = 1500, places: int = 20) -> Candidates:
    """Classifiers of common labels know, those of rare ones guess; texts are worth the same for all."""
    chance = np.random.default_rng(seed)
    counts = np.round(300 / np.arange(1, LABELS + 1) ** 1.2).astype(np.int64) - 1
    labels = np.stack([chance.choice(LABELS, places, replace=False) for _ in range(rows)]).astype(np.int32)
    labels[chance.random(labels.shape) < 0.05] = -1
    hits = (chance.random(labels.shape) < 0.1) & (labels >= 0)
    noise = 0.5 / np.sqrt(1 + counts[labels])
    classifier = 0.2 + 0.4 * hits + noise * chance.standard_normal(labels.shape)
    embedding = 0.3 + 0.2 * hits + 0.12 * chance.standard_normal(labels.shape)
    return Candidates(classifier.astype(np.float32), embedding.astype(np.float32), labels, counts, hits)


def first_is_right(scores: Floats, data: Candidates) -> float:
    best = np.where(data.labels >= 0, scores, -np.inf).argmax(axis=1)
    return float(np.take_along_axis(data.hits, best[:, None], axis=1).mean())


def test_better_than_either_score_and_their_sum_on_new_rows() -> None:
    found, new = Fusion.fit(*draw(0)), draw(1)
    assert found is not None
    fused = first_is_right(found.of(*new[:4]), new)
    others = [new.classifier, new.embedding, Fusion.plain().of(*new[:4])]
    assert fused > max(first_is_right(each, new) for each in others) + 0.02


def test_nothing_learned_is_the_order_of_the_sum() -> None:
    data = draw(9, rows=50)
    kept = data.labels >= 0
    chances, sums = Fusion.plain().of(*data[:4])[kept], (data.classifier + data.embedding)[kept].astype(np.float64)
    order = np.argsort(sums)
    assert (np.diff(chances[order]) >= -1e-7).all()


def test_its_scores_are_chances() -> None:
    found, new = Fusion.fit(*draw(0)), draw(1)
    assert found is not None
    chances = found.of(*new[:4])
    kept = new.labels >= 0
    assert chances.dtype == np.float32 and chances.min() >= 0 and chances.max() <= 1
    assert (chances[~kept] == 0).all()
    for low, high in ((0, 0.1), (0.1, 0.4), (0.4, 0.7), (0.7, 1)):
        inside = kept & (chances >= low) & (chances <= high)
        assert inside.sum() > 100
        assert new.hits[inside].mean() == pytest.approx(chances[inside].mean(), abs=0.06)


def test_it_trusts_the_classifier_of_common_labels_more() -> None:
    found = Fusion.fit(*draw(0))
    assert found is not None
    scores = np.array([[0.2, 0.6], [0.2, 0.6]], dtype=np.float32)
    counts = np.array([250, 250, 1, 1])
    labels = np.array([[0, 1], [2, 3]], dtype=np.int32)
    chances = found.of(scores, np.full((2, 2), 0.4, np.float32), labels, counts)
    odds = np.log(chances / (1 - chances))
    assert odds[0, 1] - odds[0, 0] > odds[1, 1] - odds[1, 0] + 1 > 1


def test_weights_are_where_the_loss_is_least() -> None:
    data = draw(2, rows=300)
    found = Fusion.fit(*data)
    assert found is not None
    kept = data.labels >= 0
    inputs = fusion._inputs(data.classifier, data.embedding, data.labels, data.counts)[kept]

    def loss(weights: np.ndarray) -> float:
        values = inputs @ weights
        return float(np.logaddexp(0, np.where(data.hits[kept], -values, values)).sum() + (weights**2).sum() / 2)

    best = loss(found.weights)
    for column in range(fusion.INPUTS):
        for step in (-0.01, 0.01):
            assert loss(found.weights + step * np.eye(fusion.INPUTS)[column]) > best


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = draw(3, rows=200)
    whole = Fusion.fit(*data)
    monkeypatch.setattr(fusion, "ROWS", 7)
    pieces = Fusion.fit(*data)
    assert whole is not None and pieces is not None
    np.testing.assert_allclose(pieces.weights, whole.weights, rtol=1e-7)
    np.testing.assert_allclose(pieces.of(*data[:4]), whole.of(*data[:4]), rtol=1e-5)


def test_saves_as_ten_numbers() -> None:
    data = draw(4, rows=200)
    found = Fusion.fit(*data)
    assert found is not None
    again = Fusion(np.frombuffer(found.weights.tobytes()))
    np.testing.assert_array_equal(again.of(*data[:4]), found.of(*data[:4]))
    for broken in (np.zeros(9), np.full(10, np.nan)):
        with pytest.raises(ModelError, match="10 finite weights"):
            Fusion(broken)


def test_too_little_to_learn_from() -> None:
    data = draw(5, rows=20)
    assert Fusion.fit(*data) is None
    assert Fusion.fit(*draw(5)._replace(hits=draw(5).labels >= 0)) is None


def test_separable_data_stay_finite() -> None:
    data = draw(6)
    found = Fusion.fit(*data._replace(classifier=data.hits.astype(np.float32)))
    assert found is not None
    assert first_is_right(found.of(data.hits.astype(np.float32), *data[1:4]), data) == pytest.approx(
        data.hits.any(axis=1).mean()
    )


def test_rows_without_candidates() -> None:
    none = np.full((3, 2), -1, dtype=np.int32)
    scores = np.zeros((3, 2), np.float32)
    assert Fusion.plain().of(scores, scores, none, np.ones(5, np.int64)).tolist() == [[0, 0]] * 3
    empty = np.zeros((4, 0), np.float32)
    assert Fusion.plain().of(empty, empty, none[:0].reshape(4, 0), np.ones(5, np.int64)).shape == (4, 0)


def test_shapes_are_checked() -> None:
    data = draw(7, rows=5)
    with pytest.raises(DataError, match=r"one shape, got \(5, 20\), \(4, 20\)"):
        Fusion.plain().of(data.classifier, data.embedding[:4], data.labels, data.counts)


lists = st.lists(st.integers(-1, 8), min_size=3, max_size=3)


@given(st.lists(st.tuples(lists, lists), min_size=1, max_size=5))
def test_united_lists(rows: list[tuple[list[int], list[int]]]) -> None:
    first, second = (np.array([row[side] for row in rows], dtype=np.int32) for side in (0, 1))
    found = united(first, second)
    for row, (one, two) in zip(found.tolist(), rows, strict=True):
        expected = sorted({*one, *two} - {-1})
        assert row == expected + [-1] * (len(row) - len(expected))
    assert found.dtype == np.int32
    assert found.shape[1] == max(len({*one, *two} - {-1}) for one, two in rows)
