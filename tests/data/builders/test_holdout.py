"""Held-out labels: what they lose, and how they are measured apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail.comparison import compare
from longtail.data import Corpus, Dataset, LabelSet, make_corpus
from longtail.data.builders.holdout import build_holdout, drawn_labels, without_labels
from longtail.data.read import load
from longtail.errors import DataError
from longtail.metrics import evaluate
from longtail.metrics.generalised import with_unseen
from longtail.predictions import Predictions
from longtail.report.comparison_table import caption, columns


def test_held_out_labels_lose_train_and_keep_test(tiny: Corpus, tmp_path: Path) -> None:
    tiny = replace(tiny, licence="CC0", private=True)
    built = build_holdout(tiny, tmp_path / "out", share=0.3, seed=1, command="longtail build holdout x")
    made = load(tmp_path / "out")
    drawn = drawn_labels(tiny, 0.3, 1)
    assert (
        1 <= drawn.sum() < len(tiny.labels) and made.held_out_labels == drawn.sum() == built.counts["labels held out"]
    )
    assert made.labels.ids == tiny.labels.ids
    assert not drawn[made.train.targets.indices].any() and not drawn[made.valid.targets.indices].any()
    assert (made.test.targets != tiny.test.targets).nnz == 0 and drawn[made.test.targets.indices].any()
    assert (made.labels.counts[drawn] == 0).all() and (made.labels.counts[~drawn] > 0).all()
    kept = {name: set(row) - set(np.flatnonzero(drawn)) for name, row in rows(tiny.train).items()}
    assert rows(made.train) == {name: row for name, row in kept.items() if row}
    facts = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert facts["licence"] == "CC0" and facts["command"] == "longtail build holdout x"
    assert (made.licence, made.private) == ("CC0", True), "what may not be passed on may not be after a split either"
    again = drawn_labels(tiny, 0.3, 2)
    assert (again != drawn).any(), "another seed draws other labels"


def rows(data: Dataset) -> dict[str, set[int]]:
    return {name: set(data.targets[[row]].indices.tolist()) for row, name in enumerate(data.ids)}


def test_a_row_without_labels_stays(tiny: Corpus) -> None:
    """Only rows that lose all their labels go; one that never had any is as it was."""
    labels = LabelSet(ids=("a", "b", "c"))
    targets = sparse.csr_array(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]], dtype=np.float32))
    data = Dataset(labels=labels, targets=targets, ids=("1", "2", "3", "4"), texts=("w", "x", "y", "z"))
    corpus = make_corpus(name="x", train=data, valid=data.take([]), test=data.take([0]))
    made = without_labels(corpus, np.array([True, False, False]))
    assert made.train.ids == ("2", "3", "4") and made.train.targets.toarray().tolist() == [
        [0, 1, 0],
        [0] * 3,
        [0, 1, 0],
    ]
    assert made.labels.counts.tolist() == [0, 2, 0]


def test_data_of_features_alone(tmp_path: Path) -> None:
    """In the repository's layout, with the number of held-out labels; the excluded pair stays excluded."""
    labels = LabelSet(ids=("a", "b", "c"), texts=("a", "b", "c"))
    targets = sparse.csr_array(np.array([[1, 0, 1], [0, 1, 0], [0, 1, 1]], dtype=np.float32))
    features = sparse.csr_array(np.eye(3, 4, dtype=np.float32))
    excluded = sparse.csr_array(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=np.bool_))
    data = Dataset(labels=labels, targets=targets, ids=("1", "2", "3"), features=features, excluded=excluded)
    test = replace(data, ids=("4", "5", "6"))
    corpus = make_corpus(name="x", train=data, valid=data.take([]), test=test)
    built = build_holdout(corpus, tmp_path / "out", share=0.5, seed=3)
    made = load(tmp_path / "out", valid_share=0)
    drawn = drawn_labels(corpus, 0.5, 3)
    assert drawn.sum() == made.held_out_labels == built.counts["labels held out"] == 2
    kept = [row for row in range(3) if (targets.toarray()[row] * ~drawn).any()]
    assert made.train.targets.toarray().tolist() == (targets.toarray() * ~drawn)[kept].tolist()
    assert made.train.features is not None and made.train.features.toarray().tolist() == np.eye(3, 4)[kept].tolist()
    assert made.test.excluded is not None and made.test.excluded.toarray()[0].tolist() == [False, True, False]


def test_what_cannot_be_held_out_is_refused(tiny: Corpus, tmp_path: Path) -> None:
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(DataError, match="--labels must be between 0 and 1"):
            build_holdout(tiny, tmp_path / "out", share=share)
    no_test = make_corpus(name="x", train=tiny.train, valid=tiny.valid, test=None)
    with pytest.raises(DataError, match=r"--test-share 0\.2"):
        build_holdout(no_test, tmp_path / "out")


def test_seen_unseen_and_their_harmonic_mean_by_hand() -> None:
    """Labels 0 and 1 were trained, 2 and 3 were not."""
    labels = LabelSet(ids=("a", "b", "c", "d"), counts=np.array([3, 1, 0, 0]), train_rows=4)
    truth = np.array([[1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]], dtype=np.float32)
    data = Dataset(labels=labels, targets=sparse.csr_array(truth), ids=("x", "y", "z"), texts=("x", "y", "z"))
    ranked = np.array([[0, 2, 3], [2, 1, 0], [0, 3, -1]], dtype=np.int32)
    predictions = Predictions(labels, ranked, np.array([[3, 2, 1], [3, 2, 1], [3, 2, 0]], dtype=np.float32))
    measures = with_unseen(evaluate(predictions, data, ks=(1, 2)), predictions, data, (1, 2))
    assert measures["S@1"] == pytest.approx(100 * (1 / 1 + 0) / 2)  # rows x and y have seen labels
    assert measures["U@1"] == 0 and measures["H@1"] == 0
    assert measures["S@2"] == pytest.approx(100 * (1 / 2 + 1) / 2)
    assert measures["U@2"] == pytest.approx(100 * (1 + 1) / 2)  # rows x and z have unseen ones
    assert measures["H@2"] == pytest.approx(100 * 2 * 0.75 * 1 / 1.75)
    assert "P@1" in measures.values


def test_compare_shows_them_for_held_out_labels_only(tiny: Corpus, tmp_path: Path) -> None:
    build_holdout(tiny, tmp_path / "out", share=0.3, seed=1)
    [bm25, centroid] = compare(load(tmp_path / "out"), ["bm25", "centroid"])
    assert bm25.measures["U@1"] > centroid.measures["U@1"] == 0, "only label texts find labels without rows"
    assert [one.name for one in columns([bm25]) if one.group in "SUH"] == [f"{g}@{k}" for g in "SUH" for k in (1, 3, 5)]
    assert "harmonic mean" in caption([bm25]) and bm25.as_json()["H@5"] > 0
    [plain] = compare(tiny, ["bm25"])
    assert "U@1" not in plain.measures.values and "harmonic" not in caption([plain])
