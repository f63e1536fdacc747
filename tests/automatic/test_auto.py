"""`longtail.auto`: real members, real combinations, on the tiny corpus."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import longtail
from longtail.automatic import AutoResult
from longtail.automatic import timed_search as running
from longtail.automatic.auto_result import LEFT_OUT, SKIPPED, STOPPED, TRAINED
from longtail.automatic.member_order import FURTHER, DataProfile, members_in_order
from longtail.automatic.timed_search import OutOfTime
from longtail.data import Corpus
from longtail.errors import DataError
from longtail.progress import checking, stage
from longtail.recipe import Recipe

WITHIN = 20.0  # seconds of the processor, which other work on the machine does not take away


def auto(corpus: Corpus, within: float = WITHIN) -> AutoResult:
    return longtail.auto(corpus, within=within, clock=time.process_time)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads that wait for cores which other tests have would make times random."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def blind(tiny: Corpus, one_thread: None) -> tuple[AutoResult, list[tuple[str, int]]]:
    """A search without test, which compiles the kernels too; and what it trained on all examples."""
    pytest.importorskip("lightgbm")
    fits: list[tuple[str, int]] = []
    original = Recipe._fit_learner

    def counted(self: Recipe, train: longtail.Dataset, valid: longtail.Dataset) -> longtail.Model:
        if train is tiny.train:
            fits.append((str(self), len(train)))
        return original(self, train, valid)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recipe, "_fit_learner", counted)
        return auto(replace(tiny, test=tiny.test.take([])), 6 * WITHIN), fits


@pytest.fixture(scope="module")
def found(tiny: Corpus, blind: tuple[AutoResult, list[tuple[str, int]]]) -> AutoResult:
    return auto(tiny)


def test_it_ends_in_time_with_a_combination(found: AutoResult) -> None:
    assert found.seconds <= 1.1 * WITHIN
    trained = [one.recipe for one in found.tried if one.state == TRAINED]
    assert set(trained[:2]) == {"parabel", "knn"} and "bm25" in trained
    assert any(recipe.startswith("fuse(") for recipe in trained)
    assert {one.recipe for one in found.tried if one.state == LEFT_OUT} == {"ngame", "unidec"}
    assert all(one.why for one in found.tried if one.state != TRAINED)


def test_more_members_come_once_all_others_are_trained_and_combined_on_folds(
    blind: tuple[AutoResult, list[tuple[str, int]]],
) -> None:
    trained = [one.recipe for one in blind[0].tried if one.state == TRAINED]
    further = [trained.index(recipe) for recipe in FURTHER]
    others = [trained.index(recipe) for recipe in ("parabel", "bonsai", "lexical", "dismec", "parabel + gandalf")]
    folded = next(place for place, recipe in enumerate(trained) if "folds=" in recipe)
    assert max(others) < folded < min(further)
    assert any(recipe.startswith("fuse(") and all(f'"{one}"' in recipe for one in FURTHER) for recipe in trained)


def test_the_best_on_valid_is_the_model(found: AutoResult) -> None:
    worths = {one.recipe: one.worth for one in found.tried if one.state == TRAINED}
    assert found.chosen.worth == max(worths.values()) > 100
    assert found.recipe == found.model.recipe == found.chosen.recipe


def test_the_recipe_repeats_the_model(found: AutoResult, tiny: Corpus) -> None:
    again = Recipe.parse(found.recipe).fit(tiny.train, tiny.valid)
    first, second = (one.predict(tiny.test.rows, 5) for one in (found.model, again))
    assert np.array_equal(first.indices, second.indices) and np.array_equal(first.scores, second.scores)


def test_nothing_is_trained_twice(blind: tuple[AutoResult, list[tuple[str, int]]]) -> None:
    _, fits = blind
    assert len(fits) == len(set(fits)) > 3


def test_test_plays_no_part(blind: tuple[AutoResult, list[tuple[str, int]]], found: AutoResult) -> None:
    figures = {one.recipe: one.measures for one in found.tried if one.measures}
    shared = [one for one in blind[0].tried if one.recipe in figures]
    assert len(shared) > 3 and all(one.measures == figures[one.recipe] for one in shared)


def test_too_little_time_gives_the_quickest_member(tiny: Corpus) -> None:
    found = longtail.auto(tiny, within=0.001)
    trained = [one.recipe for one in found.tried if one.state == TRAINED]
    assert set(trained) == {"knn", "knn + rerank"} and found.recipe in trained  # re-ranking takes no time
    assert any(one.state == SKIPPED and "were left" in one.why for one in found.tried)
    assert "No member fits" in found.notes[0] and "`knn`" in found.notes[0]


def test_without_lightgbm_the_best_single_one(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    found = auto(tiny)
    assert "fuse" not in found.recipe
    assert "pip install 'longtail[fuse]'" in found.notes[0]
    assert next(one for one in found.tried if one.recipe == "lexical").state == LEFT_OUT
    assert found.chosen.worth == max(one.worth for one in found.tried)


def test_valid_is_held_out_where_there_is_none(tiny: Corpus) -> None:
    found = longtail.auto(replace(tiny, valid=tiny.train.take([])), within=3)
    assert found.valid_rows == round(0.05 * len(tiny.train), -1) or 5 < found.valid_rows < 50
    assert found.train_rows + found.valid_rows == len(tiny.train)
    assert found.measures is not None and found.measures.rows == found.valid_rows


def test_features_without_texts(numbers: Corpus) -> None:
    found = auto(numbers)
    left_out = {one.recipe for one in found.tried if one.state == LEFT_OUT}
    assert "lexical" in left_out
    assert found.chosen.worth > 100


def test_a_member_that_runs_too_long_is_stopped(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan is wrong: `bm25` takes a minute, in steps that report progress."""
    original, passed = Recipe._fit_learner, [0.0]

    def slow(self: Recipe, train: longtail.Dataset, valid: longtail.Dataset) -> longtail.Model:
        if str(self) == "bm25" and train is tiny.train:
            with stage("slow", total=600) as advance:
                for _ in range(600):
                    passed[0] += 0.1
                    advance(1)
        return original(self, train, valid)

    monkeypatch.setattr(Recipe, "_fit_learner", slow)
    found = longtail.auto(tiny, within=6, clock=lambda: time.process_time() + passed[0])
    assert found.seconds <= 6.6
    assert next(one for one in found.tried if one.recipe == "bm25").state == STOPPED
    assert "bm25" not in found.recipe


