from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from longtail import load
from longtail.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, rows in (("train", 40), ("test", 3)):
        lines = [json.dumps({"id": f"{split}{row}", "text": f"word{row}", "labels": ["a"]}) for row in range(rows)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
        np.save(tmp_path / f"{split}.vectors.npy", np.arange(rows)[:, None] * np.array([1.0, -2.0, 0.0]))
    return tmp_path


def test_vectors_stay_with_their_rows_when_valid_is_held_out(folder: Path) -> None:
    corpus = load(folder, valid_share=0.3)
    assert 0 < len(corpus.valid) < 40
    for data in (corpus.train, corpus.valid, corpus.test):
        assert data.texts is not None and data.features is not None
        numbers = np.array([int(text.removeprefix("word")) for text in data.texts])
        assert data.features.toarray().tolist() == (numbers[:, None] * np.array([1, -2, 0])).tolist()
        assert data.features.dtype == np.float32


def test_tables_take_vectors_too(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("id,text,labels\n1,cat,a\n2,dog,b\n")
    np.save(tmp_path / "train.vectors.npy", np.array([[1, 2], [3, 4]], dtype=np.int16))
    features = load(tmp_path, valid_share=0).train.features
    assert features is not None and features.toarray().tolist() == [[1, 2], [3, 4]]


def test_without_vectors_there_are_no_features(folder: Path) -> None:
    for path in folder.glob("*.npy"):
        path.unlink()
    assert load(folder).train.features is None


def test_vectors_that_do_not_fit_are_refused(folder: Path) -> None:
    path = folder / "test.vectors.npy"

    def refused(array: object, problem: str) -> None:
        np.save(path, array)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=problem) as error:
            load(folder)
        assert error.value.path == path

    refused(np.ones((4, 3)), "4 vectors for 3 documents; give each document one")
    refused(np.ones((3, 2)), "vectors of 2 numbers, but those of train have 3; make all with one encoder")
    refused(np.ones(3), "must be one array of numbers with a row per document")
    refused(np.array([["a", "b", "c"]] * 3), "must be one array of numbers")
    refused(np.full((3, 3), np.nan), "document 'test0' has a feature that is not a finite number")
    refused(np.array([[{}]] * 3, dtype=object), "is not a NumPy array of numbers")
    path.write_bytes(b"not an array")
    with pytest.raises(DataError, match="is not a NumPy array of numbers"):
        load(folder)
    path.unlink()
    with pytest.raises(DataError, match="is missing; where one split has vectors"):
        load(folder)


def test_rows_have_vectors_or_features_not_both(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("2 3 2\n0 0:1 1:1\n1 2:1\n")
    np.save(tmp_path / "train.vectors.npy", np.ones((2, 2)))
    with pytest.raises(DataError, match="the documents have features already"):
        load(tmp_path)
