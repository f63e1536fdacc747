"""Faults of data files: each is named, counted and, where a remedy was asked for, mended.

Readers hand a fault to `pass_over`. Without a remedy for it, the fault is raised as ever; while `check` reads, it is
noted and reading goes on, so that all faults are known after one reading. What is read and what may be passed over is a
context variable: readers would all have the same argument otherwise, and clean data never looks at it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longtail.data.old_encodings import spelled
from longtail.errors import DataError

PLACES = 5  # places of a kind of fault that a message names
LISTED = 10_000  # places that are remembered
# The remedies of faults. The last is another way to read the table, which leaves no such fault.
ENCODING, BAD_ROW, DUPLICATE, PAIRS = "--encoding", "--skip-bad-rows", "--drop-duplicates", "--label-shape"


@dataclass(frozen=True)
class Remedies:
    """What may be done about faults of the data; by default nothing.

    Raises:
        DataError: the encoding is unknown, or `min_count` is below 1.
    """

    encoding: str = "utf-8"  # of the files; "auto": UTF-8 and UTF-16, and other lines by what they spell
    skip_bad_rows: str | None = None  # the file that gets the rows that cannot be read; None: they are errors
    drop_duplicates: bool = False  # rows with the text and the labels of an earlier one
    fold_labels: bool = False  # label ids that differ only in case, spaces or Unicode form are one label
    ignore_labels: tuple[str, ...] = ()  # ids that are no labels, such as N/A
    min_count: int = 1  # training examples that a label needs

    def __post_init__(self) -> None:
        if self.encoding != "auto":
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError):
                raise DataError(
                    f"there is no encoding {self.encoding!r}; give auto, utf-8, utf-16, cp1252, latin-1 or another "
                    "that Python knows"
                ) from None
        if self.min_count < 1:
            raise DataError(
                f"--min-count is the number of examples that a label needs, at least 1, got {self.min_count}"
            )


@dataclass
class Fault:
    """Faults of one kind."""

    kind: str
    remedy: str  # the option that mends it
    mended: bool
    count: int = 0
    first: str = ""  # the error of the first of them
    places: list[str] = field(default_factory=list)  # "file:line", the first LISTED

    def line(self) -> str:
        """One line for people."""
        more = ", …" if self.count > min(len(self.places), PLACES) else ""
        return f"{self.kind}: {self.count:,} ({', '.join(self.places[:PLACES])}{more})"


class Mender:
    """The faults met so far, and the rows that were passed over."""

    def __init__(self, remedies: Remedies, collecting: bool) -> None:
        self.remedies = remedies
        self.collecting = collecting
        self.faults: dict[tuple[str, bool], Fault] = {}
        self._rows: list[str] = []  # of the side file
        self._seen: set[tuple[str, Path, int | None]] = set()

    def asked(self, remedy: str) -> bool:
        """Whether the user asked for a remedy."""
        given = {
            ENCODING: self.remedies.encoding != "utf-8",
            BAD_ROW: self.remedies.skip_bad_rows is not None,
            DUPLICATE: self.remedies.drop_duplicates,
            PAIRS: False,
        }
        return given[remedy]

    def note(self, kind: str, remedy: str, path: Path, line: int | None, message: str = "") -> bool:
        """Counts a fault.

        Args:
            kind: of the fault, as a plural.
            remedy: the option that mends it.
            path: its file.
            line: its line.
            message: what is wrong.

        Returns:
            Whether it is new: a file may be read several times.
        """
        if (kind, path, line) in self._seen:
            return False
        self._seen.add((kind, path, line))
        mended = self.asked(remedy)
        fault = self.faults.setdefault((kind, mended), Fault(kind, remedy, mended, first=message))
        fault.count += 1
        if len(fault.places) < LISTED:
            fault.places.append(path.name if line is None else f"{path.name}:{line}")
        return True

    def keep(self, error: DataError, row: Any) -> None:
        """Keeps a row that is passed over, for the side file.

        Args:
            error: why it is, with the file and line.
            row: what could be read of it.
        """
        where = {"file": None if error.path is None else str(error.path), "line": error.line}
        self._rows.append(json.dumps({**where, "reason": str(error), "row": row}, ensure_ascii=False, default=str))

    def write(self) -> None:
        """Writes the side file.

        Raises:
            DataError: it cannot be written.
        """
        target = self.remedies.skip_bad_rows
        if target is None or not self._rows:
            return
        try:
            text = "".join(row + "\n" for row in self._rows)
            Path(target).write_bytes(text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise DataError(f"cannot be written ({error.strerror or error}); give another name", target) from None

    def notes(self) -> tuple[str, ...]:
        """What was mended, for people."""
        found = []
        for fault in self.faults.values():
            if fault.mended:
                done = {
                    ENCODING: "read all the same",
                    BAD_ROW: f"left out and written to {self.remedies.skip_bad_rows}",
                    DUPLICATE: "left out",
                }[fault.remedy]
                found.append(f"{done}: {fault.line()}")
        return tuple(found)


_mender: ContextVar[Mender | None] = ContextVar("mender", default=None)


def mender() -> Mender | None:
    """The mender of the reading under way.

    Returns:
        The mender; None where every fault is an error.
    """
    return _mender.get()


@contextmanager
def mending(remedies: Remedies, collect: bool = False) -> Iterator[Mender | None]:
    """Reads with remedies.

    Args:
        remedies: what may be done about faults.
        collect: faults without a remedy are noted and passed over, as `check` does.

    Yields:
        The mender; None where nothing may be done, so that readers take the shortest way.
    """
    outer = _mender.get()
    if outer is not None:  # a caller collects already
        yield outer
        return
    if remedies == Remedies() and not collect:
        yield None
        return
    found = Mender(remedies, collect)
    token = _mender.set(found)
    try:
        yield found
    finally:
        _mender.reset(token)
    found.write()


def pass_over(error: DataError, kind: str, row: Any = None, remedy: str = BAD_ROW) -> None:
    """Leaves out a faulty row, where that is allowed; raises the error otherwise.

    Args:
        error: what is wrong, with file and line.
        kind: of the fault, as a plural.
        row: what was read, for the side file.
        remedy: the option that mends it.

    Raises:
        DataError: the error, with the name of the remedy.
    """
    at = _mender.get()
    if at is None or not (at.collecting or at.asked(remedy)):
        if remedy == BAD_ROW and BAD_ROW not in str(error):
            error.args = (f"{error}; or leave such rows out: {BAD_ROW} FILE",)
        raise error
    if at.note(kind, remedy, error.path or Path("data"), error.line, str(error)) and remedy == BAD_ROW:
        at.keep(error, row)


def decoded_lines(piece: bytes, path: Path, first: int) -> str | None:
    """Decodes a piece that is not UTF-8 line by line.

    Args:
        piece: bytes of whole lines.
        path: the file.
        first: the number of the piece's first line.

    Returns:
        The text; None where that was not asked for.
    """
    at = _mender.get()
    if at is None or not (at.collecting or at.remedies.encoding == "auto"):
        return None
    found = piece.split(b"\n")
    strange = [place for place, line in enumerate(found) if not _is_utf8(line)]
    texts = spelled([found[place] for place in strange])
    for place, (text, name) in zip(strange, texts, strict=True):
        at.note(f"lines that are not UTF-8, read as {name}", ENCODING, path, first + place)
        found[place] = text.encode()
    return b"\n".join(found).decode()


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def remedies_named(faults: Sequence[Fault], side_file: str = "bad-rows.jsonl") -> list[str]:
    """The options that mend faults.

    Args:
        faults: of a mender.
        side_file: the name for --skip-bad-rows.

    Returns:
        The options as they are typed.
    """
    words = {
        ENCODING: "--encoding auto",
        BAD_ROW: f"--skip-bad-rows {side_file}",
        DUPLICATE: "--drop-duplicates",
        PAIRS: "--label-shape pairs",
    }
    return [words[remedy] for remedy in dict.fromkeys(fault.remedy for fault in faults if not fault.mended)]
