"""Raw files of builders and workbooks that somebody made to hang, starve or crash what reads them."""

from __future__ import annotations

import bz2
import io
import json
import os
import re
import time
import zipfile
from pathlib import Path

import pytest

from longtail.data.builders.click_titles import MAX_HEAD
from longtail.data.builders.clicks import ClickSettings, build_clicks
from longtail.data.builders.judgements import read_judgements
from longtail.data.builders.manpages import _plain, _sections, read_manpage
from longtail.data.builders.passages import build_passages, find_files
from longtail.data.builders.seealso import SeeAlsoSettings, build_seealso
from longtail.data.builders.wiki_dump import DumpPiece, DumpReader, dump_pieces
from longtail.data.builders.wikitext import heading, is_disambiguation, links_of, plain, without_section
from longtail.data.labels import Propensity
from longtail.data.read import load
from longtail.data.skos import read_skos
from longtail.errors import DataError, WillNotFit

SECONDS = 2.0  # of the processor: texts of these sizes took from 2 seconds to hours
OPENINGS = (
    "<ref ",
    "<ref>",
    "<math>",
    "{|\n",
    "\n{|",
    "[http://",
    "[//",
    " ",
    "\n",
    "\t",
    "{{ ",
    "{{a ",
    "=",
    "= ",
    "'",
)


