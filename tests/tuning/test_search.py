"""A search: its result, its seed, its folder, its processes and its time."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("optuna", reason="Optuna is not installed")

import forked
import longtail
from lines import Lines
from longtail.data import Corpus
from longtail.errors import DataError, LongtailError, MissingExtra, RecipeError
from longtail.progress import Measured, calling, listening
from longtail.tuning.found import DONE, FAILED, PRUNED, TrialResult, Tuning
from longtail.tuning.objective import Objective
from longtail.tuning.search_space import SearchSpace
from longtail.tuning.study import Study
from longtail.tuning.trial_journal import JOURNAL, LOCK
from longtail.tuning.tuning_page import render

GRID = "knn(neighbours=1|5|40) + rerank(strength=0|1)"
RANGE = "knn(neighbours=1..60 log) + rerank(strength=0..1)"


def recipes(found: Tuning) -> list[tuple[str, tuple[float, ...]]]:
    return [(trial.recipe, trial.values) for trial in found.trials]


def test_a_finite_space_is_tried_as_a_whole(tiny: Corpus) -> None:
    found = longtail.tune(tiny, GRID, objective="nDCG@5", trials=50)
    assert len(found.trials) == len({trial.recipe for trial in found.trials}) == 6
    assert found.best.values[0] == max(trial.values[0] for trial in found.trials)
    assert found.best.values[0] == found.best.measures["nDCG@5"]  # type: ignore[index]
    longtail.Recipe.parse(found.recipe).fit(tiny.train, tiny.valid)
    json.dumps(found.as_json(), allow_nan=False)


def test_the_seed_decides(tiny: Corpus) -> None:
    first, again = (longtail.tune(tiny, RANGE, trials=4, seed=3) for _ in range(2))
    assert recipes(first) == recipes(again)
    assert recipes(first) != recipes(longtail.tune(tiny, RANGE, trials=4, seed=4))


def test_a_stopped_search_goes_on_as_if_it_had_not_been(tiny: Corpus, tmp_path: Path) -> None:
    whole = longtail.tune(tiny, RANGE, trials=6)

    class Stop(Exception):
        pass

    def after_three(measured: Measured) -> None:
        if measured.stage == "tune" and measured.step == 3:
            raise Stop

    with calling(after_three), pytest.raises(Stop):
        longtail.tune(tiny, RANGE, trials=6, checkpoint_dir=tmp_path)
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'{"op_code": 4, "half')  # as a process leaves it that is killed while it writes
    assert recipes(longtail.tune(tiny, RANGE, trials=6, checkpoint_dir=tmp_path)) == recipes(whole)
    with listening(lines := Lines()):
        longtail.tune(tiny, RANGE, trials=6, checkpoint_dir=tmp_path)
    assert [line for line in lines.lines if line.startswith("trial")] == []  # nothing is trained again
    with pytest.raises(DataError, match="belongs to another search: seed 0 there, 1 here"):
        longtail.tune(tiny, RANGE, trials=6, checkpoint_dir=tmp_path, seed=1)
    with pytest.raises(DataError, match="belongs to another search: data"):
        longtail.tune(replace(tiny, train=tiny.train.take(range(200))), RANGE, trials=6, checkpoint_dir=tmp_path)


def test_a_search_that_goes_on_knows_its_best(tiny: Corpus, tmp_path: Path) -> None:
    longtail.tune(tiny, RANGE, trials=4, checkpoint_dir=tmp_path)
    heard = Lines()
    with listening(heard):
        found = longtail.tune(tiny, RANGE, trials=8, checkpoint_dir=tmp_path)
    assert any("has 4 finished trials" in line for line in heard.lines)
    best = max(one.values[0] for one in found.trials[:4])
    for one in found.trials[4:]:
        (line,) = (line for line in heard.lines if line.startswith(f"trial {one.number + 1}:"))
        assert ("the best so far" in line) == (one.values[0] > best)
        best = max(best, one.values[0])


def test_a_trial_that_had_ended_is_not_trained_again(tiny: Corpus, tmp_path: Path) -> None:
    """Killed in the one moment between the outcome and Optuna's own record of it."""
    whole = longtail.tune(tiny, RANGE, trials=3, checkpoint_dir=tmp_path)
    journal = tmp_path / JOURNAL
    told = [line for line in journal.read_text().splitlines() if '"outcome"' in line]
    content = journal.read_text()
    journal.write_text(content[: content.index(told[1]) + len(told[1]) + 1])
    with listening(lines := Lines()):
        found = longtail.tune(tiny, RANGE, trials=3, checkpoint_dir=tmp_path)
    assert recipes(found) == recipes(whole)
    assert [line[:7] for line in lines.lines if line.startswith("trial")] == ["trial 3"]


