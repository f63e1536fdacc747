"""Chances against a slow reference, and what calibrating must not do."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import RecipeError
from longtail.metrics import evaluate
from longtail.predictions import Predictions
from longtail.recipe import Recipe
from longtail.seams import Misfit, State
from longtail.tail.calibrate import Calibrate, CalibratedScores, IsotonicCurve, PlattCurve
from stored import check


def slow_isotonic(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The formula: at each place the largest, over where a stretch begins, of the smallest mean, over where it ends."""
    number = len(values)
    found = np.empty(number)
    for place in range(number):
        found[place] = max(
            min(np.average(values[low : high + 1], weights=weights[low : high + 1]) for high in range(place, number))
            for low in range(place + 1)
        )
    return found


@given(some.lists(some.tuples(some.integers(1, 12), some.booleans()), min_size=1, max_size=40))
def test_steps_are_those_of_the_formula(candidates: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in candidates], dtype=np.float32)
    hits = np.array([hit for _, hit in candidates])
    values = np.unique(scores)
    number = np.array([(scores == value).sum() for value in values], dtype=float)
    right = np.array([hits[scores == value].sum() for value in values], dtype=float)
    mean = (hits.sum() + 1) / (len(hits) + 2)
    for end in (0, -1):
        number[end] += 1
        right[end] += mean
    expected = slow_isotonic(right / number, number)
    curve = IsotonicCurve.fitted(scores, hits)
    assert curve.probabilities == pytest.approx(np.unique(expected.round(12)), abs=1e-9)
    for score, probability in zip(curve.scores, curve.probabilities, strict=True):
        members = np.isclose(expected, probability)
        assert score == pytest.approx(np.average(values[members], weights=number[members]))
        assert curve.of(np.array([score]))[0] == pytest.approx(probability)
    assert (np.diff(curve.probabilities) > 0).all() and (np.diff(curve.scores) > 0).all()


def test_a_curve_rises_everywhere_and_stays_between_0_and_1() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(5000).astype(np.float32) * 3
    hits = rng.random(5000) < scores / 3
    asked = np.linspace(1e-3, 30, 4000)
    for kind in (IsotonicCurve, PlattCurve):
        found = kind.fitted(scores, hits).of(asked)
        assert (np.diff(found) > 0).all()
        assert found[0] > 0 and found[-1] < 1


def test_platt_finds_the_curve_that_made_the_hits() -> None:
    """Log odds 2 ln s + 0.5, from 40,000 draws."""
    rng = np.random.default_rng(1)
    scores = rng.uniform(0.05, 3, 40_000).astype(np.float32)
    true = 1 / (1 + np.exp(-(2 * np.log(scores) + 0.5)))
    curve = PlattCurve.fitted(scores, rng.random(40_000) < true)
    assert astuple(curve.scale) == pytest.approx((2.0, 0.0, 0.5), abs=0.05)
    assert curve.of(scores) == pytest.approx(true, abs=0.02)


@dataclass
class Rigged:
    """Held-out candidates of known probability: of a frequent label it is the score, of a rare one half of it."""

    labels: LabelSet
    rows: int = 4000

    def made(self, seed: int) -> tuple[Predictions, Dataset]:
        rng = np.random.default_rng(seed)
        scores = -np.sort(-rng.random((self.rows, 4)).astype(np.float32), axis=1)
        indices = np.argsort(rng.random((self.rows, len(self.labels))), axis=1)[:, :4].astype(np.int32)
        rare = self.labels.counts[indices] < 100
        hits = rng.random(scores.shape) < np.where(rare, scores / 2, scores)
        starts = np.concatenate([[0], np.cumsum(hits.sum(axis=1))])
        targets = sparse.csr_array((np.ones(starts[-1], np.float32), indices[hits], starts), (self.rows, 6))
        ids = tuple(map(str, range(self.rows)))
        return Predictions(self.labels, indices, scores), Dataset(
            labels=self.labels, targets=targets, ids=ids, texts=("x",) * self.rows
        )

    def valid(self) -> tuple[Predictions, Dataset]:
        return self.made(0)


@pytest.fixture(scope="module")
def rigged() -> Rigged:
    counts = np.array([1000, 900, 800, 20, 18, 0])
    return Rigged(LabelSet(ids=tuple("abcdef"), counts=counts, train_rows=2000))


