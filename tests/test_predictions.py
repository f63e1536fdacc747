"""Predictions: what counts as a hit, and what stays when labels are dropped."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail.data import LabelSet
from longtail.errors import DataError
from longtail.predictions import Predictions

LABELS = LabelSet(ids=("a", "b", "c"))


def test_an_empty_place_is_no_hit() -> None:
    """Not even where the row before has the last label, whose key is next to that of the empty place."""
    targets = sparse.csr_array(np.array([[0, 0, 1], [1, 0, 0]], dtype=np.float32))
    scores = np.array([[0.9, 0.5], [0.9, 0]], dtype=np.float32)
    found = Predictions(LABELS, np.array([[2, 1], [0, -1]], dtype=np.int32), scores)
    assert found.hits(targets).tolist() == [[True, False], [True, False]]


def test_labels_behind_a_dropped_pair_move_up() -> None:
    scores = np.array([[0.9, 0.5, 0.2], [0.8, 0.3, 0]], dtype=np.float32)
    found = Predictions(LABELS, np.array([[2, 1, 0], [0, 1, -1]], dtype=np.int32), scores)
    kept = found.without(sparse.csr_array(np.array([[0, 1, 0], [1, 0, 0]], dtype=bool)))
    assert kept.indices.tolist() == [[2, 0, -1], [1, -1, -1]]
    assert np.allclose(kept.scores, [[0.9, 0.2, 0], [0.3, 0, 0]])


def _filled() -> Predictions:
    labels = LabelSet(
        ids=("a", "b", "日本", "d"), texts=("first", "", "third ✓", ""), counts=np.array([3, 0, 7, 1]), train_rows=9
    )
    indices = np.array([[2, -1, 0], [1, 3, 0], [-1, -1, -1]], dtype=np.int32)
    return Predictions(labels, indices, np.array([[0.9, 0, 0.1], [0.5, 0.7, 0.2], [0, 0, 0]], dtype=np.float32))


def test_saved_predictions_come_back_the_same(tmp_path: Path) -> None:
    found = _filled()
    path = found.save(tmp_path / "new" / "predictions.npz")
    again = Predictions.load(path)
    assert again.labels == found.labels
    assert np.array_equal(again.indices, found.indices) and np.array_equal(again.scores, found.scores)
    assert Predictions.load(path, found.labels).labels is found.labels
    empty = Predictions(LabelSet(ids=()), np.zeros((0, 5), np.int32), np.zeros((0, 5), np.float32))
    assert Predictions.load(empty.save(tmp_path / "empty.npz")).places == 5


def test_a_file_that_is_no_predictions_is_refused(tmp_path: Path) -> None:
    path = _filled().save(tmp_path / "predictions.npz")
    with pytest.raises(DataError, match="another label set"):
        Predictions.load(path, LABELS)
    with pytest.raises(DataError, match="no such file"):
        Predictions.load(tmp_path / "none.npz")
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="not a whole file"):
            Predictions.load(path)
    path.write_bytes(whole[:400] + bytes([whole[400] ^ 255]) + whole[401:])
    with pytest.raises(DataError):
        Predictions.load(path)
    for name, value in {
        "id_ends": np.array([6, 0, 6, 6]),  # words that overlap
        "indices": np.zeros((3, 3), np.int64),  # would wrap
        "scores": np.full((3, 3), np.nan, np.float32),
        "format": np.array([1, 1]),
        "ids": np.array(["a", "b"]),
    }.items():
        with np.load(_filled().save(path)) as file:
            arrays = {key: file[key] for key in file.files}
        np.savez(path, **{**arrays, name: value})  # type: ignore[arg-type]
        with pytest.raises(DataError, match="not a whole file") as refused:
            Predictions.load(path)
        assert len(str(refused.value)) < 500
    np.savez(path, indices=np.zeros((1, 1), np.int32))
    with pytest.raises(DataError, match="not a whole file"):
        Predictions.load(path)
    with pytest.raises(DataError, match="cannot be written"):
        _filled().save(tmp_path)


def test_columns_have_one_entry_a_predicted_label() -> None:
    found = _filled().columns(ids=("x", "y", "z"))
    assert found == {
        "row": ["x", "x", "y", "y", "y"],
        "rank": [1, 2, 1, 2, 3],
        "label": ["日本", "a", "b", "d", "a"],
        "text": ["third ✓", "first", "b", "d", "first"],
        "score": pytest.approx([0.9, 0.1, 0.5, 0.7, 0.2]),
    }
    assert _filled().columns()["row"] == [0, 0, 1, 1, 1]
    with pytest.raises(DataError, match="2 ids for 3 rows"):
        _filled().columns(ids=("x", "y"))


def test_a_frame_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = _filled().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict(orient="list") == _filled().columns()


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DataError, match="pip install pandas"):
        _filled().to_pandas()
