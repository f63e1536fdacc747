"""What judges was never learned from, and test is never read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longtail.data import Corpus
from longtail.errors import DataError
from longtail.metrics import evaluate
from longtail.recipe import Recipe
from longtail.tuning.judge import FOLD_STEP, Judge, Pruned
from longtail.tuning.objective import Objective

OBJECTIVE = (Objective.parse("P@1 + PSP@5"),)


def test_valid_judges_and_fit_never_sees_it(tiny: Corpus) -> None:
    [split] = Judge.of(tiny, OBJECTIVE, None, seed=0).splits
    assert split.judging.ids == tiny.valid.ids
    assert sorted((*split.train.ids, *split.valid.ids)) == sorted(tiny.train.ids)
    assert 0 < len(split.valid) < 0.1 * len(tiny.train)
    judge = Judge.of(tiny, OBJECTIVE, None, seed=0)
    found = judge.measures("centroid", lambda step, value: False)
    model = Recipe.parse("centroid").fit(split.train, split.valid)
    slow = evaluate(model.predict(tiny.valid.rows, 5), tiny.valid)
    assert {name: found[name] for name in slow} == dict(slow)


def test_folds_judge_every_training_example_once(tiny: Corpus) -> None:
    splits = Judge.of(tiny, OBJECTIVE, 3, seed=0).splits
    assert sorted(name for split in splits for name in split.judging.ids) == sorted(tiny.train.ids)
    for split in splits:
        assert not set(split.train.ids) & set(split.judging.ids)
        assert split.valid.ids == tiny.valid.ids
    judge = Judge.of(tiny, OBJECTIVE, 3, seed=0)
    steps: list[tuple[int, float]] = []
    found = judge.measures("knn(neighbours=3)", lambda step, value: bool(steps.append((step, value))))
    alone = [
        dict(
            evaluate(
                Recipe.parse("knn(neighbours=3)").fit(one.train, one.valid).predict(one.judging.rows, 5), one.judging
            )
        )
        for one in splits
    ]
    assert found["P@1"] == pytest.approx(np.mean([one["P@1"] for one in alone]))
    assert [step for step, _ in steps] == [FOLD_STEP, 2 * FOLD_STEP]
    assert steps[0][1] == pytest.approx(alone[0]["P@1"] + alone[0]["PSP@5"])


def test_a_trial_stops_after_a_fold(tiny: Corpus) -> None:
    with pytest.raises(Pruned, match="after 1 of 3 folds"):
        Judge.of(tiny, OBJECTIVE, 3, seed=0).measures("centroid", lambda step, value: True)


def test_a_network_stops_after_its_own_validation(tiny: Corpus) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    recipe = "dpr(encoder='bag', dimension=16, batch_size=64, epochs=4, validate_every=1)"
    steps: list[int] = []

    def report(step: int, value: float) -> bool:
        steps.append(step)
        return step == 2

    with pytest.raises(Pruned, match="stopped in encoder after epoch 2"):
        Judge.of(tiny, OBJECTIVE, None, seed=0).measures(recipe, report)
    assert steps == [1, 2]


def test_no_valid_examples(tiny: Corpus) -> None:
    without = replace(tiny, valid=tiny.valid.take([]))
    with pytest.raises(DataError, match=r"no valid examples to judge on; use folds of train \(--folds 3\)"):
        Judge.of(without, OBJECTIVE, None, seed=0)
    for split in Judge.of(without, OBJECTIVE, 2, seed=0).splits:
        assert len(split.valid) and not set(split.valid.ids) & set(split.judging.ids)
    with pytest.raises(DataError, match="2 to 410 folds, not 1"):
        Judge.of(tiny, OBJECTIVE, 1, seed=0)
