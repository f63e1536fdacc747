"""A model that searches in PostgreSQL predicts as it does without, from Python and from the command line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from postgres_server import server

import forked
from longtail.data import Corpus
from longtail.errors import DataError, ModelError
from longtail.export.database import index, searching
from longtail.recipe import Recipe
from longtail.search.database import VectorTable

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'longtail[database]'")
pytest.importorskip("torch", reason="torch is not installed")
__all__ = ["server"]  # a fixture

RECIPE = (
    'ngame(encoder="bag", dimension=32, batch_size=64, epochs=2, classifier_epochs=2, frequency_weight=1.0) + rerank'
)
NAME = "longtail_predict_test"


def longtail(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["-m", "longtail", *map(str, words)]
    return forked.run(command, text=True, env={**os.environ, "LONGTAIL_THREADS": "1"})


def test_answers_are_the_models_own(server: str, tiny: Corpus, tmp_path: Path) -> None:
    model = Recipe.parse(RECIPE).fit(tiny.train, tiny.valid)
    table = VectorTable(server, NAME)
    try:
        index(model, table)
        remote = searching(model, table)
        own, found = model.predict(tiny.test.rows, 5), remote.predict(tiny.test.rows, 5)
        assert found.scores == pytest.approx(own.scores, abs=1e-4)
        assert (found.indices == own.indices).mean() > 0.99
        banned = (tiny.test.targets > 0).tocsr()
        assert not remote.predict(tiny.test.rows, 5, banned).hits(tiny.test.targets).any()
        with pytest.raises(DataError, match="cannot be saved"):
            remote.save(tmp_path / "remote")
        folder, texts = model.save(tmp_path / "model"), tmp_path / "texts.txt"
        texts.write_text("an apple\nthe dragon castle\n")
        done = longtail("index", folder, "--database", server, "--table", NAME)
        assert "10 label vectors" in done.stdout and "exact search" in done.stdout, done
        local, queried = (
            longtail("predict", folder, texts, "-k", "3", *where)
            for where in ([], ["--database", server, "--table", NAME])
        )
        assert queried.returncode == 0, queried.stderr
        for one, other in zip(local.stdout.splitlines(), queried.stdout.splitlines(), strict=True):
            first, second = (json.loads(line)["labels"] for line in (one, other))
            assert [label["id"] for label in first] == [label["id"] for label in second]
            assert np.allclose([label["score"] for label in first], [label["score"] for label in second], atol=1e-4)
    finally:
        with table.connected() as connection:
            connection.execute(f'DROP TABLE IF EXISTS "{NAME}"')


def test_models_without_vectors_are_refused_before_connecting(tiny: Corpus) -> None:
    model = Recipe.parse("centroid").fit(tiny.train, tiny.valid)
    with pytest.raises(ModelError, match="no encoder"):
        index(model, VectorTable("postgresql:///nobody"))
