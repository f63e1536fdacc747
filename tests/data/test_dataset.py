"""Data sets and corpora: never changed, always checked."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet, Propensity, held_out, make_corpus
from longtail.errors import DataError


def data(rows: int = 4, labels: int = 3, **more: object) -> Dataset:
    rng = np.random.default_rng(0)
    dense = (rng.random((rows, labels)) < 0.5).astype(np.float32)
    given: dict[str, object] = {
        "labels": LabelSet(ids=tuple("abcdefgh"[:labels])),
        "targets": sparse.csr_array(dense),
        "ids": tuple(map(str, range(rows))),
        "texts": tuple(f"text {row}" for row in range(rows)),
    }
    return Dataset(**{**given, **more})  # type: ignore[arg-type]


def test_nothing_can_be_changed() -> None:
    mine = sparse.csr_array(np.ones((4, 3), dtype=np.float32))
    found = data(targets=mine)
    with pytest.raises(ValueError, match="read-only"):
        found.targets.data[0] = 0.5
    with pytest.raises(FrozenInstanceError):
        found.texts = ()  # type: ignore[misc]
    mine.data[0] = 1.0  # the caller's own matrix stays the caller's


@pytest.mark.parametrize("weight", [0.0, -1.0, 1.5, np.nan, np.inf])
def test_weights_lie_above_0_and_up_to_1(weight: float) -> None:
    dense = sparse.csr_array(np.ones((4, 3), dtype=np.float32))
    dense.data[5] = weight
    with pytest.raises(DataError, match=r"document '1' has weight .* for label 'c'; weights must lie in"):
        data(targets=dense)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"ids": ("0", "1")}, "targets are 4 x 3, expected 2 x 3"),
        ({"texts": ("one",)}, "4 ids but 1 texts"),
        ({"texts": None}, "needs texts or features"),
        ({"features": sparse.csr_array(np.full((4, 2), np.nan))}, "document '0' has a feature that is not a finite"),
        ({"excluded": sparse.csr_array((4, 2), dtype=bool)}, "excluded pairs are 4 x 2, expected 4 x 3"),
        ({"origins": np.array([0, 0, 0, 1])}, "row origins do not match"),
    ],
)
def test_parts_must_fit(more: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        data(**more)


def test_rows_are_taken_by_number_or_mask() -> None:
    found = data(rows=4)
    assert found.take([3, 1]).ids == ("3", "1")
    assert found.take(np.array([False, True, True, False])).ids == ("1", "2")
    assert np.array_equal(found.take([3, 1]).targets.toarray(), found.targets.toarray()[[3, 1]])
    assert len(found.take([])) == 0


def test_a_stored_false_excludes_nothing() -> None:
    marks = sparse.csr_array(np.ones((4, 3), dtype=bool))
    marks.data[1:] = False
    excluded = data(excluded=marks).excluded
    assert excluded is not None and excluded.nnz == 1
    marks.data[:] = False
    assert data(excluded=marks).excluded is None


def test_added_rows_keep_their_origin() -> None:
    before = data(excluded=sparse.csr_array(np.eye(4, 3, dtype=bool)))
    more = sparse.csr_array(np.array([[0, 0.5, 0], [1, 0, 0]], dtype=np.float32))
    after = before.with_rows(texts=["x", "y"], targets=more, origin="gandalf")
    assert len(before) == 4 and len(after) == 6
    assert after.ids[4:] == ("gandalf:0", "gandalf:1")
    assert after.origins is not None and after.origins.tolist() == [0, 0, 0, 0, 1, 1]
    assert after.origin_names == ("given", "gandalf")
    assert after.excluded is not None and after.excluded.shape == (6, 3)
    assert after.targets[[4]].toarray().tolist() == [[0, 0.5, 0]]
    again = after.with_rows(texts=np.array(["z"]), targets=more[[0]], origin="gandalf")  # type: ignore[arg-type]
    assert again.origin_names == ("given", "gandalf")
    assert after.labels is before.labels  # counts are those of the data as given
    with pytest.raises(DataError, match="adds targets over 2 labels to data over 3"):
        before.with_rows(texts=["x"], targets=more[[0], :2], origin="gandalf")
    with pytest.raises(DataError, match="same kinds of input"):
        before.with_rows(targets=more, origin="gandalf")


def test_entries_join_and_the_larger_stays() -> None:
    before = data(targets=sparse.csr_array(np.array([[1, 0, 0], [0.3, 0, 0]] * 2, dtype=np.float32)))
    more = sparse.csr_array(np.array([[0.2, 0.4, 0], [0.5, 0, 0]] * 2, dtype=np.float32))
    after = before.with_entries(more)
    assert after.targets.toarray() == pytest.approx(np.array([[1, 0.4, 0], [0.5, 0, 0]] * 2))
    with pytest.raises(DataError, match="do not fit"):
        before.with_entries(more[:2])


def test_label_sets() -> None:
    labels = LabelSet(ids=("a", "b"), texts=("one", ""), counts=np.array([3, 0]), train_rows=4)
    assert labels.row_of == {"a": 0, "b": 1}
    assert (labels.word(0), labels.word(1)) == ("one", "b")
    assert labels == LabelSet(ids=("a", "b"), texts=("one", ""), counts=np.array([3, 0]), train_rows=4)
    assert labels != LabelSet(ids=("a", "b"), texts=("one", ""), counts=np.array([2, 0]), train_rows=4)
    with pytest.raises(DataError, match="'a' occurs twice"):
        LabelSet(ids=("a", "b", "a"))
    with pytest.raises(DataError, match="unknown label id 'c'"):
        labels.rows(["a", "c"])


def test_a_soft_target_counts_as_a_row() -> None:
    targets = sparse.csr_array(np.array([[0.3, 0, 1], [0.9, 0, 0.5]], dtype=np.float32))
    labels = LabelSet(ids=("a", "b", "c")).counted(targets)
    assert labels.counts.tolist() == [2, 0, 2] and labels.train_rows == 2


@pytest.mark.parametrize(("a", "b"), [(0, 1), (-1, 1), (0.5, -1), (0.5, 0), (np.nan, 1), (0.5, np.inf), (11, 1)])
def test_propensity_constants_are_checked(a: float, b: float) -> None:
    with pytest.raises(DataError, match="propensity constants"):
        Propensity(a, b)


@given(st.lists(st.text(max_size=5), unique=True, max_size=40), st.floats(0.01, 0.99), st.integers(0, 5))
def test_a_row_keeps_its_side(ids: list[str], share: float, seed: int) -> None:
    away = dict(zip(ids, held_out(ids, share, seed).tolist(), strict=True))
    if len(ids) > 1:
        assert any(away.values()) and not all(away.values())
    if sum(away.values()) > 1 and sum(not side for side in away.values()) > 1:
        shuffled = ids[::-1]
        assert dict(zip(shuffled, held_out(shuffled, share, seed).tolist(), strict=True)) == away


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_valid_is_a_fair_share_of_what_a_test_split_left(seed: int) -> None:
    """Splits made with neighbouring seeds must not nest: valid out of the rows that any test split left over."""
    whole = data(rows=4000)
    for other in (0, 1, 2):
        away = held_out(whole.ids, 0.2, other + 1)
        rest = whole.take(~away)
        corpus = make_corpus(name="x", train=rest, valid=None, test=whole.take(away), seed=seed)
        assert 0.03 < len(corpus.valid) / len(rest) < 0.07


def test_counts_come_from_the_rows_as_given() -> None:
    whole = data(rows=100)
    corpus = make_corpus(name="x", train=whole, valid=None, test=None)
    assert len(corpus.train) + len(corpus.valid) == 100
    assert corpus.labels.train_rows == 100
    assert np.array_equal(corpus.labels.counts, whole.targets.astype(bool).sum(axis=0))
    tested = make_corpus(name="x", train=whole, valid=None, test=None, test_share=0.3)
    assert tested.labels.train_rows == len(tested.train) + len(tested.valid) < 100
    every = make_corpus(name="x", train=whole, valid=None, test=None, valid_share=0)
    assert len(every.train) == 100 and len(every.valid) == 0


def test_an_empty_train_split_is_refused(tiny: Corpus) -> None:
    with pytest.raises(DataError, match="the train split has no examples"):
        make_corpus(name="x", train=tiny.train.take([]), valid=None, test=None)