@pytest.mark.parametrize("curve", ["isotonic", "platt"])
def test_probabilities_are_right_in_each_group(rigged: Rigged, curve: str) -> None:
    fitted = Calibrate(curve=curve).fit_reranker(rigged)  # type: ignore[arg-type]
    assert fitted.groups[0] < fitted.groups[3]  # a rare label has a curve of its own
    predictions, data = rigged.made(7)
    before, after = evaluate(predictions, data), evaluate(fitted.rerank(predictions, data.rows), data)
    assert before["ECE@5"] > 10
    assert after["ECE@5"] < (2 if curve == "isotonic" else 6)  # the true curve is straight, not logistic
    assert after["P@1"] > before["P@1"] + 1  # the rare labels' scores were twice too high
    alone = Calibrate(curve=curve, bins=1).fit_reranker(rigged)  # type: ignore[arg-type]
    assert len(alone.curves) <= 2


def test_the_order_within_a_group_stays(rigged: Rigged) -> None:
    fitted = Calibrate().fit_reranker(rigged)
    predictions, data = rigged.made(8)
    after = fitted.rerank(predictions, data.rows)
    for row in range(200):
        for group in range(len(fitted.curves)):
            then = [label for label in predictions.indices[row].tolist() if fitted.groups[label] == group]
            now = [label for label in after.indices[row].tolist() if fitted.groups[label] == group]
            assert then == now
    assert not np.array_equal(predictions.indices, after.indices)


def test_groups_without_hits_join_the_more_frequent_ones(rigged: Rigged) -> None:
    """Every curve has at least 50 hits behind it, and labels that were never a candidate have one too."""
    counts = np.array([1000, 900, 800, 3, 2, 0])
    few = Rigged(LabelSet(ids=tuple("abcdef"), counts=counts, train_rows=2000), rows=60)
    fitted = Calibrate(bins=20).fit_reranker(few)
    predictions, data = few.valid()
    hit = predictions.indices[predictions.hits(data.targets)]
    assert (np.bincount(fitted.groups[hit], minlength=len(fitted.curves)) >= 50).all()
    assert fitted.groups[5] == fitted.groups.max()


def test_labels_never_seen_in_training_share_the_curve_of_the_rarest(rigged: Rigged) -> None:
    groups = Calibrate().fit_reranker(rigged).groups
    assert groups[5] == groups.max() > groups[0]


def test_without_valid_rows_it_learns_out_of_fold(tiny: Corpus) -> None:
    nothing = tiny.valid.take([])
    model = Recipe.parse("centroid(probabilities=false) + calibrate").fit(tiny.train, nothing)
    asked = Recipe.parse("centroid(probabilities=false) + calibrate(folds=3)").fit(tiny.train, tiny.valid)
    for fitted in (model, asked):
        predictions = fitted.predict(tiny.test.rows, k=3)
        assert evaluate(predictions, tiny.test)["ECE@3"] < 10
    assert model.rerankers[0].state().tensors["probabilities"] == pytest.approx(
        asked.rerankers[0].state().tensors["probabilities"]
    )


def test_scores_that_are_no_probabilities_become_some(tiny: Corpus) -> None:
    bare = Recipe.parse("bm25").fit(tiny.train, tiny.valid)
    assert bare.predict(tiny.test.rows, k=5).scores.max() > 1
    for recipe in ("bm25 + calibrate", 'bm25 + calibrate(curve="platt")'):
        scores = Recipe.parse(recipe).fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5).scores
        assert 0 <= scores.min() <= scores.max() < 1


def test_wrong_settings_and_damaged_states_are_told(rigged: Rigged) -> None:
    for settings in ("bins=0", "candidates=0", "folds=1", "folds=-2", 'curve="spline"'):
        with pytest.raises(RecipeError, match="calibrate"):
            Recipe.parse(f"centroid + calibrate({settings})")
    for curve in ("isotonic", "platt"):
        state = Calibrate(curve=curve).fit_reranker(rigged).state()  # type: ignore[arg-type]
        labels = len(state.tensors["groups"])
        assert isinstance(check(CalibratedScores, state, labels), CalibratedScores)
        wrong = {"groups": state.tensors["groups"] + 9}
        wrong |= (
            {"probabilities": state.tensors["probabilities"][::-1]}
            if curve == "isotonic"
            else {"weights": np.full(state.tensors["weights"].shape, np.nan)}
        )
        for name, value in wrong.items():
            with pytest.raises(Misfit, match=f"array '{name}'"):
                check(CalibratedScores, State(state.settings, {**state.tensors, name: value}), labels)
