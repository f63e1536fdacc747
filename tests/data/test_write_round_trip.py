"""What is written is read back the same, and a writer never leaves half a folder."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from longtail.data import write
from longtail.data.corpus import Corpus, make_corpus
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet, Propensity
from longtail.data.read import load
from longtail.data.write import write_folder, write_repository
from longtail.errors import DataError

TEXT = st.one_of(
    st.text(max_size=20), st.sampled_from(["", " ", "\n", "a\r\nb", '"', "\\", "\ufeffmark", "\u2028", "\x00"])
)
WEIGHT = st.one_of(st.just(1.0), st.floats(0, 1, exclude_min=True, width=32))
VALUE = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)


def matrix(draw: Any, rows: int, columns: int, values: st.SearchStrategy[float], dtype: type) -> Any:
    cells = st.tuples(st.integers(0, max(rows - 1, 0)), st.integers(0, columns - 1))
    found = draw(st.dictionaries(cells, values, max_size=8)) if rows else {}
    result = sparse.lil_array((rows, columns), dtype=dtype)
    for (row, column), value in found.items():
        result[row, column] = value
    return result.tocsr()


@st.composite
def corpora(draw: Any, kinds: tuple[str, ...], valid: bool = True) -> Corpus:
    """Small corpora with whatever texts, weights, features and excluded pairs may be in them."""
    number = draw(st.integers(1, 5))
    kind = draw(st.sampled_from(kinds))
    width = draw(st.integers(1, 6))
    label_ids = draw(st.lists(st.text(min_size=1, max_size=6), min_size=number, max_size=number, unique=True))
    labels = LabelSet(
        ids=tuple(label_ids),
        texts=tuple(draw(st.lists(TEXT, min_size=number, max_size=number))),
        features=matrix(draw, number, width, VALUE, np.float32) if "features" in kind and draw(st.booleans()) else None,
        propensity=Propensity(draw(st.floats(0.01, 3)), draw(st.floats(0.001, 5))),
    )
    sizes = draw(st.integers(1, 5)), draw(st.integers(0, 3)) if valid else 0, draw(st.integers(0, 3))
    names = draw(st.lists(st.text(min_size=1, max_size=6), min_size=sum(sizes), max_size=sum(sizes), unique=True))
    parts = []
    for size in sizes:
        ids, names = names[:size], names[size:]
        parts.append(
            Dataset(
                labels=labels,
                ids=tuple(ids),
                targets=matrix(draw, size, number, WEIGHT, np.float32),
                texts=draw(st.lists(TEXT, min_size=size, max_size=size)) if "texts" in kind else None,
                features=matrix(draw, size, width, VALUE, np.float32) if "features" in kind else None,
                excluded=matrix(draw, size, number, st.just(True), np.bool_),
            )
        )
    name = draw(st.text(min_size=1, max_size=8))
    return make_corpus(name=name, train=parts[0], valid=parts[1], test=parts[2])


def same_matrix(one: Any, other: Any) -> None:
    assert (one is None or one.nnz == 0) == (other is None or other.nnz == 0)
    if one is not None and other is not None:
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.toarray(), other.toarray())


def same_labels(one: LabelSet, other: LabelSet) -> None:
    assert one == other  # ids, texts, counts, A and B
    same_matrix(one.features, other.features)


@settings(max_examples=25, deadline=None)
@given(corpora(("texts",)))
def test_a_folder_comes_back_the_same(corpus: Corpus) -> None:
    with tempfile.TemporaryDirectory() as place:
        back = load(write_folder(corpus, Path(place) / "data"))
    assert back.name == corpus.name
    same_labels(corpus.labels, back.labels)
    for split in ("train", "valid", "test"):
        one, other = getattr(corpus, split), getattr(back, split)
        assert (one.ids, one.texts) == (other.ids, other.texts)
        same_matrix(one.targets, other.targets)
        same_matrix(one.excluded, other.excluded)


def one_line(text: str) -> str:
    return text.lstrip("\ufeff").replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


@settings(max_examples=25, deadline=None)
@given(corpora(("texts", "features", "texts and features"), valid=False))
def test_a_repository_folder_comes_back_the_same(corpus: Corpus) -> None:
    with tempfile.TemporaryDirectory() as place:
        back = load(write_repository(corpus, Path(place) / "data"))
    assert back.name == corpus.name
    same_labels(corpus.labels, back.labels)
    order = sorted((int(name.split("-")[1]), name) for part in (back.train, back.valid) for name in part.ids)
    given = back.train.ids + back.valid.ids
    pick = [given.index(name) for _, name in order]  # valid rows were held out again: put them back
    parts = back.train, back.valid
    pairs = [(corpus.train, parts, pick)]
    if len(corpus.test):
        pairs.append((corpus.test, (back.test,), list(range(len(corpus.test)))))
    else:
        assert len(back.test) == 0
    for one, others, rows in pairs:
        same_matrix(one.targets, sparse.vstack([part.targets for part in others], format="csr")[rows])
        if one.features is not None:
            same_matrix(one.features, sparse.vstack([part.features for part in others], format="csr")[rows])
        if one.texts is not None:
            texts = [text for part in others for text in part.texts or ()]
            assert [one_line(text) for text in one.texts] == [texts[row] for row in rows]
        empty = [sparse.csr_array(part.targets.shape, dtype=np.bool_) for part in others]
        excluded = [
            part.excluded if part.excluded is not None else none for part, none in zip(others, empty, strict=True)
        ]
        same_matrix(one.excluded, sparse.vstack(excluded, format="csr")[rows])


def rows(labels: LabelSet, name: str, number: int, **more: Any) -> Dataset:
    targets = sparse.csr_array(np.eye(number, len(labels), dtype=np.float32))
    ids = tuple(f"{name}{row}" for row in range(number))
    return Dataset(labels=labels, targets=targets, ids=ids, texts=tuple(f"text {row}" for row in ids), **more)


@pytest.fixture
def corpus() -> Corpus:
    labels = LabelSet(ids=("a", "b", "c"), texts=("A", "B", "C"))
    return make_corpus(name="small", train=rows(labels, "r", 3), valid=rows(labels, "v", 2), test=rows(labels, "t", 1))


def test_the_repository_holds_valid_rows_after_train(corpus: Corpus, tmp_path: Path) -> None:
    folder = write_repository(corpus, tmp_path / "data")
    assert (folder / "trn_X.txt").read_text().split("\n") == ["text r0", "text r1", "text r2", "text v0", "text v1", ""]
    assert (folder / "trn_X_Y.txt").read_text() == "5 3\n0:1\n1:1\n2:1\n0:1\n1:1\n"
    assert (folder / "tst_X_Y.txt").read_text() == "1 3\n0:1\n"


def test_counts_of_a_held_out_valid_split_come_back(tmp_path: Path) -> None:
    labels = LabelSet(ids=("a",), texts=("A",))
    targets = sparse.csr_array(np.ones((40, 1), dtype=np.float32))
    train = Dataset(labels=labels, targets=targets, ids=tuple(f"r{n}" for n in range(40)), texts=("x",) * 40)
    corpus = make_corpus(name="held", train=train, valid=None, test=None, valid_share=0.2)
    back = load(write_folder(corpus, tmp_path / "data"))
    assert back.valid.ids == corpus.valid.ids
    assert (back.labels.counts.tolist(), back.labels.train_rows) == ([40], 40)


def test_the_same_corpus_gives_the_same_bytes(corpus: Corpus, tmp_path: Path) -> None:
    for writer in (write_folder, write_repository):
        one, other = writer(corpus, tmp_path / f"{writer.__name__}1"), writer(corpus, tmp_path / f"{writer.__name__}2")
        assert {p.name: p.read_bytes() for p in one.iterdir()} == {p.name: p.read_bytes() for p in other.iterdir()}


@pytest.mark.parametrize("writer", [write_folder, write_repository])
def test_nothing_is_overwritten_by_accident(corpus: Corpus, tmp_path: Path, writer: Any) -> None:
    path = tmp_path / "deep" / "data"
    writer(corpus, path)
    with pytest.raises(DataError, match="data: exists; choose another path, or replace it"):
        writer(corpus, path)
    (path / "corpus.json").write_text('{"name": "old"}')
    writer(corpus, path, overwrite=True)
    assert load(path).name == "small"
    (path / "corpus.json").unlink()
    with pytest.raises(DataError, match="is not a data set that longtail wrote, so it is not replaced"):
        writer(corpus, path, overwrite=True)
    with pytest.raises(DataError, match="is not a data set that longtail wrote"):
        writer(corpus, next(path.iterdir()), overwrite=True)
    (path / "corpus.json").write_text("{}")
    (path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="is not a data set that longtail wrote"):
        writer(corpus, path, overwrite=True)
    assert (path / "thesis.txt").read_text() == "years of work"
    assert sorted(p.name for p in path.parent.iterdir()) == ["data"]


@pytest.mark.parametrize("writer", [write_folder, write_repository])
@pytest.mark.parametrize("existing", [False, True])
def test_a_write_that_fails_leaves_what_was_there(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Any, existing: bool
) -> None:
    path = tmp_path / "data"
    if existing:
        writer(corpus, path)
    before = {p.name: p.read_bytes() for p in path.iterdir()} if existing else {}

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(write, "write_facts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer(corpus, path, overwrite=existing)
    assert [p.name for p in tmp_path.iterdir()] == (["data"] if existing else [])
    assert before == ({p.name: p.read_bytes() for p in path.iterdir()} if existing else {})


def test_a_full_disk_is_an_error_of_one_line(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write, "write_facts", full)
    with pytest.raises(DataError, match=r"data: cannot be written \(No space left on device\)"):
        write_folder(corpus, tmp_path / "data")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("empty", ["", "valid", "test"])
def test_vectors_of_rows_stand_beside_them(corpus: Corpus, tmp_path: Path, empty: str) -> None:
    rng = np.random.default_rng(0)

    def with_vectors(data: Dataset, split: str) -> Dataset:
        kept = data.take([]) if split == empty else data
        return replace(kept, features=rng.random((len(kept), 3), dtype=np.float32))

    splits = {split: with_vectors(getattr(corpus, split), split) for split in ("train", "valid", "test")}
    given = make_corpus(name="vectors", **splits)
    path = write_folder(given, tmp_path / "data")
    back = load(path)
    for split in splits:
        if split != "test" or empty != "test":
            found = getattr(back, split).features
            np.testing.assert_array_equal(found.toarray(), getattr(given, split).features.toarray())
    write_folder(back, path, overwrite=True)  # such a folder is ours, and may be replaced


def test_what_a_layout_cannot_hold_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    labels = LabelSet(ids=("a",))
    bare = Dataset(labels=labels, targets=sparse.csr_array([[1.0]]), ids=("x",), features=sparse.csr_array([[1.0]]))
    features_only = make_corpus(name="bare", train=bare, valid=bare.take([]), test=None)
    with pytest.raises(DataError, match="bare has features but no texts; use write_repository"):
        write_folder(features_only, tmp_path / "data")
    few = sparse.csr_array(np.eye(len(corpus.train), 50, dtype=np.float32))
    words = make_corpus(name="words", train=replace(corpus.train, features=few), valid=corpus.train.take([]), test=None)
    with pytest.raises(DataError, match=r"words has sparse features beside its texts.*use write_repository"):
        write_folder(words, tmp_path / "data")
    twice = make_corpus(name="twice", train=corpus.train, valid=corpus.train, test=None)
    with pytest.raises(DataError, match="document ids of twice are not unique over the splits"):
        write_folder(twice, tmp_path / "data")
    unnamed = LabelSet(ids=("",))
    nameless = make_corpus(name="blank", train=rows(unnamed, "r", 1), valid=rows(unnamed, "v", 1), test=None)
    with pytest.raises(DataError, match="blank has an empty document or label id"):
        write_folder(nameless, tmp_path / "data")
    assert not list(tmp_path.iterdir())


def test_half_a_surrogate_pair_survives_json(tmp_path: Path) -> None:
    labels = LabelSet(ids=("a\udc80",), texts=("\ud800",))
    train = Dataset(labels=labels, targets=sparse.csr_array([[1.0]]), ids=("x",), texts=("half \ud83d",))
    corpus = make_corpus(name="half", train=train, valid=train.take([]), test=None)
    back = load(write_folder(corpus, tmp_path / "data"))
    assert back.train.texts == ("half \ud83d",)
    assert back.labels.ids == ("a\udc80",)
    write_repository(corpus, tmp_path / "other")
    assert (tmp_path / "other" / "trn_X.txt").read_text() == "half ?\n"
