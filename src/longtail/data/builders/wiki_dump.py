"""Pages of a MediaWiki XML dump (pages-articles), read as a stream and unpacked on several processes.

A multistream dump is many bzip2 streams, one after the other: pieces of whole streams are unpacked apart. Where a
stream is long, this process unpacks it and only the pages are read apart. A page may lie across pieces: what a piece
has before its first page and after its last is joined by the caller, in order.
"""

from __future__ import annotations

import bz2
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from longtail.data.builders.article_graph import Page, found_in
from longtail.data.builders.buckets import Found
from longtail.data.builders.wikitext import (
    LISTS,
    heading,
    is_disambiguation,
    links_of,
    plain,
    title_of,
    without_section,
)
from longtail.data.files import chunks
from longtail.data.opening import open_file
from longtail.errors import DataError
from longtail.progress import stage

STREAM = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")  # where a bzip2 stream begins, even one without content
PACKED = 1 << 20  # bytes of packed streams in a piece
LONG_STREAM = 8 << 20  # packed bytes from which on a stream is unpacked in this process
UNPACKED = 4 << 20
STEP = 1 << 14  # packed bytes that are unpacked at once: behind each stream, what is left of them is copied
MAX_PAGE = 1 << 28
MAX_UNPACKED = 1 << 29  # bytes of a piece; text unpacks to four or five times its size, ten at the most
PAGE = re.compile(rb"<page>.*?</page>", re.DOTALL)
ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#039;", "'"), ("&amp;", "&"))


@dataclass(frozen=True)
class DumpPiece:
    """Some bytes of a dump, whole bzip2 streams or XML."""

    path: Path
    at: int  # byte of the file, for messages
    data: bytes
    is_packed: bool

    def xml(self) -> bytes:
        """The bytes, unpacked.

        Raises:
            DataError: they are damaged.
        """
        if not self.is_packed:
            return self.data
        parts: list[bytes] = []
        room, unpacker, fresh = MAX_UNPACKED, bz2.BZ2Decompressor(), True
        for start in range(0, len(self.data), STEP):
            left = self.data[start : start + STEP]
            while left:
                try:
                    parts.append(unpacker.decompress(left, room))
                except OSError:
                    raise DataError(f"damaged bzip2 data behind byte {self.at:,}; copy it again", self.path) from None
                room -= len(parts[-1])
                if room <= 0:
                    raise DataError(
                        f"unpacks to far more than a dump behind byte {self.at:,}; copy it again", self.path
                    )
                left, fresh = unpacker.unused_data, unpacker.eof
                if unpacker.eof:
                    unpacker = bz2.BZ2Decompressor()
        if not fresh:
            raise DataError("the dump ends in the middle of a stream; copy it again", self.path)
        return b"".join(parts)


def dump_pieces(path: Path) -> Iterator[DumpPiece]:
    """Reads a dump.

    Args:
        path: .xml, or compressed as .bz2, .gz or .xz.

    Yields:
        Pieces, in order.

    Raises:
        DataError: the file cannot be read or is not bzip2.
    """
    if path.suffix != ".bz2":
        for _, data in chunks(path):
            yield DumpPiece(path, 0, data, False)
        return
    with open_file(path) as file, stage("reading dump", total=path.stat().st_size) as advance:
        waiting, at = b"", 0  # bytes from the beginning of a stream on, and where that is
        while True:
            more = file.read(PACKED)
            advance(len(more))
            waiting += more
            if at == 0 and len(waiting) >= 4 and waiting[:3] != b"BZh":
                raise DataError("is not bzip2 data; drop .bz2 from its name, or copy it again", path)
            starts = [found.start() for found in STREAM.finditer(waiting, 1)]
            if not more:
                if waiting:
                    yield DumpPiece(path, at, waiting, True)
                return
            if starts:
                yield DumpPiece(path, at, waiting[: starts[-1]], True)
                waiting, at = waiting[starts[-1] :], at + starts[-1]
            elif len(waiting) >= LONG_STREAM:
                taken, waiting = yield from _long_stream(path, file, waiting, at, advance)
                at += taken


def _long_stream(
    path: Path, file: IO[bytes], waiting: bytes, at: int, advance: Callable[[int], None]
) -> Generator[DumpPiece, None, tuple[int, bytes]]:
    """Unpacks one stream; returns its bytes and what was read behind it."""
    unpacker, taken = bz2.BZ2Decompressor(), len(waiting)
    while True:
        try:
            data = unpacker.decompress(waiting, UNPACKED)
        except OSError:
            raise DataError(f"damaged bzip2 data behind byte {at:,}; copy it again", path) from None
        if data:
            yield DumpPiece(path, at, data, False)
        if unpacker.eof:
            rest = unpacker.unused_data
            return taken - len(rest), rest
        waiting = b""
        if unpacker.needs_input:
            waiting = file.read(PACKED)
            advance(len(waiting))
            taken += len(waiting)
            if not waiting:
                raise DataError("the dump ends in the middle of a stream; copy it again", path)


