"""The dial: its order against a slow reference, what it needs, what it refuses, and its curve from one prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from longtail.arrays import Floats, Ints
from longtail.data import Corpus, Dataset, LabelSet, Propensity, Rows
from longtail.dial import CURVE_MEASURES, STEPS, dial_curve, turned
from longtail.errors import DataError
from longtail.metrics import evaluate, inverse_propensity
from longtail.metrics.weighted_top import weighted_top
from longtail.model import Model
from longtail.predictions import CANDIDATES, Predictions
from longtail.recipe import Recipe
from longtail.seams import State, gives_probabilities

LABELS = 300


def in_order(labels: LabelSet, indices: list[int], scores: list[float], dial: float) -> list[int]:
    """The slow way: one row, one label at a time, from the formula."""
    a, b = labels.propensity.a, labels.propensity.b
    big = (math.log(labels.train_rows) - 1) * (b + 1) ** a

    def product(label: int, p: float) -> float:
        return float(p * (1 + big * (int(labels.counts[label]) + b) ** -a) ** dial)

    pairs = [(-product(label, p), label) for label, p in zip(indices, scores, strict=True) if label >= 0]
    return [label for _, label in sorted(pairs)] + [-1] * indices.count(-1)


@st.composite
def candidates(draw: st.DrawFn) -> Predictions:
    number, rows, places = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.integers(1, 12))
    counts = draw(st.lists(st.sampled_from([0, 1, 1, 2, 30, 400]), min_size=number, max_size=number))
    labels = LabelSet(
        ids=tuple(map(str, range(number))), counts=np.array(counts), train_rows=1000, propensity=Propensity(0.5, 0.4)
    )
    indices = np.full((rows, places), -1, dtype=np.int32)
    scores = np.zeros((rows, places), dtype=np.float32)
    for row in range(rows):
        order = draw(st.permutations(range(number)))[:places]
        indices[row, : len(order)] = order
        scores[row, : len(order)] = draw(
            st.lists(st.sampled_from([1e-6, 0.01, 0.25, 0.25, 0.5, 1.0]), min_size=len(order), max_size=len(order))
        )
    return Predictions(labels, indices, scores)


@settings(max_examples=300, deadline=None)
@given(candidates(), st.sampled_from([0.1, 0.3, 0.5, 1.0, 2.0]))
def test_the_order_is_that_of_the_reference(found: Predictions, dial: float) -> None:
    """Ties, unseen labels and empty places among them; every score goes with its label and stays p."""
    after = turned(found, dial)
    for row in range(len(found)):
        before = dict(zip(found.indices[row].tolist(), found.scores[row].tolist(), strict=True))
        assert after.indices[row].tolist() == in_order(
            found.labels, found.indices[row].tolist(), found.scores[row].tolist(), dial
        )
        assert after.scores[row].tolist() == [before[label] for label in after.indices[row].tolist()]


@settings(max_examples=300, deadline=None)
@given(candidates(), st.sampled_from([0.3, 1.0, 2.0]), st.integers(1, 12))
def test_the_kernel_finds_the_same_places(found: Predictions, dial: float, k: int) -> None:
    whole, quick = turned(found, dial), weighted_top(found, inverse_propensity(found.labels) ** dial, k)
    filled = (whole.indices >= 0)[:, :k]
    assert quick.indices.shape == filled.shape
    assert np.array_equal(quick.indices, np.where(filled, whole.indices[:, :k], -1))
    assert np.array_equal(quick.scores, np.where(filled, whole.scores[:, :k], 0))


@settings(max_examples=30, deadline=None)
@given(candidates())
def test_at_0_nothing_moves(found: Predictions) -> None:
    assert turned(found, 0.0) is found


@dataclass(frozen=True, eq=False)
class KnownScorer:
    """Gives every row the same scores: label 0 most, and so on."""

    scores: Floats
    kind: ClassVar[str] = "known"
    probabilities: ClassVar[bool] = True

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """The first k labels."""
        k = min(k, len(self.scores))
        labels = np.tile(np.arange(k, dtype=np.int32), (len(rows), 1))
        return labels, np.tile(self.scores[:k], (len(rows), 1))

    def state(self) -> State:
        """Not saved."""
        raise NotImplementedError

    restore = state


@pytest.fixture
def model() -> Model:
    """Label 0 is the likeliest and the most frequent; the last ones are the least likely and were never seen."""
    counts = (500 * 0.95 ** np.arange(LABELS)).astype(np.int64)
    labels = LabelSet(ids=tuple(map(str, range(LABELS))), counts=counts, train_rows=5000)
    return Model("known", labels, KnownScorer(np.linspace(0.9, 0.2, LABELS).astype(np.float32)))


def test_the_dial_sees_more_candidates_than_k(model: Model) -> None:
    """The best of the first CANDIDATES labels at 2 is the rarest of them, far behind the top 3."""
    found = model.predict(["a"], k=3, dial=2.0)
    assert found.places == 3
    wanted = in_order(model.labels, list(range(CANDIDATES)), model.scorer.scores[:CANDIDATES].tolist(), 2.0)  # type: ignore[attr-defined]
    assert found.indices[0].tolist() == wanted[:3] and wanted[0] > 3
    wide = model.predict(["a"], k=LABELS, dial=2.0)  # more than CANDIDATES where more are asked for
    unseen = int(np.argmax(model.labels.counts == 0))
    assert unseen > CANDIDATES and wide.indices[0, 0] == unseen  # a label without examples weighs most
    assert not (np.diff(wide.scores[0]) <= 0).all()  # scores stay probabilities


def test_0_gives_what_no_dial_gives(model: Model) -> None:
    for k in (1, 5, 200):
        plain, zero = model.predict(["a", "b"], k), model.predict(["a", "b"], k, dial=0)
        assert np.array_equal(plain.indices, zero.indices) and np.array_equal(plain.scores, zero.scores)


def test_excluded_labels_leave_before_the_dial_turns(model: Model) -> None:
    first = model.predict(["a"], k=1, dial=1.0).indices[0, 0]
    marks = np.zeros((1, LABELS), dtype=bool)
    marks[0, first] = True
    found = model.predict(["a"], k=5, excluded=sparse.csr_array(marks), dial=1.0)
    assert first not in found.indices and (found.indices >= 0).all()


@pytest.mark.parametrize(
    "dial", [-0.1, 2.01, math.nan, math.inf, -math.inf, "0.3", None, True, [0.3], 1e400, np.float32("nan")]
)
def test_a_dial_that_is_no_number_from_0_to_2_is_refused(model: Model, dial: Any) -> None:
    with pytest.raises(DataError, match="dial is a number from 0"):
        model.predict(["a"], dial=dial)


def test_numbers_of_numpy_are_numbers(model: Model) -> None:
    for dial in (np.float32(0.5), np.float64(0.5), np.int64(1), 1):
        assert model.predict(["a"], dial=dial).places == 5


def test_without_probabilities_the_error_says_to_calibrate(tiny: Corpus) -> None:
    for recipe in ("parabel", "knn", "bm25", "centroid(probabilities=false)", "centroid + rerank"):
        fitted = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
        assert not fitted.probabilities
        assert fitted.predict(["apple"], dial=0.0).places == 5
        with pytest.raises(DataError) as refused:
            fitted.predict(["apple"], dial=0.3)
        assert f"{fitted.recipe} + calibrate" in str(refused.value)


def test_calibrate_makes_the_dial_work_and_a_later_part_ends_it(tiny: Corpus) -> None:
    for recipe, wanted in (
        ("parabel + calibrate", True),
        ("centroid + rerank + calibrate", True),
        ("parabel + calibrate + rerank", False),
        ("parabel + calibrate + centroid", False),
        ("parabel + taug", True),
        ("centroid", True),
    ):
        fitted = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
        assert fitted.probabilities is wanted, recipe
        if wanted:
            rows = tiny.test.rows
            all_of_them = fitted.predict(rows, k=len(fitted.labels))
            found = fitted.predict(rows, k=3, dial=0.7)
            for row in range(len(tiny.test)):
                order = in_order(
                    fitted.labels, all_of_them.indices[row].tolist(), all_of_them.scores[row].tolist(), 0.7
                )
                assert found.indices[row].tolist() == order[:3]


def test_what_encoders_leave_behind_are_probabilities() -> None:
    """All of them end with Platt scaling on valid."""
    pytest.importorskip("torch", reason="the extra nn is not installed")
    from longtail.nn.dual.dual_scorer import DualEncoderScorer
    from longtail.nn.onevsall.onevsall_scorer import OneVsAllScorer
    from longtail.nn.pool.pool_scorer import PoolScorer
    from longtail.nn.shallow.shallow_scorer import ShallowScorer

    for kind in (DualEncoderScorer, OneVsAllScorer, PoolScorer, ShallowScorer):
        assert kind.probabilities and "calibration" in kind.__dataclass_fields__


def test_a_part_that_declares_nothing_has_no_probabilities() -> None:
    assert not gives_probabilities(object())


def test_labels_added_later_rank_by_their_inverse_propensity(model: Model) -> None:
    """Count 0: the heaviest of all, above a label with one example and the same probability."""
    labels = replace(model.labels, ids=("one", "new"), texts=(), counts=np.array([1, 0]))
    grown = Model("known", labels, KnownScorer(np.array([0.4, 0.4], dtype=np.float32)))
    assert grown.predict(["a"], k=2).indices[0].tolist() == [0, 1]
    assert grown.predict(["a"], k=2, dial=0.1).indices[0].tolist() == [1, 0]


def test_the_curve_comes_from_one_prediction_and_agrees_with_predicting_again(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = Recipe.parse("parabel + calibrate").fit(tiny.train, tiny.valid)
    found = fitted.predict(tiny.test.rows, CANDIDATES, tiny.test.excluded)
    monkeypatch.setattr("longtail.metrics.weighted_top.MIN_ROWS", 7)  # several pieces
    points = dial_curve(found, tiny.test)
    assert [point.dial for point in points] == list(STEPS)
    for point in points:
        wanted = evaluate(fitted.predict(tiny.test.rows, 5, tiny.test.excluded, dial=point.dial), tiny.test)
        assert point.values == {name: wanted[name] for name in CURVE_MEASURES}


def test_the_curve_leaves_head_for_tail() -> None:
    """Frequent label 0 and rare label 1 are right equally often, and 0 looks likelier: the dial brings 1 forward."""
    labels = LabelSet(ids=("often", "rare"), counts=np.array([900, 1]), train_rows=1000)
    targets = sparse.csr_array(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
    data = Dataset(labels=labels, targets=targets, ids=("0", "1", "2", "3"), texts=("",) * 4)
    found = Predictions(labels, np.tile([0, 1], (4, 1)), np.tile(np.array([0.6, 0.4], np.float32), (4, 1)))
    points = dial_curve(found, data)
    assert points[0].values["PSP@1"] < points[-1].values["PSP@1"]
    assert dial_curve(Predictions(labels, found.indices[:0], found.scores[:0]), data.take([])) == ()
