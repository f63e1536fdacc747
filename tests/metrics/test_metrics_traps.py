"""Where published evaluations disagree or go wrong: each case gives another result when done the other way."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np
import pytest
from metrics_cases import data_with, labels_with, predicting
from metrics_reference import reference
from scipy import sparse

from longtail.errors import DataError
from longtail.metrics import evaluate, inverse_propensity
from longtail.metrics.curves import calibration_curve
from longtail.predictions import Predictions


def test_added_rows_and_entries_do_not_move_propensities() -> None:
    labels = labels_with([0, 0, 0])
    train = data_with(labels, [[0], [0], [0], [0, 1], [2]])
    labels = labels.counted(train.targets)
    train = train.over(labels)
    more = sparse.csr_array(np.array([[0, 1, 1]] * 40, dtype=np.float32))
    grown = train.with_rows(targets=more, origin="test", texts=[""] * 40)
    grown = grown.with_entries(sparse.csr_array(np.full(grown.targets.shape, 0.1, dtype=np.float32)))
    test = data_with(labels, [[0, 1], [1]])
    ranked = predicting(labels, [[0], [1]])
    before = evaluate(ranked, test, ks=(1,))
    assert evaluate(ranked, test.over(grown.labels), ks=(1,)).values == before.values
    # the leak would have shown
    recounted = test.over(labels.counted(grown.targets))
    leaked = evaluate(Predictions(recounted.labels, ranked.indices, ranked.scores), recounted, ks=(1,))
    assert abs(leaked["PSP@1"] - before["PSP@1"]) > 1


def test_psp_is_a_ratio_of_sums_not_a_mean_of_ratios() -> None:
    labels = labels_with([50, 1])
    q = inverse_propensity(labels)
    data = data_with(labels, [[0], [1]])
    ranked = predicting(labels, [[0], [0]])  # right on the frequent label, wrong on the rare one
    measures = evaluate(ranked, data, ks=(1,))
    mean_of_ratios = 50.0
    assert measures["PSP@1"] == pytest.approx(100 * q[0] / (q[0] + q[1]))
    assert measures["PSnDCG@1"] == pytest.approx(100 * q[0] / (q[0] + q[1]))
    assert measures["PSP@1"] < mean_of_ratios - 5


def test_excluded_pairs_go_before_the_top_k() -> None:
    labels = labels_with([5, 5, 5])
    ranked = predicting(labels, [[0, 1, 2]])
    data = data_with(labels, [[1]], excluded=[[0]])
    assert evaluate(ranked, data, ks=(1,))["P@1"] == 100
    dropped_after = ranked.top(1).without(data.excluded)
    assert evaluate(dropped_after, replace(data, excluded=None), ks=(1,))["P@1"] == 0


def test_excluded_pairs_are_dropped_as_predictions_without_drops_them() -> None:
    rng = np.random.default_rng(3)
    labels = labels_with(rng.integers(0, 30, 40).tolist())
    order = [rng.permutation(40)[:12].tolist() for _ in range(30)]
    truth = [rng.permutation(40)[:4].tolist() for _ in range(30)]
    data = data_with(labels, truth, excluded=[rng.permutation(40)[:8].tolist() for _ in range(30)])
    ranked = predicting(labels, order)
    ours = evaluate(ranked, data, ks=(1, 5, 12))
    assert ours.values == evaluate(ranked.without(data.excluded), replace(data, excluded=None), (1, 5, 12)).values


def test_an_excluded_true_label_stays_true_and_is_noted() -> None:
    labels = labels_with([5, 5])
    data = data_with(labels, [[0, 1]], excluded=[[0]])
    measures = evaluate(predicting(labels, [[0, 1]]), data, ks=(1, 2))
    assert measures["R@2"] == 50
    assert any("1 true label is excluded" in note for note in measures.notes)


def test_ndcg_is_normalised_by_the_labels_a_row_has() -> None:
    labels = labels_with([5] * 6)
    data = data_with(labels, [[0]])
    ranked = predicting(labels, [[0, 1, 2, 3, 4]])
    assert evaluate(ranked, data)["nDCG@5"] == pytest.approx(100)
    always_five = 1 / sum(1 / log2(place + 1) for place in range(1, 6))
    assert always_five < 0.4


def test_propensity_scored_ndcg_divides_each_row_by_its_own_ideal() -> None:
    # rows with one and with three true labels: dividing both by the ideal of k = 3 gives another ratio
    labels = labels_with([50, 20, 5, 1])
    q = inverse_propensity(labels)
    data = data_with(labels, [[3], [0, 1, 2]])
    ranked = predicting(labels, [[0, 1, 2], [2, 1, 0]])
    d = np.array([1 / log2(2), 1 / log2(3), 1 / log2(4)])
    achieved = (q[[2, 1, 0]] * d).sum()
    per_row = (achieved / d.sum()) / (q[3] / 1 + achieved / d.sum())
    always_k = achieved / (q[3] + achieved)
    assert evaluate(ranked, data)["PSnDCG@3"] == pytest.approx(100 * per_row)
    assert abs(per_row - always_k) > 0.1


def test_a_repeated_label_counts_once_and_does_not_use_a_place() -> None:
    labels = labels_with([5, 5, 5])
    data = data_with(labels, [[0, 1]])
    measures = evaluate(predicting(labels, [[0, 0, 1]]), data, ks=(1, 2, 3))
    assert measures["P@2"] == 100
    assert measures["P@3"] == pytest.approx(100 * 2 / 3)
    assert any("1 prediction repeats a label" in note for note in measures.notes)


def test_fewer_places_than_k_are_misses_and_noted() -> None:
    labels = labels_with([5] * 12)
    data = data_with(labels, [[0, 1, 2], [3]])
    measures = evaluate(predicting(labels, [[0], [3]]), data, ks=(1, 10), bins_at=1)
    assert measures["P@1"] == 100
    assert measures["P@10"] == pytest.approx(10)
    assert measures["R@10"] == pytest.approx(100 * (1 / 3 + 1) / 2)
    assert any("1 place, fewer than k = 10" in note for note in measures.notes)


def test_an_enormous_k_costs_nothing() -> None:
    labels = labels_with([5] * 3)
    data = data_with(labels, [[0, 1], [2]])
    ranked = predicting(labels, [[0], [1]])
    huge, plain = evaluate(ranked, data, ks=(10**15,)), evaluate(ranked, data, ks=(50,))
    assert huge[f"R@{10**15}"] == plain["R@50"]
    assert huge[f"nDCG@{10**15}"] == plain["nDCG@50"]


def test_short_rows_are_noted_where_places_would_do() -> None:
    labels = labels_with([5] * 6)
    data = data_with(labels, [[0], [3]])
    measures = evaluate(predicting(labels, [[0, 1, 2, 4, 5], [3]]), data)
    assert any("1 of 2 examples have fewer than 5 predictions" in note for note in measures.notes)


def test_no_notes_when_there_is_nothing_to_say() -> None:
    labels = labels_with([5] * 6)
    assert evaluate(predicting(labels, [[0, 1, 2, 4, 5]]), data_with(labels, [[0]])).notes == ()


def test_rows_without_labels_count_and_are_noted() -> None:
    labels = labels_with([5] * 6)
    measures = evaluate(predicting(labels, [[0], [1]]), data_with(labels, [[0], []]), ks=(1,), bins_at=1)
    assert [measures[name] for name in ("P@1", "R@1", "RP@1", "nDCG@1")] == [50] * 4
    assert measures["PSP@1"] == 100
    assert any("1 of 2 examples have no true label" in note for note in measures.notes)


def test_nothing_true_at_all_is_zero_everywhere() -> None:
    labels = labels_with([5, 0])
    measures = evaluate(predicting(labels, [[0, 1]], scores=[[0, 0]]), data_with(labels, [[]]))
    assert set(measures.values.values()) == {0.0}


def test_soft_targets_count_as_relevant() -> None:
    labels = labels_with([5, 3, 1])
    ranked = predicting(labels, [[0, 1, 2], [2, 1, 0]])
    soft = data_with(labels, [{0: 0.01, 2: 0.5}, {1: 0.3}])
    assert evaluate(ranked, soft).values == evaluate(ranked, data_with(labels, [[0, 2], [1]])).values


def test_no_calibration_error_where_scores_are_no_probabilities() -> None:
    labels = labels_with([5, 5])
    data = data_with(labels, [[0]])
    ranked = predicting(labels, [[0, 1]], scores=[[7.5, 0.1]])
    measures = evaluate(ranked, data)
    assert not any(name.startswith("ECE") for name in measures.values)
    assert any("no ECE" in note for note in measures.notes)
    with pytest.raises(DataError, match=r"scores in \[0, 1\]"):
        calibration_curve(ranked, data)


def test_the_score_of_an_empty_place_does_not_matter() -> None:
    labels = labels_with([5, 5])
    ranked = Predictions(labels, np.array([[0, -1]]), np.array([[0.5, -np.inf]]))
    assert evaluate(ranked, data_with(labels, [[0]]), ks=(1,), bins_at=1)["ECE@1"] == pytest.approx(50)


def test_not_a_number_is_no_probability() -> None:
    labels = labels_with([5, 5])
    ranked = Predictions(labels, np.array([[0, 1]]), np.array([[0.5, np.nan]]))
    assert "ECE@1" not in evaluate(ranked, data_with(labels, [[0]])).values


def test_many_rows_on_many_threads_give_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    labels = labels_with(rng.integers(0, 9, 20).tolist())
    truth = [rng.permutation(20)[: rng.integers(0, 5)].tolist() for _ in range(5000)]
    data = data_with(labels, truth)
    ranked = Predictions(
        labels, rng.integers(-1, 20, (5000, 6), dtype=np.int32), rng.random((5000, 6), dtype=np.float32)
    )
    results = []
    for threads in ("1", "2", "4"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        results.append(evaluate(ranked, data, ks=(1, 5)).values)
    assert results[0] == results[1] == results[2]  # to the last bit
    assert results[0] == pytest.approx(reference(ranked, data, 1) | reference(ranked, data, 5), abs=1e-9)


def test_wrong_input_is_an_error() -> None:
    labels = labels_with([5, 5])
    data, ranked = data_with(labels, [[0]]), predicting(labels, [[0]])
    with pytest.raises(DataError, match="2 predictions for 1 document;"):
        evaluate(predicting(labels, [[0], [1]]), data)
    with pytest.raises(DataError, match=r"another label set \(3 labels\)"):
        evaluate(predicting(labels_with([5, 5, 5]), [[0]]), data)
    with pytest.raises(DataError, match="no examples"):
        evaluate(predicting(labels, []), data.take([]))
    for ks in ((), (0,), (1, -3), (1.5,)):
        with pytest.raises(DataError, match=rf"whole numbers k of 1 or more, got \[{', '.join(map(str, ks))}\]$"):
            evaluate(ranked, data, ks=ks)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="1 or more, got 0"):
        evaluate(ranked, data, bins_at=0)
    with pytest.raises(DataError, match="at least 1 bin"):
        evaluate(ranked, data, bins=0)
