"""A small model, shards to predict, and a Ray cluster of three nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
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


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """240 documents with 60 labels, each label with a word of its own."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    with (folder / "labels.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": f"L{label}", "text": f"name{label}"}) + "\n" for label in range(60))
    for split, rows in (("train", 240), ("valid", 20), ("test", 20)):
        with (folder / f"{split}.jsonl").open("w") as file:
            for row in range(rows):
                labels = sorted({row % 60, int(rng.integers(60))})
                words = [f"word{label}" for label in labels] + [f"other{one}" for one in rng.integers(40, size=5)]
                ids = [f"L{label}" for label in labels]
                file.write(json.dumps({"id": f"{split}{row}", "text": " ".join(words), "labels": ids}) + "\n")
    return folder