CODE = """
import os, signal, sys, longtail
sys.path.insert(0, {tests!r})
from conftest import make_tiny
from longtail.progress import calling

def after_two(measured):
    if measured.stage == "tune" and measured.step == 2:
        os.kill(os.getpid(), signal.SIGKILL)

with calling(after_two):
    longtail.tune(make_tiny(), {recipe!r}, trials=6, checkpoint_dir={folder!r})
"""


def test_kill_9_loses_no_trial(tiny: Corpus, tmp_path: Path) -> None:
    """The process kills itself, so that the moment does not depend on how fast the machine is."""
    tests = str(Path(__file__).parent.parent)
    code = CODE.format(tests=tests, recipe=RANGE, folder=str(tmp_path))
    ended = forked.run(["-c", code], cwd=tests)
    assert ended.returncode == -signal.SIGKILL
    journal = tmp_path / JOURNAL
    assert 2 <= journal.read_text().count("outcome") < 6
    found = longtail.tune(tiny, RANGE, trials=6, checkpoint_dir=tmp_path)
    assert recipes(found) == recipes(longtail.tune(tiny, RANGE, trials=6))
    assert journal.read_text().count("outcome") == 6


def test_processes_find_what_one_finds(tiny: Corpus) -> None:
    one = longtail.tune(tiny, GRID, trials=6)
    two = longtail.tune(tiny, GRID, trials=6, processes=2)
    assert sorted(recipes(one)) == sorted(recipes(two))
    assert one.best.values == two.best.values


def test_a_process_that_dies_takes_one_trial_with_it(tiny: Corpus) -> None:
    killed: list[int] = []

    def kill_one(measured: Measured) -> None:
        if not killed:
            killed.append(int(multiprocessing.active_children()[0].pid or 0))
            os.kill(killed[0], signal.SIGKILL)

    with calling(kill_one):
        found = longtail.tune(tiny, GRID, trials=6, processes=2)
    assert len(killed) == 1 and len(found.trials) == 6
    assert [trial.state for trial in found.trials].count(DONE) >= 5
    for trial in found.trials:
        assert trial.state == DONE or "its process ended with code -9" in trial.why


