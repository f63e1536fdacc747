"""`longtail tune`: the recipe alone on standard output, all else beside it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("optuna", reason="Optuna is not installed")

from cli_calls import call

from longtail.cli.tune import seconds_of
from longtail.errors import DataError

GRID = "knn(neighbours=1|5) + rerank(strength=0|1)"


def test_the_recipe_is_all_there_is_on_standard_output(data: Path) -> None:
    done = call("tune", data, GRID)
    assert done.code == 0, done.err
    recipe = done.out.removesuffix("\n")
    assert re.fullmatch(r"knn\(neighbours=[15]\) \+ rerank\(strength=[01]\)", recipe)
    assert "P@1 + PSP@5" in done.err and "page: tune.html" in done.err
    assert done.err.count("trial ") >= 4
    assert recipe in Path("tune.html").read_text()
    assert call("train", data, recipe, "--out", "model").code == 0


def test_json_has_everything(data: Path) -> None:
    done = call("tune", data, GRID, "--pareto", "P@1", "PSP@5", "--report", "other.html", "--json")
    found = done.json
    assert found["objectives"] == ["P@1", "PSP@5"] and found["judged_on"] == "valid"
    assert len(found["trials"]) == 4
    assert {"recipe": found["recipe"], "values": found["values"]} in found["front"]
    assert "Pareto front" in Path("other.html").read_text()


def test_the_same_command_goes_on(data: Path) -> None:
    words = ("tune", data, "knn(neighbours=1..60)", "--checkpoint-dir", "kept", "--folds", "2", "--trials")
    assert len(call(*words, "2", "--json").json["trials"]) == 2
    done = call(*words, "4", "--json")
    assert len(done.json["trials"]) == 4 and done.json["judged_on"] == "2 folds of train"
    assert done.err.count("trial ") == 2


def test_test_examples_play_no_part(data: Path, tmp_path: Path) -> None:
    """Another test split, or none, changes nothing."""
    shutil.copytree(data, "without")
    for file in Path("without").glob("test.*"):
        file.unlink()
    first, second = (call("tune", place, GRID, "--json").json["trials"] for place in (data, "without"))
    for trial in (*first, *second):
        trial.pop("seconds")
        trial["measures"].pop("seconds")
    assert first == second


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["knn"], "has no range or choice, so there is nothing to tune"),
        (["ngame(encoder=1..2)"], "takes no number, so it has no range"),
        (["knn(neighbours=5..1)"], "is empty: the first number must be the smaller one"),
        (["recipe.toml"], "a TOML file has no ranges"),
        ([GRID, "--objective", "accuracy@1"], "unknown measure 'accuracy'"),
        ([GRID, "--within", "soon"], "--within takes a time such as 90s, 20m or 1h30m, got 'soon'"),
        ([GRID, "--trials", "0"], "number of trials must be 1 or more"),
        ([GRID, "--folds", "1"], "folds, not 1"),
        ([GRID, "--report", "."], "is a folder"),
        ([GRID, "--checkpoint-dir", __file__], "is a file; give a folder for --checkpoint-dir"),
    ],
)
def test_refusals(words: list[str], problem: str, data: Path) -> None:
    assert problem in call("tune", data, *words).error


def test_no_valid_examples(data: Path) -> None:
    shutil.copytree(data, "empty")
    for file in Path("empty").glob("valid.*"):
        file.unlink()
    Path("empty/valid.jsonl").write_text("")
    assert "no valid examples to judge on; use folds of train (--folds 3)" in call("tune", "empty", GRID).error


def test_an_ordinary_command_points_to_tune(data: Path) -> None:
    assert "`longtail tune` finds the best value" in call("train", data, GRID, "--out", "model").error


def test_without_optuna(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "pip install 'longtail[tune]'" in call("tune", data, GRID).error


def test_times() -> None:
    wanted = {"90": 90, "90s": 90, "20m": 1200, "1h30m": 5400, "1.5 h": 5400, "2min 5s": 125}
    assert {word: seconds_of(word) for word in wanted} == wanted
    for word in ("", "m", "-5s", "0s", "1d"):
        with pytest.raises(DataError):
            seconds_of(word)


def test_the_page_fits_a_phone(data: Path, browser: object, tmp_path: Path) -> None:
    assert call("tune", data, "knn(neighbours=1..60 log) + rerank(strength=0|1)", "--trials", "6").code == 0
    for width in (360, 1200):
        page = browser.new_page(viewport={"width": width, "height": 800})  # type: ignore[attr-defined]
        page.goto(Path("tune.html").resolve().as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("svg.chart:visible").count() == 3
        page.close()
