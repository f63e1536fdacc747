"""A small model, shards to predict, and a Ray cluster of three nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from longtail_calls import shards_of

import longtail
from longtail.data import Corpus
from longtail.store import save


@pytest.fixture(scope="session")
def model(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`centroid` trained on the tiny corpus."""
    path = tmp_path_factory.mktemp("models") / "centroid"
    save(longtail.Recipe.parse("centroid").fit(tiny.train, tiny.valid), path)
    return path


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Five shards of twelve documents."""
    return shards_of(tmp_path / "in", 5, 12)
