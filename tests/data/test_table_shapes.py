"""Tables in every shape: a list, several columns, one-hot, one row a pair, quotes inside a cell, Excel."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import pytest

from longtail.data.label_cells import split_quoted
from longtail.data.read import Columns, Remedies, load
from longtail.errors import DataError

WANTED = {"1": ("one", {"a", "b, c"}), "2": ("two", {"b, c"}), "3": ("three", set[str]())}
SHAPES: dict[str, tuple[Columns, list[list[Any]]]] = {
    "list": (Columns(separator=","), [["1", "one", 'a, "b, c"'], ["2", "two", '"b, c"'], ["3", "three", ""]]),
    "json": (Columns(), [["1", "one", '["a", "b, c"]'], ["2", "two", '["b, c"]'], ["3", "three", "[]"]]),
    "columns": (
        Columns(labels="tag*"),
        [["1", "one", "a", "b, c"], ["2", "two", "", "b, c"], ["3", "three", "", ""]],
    ),
    "one-hot": (
        Columns(labels="is *"),
        [["1", "one", "x", "1"], ["2", "two", "0", "yes"], ["3", "three", "", "no"]],
    ),
    "pairs": (
        Columns(shape="pairs"),
        [["1", "one", "a"], ["2", "two", "b, c"], ["1", "", "b, c"], ["3", "three", ""], ["1", "one", "a"]],
    ),
}
HEADERS = {"columns": ["tag1", "tag2"], "one-hot": ["is a", "is b, c"]}


def written(path: Path, header: list[str], rows: list[list[Any]]) -> Path:
    if path.suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in [header, *rows]:
            book.active.append([cell if cell != "" else None for cell in row])
        book.save(path)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    return path


def found(path: Path, **settings: Any) -> dict[str, tuple[str, set[str]]]:
    corpus = load(path, valid_share=0, **settings)
    train = corpus.train
    rows = train.targets.toarray()
    return {
        name: (text, {corpus.labels.ids[column] for column in row.nonzero()[0]})
        for name, text, row in zip(train.ids, train.texts or (), rows, strict=True)
    }


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same(shape: str, ending: str, tmp_path: Path) -> None:
    columns, rows = SHAPES[shape]
    path = written(tmp_path / f"a{ending}", ["id", "text", *HEADERS.get(shape, ["labels"])], rows)
    assert found(path, columns=columns) == WANTED


def test_pairs_without_ids_are_joined_by_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ["text", "label"], [["one", "a"], ["two", "b"], ["one", "b"]])
    assert found(path, columns=Columns(shape="pairs")) == {"train-1": ("one", {"a", "b"}), "train-2": ("two", {"b"})}


def test_pairs_with_two_texts_are_faults(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ["id", "text", "label"], [["1", "one", "a"], ["1", "other", "b"]])
    with pytest.raises(DataError, match=r"a\.csv:3: document '1' has another text than on line 2"):
        load(path, columns=Columns(shape="pairs"))
    spaces = written(tmp_path / "b.csv", ["id", "text", "label"], [["1", "one  two", "a"], ["1", "one two ", "b"]])
    assert found(spaces, columns=Columns(shape="pairs")) == {"1": ("one  two", {"a", "b"})}
    kept = found(path, columns=Columns(shape="pairs"), remedies=Remedies(skip_bad_rows=str(tmp_path / "bad")))
    assert kept == {"1": ("one", {"a"})}


def test_one_hot_weights_and_words(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ["text", "p", "q"], [["one", "0.5", "1"], ["two", "0", "0"]])
    corpus = load(path, columns=Columns(labels="p,q"), valid_share=0)
    assert corpus.train.targets.toarray().tolist() == [[0.5, 1], [0, 0]]
    assert any("read as one-hot" in note for note in corpus.notes)
    wrong = written(tmp_path / "b.csv", ["text", "p", "q"], [["one", "maybe", "1"]])
    with pytest.raises(DataError, match="pass --label-shape columns"):
        load(wrong, columns=Columns(labels="p,q", shape="one-hot"))


def test_one_strange_cell_makes_no_label_of_the_marks(tmp_path: Path) -> None:
    rows = [[f"text {row}", "ja" if row % 2 else "nein", ""] for row in range(30)]
    corpus = load(written(tmp_path / "a.csv", ["text", "is_p", "is_q"], rows), columns=Columns(labels="is_*"))
    assert corpus.labels.ids == ("p", "q") and corpus.labels.counts.sum() == 15
    rows[4][2] = "maybe"
    with pytest.raises(DataError, match=r"b\.csv:6: label column 'q' has 'maybe'"):
        load(written(tmp_path / "b.csv", ["text", "is_p", "is_q"], rows), columns=Columns(labels="is_*"))
    rows = [[f"text {row}", "a" if row % 10 == 0 else "", ""] for row in range(30)]  # mostly empty, but no marks
    corpus = load(written(tmp_path / "c.csv", ["text", "t1", "t2"], rows), columns=Columns(labels="t*"))
    assert corpus.labels.ids == ("a",)


def test_excel_values_are_words(tmp_path: Path) -> None:
    path = written(tmp_path / "a.xlsx", ["id", "text", "labels"], [[7, "seven", 3], [8.0, 12, True], ["", "", ""]])
    assert found(path) == {"7": ("seven", {"3"}), "8": ("12", {"true"})}


def test_what_is_no_excel_file(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"text,labels\n")
    with pytest.raises(DataError, match="not a whole Excel file"):
        load(path)
    with pytest.raises(DataError, match="first row of the first sheet is empty"):
        load(written(tmp_path / "b.xlsx", [], []))


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ('"a|b"|c', ["a|b", "c"]),
        ('c | "a|b" ', ["c", "a|b"]),
        ('"say ""hi"""|b', ['say "hi"', "b"]),
        ('5" disk|b', ['5" disk', "b"]),
        ('"open|b', ['"open', "b"]),
        ('""|"x"', ["x"]),
    ],
)
def test_quotes_inside_a_cell(cell: str, labels: list[str]) -> None:
    assert split_quoted(cell, "|") == labels


