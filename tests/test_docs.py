"""The documents tell the truth: their code runs, their commands exist, their links lead somewhere."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import forked
import longtail
from longtail import catalogue
from longtail.data import Corpus
from longtail.plan import DataFacts
from longtail.recipe import Recipe
from longtail.store import load

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


def run_code(code: str, folder: Path, environment: dict[str, str] | None = None) -> list[str]:
    variables = {**os.environ, **(environment or {})}
    done = forked.run(["-c", code], cwd=folder, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    [answers] = run_code(code, tmp_path)
    assert answers.count("Answer(") == 3
    assert (tmp_path / "wordnet.longtail" / "manifest.json").is_file()


def test_python_in_ten_minutes_runs_from_top_to_bottom(tmp_path: Path) -> None:
    shown = run_code("\n".join(blocks(ROOT / "docs" / "python.md", "python")), tmp_path)
    assert "cats" in shown and any(line.startswith("centroid + rerank ") for line in shown)


def test_the_python_of_the_page_about_tuning_runs(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed")
    (code,) = blocks(ROOT / "docs" / "tuning.md", "python")
    [line] = run_code(code, tmp_path)
    assert line.startswith("centroid + rerank(strength=")


def test_from_python_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """What needs an extra that is not installed is left out."""
    for package in ("pandas", "sklearn", "torch"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    page = ROOT / "docs" / "from-python.md"
    code = blocks(page, "python")
    for package, optional in zip(("tensorboardX", "mlflow", "dask", "pyspark"), blocks(page, "py"), strict=True):
        code += [optional] if importlib.util.find_spec(package) else []
    environment = {"MLFLOW_TRACKING_URI": (tmp_path / "mlruns").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    shown = run_code("\n".join(code), tmp_path, environment)
    assert shown[0] == "cats" and any(line.startswith("encoder 2 ") for line in shown)
    assert (tmp_path / "training.jsonl").is_file()


def test_pages_are_short_enough_to_be_read() -> None:
    """Words as `wc -w` counts them."""
    limits = {"README.md": 700, "docs/architecture.md": 900}
    limits |= {f"docs/results/{path.name}": 900 for path in (ROOT / "docs" / "results").glob("*.md")}
    for name, most in limits.items():
        assert len((ROOT / name).read_text().split()) <= most, name


def test_result_pages_have_one_form() -> None:
    """What was claimed, what was found, what it means, how to repeat it; one or two tables and a picture."""
    pages = sorted((ROOT / "docs" / "results").glob("*.md"))
    assert len(pages) >= 16
    for page in pages:
        text = page.read_text()
        headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
        assert headings[0] in ("The claim", "What the paper claims"), page.name
        assert {"What we found", "What it means for you", "Run it again"} <= set(headings), page.name
        assert 1 <= len(re.findall(r"^\|[ :|-]+\|$", text, re.MULTILINE)) <= 2, page.name
        pictures = len(re.findall(r"^!\[", text, re.MULTILINE))
        assert pictures == (0 if page.name == "safety.md" else 1), page.name  # nothing to draw where nothing happened


SEAM_METHODS = ("augment", "wrap", "wrap_with", "label_tower", "penalty", "fit_reranker")
METHODS = {  # what the pages on methods of one's own show, and the recipe that uses it
    "OwnText": ("tail_methods", "owntext", "centroid(probabilities=false) + owntext"),
    "Named": ("tail_methods", "named", "centroid + named"),
    "Bayes": ("learners", "bayes", "bayes"),
    "Margin": ("learners", "margin", "margin(encoder='bag', dimension=64, batch_size=64, epochs=5)"),
    "Focus": ("tail_methods", "focus", "centroid(probabilities=false) + focus(most=1)"),
    "Hint": ("tail_methods", "hint", "centroid + hint(teacher='knn')"),
    "Offsets": ("tail_methods", "offsets", "dpr(encoder='bag', dimension=64, batch_size=64, epochs=5) + offsets"),
    "Short": ("tail_methods", "short", "renee(encoder='bag', dimension=64, batch_size=32, epochs=5) + short"),
}


@pytest.fixture(params=METHODS)
def contributed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A method of the page as a package of its own, found by its entry point; the recipe that uses it."""
    group, name, recipe = METHODS[request.param]
    pages = (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "seams.md")
    found = [code for page in pages for code in blocks(page, "python")]
    [code] = [code for code in found if re.search(rf"^class {request.param}\b", code, re.MULTILINE)]
    (tmp_path / f"{name}_method.py").write_text(code)
    facts = tmp_path / f"{name}_method-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-method\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[longtail.{group}]\n{name} = {name}_method:{request.param}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for parts in (catalogue.LEARNERS, catalogue.TAIL_METHODS):
        # Read anew, now and afterwards: setting it first makes the fixture remove what the test reads in.
        monkeypatch.setitem(parts.__dict__, "plugins", {})
        del parts.__dict__["plugins"]
    return recipe


def test_all_seams_have_an_example() -> None:
    pages = "".join((ROOT / name).read_text() for name in ("CONTRIBUTING.md", "docs/seams.md"))
    shown = {name for name in SEAM_METHODS if re.search(rf"^    def {name}\(", pages, re.MULTILINE)}
    assert shown == set(SEAM_METHODS)


def test_the_methods_of_the_pages_work(contributed: str, tiny: Corpus, tmp_path: Path) -> None:
    recipe = Recipe.parse(contributed)
    model = recipe.fit(tiny.train, tiny.valid)
    alone = Recipe.parse(contributed.partition(" + ")[0])
    if recipe.tail and not hasattr(recipe.tail[0], "fit_reranker"):  # it has acted: the learner alone is another model
        first, other = (one.scorer.state().tensors for one in (model, alone.fit(tiny.train, tiny.valid)))
        assert any(not np.array_equal(first[name], other[name]) for name in first)
    found = model.predict(tiny.test.rows, k=3)
    assert found.hits(tiny.test.targets)[:, 0].mean() > 0.9
    again = load(model.save(tmp_path / "model"))
    assert np.array_equal(again.predict(tiny.test.rows, k=3).indices, found.indices)
    assert recipe.plan(DataFacts.of(tiny.train)).train_bytes > 0


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    homes = (name.rpartition(".") for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE))
    shown = [getattr(importlib.import_module(home), name, None) for home, _, name in homes]
    public = {name: getattr(longtail, name) for name in longtail.__all__ if name != "__version__"}
    assert [name for name, found in public.items() if found not in shown] == []


def test_toml_recipes_in_the_documents_parse() -> None:
    for code in blocks(ROOT / "docs" / "recipes.md", "toml"):
        assert tomllib.loads(code)
        assert Recipe.from_toml(code)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_commands_exist(document: Path) -> None:
    text = document.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (document.parent / target).exists(), target
    commands = {"check", "convert", "build", "train", "predict", "evaluate", "compare", "plan", "methods"}
    commands |= {"neighbours", "serve", "export", "index", "presets", "tune", "reproduce"}
    for line in re.findall(r"^    longtail (\S+)", text, re.MULTILINE):
        assert line in commands, line
    for script in re.findall(r"python (benchmarks/\S+\.py)", text):
        assert (ROOT / script).is_file(), script


def test_recipes_in_the_documents_are_real() -> None:
    for document in DOCUMENTS:
        for line in re.findall(r"^    longtail (?:compare|train|plan) .*", document.read_text(), re.MULTILINE):
            for recipe in re.findall(r'"((?:[^"\\]|\\.)+)"', line):  # as the shell reads quotes
                Recipe.parse(recipe.replace('\\"', '"'))