@dataclass(frozen=True)
class DumpReader:
    """Makes pages of pieces."""

    buckets: int
    words: int  # of a row's text
    label_words: int  # of a label's text, behind its title
    section: str

    def __call__(self, piece: DumpPiece) -> Found:
        """The pages of a piece; `more` has what lies before the first and behind the last."""
        xml = piece.xml()
        first, last = xml.find(b"<page>"), xml.rfind(b"</page>")
        if first < 0 or last < first:
            return Found(more=(None, xml))
        found = self.pages(xml[first : last + 7], piece.path)
        found.more = (xml[:first], xml[last + 7 :])
        return found

    def pages(self, xml: bytes, path: Path) -> Found:
        """What whole pages give.

        Args:
            xml: from the first `<page>` to the last `</page>`.
            path: of the dump, for messages.

        Returns:
            Outputs and counts.
        """
        found, pages = Found(), []
        pattern = heading(self.section)
        for match in PAGE.finditer(xml):
            found.counts["lines"] += 1
            try:
                page = self._page(match[0], pattern)
            except ValueError:  # bytes that are not UTF-8 too
                found.faults += 1
                found.fault = found.fault or f"{path}: a page without title, namespace or text: {match[0][:60]!r}"
                continue
            if page is not None:
                pages.append(page)
        return found_in(pages, self.buckets, found)

    def _page(self, xml: bytes, pattern: re.Pattern[str]) -> Page | None:
        """A page; None where it is no article. Raises ValueError where a part is missing."""
        if int(_part(xml, b"<ns>", b"</ns>")) != 0:
            return None
        title = unescaped(_part(xml, b"<title>", b"</title>"))
        if "\n" in title:
            raise ValueError("a title of two lines")
        if b'<redirect title="' in xml:
            return Page(title, redirect=title_of(unescaped(_part(xml, b'<redirect title="', b'"')).partition("#")[0]))
        markup = unescaped(_text(xml))
        if is_disambiguation(title, markup):
            return None
        rest, section = without_section(markup, pattern)
        links = () if title.startswith(LISTS) else tuple(links_of(section))
        text = f"{title} {plain(rest, self.words)}".strip() if links else ""
        label = f"{title} {plain(rest, self.label_words)}" if self.label_words else title
        return Page(title, links=links, text=text, label=label)


@dataclass
class DumpJoiner:
    """Joins pages that lie across pieces; the last call is `end`."""

    reader: DumpReader
    path: Path
    rest: bytes = b""
    pages: bool = False  # whether there was one

    def __call__(self, found: Found) -> None:
        """Adds what lies between the last piece and this one to the outputs of this one."""
        before, behind = found.more
        self.pages = self.pages or before is not None
        found.more = None
        between = self.rest + (behind if before is None else before)
        start, end = between.find(b"<page>"), between.rfind(b"</page>")
        if 0 <= start < end:
            more = self.reader.pages(between[start : end + 7], self.path)
            found.add(more)
            for name, data in more.outputs.items():
                found.outputs[name] = data + found.outputs.get(name, b"")
            between = between[end + 7 :]
        if len(between) > MAX_PAGE or (before is not None and b"<page>" in between):
            raise DataError("a page of the dump does not end; check that it is a pages-articles dump", self.path)
        self.rest = between if before is None else behind

    def end(self) -> None:
        """Checks that the dump was whole.

        Raises:
            DataError: it ends too early, or is no dump.
        """
        if not self.pages and b"<page>" not in self.rest and b"<mediawiki" not in self.rest:
            raise DataError("no page of a wiki is in it; give the pages-articles dump, .xml or .xml.bz2", self.path)
        if b"<page>" in self.rest or b"</mediawiki>" not in self.rest:
            raise DataError("the dump ends too early, without </mediawiki>; copy it again", self.path)


def _part(xml: bytes, opening: bytes, closing: bytes) -> bytes:
    """What stands between the first opening and the closing after it. Raises ValueError where there is none."""
    start = xml.find(opening)
    end = xml.find(closing, start + len(opening))
    if start < 0 or end < 0:
        raise ValueError(opening)
    return xml[start + len(opening) : end]


def _text(xml: bytes) -> bytes:
    """The content of the text element, which has attributes and may be closed at once."""
    start = xml.find(b"<text")
    inside = xml.find(b">", start) + 1
    if start < 0 or not inside:
        raise ValueError("<text>")
    if xml[inside - 2 : inside] == b"/>":
        return b""
    end = xml.find(b"</text>", inside)
    if end < 0:
        raise ValueError("</text>")
    return xml[inside:end]


def unescaped(xml: bytes) -> str:
    """Text of an XML element.

    Args:
        xml: the bytes between its tags.

    Returns:
        The text; `&amp;` last, so that nothing is unescaped twice.
    """
    text = xml.decode()
    if "&" in text:
        for entity, letter in ENTITIES:
            text = text.replace(entity, letter)
    return text
