"""The tiny corpus as files, and models trained on it by the command itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from cli_calls import call

from longtail.data import Corpus
from longtail.data.write import write_folder


@pytest.fixture(scope="session")
def data(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny corpus in the folder layout."""
    return write_folder(tiny, tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="session")
def model(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`centroid` trained on it."""
    path = tmp_path_factory.mktemp("models") / "centroid"
    done = call("train", data, "centroid", "--out", path)
    assert done.code == 0, done
    return path


@pytest.fixture(scope="session")
def rows(data: Path) -> list[dict[str, Any]]:
    """The training rows as the folder holds them."""
    with gzip.open(data / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def rows_file(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test rows as a plain file."""
    path = tmp_path_factory.mktemp("rows") / "test.jsonl"
    path.write_bytes(gzip.decompress((data / "test.jsonl.gz").read_bytes()))
    return path


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`compare` writes report.html where it is called."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LONGTAIL_DEBUG", raising=False)
    monkeypatch.delenv("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", raising=False)  # a command called here has set it
    monkeypatch.setenv("COLUMNS", "100")
