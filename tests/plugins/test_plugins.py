"""A package that somebody else installs adds a learner and a tail method to everything that names one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOY = Path(__file__).parent / "toy"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toy package in it, put there by pip."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for path in TOY.rglob("*"):
        if path.suffix in (".py", ".toml"):
            copy = source / path.relative_to(TOY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, capture_output=True)
    return target


def longtail(*words: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = [str(site)] if site else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "longtail", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def model(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the toy's learner and tail method on a small data set."""
    folder = tmp_path_factory.mktemp("data")
    rows = [{"id": str(row), "text": f"text {row}", "labels": ["often" if row % 3 else "rare"]} for row in range(30)]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = longtail("train", str(folder), "popular + twice", "--out", str(folder / "model"), site=installed)
    assert made.returncode == 0, made.stderr
    return folder / "model"


def test_methods_lists_what_was_installed_and_names_what_is_broken(installed: Path) -> None:
    short = longtail("methods", site=installed)
    assert "  of other packages          popular\n" in short.stdout and " twice\n" in short.stdout
    listed = longtail("methods", "--all", site=installed)
    assert listed.returncode == 0
    assert "  popular" in listed.stdout and "  twice" in listed.stdout
    assert "'broken' comes from the package longtail-toy" in listed.stdout
    assert "a_package_that_nobody_has" in listed.stdout
    shown = longtail("methods", "popular", site=installed)
    assert "smoothing" in shown.stdout and "added to each label's count" in shown.stdout
    assert "Doe: Popular Labels (2026)" in shown.stdout
    assert "popular" not in longtail("methods").stdout


def test_help_answers_beside_a_broken_plug_in(installed: Path) -> None:
    done = longtail("--help", site=installed)
    assert done.returncode == 0 and "compare" in done.stdout


def test_a_broken_plug_in_is_named_when_it_is_asked_for(installed: Path) -> None:
    done = longtail("plan", "wordnet", "popular + broken", site=installed)
    assert done.returncode == 2
    assert "longtail-toy" in done.stderr and "a_package_that_nobody_has" in done.stderr


def test_plans_predictions_and_cards_know_the_parts(installed: Path, model: Path) -> None:
    planned = longtail("plan", "wordnet", "popular + twice", "--json", site=installed)
    assert json.loads(planned.stdout)[0]["recipe"] == "popular + twice"
    source = model.parent / "texts.txt"
    source.write_text("a text\n")
    done = longtail("predict", str(model), str(source), "-k", "1", site=installed)
    assert done.returncode == 0 and "often" in done.stdout, done.stderr
    assert "Popular Labels" in (model / "README.md").read_text()


def test_a_model_whose_package_is_missing_names_it(model: Path) -> None:
    done = longtail("predict", str(model), "-k", "1")
    assert done.returncode == 2
    assert "longtail-toy" in done.stderr and "pip install" in done.stderr
