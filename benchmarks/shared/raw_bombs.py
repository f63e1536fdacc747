"""Bombs among what is not a data set yet: workbooks, manual pages, dumps of wikis, saved predictions."""

from __future__ import annotations

import bz2
import io
import os
import re
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np


def _workbook(folder: Path, pattern: bytes, instead: bytes) -> None:
    """A workbook of two cells, with something else in its sheet."""
    from openpyxl import Workbook

    book, raw = Workbook(), io.BytesIO()
    book.active.append(["id", "text", "labels"])
    book.active.append(["1", "a", "x"])
    book.save(raw)
    with zipfile.ZipFile(raw) as archive, zipfile.ZipFile(folder / "train.xlsx", "w", zipfile.ZIP_DEFLATED) as other:
        for name in archive.namelist():
            content = archive.read(name)
            other.writestr(name, re.sub(pattern, instead, content) if "sheet1" in name else content)


def far_cell(folder: Path) -> None:
    """A cell in column 309 million."""
    _workbook(folder, rb'r="B2"', b'r="ZZZZZZ2"')


def far_row(folder: Path) -> None:
    _workbook(folder, rb'<row r="2"', b'<row r="99999999999999"')


def far_row_without_a_size(folder: Path) -> None:
    _workbook(folder, rb'<dimension[^>]*>|(<row r=)"2"', rb'\1"99999999999999"')


def large_sheet(folder: Path) -> None:
    """A sheet that says it is as large as any may be."""
    _workbook(folder, rb'ref="A1:C2"', b'ref="A1:XFD1048576"')


def entities_of_a_sheet(folder: Path) -> None:
    names = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]
    lines = [b'<!ENTITY a "%s">' % (b"x" * 1000)]
    lines += [b'<!ENTITY %s "%s">' % (name, b"&%s;" % before * 20) for before, name in pairwise(names)]
    _workbook(folder, rb"^", b"<!DOCTYPE x [" + b"".join(lines) + b"]>")


def _page(folder: Path, text: bytes) -> None:
    (folder / "man1").mkdir()
    (folder / "man1" / "p.1").write_bytes(b".SH NAME\np\n.SH SEE ALSO\n" + text)


def word_of_a_manual(folder: Path) -> None:
    """One word of 10 MB, which could be the name of a page from each of its letters."""
    _page(folder, b"a" * 10_000_000)


def marks_of_a_manual(folder: Path) -> None:
    _page(folder, b"\\f[\\[\\m[" * 1_000_000)


def pipe_among_manuals(folder: Path) -> None:
    _page(folder, b"")
    os.mkfifo(folder / "man1" / "q.1")
    (folder / "man1" / "r.1").symlink_to("/dev/zero")


def _dump(folder: Path, page: bytes) -> None:
    begin = b"<mediawiki>\n<page><title>A</title><ns>0</ns><text>== See also ==\n* [[B]]\n"
    (folder / "d.xml").write_bytes(begin + page + b"</text></page></mediawiki>\n")


def markup_without_end(folder: Path) -> None:
    """What opens and is never closed, in many pages."""
    openings = [b"&lt;ref ", b"&lt;math&gt;", b"{|\n", b"[http://", b" ", b"\n", b"{{ ", b"="]
    between = b"</text></page><page><title>%d</title><ns>0</ns><text>== See also ==\n* [[A]]\n== C ==\n"
    _dump(folder, b"".join(between % n + one * (40_000 // len(one)) for n, one in enumerate(openings * 8)))


def tags_without_end(folder: Path) -> None:
    for_each = [b"<title>", b"<text", b"<text>", b'<redirect title="', b"<ns>"]
    _dump(folder, b"</text></page><page>" + b"".join(one * 100_000 for one in for_each))


def spaces_of_a_template(folder: Path) -> None:
    _dump(folder, b"{{" + b" " * 5_000_000 + b"{{" + b"a" * 5_000_000)


def streams_without_content(folder: Path) -> None:
    (folder / "d.xml.bz2").write_bytes(bz2.compress(b"") * 700_000)


def streams_of_zeros(folder: Path) -> None:
    (folder / "d.xml.bz2").write_bytes(bz2.compress(bytes(50_000_000)) * 40)


def words_that_overlap(folder: Path) -> None:
    """Saved predictions whose labels lie over one another: 1 MB a hundred thousand times."""
    ends = np.tile(np.array([1_000_000, 0]), 50_000)
    table = np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32)
    facts = {"counts": np.zeros(0, np.int64), "train_rows": 0, "propensity": [0.5, 0.4], "format": 1}
    words = {name: np.zeros(1_000_000, np.uint8) for name in ("ids", "texts")}
    np.savez(folder / "found.npz", indices=table[0], scores=table[1], id_ends=ends, text_ends=ends, **words, **facts)  # type: ignore[arg-type]


def predictions_of_zeros(folder: Path) -> None:
    np.savez_compressed(folder / "found.npz", indices=np.zeros((1, 1_000_000_000), np.uint8))


RAW_BOMBS = (
    far_cell, far_row, far_row_without_a_size, large_sheet, entities_of_a_sheet,
    word_of_a_manual, marks_of_a_manual, pipe_among_manuals, markup_without_end, tags_without_end,
    spaces_of_a_template, streams_without_content, streams_of_zeros, words_that_overlap, predictions_of_zeros,
)  # fmt: skip


def read_raw(folder: Path) -> bool:
    """Reads a bomb, where it is of one of these kinds; returns whether it is."""
    if (folder / "found.npz").exists():
        from longtail.predictions import Predictions

        Predictions.load(folder / "found.npz")
    elif (folder / "man1").exists():
        _build(folder, folder.parent, manpages=True)
    elif dumps := [*folder.glob("d.xml*")]:
        _build(dumps[0], folder.parent, manpages=False)
    else:
        return False
    return True


def _build(source: Path, place: Path, manpages: bool) -> None:
    from longtail.data.builders.seealso import SeeAlsoSettings, build_seealso
    from longtail.data.labels import Propensity

    with tempfile.TemporaryDirectory(dir=place) as out:
        settings = SeeAlsoSettings()
        build_seealso(source, Path(out) / "b", settings, manpages=manpages, propensity=Propensity(), processes=1)
