"""The pictures show what the documents say, and what a training today gives."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import longtail

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
SLOWEST = 120  # seconds; a training of the demo that took longer was timed on a busy machine


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PICTURES / "pictures.json").read_text())
    return found


def test_every_picture_is_from_the_run_whose_figures_are_kept(shown: dict[str, Any]) -> None:
    """Take them again: python docs/take_pictures.py."""
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in PICTURES.glob("*.png")}
    assert files == shown["files"]


def test_the_pictures_show_the_demo(shown: dict[str, Any]) -> None:
    compared = re.search(r"longtail compare wordnet (.*?) --report", (ROOT / "Makefile").read_text(), re.DOTALL)
    assert compared is not None
    assert [one["recipe"] for one in shown["recipes"]] == shlex.split(compared[1].replace("\\\n", " "))
    assert max(one["train_seconds"] for one in shown["recipes"]) < SLOWEST


def test_the_readme_has_the_figures_of_its_picture(shown: dict[str, Any]) -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    names = next(line for line in lines if line.startswith("| data | recipe |")).strip("| ").split(" | ")[2:]
    for one in shown["recipes"]:
        figures = " | ".join(f"{one[name]:.1f}" for name in names)
        assert f"| wordnet | `{one['recipe']}` | {figures} |" in lines


def test_a_training_today_gives_the_figures_of_the_picture(shown: dict[str, Any]) -> None:
    """Of the three recipes that train in seconds."""
    corpus = longtail.load("wordnet")
    quick = shown["recipes"][:3]
    for one, result in zip(quick, longtail.compare(corpus, [one["recipe"] for one in quick]), strict=True):
        for name in ("P@1", "PSP@1", "PSP@5", "C@5"):
            assert round(result.measures[name], 1) == round(one[name], 1), (one["recipe"], name)


def test_bars_and_curves_of_the_result_pages_are_their_tables(tmp_path: Path) -> None:
    """Draw them again: python benchmarks/page_figures.py."""
    script = ROOT / "benchmarks" / "page_figures.py"
    subprocess.run([sys.executable, str(script), "--out", str(tmp_path)], check=True, capture_output=True)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) > 10
    for path in drawn:
        assert path.read_text() == (ROOT / "docs" / "results" / path.name).read_text(), path.name
