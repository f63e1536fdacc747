"""The order of members, found on a sample."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from longtail.automatic.pilot import FEW, added, pilot
from longtail.data import Corpus, Dataset
from longtail.metrics import evaluate
from longtail.plan import Plan
from longtail.predictions import Predictions

NAMES = ("knn", "bm25", "centroid(probabilities=false)")


def answers_of(valid: Dataset, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One label a row: a true one where `right`, else one that is wrong."""
    labels = np.zeros((len(valid), 1), dtype=np.int32)
    for row in range(len(valid)):
        true = valid.targets.indices[valid.targets.indptr[row] : valid.targets.indptr[row + 1]]
        wrong = np.setdiff1d(np.arange(10), true)
        labels[row] = true[0] if right[row] else wrong[row % len(wrong)]
    return labels, np.ones((len(valid), 1), dtype=np.float32)


def six_times(train: Dataset) -> Dataset:
    rows = train.take(np.tile(np.arange(len(train)), 6))
    return replace(rows, ids=tuple(f"row-{row}" for row in range(len(rows))))


def test_the_best_comes_first_and_then_what_adds_to_it(tiny: Corpus) -> None:
    valid, rows = tiny.valid, np.arange(len(tiny.valid))
    answers = {
        "poor": answers_of(valid, rows % 4 == 0),
        "good": answers_of(valid, rows % 4 != 3),
        "good again": answers_of(valid, rows % 4 != 3),
        "elsewhere": answers_of(valid, rows % 4 == 3),
    }
    gains = added(answers, valid, dict.fromkeys(answers, 1.0), dear=5.0)
    assert list(gains)[:2] == ["good", "elsewhere"]
    measures = evaluate(Predictions(valid.labels, *answers["good"]), valid)
    assert measures["P@1"] == 75
    assert gains["good"] == pytest.approx(measures["P@1"] + measures["PSP@5"])
    assert gains["elsewhere"] > 0


def test_a_dear_member_does_not_come_first_and_a_cheap_one_comes_before(tiny: Corpus) -> None:
    valid, rows = tiny.valid, np.arange(len(tiny.valid))
    answers = {
        "best": answers_of(valid, rows >= 0),
        "good": answers_of(valid, rows % 4 != 3),
        "slow": answers_of(valid, rows % 4 == 0),
        "quick": answers_of(valid, rows % 4 == 0),
    }
    gains = added(answers, valid, {"best": 100.0, "good": 1.0, "slow": 50.0, "quick": 1.0}, dear=10.0)
    order = list(gains)
    assert order[0] == "good"
    assert order.index("quick") < order.index("slow")


def test_members_are_tried_on_a_sample_of_train_and_never_on_test(tiny: Corpus) -> None:
    many = six_times(tiny.train)
    plans = dict.fromkeys(NAMES, Plan(0, 0, 10.0, 0.0))
    found = pilot(plans, many, tiny.valid, 20.0, time.process_time)
    assert found is not None and found.rows == FEW
    assert set(found.order) == set(found.gains) == set(NAMES)
    assert found.order[0] == max(NAMES, key=lambda name: found.gains[name])
    assert f"{FEW:,} training examples" in str(found) and all(name in str(found) for name in NAMES)


def test_no_pilot_where_all_fit_or_nothing_is_to_learn(tiny: Corpus) -> None:
    def tried(seconds: float, train: Dataset, within: float) -> object:
        return pilot(dict.fromkeys(NAMES, Plan(0, 0, seconds, 0.0)), train, tiny.valid, within, time.process_time)

    many = six_times(tiny.train)
    assert tried(0.1, many, 60.0) is None  # all members fit
    assert tried(10.0, tiny.train, 60.0) is None  # train is a sample already
    assert tried(10.0, many, 2.0) is None  # no time for a pilot
