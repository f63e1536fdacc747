"""Sums of measures, read and computed."""

from __future__ import annotations

import pytest

from longtail.data import Corpus
from longtail.errors import DataError
from longtail.metrics import evaluate
from longtail.recipe import Recipe
from longtail.tuning.objective import MEASURES, Objective


def test_sums_with_weights() -> None:
    measures = {"P@1": 60.0, "PSP@5": 40.0, "ECE@5": 10.0}
    for text, value in {
        "P@1": 60,
        "P@1 + PSP@5": 100,
        "0.25*P@1+ PSP@5 * 2 - .5 * ECE@5": 90,
        "-ECE@5": -10,
        "P@1 + P@1": 120,
    }.items():
        assert Objective.parse(text).of(measures) == pytest.approx(value)
    assert Objective.parse("nDCG@20 + P@3").ks == (3, 20)


def test_every_measure_there_is_can_be_asked_for(tiny: Corpus) -> None:
    model = Recipe.parse("centroid").fit(tiny.train, tiny.valid)
    found = evaluate(model.predict(tiny.valid.rows, 5), tiny.valid)
    assert {name.partition("@")[0] for name in found} == set(MEASURES)


def test_another_k_stands_in_for_a_learners_own_validation() -> None:
    objective = Objective.parse("P@1 + 2 * PSP@5")
    assert objective.near({"P@1": 10.0, "PSP@1": 5.0, "loss": 3.0}) == 20
    assert objective.near({"P@1": 10.0}) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a measure"),
        ("P@1 PSP@5", "character 5: expected a measure"),
        ("P@1 +", "character 5: expected a measure"),
        ("P@1 * PSP@5", "expected a measure"),
        ("__import__('os')", "expected a measure"),
        ("accuracy@1", "unknown measure 'accuracy'"),
        ("psp@5", "unknown measure 'psp'; did you mean 'psp'"),
        ("P@0", "must be 1 to 100"),
        ("2*P@1*3", "two weights"),
    ],
)
def test_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(DataError) as refused:
        Objective.parse(text)
    assert problem in str(refused.value)


def test_a_measure_that_was_not_measured() -> None:
    with pytest.raises(DataError, match=r"ECE@5 was not measured; the scores are no probabilities: add \+ calibrate"):
        Objective.parse("P@1 - ECE@5").of({"P@1": 1.0})