def test_the_best_cheap_member_is_stopped_in_time_for_what_the_others_can_do(
    tiny: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan is wrong: `parabel` takes a minute."""
    original, passed = Recipe._fit_learner, [0.0]

    def slow(self: Recipe, train: longtail.Dataset, valid: longtail.Dataset) -> longtail.Model:
        if str(self) == "parabel" and train is tiny.train:
            with stage("slow", total=600) as advance:
                for _ in range(600):
                    passed[0] += 0.1
                    advance(1)
        return original(self, train, valid)

    monkeypatch.setattr(Recipe, "_fit_learner", slow)
    found = longtail.auto(tiny, within=6, clock=lambda: time.process_time() + passed[0])
    assert found.seconds <= 6.6
    assert next(one for one in found.tried if one.recipe == "parabel").state == STOPPED
    assert "parabel" not in found.recipe


def test_a_second_member_is_tried_where_none_seems_to_fit(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combinations are planned far too long: the quickest is trained all the same, and shows how long they are."""
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(running, "TREE_RATE", 1e-3)
    found = auto(tiny)
    assert any(one.recipe.startswith("fuse(") for one in found.tried if one.state == TRAINED)


def test_a_single_member_is_tried_re_ranked(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains nothing again, and is chosen only where valid says so."""
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    fits: list[str] = []
    original = Recipe._fit_learner

    def counted(self: Recipe, train: longtail.Dataset, valid: longtail.Dataset) -> longtail.Model:
        if train is tiny.train:  # not the few rows on which kernels are compiled
            fits.append(str(self))
        return original(self, train, valid)

    monkeypatch.setattr(Recipe, "_fit_learner", counted)
    found = auto(tiny)
    worths = {one.recipe: one.worth for one in found.tried if one.state == TRAINED}
    changed = [recipe for recipe in worths if " + rerank" in recipe]
    assert len(changed) <= 1 and len(fits) == len(worths) - len(changed)  # re-ranked, nothing was trained
    assert worths[found.recipe] == max(worths.values())
    again = Recipe.parse(found.recipe).fit(tiny.train, tiny.valid).predict(tiny.valid.rows, 5, tiny.valid.excluded)
    measures = longtail.evaluate(again, tiny.valid)
    assert worths[found.recipe] == pytest.approx(measures["P@1"] + measures["PSP@5"])


def test_names_in_another_language_come_after_learned_ones(tiny: Corpus) -> None:
    profile = DataProfile.at(tiny.train, tiny.valid)
    same = members_in_order(replace(profile, text_language="en", label_language="en", gpu=False))
    other = members_in_order(replace(profile, text_language="de", label_language="en", gpu=False))
    assert same.index("bm25") < same.index("lexical") and other.index("lexical") < other.index("bm25")
    assert same[0] == other[0] == "parabel"
    nets = members_in_order(replace(profile, gpu=True))
    assert 'memory("ngame")' in nets and nets.index("ngame") < nets.index("lexical")


def test_the_clock_may_be_that_of_the_processor(tiny: Corpus) -> None:
    ticks = iter(range(1_000_000))
    found = longtail.auto(tiny, within=20, clock=lambda: float(next(ticks)))  # a second passes at every look
    assert found.seconds > 20 and next(ticks) < 100
    assert [one.state for one in found.tried].count(SKIPPED) > 3


def test_wrong_times(tiny: Corpus) -> None:
    for wrong in (0, -5, "10m"):
        with pytest.raises(DataError, match="within"):
            longtail.auto(tiny, within=wrong)  # type: ignore[arg-type]


def test_a_check_ends_work_and_passes_notes_on() -> None:
    lines: list[str] = []

    class Lines:
        start = staticmethod(lambda name, total: 0)
        advance = finish = staticmethod(lambda *given: None)
        note = staticmethod(lines.append)

    def over() -> None:
        raise OutOfTime("over")

    from longtail.progress import listening, note

    with listening(Lines()):
        with checking(running._never):
            note("kept")
        with checking(running._never, quiet=True):
            note("dropped")
        with pytest.raises(OutOfTime), checking(over), stage("work"):
            raise AssertionError("the stage must not start")
    assert lines == ["kept"]
    check: Callable[[], None] = over
    with pytest.raises(OutOfTime), checking(check), stage("without a listener"):
        pass
