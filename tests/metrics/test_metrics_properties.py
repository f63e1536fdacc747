"""Random data against the slow reference, and properties that hold for any data."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics_cases import data_with, labels_with, predicting
from metrics_reference import reference, truths_of

from longtail.data.dataset import Dataset
from longtail.metrics import evaluate, inverse_propensity
from longtail.predictions import Predictions

KS = (1, 2, 3, 5, 9)
Case = tuple[Predictions, Dataset]


@st.composite
def cases(draw: st.DrawFn, exclusions: bool = True) -> Case:
    """Rows without labels, soft targets, zero-shot labels, ties, gaps, repetitions, k > places."""
    number = draw(st.integers(1, 9))
    rows = draw(st.integers(1, 7))
    places = draw(st.integers(0, 7))
    counts = draw(st.lists(st.integers(0, 40), min_size=number, max_size=number))
    labels = labels_with(counts, train_rows=draw(st.integers(0, 500)), a=0.5, b=0.4)
    label = st.integers(0, number - 1)
    weight = st.sampled_from([0.01, 0.5, 1.0])
    truth = draw(st.lists(st.dictionaries(label, weight), min_size=rows, max_size=rows))
    excluded = draw(st.lists(st.sets(label, max_size=3), min_size=rows, max_size=rows)) if exclusions else None
    data = data_with(labels, truth, None if excluded is None else [sorted(row) for row in excluded])
    scores = st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.7, 1.0, draw(st.sampled_from([0.9, 3.0]))])
    size = rows * places
    indices = draw(st.lists(st.integers(-1, number - 1), min_size=size, max_size=size))
    values = draw(st.lists(scores, min_size=size, max_size=size))
    shape = (rows, places)
    return Predictions(labels, np.array(indices, np.int32).reshape(shape), np.reshape(values, shape)), data


@settings(max_examples=300, deadline=None)
@given(cases(), st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True))
def test_agrees_with_the_reference(case: Case, ks: list[int]) -> None:
    """Also where a row has more true labels than the largest k."""
    predictions, data = case
    expected = {name: value for k in ks for name, value in reference(predictions, data, k).items()}
    measured = evaluate(predictions, data, ks=ks, bins_at=ks[0]).values
    assert measured == pytest.approx(expected, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(case: Case, random: object) -> None:
    predictions, data = case
    order = list(range(len(data)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = Predictions(predictions.labels, predictions.indices[order], predictions.scores[order])
    before, after = evaluate(predictions, data, ks=KS), evaluate(shuffled, data.take(order), ks=KS)
    assert after.values == pytest.approx(before.values, abs=1e-9)
    assert (after.bins, after.notes) == (before.bins, before.notes)


@settings(max_examples=150, deadline=None)
@given(cases(exclusions=False), st.data())
def test_a_hit_more_never_lowers_precision_recall_or_coverage(case: Case, more: st.DataObject) -> None:
    """One wrong place becomes a true label that was not predicted: no measure of hits may fall."""
    predictions, data = case
    indices, truths = predictions.indices.copy(), truths_of(data)
    wrong = [
        (row, place, label)
        for row in range(len(data))
        for place in range(predictions.places)
        for label in sorted(truths[row] - set(indices[row].tolist()))
        if indices[row, place] not in truths[row]
    ]
    if not wrong:
        return
    row, place, label = more.draw(st.sampled_from(wrong))
    indices[row, place] = label
    better = Predictions(predictions.labels, indices, predictions.scores)
    before, after = evaluate(predictions, data, ks=KS), evaluate(better, data, ks=KS)
    # filling a gap or the place of a repetition moves the predictions behind it back by one
    whole = len(set(predictions.indices[row].tolist()) - {-1}) == predictions.places
    names = ["P", "R", "RP", "nDCG", "PSP", "C", "macroR"]
    if whole:  # a frequent label in front of a rare one lowers the rare one's discounted weight
        names.append("PSnDCG")
    for k in KS if whole else (9,):
        for name in names:
            assert after[f"{name}@{k}"] >= before[f"{name}@{k}"] - 1e-9


@settings(max_examples=100, deadline=None)
@given(cases(exclusions=False))
def test_the_ideal_ranking_is_100(case: Case) -> None:
    _, data = case
    weights = inverse_propensity(data.labels)
    ideal = [sorted(truth, key=lambda label: -weights[label]) for truth in truths_of(data)]
    measures = evaluate(predicting(data.labels, ideal), data, ks=KS)
    for k in KS:
        if any(ideal):
            assert measures[f"PSP@{k}"] == pytest.approx(100)
            assert measures[f"PSnDCG@{k}"] == pytest.approx(100)
        if all(ideal):
            assert measures[f"nDCG@{k}"] == pytest.approx(100)
            assert measures[f"RP@{k}"] == pytest.approx(100)


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(1, 12), st.integers(1, 8))
def test_the_bins_add_up(case: Case, bins: int, at: int) -> None:
    predictions, data = case
    measures = evaluate(predictions, data, ks=(at,), bins=bins, bins_at=at)
    assert sum(part.contribution for part in measures.bins) == pytest.approx(measures[f"P@{at}"], abs=1e-9)
    assert sum(part.labels for part in measures.bins) == len(data.labels)
    assert sum(part.positives for part in measures.bins) == data.targets.nnz
    assert len(measures.bins) == bins + bool((data.labels.counts == 0).any())
    seen = [part for part in measures.bins if part.labels and part.name != "zero-shot"]
    assert all(more.low >= fewer.high for more, fewer in pairwise(seen))


@settings(max_examples=50, deadline=None)
@given(cases())
def test_every_value_is_a_percentage(case: Case) -> None:
    predictions, data = case
    assert all(-1e-9 <= value <= 100 + 1e-9 for value in evaluate(predictions, data, ks=KS).values.values())
