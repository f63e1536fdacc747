"""One file of rows in the folder layout's format, given by itself."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from longtail.data.read import Columns, load
from longtail.errors import DataError

ROWS = [
    {"id": f"r{number}", "title": "Book", "text": f"about {word}", "labels": {word: 0.5} if number == 3 else [word]}
    for number, word in enumerate(("cats", "dogs", "cats", "owls", "dogs", "cats"))
]
PACKERS = {".jsonl": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".JSONL": bytes}


def write(path: Path, end: str = "\n") -> Path:
    raw = "".join(json.dumps(row) + end for row in ROWS).encode()
    path.write_bytes(PACKERS[path.suffix](raw))
    return path


@pytest.mark.parametrize("name", ["books.jsonl", "books.jsonl.gz", "books.jsonl.xz", "books.JSONL"])
def test_the_file_is_train(name: str, tmp_path: Path) -> None:
    corpus = load(write(tmp_path / name), valid_share=0.2)
    assert corpus.name == "books"
    assert sorted(corpus.train.ids + corpus.valid.ids) == [row["id"] for row in ROWS]
    assert len(corpus.valid) >= 1
    assert len(corpus.test) == 0
    assert corpus.labels.ids == corpus.labels.texts == ("cats", "dogs", "owls")
    assert corpus.labels.counts.tolist() == [3, 2, 1]
    assert "Book about cats" in (corpus.train.texts or ()) + (corpus.valid.texts or ())
    assert corpus.text_field == "title+text"
    assert any("held out as valid" in note for note in corpus.notes)


def test_options_reach_the_reader(tmp_path: Path) -> None:
    corpus = load(write(tmp_path / "books.jsonl"), text="title", test_share=0.3, seed=2)
    assert set(corpus.train.texts or ()) == {"Book"}
    assert len(corpus.test) >= 1
    with pytest.raises(DataError, match="columns can be chosen only for CSV"):
        load(tmp_path / "books.jsonl", columns=Columns(text="title"))


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    unix, windows = load(write(tmp_path / "unix.jsonl")), load(write(tmp_path / "windows.jsonl", "\r\n"))
    assert unix.train.texts == windows.train.texts
    assert unix.labels.ids == windows.labels.ids


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_labels_beside_it_are_not_picked_up(ending: str, tmp_path: Path) -> None:
    """They would close the label set, or change its texts, without a word on the command line."""
    write(tmp_path / "train.jsonl")
    (tmp_path / f"labels.jsonl{ending}").write_bytes(b"not even JSON")
    (tmp_path / "test.jsonl").write_text("nor this")
    (tmp_path / "corpus.json").write_text("nor this")
    corpus = load(tmp_path / "train.jsonl")
    assert corpus.labels.texts == ("cats", "dogs", "owls")
    assert len(corpus.test) == 0
    assert f"only train.jsonl was read: give its folder to use labels.jsonl{ending} too" in corpus.notes


def test_no_note_where_nothing_stands_beside_it(tmp_path: Path) -> None:
    assert not any("was read" in note for note in load(write(tmp_path / "train.jsonl")).notes)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "x", "text": ', "broken JSON"),
        ('{"id": "x", "text": "t"}', 'the document has no "labels"'),
        ('{"id": "r0", "text": "t", "labels": []}', "document id 'r0' is already at books.jsonl:1"),
        ('{"id": "x", "text": "t", "labels": {"a": 1.5}}', "weight 1.5 of label 'a' does not lie in (0, 1]"),
    ],
)
def test_errors_name_file_and_line(line: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path / "books.jsonl")
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:7: {problem}")


def test_empty_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "books.jsonl").write_text("\n")
    with pytest.raises(DataError, match="the train split has no examples"):
        load(tmp_path / "books.jsonl")
    (tmp_path / "books.jsonl.gz").write_bytes(b"")
    with pytest.raises(DataError, match="0 bytes"):
        load(tmp_path / "books.jsonl.gz")
