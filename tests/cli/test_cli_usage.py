"""Help, version, and everything that is wrong before any data is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_calls import call

import longtail

COMMANDS = [
    "check",
    "convert",
    "plan",
    "compare",
    "train",
    "tune",
    "predict",
    "evaluate",
    "methods",
    "reproduce",
    "presets",
]
COMMANDS += ["neighbours", "serve", "export", "index", "job", "build"]
ALL = [
    [],
    *([command] for command in COMMANDS),
    ["build", "hierarchy"],
    *(["build", "hierarchy", front] for front in ("wordnet", "edges", "wikipedia")),
]


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_fits_a_terminal(words: list[str], option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = call(*words, option)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(" ".join(["Usage: longtail", *words]))
    assert max(map(len, done.out.splitlines())) <= 80
    # the summaries of the commands are whole sentences
    assert "..." not in done.out.partition("Commands:")[2]


@pytest.mark.parametrize("words", [[], ["build"], ["build", "hierarchy"]], ids=" ".join)
def test_a_command_alone_shows_its_help(words: list[str]) -> None:
    assert call(*words) == call(*words, "--help")
    assert call(*words).code == 0


def test_the_first_page_names_every_command_once() -> None:
    listed = call("--help").out.partition("Commands:")[2]
    assert re.findall(r"^  (\w+)  ", listed, re.MULTILINE) == COMMANDS
    for command in COMMANDS:
        summary = re.search(rf"^  {command} +(.+)$", listed, re.MULTILINE)
        assert summary is not None
        assert summary[1].endswith(".")


def test_version() -> None:
    assert call("--version").out == f"longtail {longtail.__version__}\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["chek", "x"], "'chek'. Did you mean 'check'? (see longtail --help)"),
        (["check"], "Missing argument 'DATA' (see longtail check --help)"),
        (["compare", "x"], "compare needs a recipe such as 'parabel', in quotes"),
        (["train", "x", "knn"], "Missing option '--out' / '-o' (see longtail train --help)"),
        (["check", "x", "--jsn"], "--jsn"),
        (["check", "x", "--seed", "one"], "Invalid value for '--seed'"),
        (["check", "x", "y"], "unexpected extra argument"),
        (["predict", "m", "-k", "0"], "Invalid value for '-k'"),
        (["predict", "m", "-k", "few"], "Invalid value for '-k'"),
        (["build", "tree"], "No such command 'tree' (see longtail build --help)"),
        (["build", "hierarchy", "edges", "e", "--out", "x", "--depth", "0"], "Invalid value for '--depth'"),
    ],
)
def test_wrong_words_are_one_line(words: list[str], problem: str) -> None:
    assert problem in call(*words).error


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--text", "body"], "text must be one of 'title', 'text', 'title+text', 'title/text', got 'body'"),
        (["--text", "titel"], "did you mean 'title'?"),
        (["--label-separator", ""], "the label separator is empty"),
        (["--propensity", "x"], "--propensity takes two numbers such as 0.55,1.5, got 'x'"),
        (["--propensity", "1,2,3"], "--propensity takes two numbers"),
        (["--propensity", "0,1"], "A=0"),
        (["--propensity", "nan,1"], "A=nan"),
        (["--propensity", "1e308,1e308"], "A=1e+308, B=1e+308"),
        (["--propensity", "40,1e-10"], "A=40, B=1e-10"),
        (["--test-share", "2"], "--test-share must be between 0 and 1, got 2"),
        (["--test-share", "nan"], "--test-share must be between 0 and 1"),
    ],
)
def test_wrong_data_options_are_no_fault_of_the_data(options: list[str], problem: str, data: Path) -> None:
    """So `check` refuses them with 2; 1 would say that the data is wrong."""
    assert problem in call("check", data, *options).error


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        ("centriod", "unknown learner 'centriod'; did you mean 'centroid'? (learners: "),
        ("centroid + rerenk", "unknown tail method 'rerenk'; did you mean 'rerank'?"),
        ("rerank", "it is a tail method and goes after a learner"),
        ("centroid + knn", "it is a learner, and a recipe has one learner"),
        ("knn(neighbors=3)", "unknown setting 'neighbors' of knn; did you mean 'neighbours'? (settings: "),
        ("knn(neighbours=many)", "expected a value, found many"),
        ("knn(neighbours=0.5)", "setting 'neighbours' of knn takes a whole number, got 0.5"),
        ("knn(", "character 5"),
        ("", "expected a learner's name"),
        ("x\ny", "character 3: expected '+' or the end, found 'y'"),
    ],
)
def test_wrong_recipes_are_refused_before_data_is_read(recipe: str, problem: str) -> None:
    for words in (["compare", "nowhere", recipe], ["plan", "nowhere", recipe], ["train", "nowhere", recipe, "-o", "m"]):
        assert problem in call(*words).error


def test_a_recipe_without_quotes_gets_a_hint() -> None:
    for command in ("compare", "plan"):
        assert "in quotes, such as 'centroid + rerank'" in call(command, "x", "centroid", "+", "rerank").error
    assert "in quotes, such as 'centroid + rerank'" in call("train", "x", "centroid", "+", "rerank", "-o", "m").error


def test_compare_is_not_for_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would train every recipe and print its own table."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "compare runs in one process" in call("compare", "x", "centroid").error


def test_data_and_recipe_in_the_wrong_order(data: Path) -> None:
    assert "DATA comes first" in call("train", "centroid", data, "-o", "m").error
    Path("recipes.txt").write_text("centroid\n")
    assert "recipe files end in .toml" in call("compare", data, "recipes.txt").error
    assert "path" not in call("compare", data, "").error  # an empty word is no recipe and no path


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("learner = [", "recipes.toml: not valid TOML"),
        ("learner = 'centroid'\ntail = rerank", "line 2"),
        ("", "recipes.toml: the file holds no recipe"),
        ("learners = 'centroid'", "recipes.toml: unknown entry 'learners'"),
        ("recipes = 5", "recipes.toml: recipes must be a list of strings"),
        ("recipes = [5]", "recipes.toml: recipes must be a list of strings"),
        ("recipes = ['centriod']", "recipes.toml: unknown learner 'centriod'"),
        ("recipe = 'centroid'", "recipes.toml: recipe must be a list of tables"),
        ("[recipe]\nlearner = 'centroid'", "recipes.toml: recipe must be a list of tables, each under [[recipe]]"),
        ("[[recipe]]\nlerner = 'centroid'", "recipes.toml: a recipe has no learner"),
        ("[[recipe]]\nlearner = 'centroid'\ntails = []", "recipes.toml: unknown entry 'tails'"),
        ("learner = 'centroid'\ntail = 5", "recipes.toml: tail must be a list of parts, got 5"),
        ("learner = 1", "recipes.toml: 1 is not a part"),
        ("learner = { name = 'knn', neighbours = 2020-01-01 }", "date(2020, 1, 1)"),
        (b"\xff\xfe", "recipes.toml: this is UTF-16, not UTF-8"),
    ],
)
def test_broken_recipe_files(content: str | bytes, problem: str) -> None:
    Path("recipes.toml").write_bytes(content.encode() if isinstance(content, str) else content)
    assert problem in call("compare", "nowhere", "recipes.toml").error


def test_recipe_files_that_cannot_be_read() -> None:
    assert "nothing.toml: no such file" in call("plan", "x", "nothing.toml").error
    Path("folder.toml").mkdir()
    assert "folder.toml: is a folder, and a file is expected" in call("plan", "x", "folder.toml").error


def test_recipe_files_give_recipes(data: Path) -> None:
    Path("two.toml").write_text("recipes = ['centroid', 'knn + rerank']")
    assert [plan["recipe"] for plan in call("plan", data, "two.toml", "bm25", "--json").json] == [
        "centroid",
        "knn + rerank",
        "bm25",
    ]
    assert "two.toml has 2 recipes; train takes one" in call("train", data, "two.toml", "-o", "m").error


def test_letters_that_command_a_terminal_are_shown_as_letters() -> None:
    assert call("check", "a\x1b[2Jb\nc").error.startswith("a\\x1b[2Jb c: no such file or folder")