def test_a_journal_of_something_else(tiny: Corpus, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("not a journal\n")
    with pytest.raises(DataError, match=r"tune\.journal:1: not a line of a journal"):
        longtail.tune(tiny, GRID, checkpoint_dir=tmp_path)


DAMAGE: dict[str, tuple[str, str]] = {  # in a line of an ended trial
    "a date that is none": (r'"datetime_start": ?"[^"]*"', '"datetime_start": "yesterday"'),
    "an entry without what Optuna needs": (r'"worker_id"', '"worker"'),
    "a value outside its range": (r'"param_value_internal": ?[^,}]+', '"param_value_internal": 61.0'),
    "another setting": (r'"knn\.neighbours"', '"knn.others"'),
    "an outcome that is none": (r'"outcome": ?\["done"', '"outcome": ["well"'),
    "measures that are no numbers": (r'"nDCG@5": ?[^,}]+', '"nDCG@5": "much"'),
    "an objective that is not finite": (r'"nDCG@5": ?[^,}]+', '"nDCG@5": NaN'),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_journal_is_named_with_what_to_do(case: str, tiny: Corpus, tmp_path: Path) -> None:
    """Each of these raised something else, or was believed."""
    search = partial(longtail.tune, tiny, RANGE, objective="nDCG@5", trials=1, checkpoint_dir=tmp_path)
    search()
    place = tmp_path / JOURNAL
    damaged, changes = re.subn(*DAMAGE[case], place.read_text())
    assert changes
    place.write_text(damaged)
    with pytest.raises(DataError, match=r"tune\.journal: cannot be read .*; remove it to start anew"):
        search()


@pytest.mark.parametrize("name", [JOURNAL, LOCK])
@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_a_journal_or_lock_that_is_no_file(name: str, kind: str, tiny: Corpus, tmp_path: Path) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero" if kind == "device" else tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}: .*remove it"):
        longtail.tune(tiny, GRID, checkpoint_dir=tmp_path)


def test_networks_are_pruned_by_their_own_validation(tiny: Corpus) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    recipe = "dpr(encoder='bag', dimension=16, batch_size=64, epochs=3, validate_every=1, learning_rate=1e-6..0.01 log)"
    found = longtail.tune(tiny, recipe, trials=9)
    stopped = [trial for trial in found.trials if trial.state == PRUNED]
    assert stopped and all("stopped in encoder after epoch" in trial.why for trial in stopped)
    assert [trial.state for trial in found.trials[:4]] == [DONE] * 4  # there is nothing to compare the first with


def test_two_searches_do_not_share_a_folder(tiny: Corpus, tmp_path: Path) -> None:
    def inside(measured: Measured) -> None:
        with pytest.raises(DataError, match="another search runs in this folder"):
            longtail.tune(tiny, GRID, trials=1, checkpoint_dir=tmp_path)

    with calling(inside):
        longtail.tune(tiny, GRID, trials=1, checkpoint_dir=tmp_path)


def test_time_ends_a_search(tiny: Corpus) -> None:
    begin = time.monotonic()
    found = longtail.tune(tiny, RANGE, within=2)
    assert 1 <= len(found.trials) < 10_000
    assert time.monotonic() - begin < 30  # a trial takes a fraction of a second, on a busy machine more
    with pytest.raises(RecipeError, match="no trial ended in the time that was given"):
        longtail.tune(tiny, RANGE, within=1e-9)


def test_networks_stop_when_time_is_up(tiny: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    recipe = "dpr(encoder='bag', dimension=16, batch_size=64, epochs=2000, learning_rate=0.001..0.01)"
    with pytest.raises(RecipeError, match="no trial ended in the time"):
        longtail.tune(tiny, recipe, within=2, checkpoint_dir=tmp_path)


def test_bad_trials_are_pruned_by_folds(tiny: Corpus) -> None:
    found = longtail.tune(tiny, "knn(neighbours=1..300) + rerank(strength=0..8)", folds=2, trials=10, objective="P@1")
    states = [trial.state for trial in found.trials]
    assert states.count(PRUNED) >= 1 and states.count(DONE) >= 4
    stopped = next(trial for trial in found.trials if trial.state == PRUNED)
    assert stopped.why == "stopped after 1 of 2 folds" and stopped.values == ()


def test_a_setting_that_fails_does_not_end_the_search(tiny: Corpus) -> None:
    found = longtail.tune(tiny, "centroid(min_df=1|400)")
    assert sorted(trial.state for trial in found.trials) == ["done", "failed"]
    assert found.recipe == "centroid(min_df=1)"
    assert any("no word is in min_df=400" in trial.why for trial in found.trials)


def test_settings_near_failed_ones_are_left(tiny: Corpus) -> None:
    found = longtail.tune(tiny, "centroid(min_df=1..380)", objective="P@1", trials=24)
    failed = [trial.state == FAILED for trial in found.trials]
    assert sum(failed[:10]) > 3 * sum(failed[14:])  # the first ten are drawn at random


def test_a_search_that_only_fails_ends_with_the_reason(tiny: Corpus) -> None:
    # bm25 has no probabilities, so the objective cannot be computed for any setting.
    with pytest.raises(RecipeError, match="3 trials failed and none ended; the last: ECE@5 was not measured"):
        longtail.tune(tiny, "bm25(k1=0.5..2)", objective="P@1 - ECE@5")


def test_a_front_of_two_objectives(tiny: Corpus) -> None:
    found = longtail.tune(tiny, RANGE, pareto=["P@5", "MRR@5"], trials=6)
    values = [trial.values for trial in found.trials]
    slow = {
        one
        for one in values
        if not any(all(a >= b for a, b in zip(two, one, strict=True)) and two != one for two in values)
    }
    assert {trial.values for trial in found.front} == slow
    assert found.best in found.front


def test_the_best_of_a_front_reaches_most_in_every_objective() -> None:
    points = [(9.0, 1.0), (8.0, 8.0), (1.0, 9.0), (0.0, 0.0)]
    trials = tuple(TrialResult(n, f"r{n}", {}, DONE, values) for n, values in enumerate(points))
    found = Tuning("", ("a", "b"), "valid", "", 0, trials, ({}, {}), 0.0)
    assert [trial.number for trial in found.front] == [0, 1, 2]
    assert found.best.number == 1
    more = (*trials, TrialResult(4, "r4", {}, DONE, (8.5, 8.5)))
    assert replace(found, trials=more).best.number == 4


def test_the_setting_that_matters_is_named(tiny: Corpus) -> None:
    # Fewer words make it worse; there are not even a hundred words, so their limit changes nothing.
    found = longtail.tune(tiny, "centroid(min_df=1..100, max_features=1000..2000)", objective="P@1", trials=15)
    shares = found.importance[0]
    assert shares["centroid.min_df"] > 2 * shares["centroid.max_features"]
    assert sum(shares.values()) == pytest.approx(1)


def test_importance_is_that_of_good_trials() -> None:
    """One setting makes a trial bad, the other decides which of the good ones is best."""
    space = SearchSpace.parse("knn(neighbours=1..100) + rerank(strength=0..1)")
    study = Study(space, (Objective.parse("P@1"),), seed=0)
    rng = np.random.default_rng(0)
    for neighbours, strength in zip(rng.integers(1, 101, 80).tolist(), rng.random(80).tolist(), strict=True):
        study.study.enqueue_trial({"knn.neighbours": neighbours, "rerank.strength": strength})
        value = float(neighbours) if neighbours < 30 else 100 - 50 * abs(strength - 0.3)
        assert study.settle(study.ask(0, 80), "done", {"P@1": value, "seconds": 1.0}) is not None
    [shares] = study.importance()
    assert shares["rerank.strength"] > 3 * shares["knn.neighbours"]


def test_callbacks_get_every_trial(tiny: Corpus) -> None:
    heard: list[Measured] = []
    with calling(heard.append):
        found = longtail.tune(tiny, GRID, trials=2)
    trials = [one for one in heard if one.stage == "tune"]
    assert [one.step for one in trials] == [1, 2]
    assert trials[0].measures["P@1 + PSP@5"] == found.trials[0].values[0]


def test_a_page_is_drawn_and_names_are_escaped(tiny: Corpus) -> None:
    named = replace(tiny, name="<b>tiny</b>")
    for objectives in (None, ["P@1", "PSP@5"]):
        found = longtail.tune(named, RANGE, pareto=objectives, trials=6)
        html = render(found, command="longtail tune", data="my data")
        assert "<b>tiny" not in html and "&lt;b&gt;tiny" in html
        assert found.recipe in html and "longtail train &#x27;my data&#x27;" in html
        assert html.count("<svg") >= 6 and "<script" not in html
        assert ("Pareto front" in html) == (objectives is not None)
        assert len(html) < 200_000


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"pareto": ["P@1"]}, "needs two objectives"),
        ({"trials": 0}, "number of trials must be 1 or more"),
        ({"within": 0.0}, "time must be above 0"),
        ({"processes": 0}, "number of processes must be 1 or more"),
        ({"objective": "best"}, "expected a measure"),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, object], problem: str, tiny: Corpus) -> None:
    with pytest.raises(LongtailError) as refused:
        longtail.tune(tiny, GRID, **settings)  # type: ignore[arg-type]
    assert problem in str(refused.value)


def test_what_the_data_lacks_is_told_before_any_trial(numbers: Corpus) -> None:
    with pytest.raises(DataError, match="needs"):
        longtail.tune(numbers, "dpr(epochs=1|2)")


def test_without_optuna(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        MissingExtra, match=r"tune needs Optuna, which is not installed: pip install 'longtail\[tune\]'"
    ):
        longtail.tune(tiny, GRID)
