"""Thresholds against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from longtail.cutoff import Cutoff, CutoffChoice
from longtail.data import Dataset, LabelSet
from longtail.errors import DataError
from longtail.metrics import at_threshold, best_threshold, choose_cutoff, threshold_of_precision
from longtail.predictions import Predictions

LABELS = LabelSet(ids=tuple("abcde"))


def case(seed: int, rows: int = 12) -> tuple[Predictions, Dataset]:
    """Random rankings with tied scores and empty places."""
    rng = np.random.default_rng(seed)
    indices = np.argsort(rng.random((rows, 5)), axis=1)[:, :4].astype(np.int32)
    indices[rng.random(indices.shape) < 0.1] = -1
    scores = np.where(indices >= 0, rng.integers(1, 8, indices.shape) / 8, 0).astype(np.float32)
    targets = sparse.csr_array((rng.random((rows, 5)) < 0.4).astype(np.float32))
    data = Dataset(labels=LABELS, targets=targets, ids=tuple(map(str, range(rows))), texts=("x",) * rows)
    return Predictions(LABELS, indices, scores).sorted(), data


def slow(predictions: Predictions, data: Dataset, threshold: float) -> tuple[float, float, float, float]:
    """Precision, recall, F1 and macro F1 from sets of pairs."""
    truth = set(zip(*(part.tolist() for part in data.targets.nonzero()), strict=True))
    shown = {
        (row, int(label))
        for row in range(len(data))
        for label, score in zip(predictions.indices[row], predictions.scores[row], strict=True)
        if label >= 0 and score >= threshold
    }
    right = len(shown & truth)
    macro = []
    for label in range(5):
        mine, true = ({pair for pair in pairs if pair[1] == label} for pairs in (shown, truth))
        macro.append(2 * len(mine & true) / (len(mine) + len(true)) if mine or true else 0.0)
    return (
        100 * right / max(len(shown), 1),
        100 * right / max(len(truth), 1),
        200 * right / max(len(shown) + len(truth), 1),
        100 * float(np.mean(macro)),
    )


@given(st.integers(0, 10_000), st.integers(0, 9))
def test_measures_are_those_of_plain_counting(seed: int, eighths: int) -> None:
    predictions, data = case(seed)
    found = at_threshold(predictions, data, eighths / 8)
    assert (found.precision, found.recall, found.f1, found.macro_f1) == pytest.approx(
        slow(predictions, data, eighths / 8)
    )
    kept = [len([one for one in row if one.score >= eighths / 8]) for row in predictions]
    assert found.labels_per_row == pytest.approx(np.mean(kept))
    assert found.empty_rows == pytest.approx(100 * np.mean(np.array(kept) == 0))


@given(st.integers(0, 10_000))
def test_no_other_threshold_gives_more_f1(seed: int) -> None:
    predictions, data = case(seed)
    if not predictions.hits(data.targets).any():
        return
    best = best_threshold(predictions, data)
    most = at_threshold(predictions, data, best).f1
    others = [at_threshold(predictions, data, eighths / 8).f1 for eighths in range(10)]
    assert most == pytest.approx(max(others))


def test_a_threshold_written_down_keeps_the_label_it_came_from() -> None:
    """0.1 as float32 is more than 0.1; the printed threshold must still include the label it came from."""
    scores = np.array([[0.7, 0.1]], dtype=np.float32)
    predictions = Predictions(LABELS, np.array([[0, 1]]), scores)
    data = Dataset(
        labels=LABELS, targets=sparse.csr_array(np.array([[1, 1, 0, 0, 0]], np.float32)), ids=("r",), texts=("x",)
    )
    best = best_threshold(predictions, data)
    assert str(best) == "0.1"
    assert at_threshold(predictions, data, best).recall == 100


def test_nothing_to_choose_from_is_an_error() -> None:
    predictions, data = case(0)
    with pytest.raises(DataError, match="no prediction"):
        best_threshold(Predictions(LABELS, np.full((12, 1), -1), np.zeros((12, 1))), data)
    with pytest.raises(DataError, match="3 predictions for 12"):
        at_threshold(Predictions(LABELS, predictions.indices[:3], predictions.scores[:3]), data, 0.5)


@given(st.integers(0, 500), st.sampled_from([0.3, 0.5, 0.8]), st.sampled_from([None, 1, 2]))
def test_the_lowest_threshold_with_a_precision_is_found(seed: int, precision: float, most: int | None) -> None:
    """Against trying every score; with at most so many labels, against the shortened lists."""
    predictions, data = case(seed)
    shown = predictions if most is None else predictions.top(most)
    scores = sorted({float(score) for score in shown.scores[shown.indices >= 0]})
    right = [score for score in scores if slow(shown, data, score)[0] >= 100 * precision - 1e-9]
    if not right:
        with pytest.raises(DataError, match="no threshold has a precision of"):
            threshold_of_precision(shown, data, precision)
        return
    found = choose_cutoff(predictions, data, CutoffChoice(precision, most))
    assert (found.threshold, found.most) == (right[0], most)
    assert found == Cutoff.of_json(found.as_json()) and CutoffChoice.parse(found.chosen).most == most


@pytest.mark.parametrize("wrong", [{}, {"threshold": "1"}, {"threshold": 1, "more": 2}, {"threshold": float("nan")}])
def test_a_wrong_cutoff_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DataError, match="a cutoff has"):
        Cutoff.of_json(wrong)
