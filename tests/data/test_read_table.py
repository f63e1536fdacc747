"""CSV, TSV and Parquet: columns, label cells, quoting, and what can be wrong."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longtail.data.read import Columns, load
from longtail.errors import DataError, MissingExtra

pyarrow = pytest.importorskip("pyarrow")


def table(path: Path, *lines: str) -> Path:
    raw = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def parquet(path: Path, **columns: Any) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    return path


def complaint(path: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(path, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(path)).removeprefix("/")


def read(path: Path, **settings: Any) -> tuple[dict[str, tuple[str, dict[str, float]]], tuple[str, ...]]:
    """Row id to text and weights of all rows read, and the notes that are not about holding out."""
    corpus = load(path, **settings)
    found: dict[str, tuple[str, dict[str, float]]] = {}
    for part in (corpus.train, corpus.valid, corpus.test):
        dense = part.targets.toarray()
        for row, name in enumerate(part.ids):
            weights = {corpus.labels.ids[c]: float(dense[row, c]) for c in dense[row].nonzero()[0]}
            found[name] = (part.texts or ())[row], weights
    return found, tuple(note for note in corpus.notes if "held out" not in note)


def test_a_csv_with_the_usual_names(tmp_path: Path) -> None:
    path = table(tmp_path / "books.csv", "id,text,labels", "1,hello,a|b", '2,"two, with comma",b', "3,x,", "4,y, c | ")
    rows, notes = read(path)
    assert rows == {
        "1": ("hello", {"a": 1, "b": 1}),
        "2": ("two, with comma", {"b": 1}),
        "3": ("x", {}),
        "4": ("y", {"c": 1}),
    }
    assert notes == ("the text is column 'text': pass --text-column to choose others",)
    corpus = load(path)
    assert corpus.name == "books"
    assert corpus.labels.texts == corpus.labels.ids == ("a", "b", "c")
    assert len(corpus.test) == 0
    assert len(load(path, test_share=0.5).test) > 0


def test_rows_without_ids_are_numbered(tmp_path: Path) -> None:
    rows, _ = read(table(tmp_path / "a.csv", "Title,Tags", "one,x", "two,y"))
    assert rows == {"train-1": ("one", {"x": 1}), "train-2": ("two", {"y": 1})}


def test_named_columns_are_joined(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", "key\thead\tbody\tsubjects", "k1\tA\tb c\tp;q", "k2\t\td\tp")
    columns = Columns(text="head, body", labels="subjects", id="key", separator=";")
    rows, notes = read(path, columns=columns)
    assert rows == {"k1": ("A b c", {"p": 1, "q": 1}), "k2": ("d", {"p": 1})}
    assert notes == ()
    assert load(path, columns=columns).text_field == "head+body"


def test_the_text_option_names_columns(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "id,title,text,labels", "1,T,body,x", "2,U,more,x")
    assert read(path, text="title+text")[0]["1"][0] == "T body"
    assert read(path, text="title")[0]["1"][0] == "T"
    assert read(path)[0]["1"][0] == "T body"  # as in a folder of JSON lines


def test_a_folder_of_tables(tmp_path: Path) -> None:
    table(tmp_path / "train.csv.gz", "text,labels", "one,a|b", "two,b")
    table(tmp_path / "valid.csv", "text,labels", "three,a")
    table(tmp_path / "test.tsv", "labels\ttext", "z\tfour")
    table(tmp_path / "labels.csv", "id,text", "a,Apple", "b,", "z,Zebra")
    corpus = load(tmp_path)
    assert corpus.train.ids == ("train-1", "train-2")
    assert (corpus.valid.ids, corpus.test.ids, corpus.test.texts) == (("valid-1",), ("test-1",), ("four",))
    assert corpus.labels.ids == ("a", "b", "z")
    assert corpus.labels.texts == ("Apple", "", "Zebra")
    assert corpus.labels.counts.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ('["a", "b|c"]', {"a": 1, "b|c": 1}),
        ('{"a": 0.5, "b": 1}', {"a": 0.5, "b": 1}),
        ("['a', 'b']", {"a": 1, "b": 1}),
        ("[1, 2]", {"1": 1, "2": 1}),
        ("[]", {}),
        ("a|a|b", {"a": 1, "b": 1}),
        ("[draft|b", {"[draft": 1, "b": 1}),
    ],
)
def test_label_cells(tmp_path: Path, cell: str, labels: dict[str, float]) -> None:
    quoted = '"' + cell.replace('"', '""') + '"'
    rows, _ = read(table(tmp_path / "a.csv", "id,text,labels", f"1,x,{quoted}", "2,y,b"))
    assert rows["1"][1] == labels


def test_quotes_line_ends_and_long_fields(tmp_path: Path) -> None:
    long = "w" * 300_000
    path = table(tmp_path / "a.csv", "id,text,labels", '1,"say ""hi""\nthen go",a', f"2,{long},b", "3,z,broken,fields")
    limit = csv.field_size_limit()
    assert complaint(path).startswith(":5: 4 fields where the header has 3")  # record 1 takes two lines
    assert csv.field_size_limit() == limit
    path = table(tmp_path / "a.csv", "id,text,labels", '1,"say ""hi""\nthen go",a', f"2,{long},b")
    rows, _ = read(path)
    assert rows["1"] == ('say "hi"\nthen go', {"a": 1})
    assert rows["2"][0] == long


def test_windows_line_ends_and_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfid;text;labels\r\n1;x;a\r\n\r\n2;y;b|a\r\n")
    assert read(path)[0] == {"1": ("x", {"a": 1}), "2": ("y", {"a": 1, "b": 1})}


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("id\ttext\tlabels", "1\tx, y; z\ta"),
        ("id|text|labels", "1|x, y; z|a"),
        ('id;"Titel, Untertitel, Band";text;labels', '1;t;"x, y; z";a'),
        ("id;Titel, Band;text;labels", '1;t;"x, y; z";a'),
    ],
)
def test_what_parts_the_columns_is_read_off_the_header(tmp_path: Path, header: str, row: str) -> None:
    path = table(tmp_path / "a.csv", header, row)
    assert read(path)[0] == {"1": ("x, y; z", {"a": 1})}


def test_a_column_name_may_hold_a_comma(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", '"Titel, Band";labels;id', "x;a;1", "y;b;2")
    assert read(path, columns=Columns(text="Titel, Band"))[0]["2"] == ("y", {"b": 1})


def test_bare_carriage_returns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text,labels\r1,x,a\r2,y,b\r")
    told = ":1: a bare carriage return in a field without quotes; pass --encoding auto, or end lines with line feeds"
    assert complaint(path).startswith(told)


@pytest.mark.parametrize(("other", "says"), [(";", "2 of 3 have ';'"), (",", "2 of 3 have ','")])
def test_a_separator_that_parts_nothing_is_noticed(tmp_path: Path, other: str, says: str) -> None:
    path = table(tmp_path / "a.tsv", "id\ttext\tlabels", f"1\tx\ta{other}b", f"2\ty\tb{other}c", "3\tz\tc")
    note = read(path)[1][-1]
    assert note.startswith(f"no cell of labels has '|' in it, but {says}")
    assert f"--label-separator {other!r}" in note
    rows, notes = read(path, columns=Columns(separator=other))
    assert rows["1"][1] == {"a": 1, "b": 1}
    assert len(notes) == 1


def test_parquet_columns_are_taken_as_they_are(tmp_path: Path) -> None:
    kinds = {
        "list": ([["a", "b"], [], None, ["b"]], [{"a": 1, "b": 1}, {}, {}, {"b": 1}]),
        "words": (["a|b", "", None, "b"], [{"a": 1, "b": 1}, {}, {}, {"b": 1}]),
        "numbers": ([[1, 2], [], [3], [1]], [{"1": 1, "2": 1}, {}, {"3": 1}, {"1": 1}]),
        "one": ([1, 2, None, 1], [{"1": 1}, {"2": 1}, {}, {"1": 1}]),
    }
    for kind, (cells, expected) in kinds.items():
        path = parquet(tmp_path / f"{kind}.parquet", id=[1, 2, 3, 4], text=["w", "x", None, "z"], labels=cells)
        rows, _ = read(path)
        assert rows == {str(n): (t, e) for n, t, e in zip(range(1, 5), ("w", "x", "", "z"), expected, strict=True)}


def test_parquet_weights(tmp_path: Path) -> None:
    weights = pyarrow.array([[("a", 0.5), ("b", 1.0)], []], type=pyarrow.map_(pyarrow.string(), pyarrow.float32()))
    path = parquet(tmp_path / "map.parquet", text=["x", "y"], labels=weights)
    assert read(path)[0]["train-1"][1] == {"a": 0.5, "b": 1}
    path = parquet(tmp_path / "struct.parquet", text=["x", "y"], labels=[{"a": 0.5, "b": None}, {"a": None, "b": 1.0}])
    assert read(path)[0] == {"train-1": ("x", {"a": 0.5}), "train-2": ("y", {"b": 1})}
    path = parquet(tmp_path / "wrong.parquet", text=["x", "y", "z"], labels=[{"a": 0.5}, {"a": 1.0}, {"a": 7.0}])
    told = ":3: weight 7.0 of label 'a' does not lie in (0, 1]; rescale it"
    assert complaint(path) == f"{told}; or leave such rows out: --skip-bad-rows FILE"


def test_a_folder_of_parquet_with_labels(tmp_path: Path) -> None:
    parquet(tmp_path / "train.parquet", text=["x", "y"], labels=[["a"], ["b"]])
    parquet(tmp_path / "labels.parquet", id=["a", "b"], text=["Apple", None])
    assert load(tmp_path).labels.texts == ("Apple", "")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b", "1,2"], ": no text column: looked for text, title,"),
        (["text,b", "1,2"], ": no labels column: looked for labels, label, subjects, tags, categories; found text, b;"),
        (["text,text,labels", "1,2,3"], ": column 'text' occurs twice in the header"),
        (["id,text,labels", "1,x,a", "1,y,b"], ":3: document id '1' is already at a.csv:2"),
        (["id,text,labels", "1,x,a", ",y,b"], ":3: the id is ''; give each document its own id"),
        (["text,labels", '"never closed,a'], ":2: not a CSV record"),
        (["text,labels", 'x,"a"b'], ":2: not a CSV record"),
        (["text,labels", "x,[sic]"], ":2: labels in brackets must be a JSON list or object, got '[sic]'"),
        (["text,labels", 'x,"{""a"": 1.5}"'], ":2: weight 1.5 of label 'a' does not lie in (0, 1]"),
        (["text,labels", 'x,"[null]"'], ":2: label None is not a label id"),
        (["text,labels"], ": the train split has no examples"),
        ([], ": the file is empty; its first line must name the columns"),
    ],
)
def test_wrong_tables(tmp_path: Path, lines: list[str], message: str) -> None:
    path = table(tmp_path / "a.csv", *lines)
    assert message in complaint(path)


def test_wrong_column_options(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "id,text,labels", "1,x,a")
    error = complaint(path, columns=Columns(text="txt"))
    assert error == ": no column 'txt'; did you mean 'text'? the columns are id, text, labels"
    assert "no column 'subject'; the columns are" in complaint(path, columns=Columns(labels="subject"))
    assert "no column 'key'; the columns" in complaint(path, columns=Columns(id="key"))
    with pytest.raises(DataError, match="the label separator is empty"):
        Columns(separator="")


def test_splits_need_the_same_columns(tmp_path: Path) -> None:
    table(tmp_path / "train.csv", "text,labels", "x,a")
    table(tmp_path / "test.csv", "text,tags", "x,a")
    assert "test.csv: no column 'labels'; the columns are text, tags" in complaint(tmp_path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["text", "a"], "labels.csv: no id column: looked for id, label, uid; found text"),
        (["id,text", "a,x", "a,y"], "labels.csv:3: label id 'a' is already on line 2"),
        (["id,text", ",x"], "labels.csv:2: label id '' is not a non-empty string"),
        (["id,text", "apple,x"], "train.csv:2: unknown label id 'aple'; did you mean 'apple'?"),
    ],
)
def test_wrong_label_tables(tmp_path: Path, rows: list[str], message: str) -> None:
    table(tmp_path / "train.csv", "text,labels", "x,aple")
    table(tmp_path / "labels.csv", *rows)
    assert message in complaint(tmp_path)


def test_broken_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"this is no parquet file at all")
    assert complaint(path).startswith(": not a whole Parquet file")
    whole = parquet(tmp_path / "b.parquet", text=["x"] * 50, labels=[["a"]] * 50).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert complaint(path).startswith(": not a whole Parquet file")
    path.write_bytes(b"")
    assert complaint(path).startswith(": not a whole Parquet file")


def test_invalid_utf8_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,labels\nx,a\ncaf\xe9,b\n")
    assert complaint(path).startswith(":3: byte 0xe9 is not UTF-8")


def test_without_pyarrow_the_error_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path / "a.parquet", text=["x"], labels=[["a"]])
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"reading Parquet files needs pyarrow.*pip install 'longtail\[data\]'"):
        load(path)


def test_reading_csv_imports_nothing_heavy(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "text,labels", "x,a", "y,b")
    code = f"""
import sys
from longtail.data.read import load
load({str(path)!r})
heavy = {{"pyarrow", "pandas", "numba", "torch"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_quotes_in_a_tsv_are_letters(tmp_path: Path) -> None:
    path = table(
        tmp_path / "a.tsv", "id\ttext\tlabels", '1\t"quoted" start\tx', '2\tan "open quote\tx', '3\t"all ""of"" it"\tx'
    )
    rows = read(path)[0]
    assert [rows[name][0] for name in "123"] == ['"quoted" start', 'an "open quote', 'all "of" it']