def test_a_comma_in_quotes_is_no_separator(tmp_path: Path) -> None:
    """The note on a wrong separator names the one between the labels."""
    rows = [[f"text {row}", '"b, c";a' if row % 2 else "a;d"] for row in range(10)]
    corpus = load(written(tmp_path / "a.csv", ["text", "labels"], rows))
    assert "--label-separator ';'" in "\n".join(corpus.notes)


@pytest.mark.parametrize("separator", [",", " ", "  ", "\t"])
def test_spaces_around_quotes_are_read_once(separator: str) -> None:
    begin, spaces = time.process_time(), " " * 200_000
    assert split_quoted(f'"x"{spaces}y{separator}z', separator)[-1] == "z"
    assert split_quoted(f'{spaces}"x', separator) == ['"x']
    assert split_quoted(f'"x"{spaces}', separator) == ["x"]
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (Columns(labels="tag_*"), "no column looks like 'tag_\\*'"),
        (Columns(labels="text,labels", shape="pairs"), "has one label column"),
    ],
)
def test_what_does_not_fit(columns: Columns, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ["text", "labels"], [["one", "a"]])
    with pytest.raises(DataError, match=problem):
        load(path, columns=columns)
    with pytest.raises(DataError, match="did you mean"):
        Columns(shape="pair")


def test_lists_as_numpy_prints_them_and_the_first_line_of_excel(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("""sep=;\nid;text;labels\n1;one;['a' 'b c']\n2;two;"['a' ""d'e""\n 'f']"\n3;three;[4 05]\n""")
    corpus = load(path, valid_share=0)
    rows = [{corpus.labels.ids[label] for label in corpus.train.targets[[row]].indices} for row in range(3)]
    assert rows == [{"a", "b c"}, {"a", "d'e", "f"}, {"4", "05"}]
    path.write_text("sep=;\nid;text;labels\n1;one;a\n1;two;b\n")
    with pytest.raises(DataError, match=r"x\.csv:4: document id '1' is already at x\.csv:3"):
        load(path)
