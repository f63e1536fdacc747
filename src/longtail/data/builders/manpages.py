"""Manual pages: names, texts and SEE ALSO references, from roff source in the man and mdoc macros."""

from __future__ import annotations

import bz2
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from longtail.data.builders.article_graph import Page, found_in
from longtail.data.builders.buckets import Found
from longtail.data.opening import open_file
from longtail.data.unpack import Stream, Unpacked
from longtail.errors import DataError

MAX_PAGE = 1 << 24  # bytes; the longest pages have a few million
BATCH = 200  # pages that a process reads at once
FILE = re.compile(r"(?P<name>.+)\.(?P<section>\d\w*|n|l)(?:\.(?:gz|xz|bz2))?$")
SECTION = re.compile(r"^[.']\s*S[Hh]\s+(.*)$")
# Lengths have a limit: without one, a long word without end would be read again from each of its letters.
REFERENCE = re.compile(r"(?<![\w\[])([\w\[][\w.+:@\[\]\-]{0,100}+)\s?\((\d[a-zA-Z]{0,20}|n|l)\)")
SOURCE = re.compile(r"^\.so\s++(?:.*/)?([^/\s]++)\s*+$")
FONT = re.compile(r"\\f(?:\(..|\[[^\]]{0,100}\]|.)|\\s[-+]?\d|\\m\[[^\]]{0,100}\]|\\[&|^/,:%]|\\\*\(..|\\\*.")
SPECIAL = {r"\-": "-", r"\(en": "-", r"\(em": "-", r"\(hy": "-", r"\(aq": "'", r"\(bu": "", r"\e": "\\", r"\ ": " "}
GLYPH = re.compile(r"\\\(..|\\\[[^\]]{0,100}\]|\\.")
JOINED = ("BR", "RB", "BI", "IB", "IR", "RI")  # macros whose words are set in turns of two fonts, without spaces
TEXT_MACROS = {"B", "I", "SM", "SB", "IP", "TP", "SS", "Nm", "Nd", "Ar", "Fl", "Pa", "Dq", "Sq", "Li", "Em", "Sy"}
TEXT_MACROS |= {"Va", "Vt", "Fa", "Fn", "Ft", "Ev", "Cm", "Ic", "It", "Ss", "Bq", "Pq", "Ql", "Qq", "No", "Op", "Dv"}


def find_manpages(folder: Path) -> list[list[tuple[Path, Path]]]:
    """Finds the pages of a folder such as /usr/share/man; translations, in folders of their own, are left out.

    Args:
        folder: with man1, man2, ...

    Returns:
        Paths in batches, each with the path of the page that it stands for: itself, or what it is a link to or a copy
        of. Some packages have a page once for each function in it; as rows, they would stand in train and test.

    Raises:
        DataError: there are none.
    """
    if not folder.is_dir():
        raise DataError("no such folder; give the folder of manual pages, such as /usr/share/man", folder)
    paths = sorted(path for path in folder.glob("man*/*") if FILE.match(path.name) and path.exists())
    if not paths:
        raise DataError(
            "has no manual pages such as man1/ls.1.gz; a container may leave them out: install man-db, manpages and "
            "manpages-dev where documentation is kept",
            folder,
        )
    real = {path: path.resolve() if path.is_symlink() else path for path in paths}
    first = _copies(sorted({path for path in real.values() if FILE.match(path.name)}))
    pages = [(path, first.get(real[path], path)) for path in paths]
    return [pages[start : start + BATCH] for start in range(0, len(pages), BATCH)]


def _copies(paths: Sequence[Path]) -> dict[Path, Path]:
    """For each file the one with the shortest name among those of the same bytes."""
    by_size: dict[int, list[Path]] = defaultdict(list)
    for path in paths:
        by_size[path.stat().st_size].append(path)
    same: dict[bytes, list[Path]] = defaultdict(list)
    for group in by_size.values():
        for path in group if len(group) > 1 else ():
            with suppress(OSError, DataError), open_file(path) as file:  # whoever reads the page says so
                same[blake2b(file.read()).digest()].append(path)
    first = {path: path for path in paths}
    for group in same.values():
        first |= dict.fromkeys(group, min(group, key=lambda path: (len(path.name), path)))
    return first


