"""The documents tell the truth: their code runs, their commands exist, their links lead somewhere."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from longtail import catalogue
from longtail.data import Corpus
from longtail.grammar import parse
from longtail.recipe import Recipe

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *answers, measure = done.stdout.splitlines()
    assert len(answers) == 3
    assert 0 < float(measure) < 100
    assert (tmp_path / "wordnet.longtail" / "manifest.json").is_file()


def test_the_method_of_the_contributing_page_works(
    tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = blocks(ROOT / "CONTRIBUTING.md", "python")
    (tmp_path / "rows_of_labels.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(catalogue.TAIL_METHODS, "rows", "rows_of_labels:LabelRows")
    few = tiny.train.take([row for row in range(len(tiny.train)) if 9 not in tiny.train.targets[[row]].indices])
    without = Recipe.parse("centroid(chances=false)").fit(few, tiny.valid)
    found = Recipe.parse("centroid(chances=false) + rows").fit(few, tiny.valid)
    assert all(answer.id != "L9" for answer in without.predict(["jungle"], k=10).answers(0))
    assert found.predict(["jungle"], k=1).answers(0)[0].id == "L9"


def test_toml_recipes_in_the_documents_parse() -> None:
    for code in blocks(ROOT / "docs" / "recipes.md", "toml"):
        assert tomllib.loads(code)
        assert Recipe.from_toml(code)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_commands_exist(document: Path) -> None:
    text = document.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (document.parent / target).exists(), target
    commands = {"check", "build", "train", "predict", "evaluate", "compare", "plan", "methods"}
    commands |= {"neighbours", "serve", "export", "index"}
    for line in re.findall(r"^    longtail (\S+)", text, re.MULTILINE):
        assert line in commands, line
    for script in re.findall(r"python (benchmarks/\S+\.py)", text):
        assert (ROOT / script).is_file(), script


def test_recipes_in_the_documents_are_real() -> None:
    for document in DOCUMENTS:
        for line in re.findall(r"^    longtail (?:compare|train|plan) .*", document.read_text(), re.MULTILINE):
            for recipe in re.findall(r'"([^"]+)"', line):
                Recipe.parse(recipe)


SHARED = {
    "Learners": "centroid",
    "Frugal nets": "astec",
    "Dual encoders": "dpr",
    "Classifiers over all labels": "renee",
}
SEAMS = ("augment", "wrap", "rerank", "teacher", "label tower", "head penalty")


def test_settings_have_the_defaults_that_the_page_of_recipes_tells() -> None:
    """What stands alone between two backticks, as `name=value`, is a default; several together are an example."""
    heading, seen = "", 0
    for line in (ROOT / "docs" / "recipes.md").read_text().splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        cells = [cell.strip() for cell in line.split(" | ")]
        if line.startswith("| `") and cells[-1].removesuffix(" |") in SEAMS:
            kind, told = catalogue.tail_class(cells[0].strip("| `")), cells[2]
        elif line.startswith("| `") and len(cells) == 4 and cells[0].strip("| `") in catalogue.LEARNERS:
            kind, told = catalogue.learner_class(cells[0].strip("| `")), cells[2]
        elif line.startswith("| `") and len(cells) == 2 and heading in SHARED:
            kind, told = catalogue.learner_class(SHARED[heading]), cells[0]
        else:
            continue
        defaults = {field.name: field.default for field in dataclasses.fields(kind)}
        for setting in re.findall(r"`(\w+=(?:\"[^\"]*\"|[^`,])+)`", told):
            [written] = parse(f"{kind.__name__.lower()}({setting})")[0].settings
            assert defaults[written.name] == written.value, (kind.__name__, setting)
            seen += 1
    assert seen > 200
