"""Faults of data files: all found in one reading, each with its remedy, and nothing left out in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longtail.data.mended_labels import folded, likely_no_labels, twins
from longtail.data.mending import Remedies, mending
from longtail.data.read import load
from longtail.errors import DataError

CLEAN = [f'{row},"about thing {row % 7}, number {row}",Games|kind{row % 3}' for row in range(60)]
ALL = {"encoding": "auto", "drop_duplicates": True, "fold_labels": True, "ignore_labels": ("N/A",)}


def messy(path: Path) -> Path:
    rows = [b"id,title,labels", *(row.encode() for row in CLEAN)]
    rows[10] = "9,café,GAMES".encode("cp1252")
    rows[20] = b"19,too,many,fields"
    rows[30] = b'29,"an open quote,Games'
    rows[40] = rows[39]
    rows[50] = "49,na\u00efve,N/A|games ".encode()
    rows[55] = rows[54].replace(b"about", b"around")
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(rows) + b"\r\n")
    return path


def test_one_reading_finds_every_fault_with_its_place(tmp_path: Path) -> None:
    with mending(Remedies(), collect=True) as mender:
        corpus = load(messy(tmp_path / "games.csv"), valid_share=0)
    assert mender is not None
    found = {fault.kind: (fault.count, fault.places, fault.remedy) for fault in mender.faults.values()}
    assert found == {
        "lines that are not UTF-8, read as Windows-1252": (1, ["games.csv:11"], "--encoding"),
        "rows with too many or too few fields": (1, ["games.csv:21"], "--skip-bad-rows"),
        "lines with broken quotes": (1, ["games.csv:31"], "--skip-bad-rows"),
        "rows that repeat an earlier one, id and all": (1, ["games.csv:41"], "--drop-duplicates"),
        "rows with the id of another row": (1, ["games.csv:56"], "--skip-bad-rows"),
    }
    assert len(corpus.train) == 60 - 4
    assert not any(fault.mended for fault in mender.faults.values())


def test_the_remedies_go_through_and_everything_is_told(tmp_path: Path) -> None:
    side = tmp_path / "bad.jsonl"
    path = messy(tmp_path / "games.csv")
    corpus = load(path, valid_share=0, remedies=Remedies(skip_bad_rows=str(side), **ALL))
    assert corpus.labels.ids == ("Games", "kind0", "kind1", "kind2")
    texts = dict(zip(corpus.train.ids, corpus.train.texts or (), strict=True))
    assert texts["9"] == "café" and texts["49"] == "naïve"
    bad = [json.loads(line) for line in side.read_text().splitlines()]
    assert [row["line"] for row in bad] == [21, 31, 56]
    assert bad[0]["row"].startswith("19,too,many,fields")
    said = "\n".join(corpus.notes)
    for words in ("games.csv:11", "games.csv:21", "games.csv:31", "games.csv:41", "'GAMES'", "'N/A'"):
        assert words in said
    given, left = 60, len(corpus.train)
    assert given - left == len(bad) + 1  # and one duplicate


def test_a_header_in_the_middle_is_no_document(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text("id,text,labels\n1,one,a\nid,text,labels\n2,two,b\n")
    with pytest.raises(DataError, match=r"two\.csv:3: has the header again; .*--skip-bad-rows"):
        load(path)
    corpus = load(path, valid_share=0, remedies=Remedies(skip_bad_rows=str(tmp_path / "bad.jsonl")))
    assert corpus.train.ids == ("1", "2") and corpus.labels.ids == ("a", "b")


@pytest.mark.parametrize(
    ("remedies", "place"),
    [
        (Remedies(), r"games\.csv:11: byte 0xe9"),
        (Remedies(encoding="auto"), r"games\.csv:21: 4 fields"),
        (Remedies(encoding="ascii"), "is not ascii"),
    ],
)
def test_without_its_remedy_a_fault_stays_an_error(tmp_path: Path, remedies: Remedies, place: str) -> None:
    with pytest.raises(DataError, match=place):
        load(messy(tmp_path / "games.csv"), remedies=remedies)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1251", "latin-1", "utf-8-sig"])
def test_a_named_encoding_reads_as_the_same_data_in_utf8(tmp_path: Path, encoding: str) -> None:
    word = "Привет" if encoding == "cp1251" else "déjà"
    text = "id,text,labels\n" + "".join(f"{row},{word} {row},a|b\n" for row in range(50))
    (tmp_path / "plain.csv").write_text(text, encoding="utf-8")
    (tmp_path / "other.csv").write_bytes(text.encode(encoding))
    plain = load(tmp_path / "plain.csv")
    other = load(tmp_path / "other.csv", remedies=Remedies(encoding=encoding))
    assert plain.train.texts == other.train.texts and plain.labels == other.labels
    if encoding == "utf-16":
        found = load(tmp_path / "other.csv", remedies=Remedies(encoding="auto"))
        assert found.train.texts == plain.train.texts
        assert any("UTF-16" in note for note in found.notes)


def test_broken_json_lines_and_rows_are_left_out(tmp_path: Path) -> None:
    rows = ['{"id": "a", "text": "one", "labels": ["x"]}', "{broken", '{"id": "b", "labels": ["x"]}', "[1]"]
    rows.append('{"id": "c", "text": "two", "labels": {"x": 7}}')
    rows.append('{"id": "d", "text": "three", "labels": ["x"]}')
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    side = tmp_path / "bad.jsonl"
    corpus = load(tmp_path / "rows.jsonl", valid_share=0, remedies=Remedies(skip_bad_rows=str(side)))
    assert corpus.train.ids == ("a", "d")
    assert [json.loads(line)["line"] for line in side.read_text().splitlines()] == [2, 3, 4, 5]


def test_an_open_quote_costs_one_line(tmp_path: Path) -> None:
    lines = ["id,text,labels", *(f"{row},plain {row},a" for row in range(3000))]
    lines[5] = '4,"open,a'
    (tmp_path / "t.csv").write_text("\n".join(lines))
    corpus = load(tmp_path / "t.csv", valid_share=0, remedies=Remedies(skip_bad_rows=str(tmp_path / "bad")))
    assert len(corpus.train) == 2999


def test_rare_labels_and_duplicates(tmp_path: Path) -> None:
    lines = ["text,labels", "one,a|b", "one,a|b", "one,a", "two,a|c", "three,c|rare", "four,only"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    corpus = load(tmp_path / "t.csv", valid_share=0, remedies=Remedies(drop_duplicates=True, min_count=2))
    assert corpus.labels.ids == ("a", "c")
    assert corpus.train.texts == ("one", "one", "two", "three", "four")
    assert corpus.train.targets.toarray().tolist() == [[1, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    assert any("fewer than 2" in note and "1 row has no label left" in note for note in corpus.notes)


def test_folding_joins_what_people_mean(tmp_path: Path) -> None:
    assert folded(" Cafe\u0301  Noir") == folded("CAFÉ noir") and folded("don’t") == folded("Don't")
    assert folded("Straße") == folded("STRASSE") and folded("a") != folded("b")
    assert twins(["A", "b", "a", "B ", "c"]) == [[0, 2], [1, 3]]
    (tmp_path / "t.csv").write_text("text,labels\none,a|A\ntwo,A\nthree,b\n")
    corpus = load(tmp_path / "t.csv", valid_share=0, remedies=Remedies(fold_labels=True))
    assert corpus.labels.ids == ("A", "b")  # the commonest spelling
    assert corpus.train.targets.toarray().tolist() == [[1, 0], [1, 0], [0, 1]]
    assert likely_no_labels(corpus.labels) == []


def test_wrong_remedies_are_refused() -> None:
    with pytest.raises(DataError, match="no encoding 'klingon'"):
        Remedies(encoding="klingon")
    with pytest.raises(DataError, match="at least 1, got 0"):
        Remedies(min_count=0)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_found_without_a_mark_too(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "wide.csv"
    path.write_bytes(
        ("id,text,labels\n" + "".join(f"{row},d\u00e9j\u00e0 {row},a|b\n" for row in range(50))).encode(encoding)
    )
    with pytest.raises(DataError, match="not UTF-8; pass --encoding auto"):
        load(path)
    corpus = load(path, valid_share=0, remedies=Remedies(encoding="auto"))
    assert corpus.train.texts is not None and corpus.train.texts[49] == "d\u00e9j\u00e0 49"
    assert f"files in {encoding[:6].upper()}" in "\n".join(corpus.notes)


@pytest.mark.parametrize("ends", ["\r", "\r|\n|\r\n"])
def test_returns_end_lines_where_that_is_asked_for(tmp_path: Path, ends: str) -> None:
    marks = ends.split("|")
    rows = ["id,text,labels", *(f'{row},"about ""{row}"", or so",a|b' for row in range(30)), '30,"two\rlines",a']
    path = tmp_path / "mac.csv"
    path.write_bytes("".join(row + marks[place % len(marks)] for place, row in enumerate(rows)).encode())
    with pytest.raises(DataError, match="--encoding auto, or end lines"):
        load(path)
    corpus = load(path, valid_share=0, remedies=Remedies(encoding="auto"))
    assert corpus.train.texts is not None and len(corpus.train) == 31
    assert corpus.train.texts[7] == 'about "7", or so' and corpus.train.texts[30] == "two\rlines"
    with mending(Remedies(), collect=True) as mender:
        load(path, valid_share=0)
    assert mender is not None
    assert [(fault.remedy, fault.count) for fault in mender.faults.values()] == [
        ("--encoding", 31 if ends == "\r" else 11)
    ]
    path.write_bytes(b'id,text,labels\n1,"two\rlines",a\n')  # inside of quotes it is no fault
    with mending(Remedies(), collect=True) as mender:
        load(path, valid_share=0)
    assert mender is not None and not mender.faults


def test_a_document_with_a_row_for_each_label_is_not_thrown_away(tmp_path: Path) -> None:
    """Left out as rows with the id of another, all of its labels but the first would be lost."""
    path = tmp_path / "pairs.csv"
    path.write_text("id,text,label\n" + "".join(f"{row // 2},text {row // 2},l{row % 7}\n" for row in range(40)))
    with mending(Remedies(), collect=True) as mender:
        load(path, valid_share=0)
    assert mender is not None
    (fault,) = mender.faults.values()
    assert (fault.count, fault.remedy) == (20, "--label-shape")
    side = str(tmp_path / "bad.jsonl")
    with pytest.raises(DataError, match="--label-shape pairs"):
        load(path, valid_share=0, remedies=Remedies(skip_bad_rows=side))
    path.write_text("text,label\n" + "".join(f"text {row // 2},l{row % 7}\n" for row in range(40)))
    notes = "\n".join(load(path, valid_share=0).notes)
    assert "20 of 40 rows have the text of an earlier row and another label" in notes and "--label-shape pairs" in notes
    path.write_text("text,label\n" + "".join(f"text {row},l{row % 7}\n" for row in range(40)))
    assert "--label-shape pairs" not in "\n".join(load(path, valid_share=0).notes)
