"""Titles of clicked documents, from a file of documents that is much larger than the log."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from longtail.data.builders.buckets import FilePiece, Found, by_bucket, distribute, each_line, is_utf8, pieces_of
from longtail.data.builders.keys import keys_of, open_table
from longtail.data.builders.work import remember
from longtail.data.files import lines, shown
from longtail.data.limits import MAX_COUNT
from longtail.data.opening import file_size, open_file
from longtail.data.worker_pool import Workers
from longtail.errors import DataError
from longtail.progress import stage

HEAD = 4096  # bytes read at an offset: id, URL and title; more only where they are longer
MAX_HEAD = 1 << 16
NOT_WORDS = re.compile(r"[\W_]+")
NO_MEANING = {"www", "com", "org", "net", "html", "htm", "php", "asp", "aspx", "index", "http", "https"}


def find_titles(
    work: Path, titles: Path | None, lookup: Path | None, offsets: list[int], workers: Workers, folder: Path
) -> None:
    """Writes `titles-000` ...: numbers and titles of the documents of each bucket.

    Args:
        work: the folder of the build, with its table of documents.
        titles: tab-separated: id and title, or id, URL, title and body; None: there are none.
        lookup: id, another offset and the offset in `titles` of each document; None reads all of `titles`.
        offsets: the number of the first document of each bucket.
        workers: processes that work at once.
        folder: to write into.
    """
    notes: list[str] = []
    if titles is not None:
        if lookup is None:
            found = distribute(pieces_of([titles]), partial(_read_titles, work, offsets), folder, workers)
            notes = found.check(found.counts["lines"])
            titled = found.counts["titles"]
        else:
            titled = _at_offsets(work, titles, lookup, offsets, folder)
        notes.append(f"{titled:,} of {offsets[-1]:,} documents have a title; the text of others is that of their URL")
    remember(folder, "notes", notes)


def _read_titles(work: Path, offsets: list[int], piece: FilePiece) -> Found:
    found = Found()
    read = list(each_line(piece))
    ids = keys_of([line[: line.find(b"\t")] if b"\t" in line else line for _, line in read])
    numbers = open_table(work / "document-table", "table").numbers(ids).tolist()
    written = []
    for (place, line), number in zip(read, numbers, strict=True):
        found.counts["lines"] += 1
        fields = line.split(b"\t", 3)
        if len(fields) not in (2, 4):
            found.damaged(piece, place, f"{len(fields)} columns instead of 2 or 4")
        elif number < 0 or not (title := b" ".join(fields[1 if len(fields) == 2 else 2].split())):
            continue
        elif not is_utf8(title):
            found.damaged(piece, place, "the title is not UTF-8")
        else:
            written.append((bisect_right(offsets, number) - 1, b"%d\t%s" % (number, title)))
            found.counts["titles"] += 1
    found.outputs = by_bucket("titles", written)
    return found


def _at_offsets(work: Path, titles: Path, lookup: Path, offsets: list[int], folder: Path) -> int:
    """Reads only the beginnings of the documents that are wanted, in the order of the file."""
    table = open_table(work / "document-table", "table")
    wanted: list[tuple[int, int, bytes]] = []
    batch: list[tuple[int, list[str]]] = []

    def flush() -> None:
        numbers = table.numbers(keys_of([fields[0].encode() for _, fields in batch])).tolist()
        for (line, fields), number in zip(batch, numbers, strict=True):
            if number >= 0:
                if not (fields[2].isascii() and fields[2].isdigit() and len(fields[2]) <= MAX_COUNT):
                    raise DataError(f"the offset is {shown(fields[2])}, not a number", lookup, line)
                wanted.append((int(fields[2]), number, fields[0].encode()))
        batch.clear()

    for line, text in lines(lookup):
        if not text.strip():
            continue
        fields = text.rstrip("\r").split("\t")
        if len(fields) != 3:
            raise DataError(f"{len(fields)} columns instead of 3: id, TREC offset, offset in the titles", lookup, line)
        batch.append((line, fields))
        if len(batch) == 100_000:
            flush()
    flush()
    found: list[tuple[int, bytes]] = []
    with open_file(titles) as file, stage("titles", total=len(wanted)) as advance:
        for offset, number, name in sorted(wanted):
            title = _title_at(file, offset, name, titles)
            if title:
                found.append((bisect_right(offsets, number) - 1, b"%d\t%s" % (number, title)))
            advance(1)
    for file_name, content in by_bucket("titles", found).items():
        (folder / file_name).write_bytes(content)
    return len(found)


def _title_at(file: IO[bytes], offset: int, name: bytes, path: Path) -> bytes:
    file.seek(min(offset, file_size(path)))
    head: bytes = file.read(HEAD)
    while head.count(b"\t") < 3 and b"\n" not in head and len(head) < MAX_HEAD and (more := file.read(HEAD)):
        head += more
    fields = head.split(b"\n", 1)[0].split(b"\t", 3)
    if fields[0] != name or len(fields) < 3:
        raise DataError(
            f"has no document {shown(name.decode('utf-8', 'backslashreplace'))} at byte {offset:,}, where the offsets "
            "say; both files must be of one release",
            path,
        )
    return b" ".join(fields[2].split())


def url_words(url: str) -> str:
    """The words of a URL, for documents without a title.

    Args:
        url: "http://www.sciencemadesimple.com/sky_blue.html"

    Returns:
        "sciencemadesimple sky blue"
    """
    try:
        parts = urlsplit(unquote(url))
    except ValueError:  # brackets that are not an address
        return " ".join(NOT_WORDS.sub(" ", url).split())
    words = NOT_WORDS.sub(" ", f"{parts.netloc} {parts.path}").split()
    return " ".join(word for word in words if word.lower() not in NO_MEANING)
