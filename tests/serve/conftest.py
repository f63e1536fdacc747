"""Two small models of one data set: one that takes labels, one that does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from longtail.data import Corpus
from longtail.recipe import Recipe

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("torch", reason="the extra nn is not installed")

ENCODER = "dpr(encoder='bag', dimension=32, epochs=4, batch_size=64, validate_every=0)"


@pytest.fixture(scope="session")
def trained(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    Recipe.parse(ENCODER).fit(tiny.train, tiny.valid).save(folder / "towers.longtail")
    Recipe.parse("centroid + rerank").fit(tiny.train, tiny.valid).save(folder / "means.longtail")
    return folder


@pytest.fixture
def folders(trained: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The two models in a folder of the test's own, for its own journal."""
    for name in ("towers.longtail", "means.longtail"):
        shutil.copytree(trained / name, tmp_path / name)
    return tmp_path / "towers.longtail", tmp_path / "means.longtail"