@pytest.mark.parametrize("opening", OPENINGS)
def test_markup_that_never_closes_is_read_once(opening: str) -> None:
    begin = time.process_time()
    plain(opening * (40_000 // len(opening)), 100)
    whole = "{{" + opening * (200_000 // len(opening))
    is_disambiguation("x", whole)
    links_of("* " + whole)
    without_section(whole, heading("See also"))
    assert time.process_time() - begin < SECONDS


def test_comments_behind_a_heading_are_read_in_one_way() -> None:
    begin, line = time.process_time(), "== See also == " + "<!-- a --> " * 5000
    assert without_section(f"a\n{line}\n* b", heading("See also")) == ("a\n", "\n* b")
    assert without_section(f"a\n{line}x\n* b", heading("See also"))[1] == ""  # took 2^n
    assert time.process_time() - begin < SECONDS


@pytest.mark.parametrize("tag", ["<title>", "<ns>", "<text", "<text ", "<text>", '<redirect title="'])
def test_tags_that_never_close_are_read_once(tag: str) -> None:
    begin = time.process_time()
    page = f"<page><title>A</title><ns>0</ns>{tag * 200_000}</page>".encode()
    found = DumpReader(1, 10, 0, "See also").pages(page, Path("d.xml"))
    assert found.counts["lines"] == 1
    assert time.process_time() - begin < SECONDS


@pytest.mark.parametrize("letters", ["a", "[", "\\f[", "\\[", "\\m[", '"', "a."])
def test_words_of_a_manual_that_never_end_are_read_once(letters: str, tmp_path: Path) -> None:
    path = tmp_path / "p.1"
    path.write_text(".SH NAME\np\n.SH SEE ALSO\n" + letters * (1_000_000 // len(letters)))
    begin = time.process_time()
    list(read_manpage(path, 10))
    _plain(letters * 100_000)
    list(_sections(".SH " + letters * 100_000))
    assert time.process_time() - begin < SECONDS


def test_a_manual_that_stands_for_another_behind_many_spaces(tmp_path: Path) -> None:
    begin = time.process_time()
    for ending in ("a b", "man1/a.1"):
        (tmp_path / "p.1").write_text(".so" + " " * 200_000 + ending)
        assert len(list(read_manpage(tmp_path / "p.1", 10))) == 1
    assert time.process_time() - begin < SECONDS


def test_a_pipe_or_a_device_among_manual_pages_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "man1").mkdir()
    os.mkfifo(tmp_path / "man1" / "a.1")
    (tmp_path / "man1" / "b.1").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="a named pipe, and a file is expected"):
        build_seealso(tmp_path, tmp_path / "out", SeeAlsoSettings(), manpages=True, propensity=Propensity())


def test_many_streams_without_content_take_no_time(tmp_path: Path) -> None:
    xml = b"<mediawiki><page></page></mediawiki>"
    path = tmp_path / "d.xml.bz2"
    path.write_bytes(bz2.compress(b"") * 300_000 + bz2.compress(xml[:20]) + bz2.compress(xml[20:]))
    begin = time.process_time()
    assert b"".join(piece.xml() for piece in dump_pieces(path)) == xml
    assert time.process_time() - begin < 5 * SECONDS
    with pytest.raises(DataError, match="in the middle of a stream"):
        DumpPiece(path, 0, bz2.compress(xml)[:-3], True).xml()


def test_counts_and_places_have_so_many_digits(tmp_path: Path) -> None:
    log, titles, lookup = (tmp_path / name for name in ("log.tsv", "titles.tsv", "lookup.tsv"))

    def build(lookup_from: Path | None = None) -> None:
        given = {"titles": titles, "lookup": lookup_from} if lookup_from else {}
        build_clicks(log, tmp_path / "out", ClickSettings(least=1), propensity=Propensity(), accepted=True, **given)

    log.write_text("red\ta\t" + "1" * 5000 + "\n")
    with pytest.raises(DataError, match="clicks are '1111") as refused:
        build()
    assert len(str(refused.value)) < 300
    log.write_text("red\ta\t1\n")
    titles.write_text("x" * (MAX_HEAD + 10_000_000))
    for offset, message in (
        ("²", "the offset is"),
        ("1" * 30, "the offset is"),
        ("1" * 18, "no document"),
        ("0", "no"),
    ):
        lookup.write_text(f"a\t9\t{offset}\n")
        with pytest.raises(DataError, match=message):
            build(lookup)


@pytest.mark.parametrize("relevance", ["inf", "nan", "1e999", "1" * 5000])
def test_a_relevance_is_a_finite_number(relevance: str, tmp_path: Path) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(f"1\t0\t2\t{relevance}\n")
    with pytest.raises(DataError, match=r"qrels.tsv:1: the relevance is .* not a number"):
        read_judgements(path)


DEEP = "[" * 900 + "]" * 900
TOO_DEEP = "[" * 100_000


@pytest.mark.parametrize("value", [DEEP, TOO_DEEP, '"\\ud800"', "{}", "null", "true", '""'])
@pytest.mark.parametrize(
    ("file", "field"), [("corpus", "_id"), ("corpus", "text"), ("queries", "_id"), ("queries", "text")]
)
def test_json_of_a_collection(file: str, field: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    for name, number in (("train", 0), ("test", 1)):
        (tmp_path / "qrels" / f"{name}.tsv").write_text(f"q{number}\tp{number}\t1\n")
    for name, letter in (("corpus", "p"), ("queries", "q")):
        lines = [json.dumps({"_id": f"{letter}{number}", "text": "a"}) for number in range(2)]
        wrong = {"_id": '"r"', "text": '"b"'} | {field: value}
        bad = "{" + ", ".join(f'"{key}": {one}' for key, one in wrong.items()) + "}"
        (tmp_path / f"{name}.jsonl").write_text("\n".join([*lines, *[bad] * (name == file)]) + "\n")
    try:
        build_passages(find_files(tmp_path), tmp_path / "out", propensity=Propensity())
    except DataError as error:
        assert f"{file}.jsonl:3: " in str(error)
        return
    assert value == '"\\ud800"' or (field == "text" and value in ("null", "{}", '""'))
    assert load(tmp_path / "out").labels.ids[:2] == ("p0", "p1")


def workbook(path: Path, pattern: str, instead: str) -> Path:
    """A sheet of a few cells, and what stands in its XML changed."""
    from openpyxl import Workbook

    book, raw = Workbook(), io.BytesIO()
    for row in (["id", "text", "labels"], ["1", "a", "x"], ["2", "b", "x"]):
        book.active.append(row)
    book.save(raw)
    with zipfile.ZipFile(raw) as archive, zipfile.ZipFile(path, "w") as other:
        for name in archive.namelist():
            content = archive.read(name).decode()
            other.writestr(name, re.sub(pattern, instead, content, count=1) if "sheet1" in name else content)
    return path


def test_a_cell_at_the_end_of_the_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openpyxl")
    monkeypatch.setattr("longtail.data.excel.EXCEL_ROWS", 1000)
    for row in ("99999999999999", "1e300"):
        with pytest.raises(DataError, match="has more than 1,000 rows"):
            load(workbook(tmp_path / "a.xlsx", '<dimension[^>]*>(.*)<row r="3"', rf'\1<row r="{row}"'))
    corpus = load(workbook(tmp_path / "b.xlsx", 'r="C2"', 'r="XFD2"'))  # beyond the named columns: nobody reads it
    assert corpus.labels.ids == ("x",)
    wide = load(workbook(tmp_path / "c.xlsx", 'ref="A1:C3"', 'ref="A1:XFD1048576"'))
    assert len(wide.train) + len(wide.valid) == 2


def test_a_vocabulary_that_would_fill_the_memory_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdflib")
    path = tmp_path / "large.nt"
    path.write_text('<http://x/a> <http://x/b> "c" .\n' * 60_000)
    monkeypatch.setattr("longtail.data.opening.available_bytes", lambda: 50_000_000)
    with pytest.raises(WillNotFit, match="the vocabulary needs about"):
        read_skos(path)