@dataclass(frozen=True)
class ManReader:
    """Makes pages of batches of files."""

    buckets: int
    words: int

    def __call__(self, batch: list[tuple[Path, Path]]) -> Found:
        """The pages of a batch."""
        found, pages = Found(), list[Page]()
        for path, stands_for in batch:
            found.counts["lines"] += 1
            try:
                pages.extend(read_manpage(path, self.words, stands_for))
            except (OSError, EOFError, ValueError, DataError) as error:
                found.faults += 1
                found.fault = found.fault or f"{path}: cannot be read ({error})"
        return found_in(pages, self.buckets, found)


def title_from(name: str) -> str | None:
    """The title of a page.

    Args:
        name: of its file, such as "ls.1.gz".

    Returns:
        "ls(1)"; None where it is no page.
    """
    found = FILE.match(name)
    return f"{found['name']}({found['section'].lower()})" if found else None


def read_manpage(path: Path, words: int, stands_for: Path | None = None) -> Iterator[Page]:
    """Reads a page; a link, a copy or a `.so` line is a redirect.

    Args:
        path: the file.
        words: of its text.
        stands_for: the page that it is a link to or a copy of; None: it is itself.

    Yields:
        The page, and a redirect from the main section: "x509(1)" leads to "x509(1ssl)".
    """
    title = title_from(path.name)
    assert title is not None
    leads_to = title_from((stands_for or path).name) or title
    source = ""
    if leads_to == title:
        source = _unpacked(path)
        included = next(filter(None, map(SOURCE.match, source.splitlines()[:40])), None)
        leads_to = (title_from(included[1]) if included else None) or title
    name, _, section = title.removesuffix(")").rpartition("(")
    if len(section) > 1 and section[0].isdigit():  # references are followed over one redirect, not over two
        yield Page(f"{name}({section[0]})", redirect=leads_to)
    if leads_to != title:
        yield Page(title, redirect=leads_to)
        return
    sections = dict(_sections(source))
    references = _joined(next((body for head, body in sections.items() if head.startswith("SEE ALSO")), []))
    links = tuple(dict.fromkeys(f"{one}({part.lower()})" for one, part in REFERENCE.findall(references)))
    about = _joined(sections.get("NAME", []))
    text = " ".join(_joined(body) for head, body in sections.items() if not head.startswith("SEE ALSO"))
    about = " ".join(about.split()[:40])
    yield Page(title, links=links, text=" ".join(text.split()[:words]) or name, label=about or name)


def _unpacked(path: Path) -> str:
    with open_file(path) as file:
        packed = path.suffix in (".gz", ".xz")
        stream: Stream = bz2.BZ2File(file) if path.suffix == ".bz2" else Unpacked(file, path.suffix) if packed else file
        raw = stream.read(MAX_PAGE + 1)
    if len(raw) > MAX_PAGE:
        raise ValueError(f"larger than {MAX_PAGE >> 20} MB")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _sections(source: str) -> Iterator[tuple[str, list[str]]]:
    """Headings in capitals, and the lines below them; what stands before the first heading is macros."""
    head, body = "", list[str]()
    inside_macro = False
    for line in source.splitlines():
        if inside_macro:
            inside_macro = not line.startswith("..")
            continue
        if line.startswith((".de", ".ig")):
            inside_macro = True
            continue
        found = SECTION.match(line)
        if found:
            if head:
                yield head, body
            head, body = " ".join(_words(found[1])).upper().strip(), []
        elif head:
            body.append(line)
    if head:
        yield head, body


def _joined(body: list[str]) -> str:
    return " ".join(filter(None, map(_plain_line, body)))


def _plain_line(line: str) -> str:
    """A line without macros and fonts."""
    if line[:1] not in (".", "'"):
        return _plain(line)
    macro, _, rest = line[1:].strip().partition(" ")
    if macro in JOINED:
        return "".join(_words(rest))
    if macro == "Xr":
        name, *parts = _words(rest)[:2] or [""]
        return f"{name}({parts[0]})" if parts else name
    return " ".join(_words(rest)) if macro in TEXT_MACROS else ""


def _words(text: str) -> list[str]:
    """Words of a macro line; quotes hold several together."""
    return [_plain(quoted or word) for quoted, word in re.findall(r'"([^"]*)"|(\S+)', text)]


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    text = FONT.sub("", re.sub(r'\\".*', "", text))
    for mark, letter in SPECIAL.items():
        text = text.replace(mark, letter)
    return GLYPH.sub("", text)
