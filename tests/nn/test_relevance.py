"""Relevances from cosines, against slow references, and how far a teacher is off by label frequency."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Dataset, LabelSet
from longtail.errors import DataError
from longtail.metrics.calibration import Calibration, frequency_bins, score_bins
from longtail.nn.distill.relevance import ESTIMATORS, estimate
from longtail.predictions import Predictions


def draw(number: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cosines, whether each pair is right, and how likely that was: sigma(12 cosine - 7)."""
    rng = np.random.default_rng(seed)
    cosines = rng.uniform(-0.2, 1, number).astype(np.float32)
    likely = 1 / (1 + np.exp(7 - 12 * cosines))
    return cosines, rng.random(number) < likely, likely


def test_what_is_learned_comes_near_the_truth() -> None:
    cosines, hits, _ = draw(20_000)
    others, right, likely = draw(5_000, 1)
    errors = {}
    for name in ESTIMATORS:
        found = estimate(name, cosines, hits).of(others)
        assert found.dtype == np.float32 and found.min() >= 0 and found.max() <= 1
        assert (np.diff(found[np.argsort(others)]) >= -1e-6).all()  # nearer is never less relevant
        errors[name] = np.abs(found - likely).mean()
        calibration = Calibration(name, score_bins(found, right))
        assert calibration.error < (2 if name != "cosine" else 100)
    assert errors["logistic"] < 0.01 and errors["isotonic"] < 0.03 and errors["cosine"] > 0.2


def test_the_logistic_map_has_the_constant_that_makes_the_data_likeliest() -> None:
    cosines, hits, _ = draw(3_000)
    found = estimate("logistic", cosines, hits)

    def loss(scale: float, offset: float) -> float:
        value = scale * cosines.astype(np.float64) + offset
        return float(np.where(hits, np.logaddexp(0, -value), np.logaddexp(0, value)).sum())

    best = loss(found.scale, found.offset)  # type: ignore[attr-defined]
    for change in (-0.05, 0.05):
        assert loss(found.scale, found.offset + change) > best  # type: ignore[attr-defined]
        assert loss(found.scale + change, found.offset) > best  # type: ignore[attr-defined]


def slow_isotonic(values: list[float], weights: list[float]) -> list[float]:
    """Pool adjacent violators, one at a time."""
    groups: list[list[float]] = []  # mean, weight, number
    for value, weight in zip(values, weights, strict=True):
        groups.append([value, weight, 1])
        while len(groups) > 1 and groups[-2][0] >= groups[-1][0]:
            mean, heavy, number = groups.pop()
            last = groups[-1]
            last[0] = (last[0] * last[1] + mean * heavy) / (last[1] + heavy)
            last[1], last[2] = last[1] + heavy, last[2] + number
    return [mean for mean, _, number in groups for _ in range(int(number))]


def test_the_isotonic_curve_is_that_of_the_slow_way() -> None:
    rng = np.random.default_rng(3)
    cosines = np.round(rng.uniform(-1, 1, 400), 2).astype(np.float32)  # many are equal
    hits = rng.random(400) < (1 + cosines) / 2
    points = np.unique(cosines)
    rates = [hits[cosines == point].mean() for point in points]
    expected = slow_isotonic(rates, [(cosines == point).sum() for point in points])
    assert np.allclose(estimate("isotonic", cosines, hits).of(points), expected, atol=1e-6)


def test_too_few_hits_and_a_teacher_that_learned_nothing_are_refused() -> None:
    cosines, hits, _ = draw(500)
    with pytest.raises(DataError, match=r"calibration='isotonic' learns .* 3 labels, fewer than 20"):
        estimate("isotonic", cosines[:40], np.arange(40) < 3)
    with pytest.raises(DataError, match="nothing to teach"):
        estimate("logistic", -cosines, hits)
    assert estimate("cosine", cosines[:0], hits[:0]).of(np.array([-1, 0, 1], np.float32)).tolist() == [0, 0.5, 1]


def test_what_labels_of_each_frequency_were_given() -> None:
    rng = np.random.default_rng(5)
    counts = np.array([1, 1, 2, 3, 4, 9, 0, 16])
    labels = LabelSet(ids=tuple("abcdefgh"), counts=counts, train_rows=20)
    dense = (rng.random((30, 8)) < 0.2).astype(np.float32)
    data = Dataset(labels=labels, targets=sparse.csr_array(dense), ids=tuple(map(str, range(30))), texts=("",) * 30)
    indices = np.stack([rng.permutation(8)[:4] for _ in range(30)]).astype(np.int32)
    indices[:, 3] = -1
    scores = np.where(indices >= 0, rng.random((30, 4)), 0).astype(np.float32)
    believed = np.zeros((30, 8))
    for row in range(30):
        for label, score in zip(indices[row], scores[row], strict=True):
            if label >= 0:
                believed[row, label] = score
    bins = frequency_bins(Predictions(labels, indices, scores), data)
    assert [(one.low, one.high, one.labels) for one in bins] == [(1, 1, 2), (2, 2, 1), (3, 4, 2), (9, 16, 2)]
    for one, members in zip(bins, ([0, 1], [2], [3, 4], [5, 7]), strict=True):
        assert one.positives == dense[:, members].sum()
        assert one.found == (dense * (believed > 0))[:, members].sum()
        assert one.expected == pytest.approx(believed[:, members].sum(), rel=1e-5)
