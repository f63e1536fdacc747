"""Reads tables from MySQL dump files as a stream, without MySQL.

    table = open_table("enwiki-20230301-page.sql.gz", "page")
    for batch in table.batches(("page_id", "page_namespace", "page_title")):
        category = batch.integers("page_namespace") == 14
        titles = batch.strings("page_title", np.flatnonzero(category))

Values are bytes, because sort keys in such dumps are binary; callers decode only what they keep. The scanner that finds
the values is compiled, since a dump of English Wikipedia has tens of gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bools, Bytes, Longs
from longtail.data.files import chunks
from longtail.errors import DataError

ROWS = 1 << 15  # the most tuples of a batch
NULL = -1  # what `integers` returns for NULL
MAX_INSERT = 4096  # the most bytes of an INSERT before its values
MAX_HEAD = 1 << 23  # bytes before CREATE TABLE; real dumps have a thousand
MAX_TUPLE = 1 << 24  # a tuple with more bytes than this is damaged

MORE, DONE, FULL, BAD_SYNTAX, BAD_WIDTH = range(5)  # why a scan stopped
PROBLEMS = {
    BAD_SYNTAX: "not the values of an INSERT statement",
    BAD_WIDTH: "a tuple with more or fewer values than CREATE TABLE has columns",
}

# Spaces and names have limits, and nothing is looked for from every place: a damaged dump is read once, too.
_CREATE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?`(\w{1,100}+)` \(")
_COLUMN = re.compile(rb"^[ \t]*+`(\w+)`", re.MULTILINE)  # lines of keys start with another word
_INSERT = rb"INSERT INTO `%s`\s{0,99}+(\([^()]{0,4000}+\))?\s{0,99}+VALUES\s{0,99}+(?=\()"
_ESCAPE = re.compile(rb"\\(.)|''", re.DOTALL)
_CONTROL = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"Z": b"\x1a"}


@dataclass(frozen=True, eq=False)
class SqlRows:
    """Some tuples of a table, as spans of bytes. Spans of NULL start at -1."""

    path: Path
    line: int  # where the batch starts
    buffer: bytes
    columns: tuple[str, ...]
    starts: Longs  # (tuples, columns)
    ends: Longs  # (tuples, columns)

    def __len__(self) -> int:
        return len(self.starts)

    def integers(self, column: str) -> Longs:
        """A column of whole numbers.

        Args:
            column: its name.

        Returns:
            (tuples,) int64; -1 for NULL.

        Raises:
            DataError: a value is not a whole number.
        """
        place = self.columns.index(column)
        values = np.empty(len(self), dtype=np.int64)
        view = np.frombuffer(self.buffer, dtype=np.uint8)
        bad = _integers(view, self.starts[:, place], self.ends[:, place], values)
        if bad >= 0:
            raw = self.buffer[self.starts[bad, place] : self.ends[bad, place]]
            raise DataError(f"column {column} has {raw[:40]!r}, not a whole number", self.path, self.line)
        return values

    def equal(self, column: str, value: bytes) -> Bools:
        """Compares a column with a value.

        Args:
            column: its name.
            value: bytes as they are in the dump, escapes included.

        Returns:
            (tuples,) True where they are equal.
        """
        place = self.columns.index(column)
        found = np.empty(len(self), dtype=np.bool_)
        view = np.frombuffer(self.buffer, dtype=np.uint8)
        wanted = np.frombuffer(value, dtype=np.uint8)
        _equal(view, self.starts[:, place], self.ends[:, place], wanted, found)
        return found

    def strings(self, column: str, rows: AnyArray) -> list[bytes]:
        """Values of a column, without escapes.

        Args:
            column: its name.
            rows: the tuples wanted.

        Returns:
            One value per tuple wanted; empty for NULL.
        """
        place = self.columns.index(column)
        starts, ends = self.starts[rows, place].tolist(), self.ends[rows, place].tolist()
        return [_plain(self.buffer[start:end]) for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class SqlTable:
    """One dumped table and its columns, in the order of its CREATE TABLE statement."""

    path: Path
    name: str
    columns: tuple[str, ...]

    def batches(self, columns: Sequence[str]) -> Iterator[SqlRows]:
        """Reads every tuple of the table, some thousands at a time.

        Args:
            columns: the columns wanted.

        Yields:
            Tuples with only these columns.

        Raises:
            DataError: the table has no such column, or the dump is damaged.
        """
        missing = [column for column in columns if column not in self.columns]
        if missing:
            raise DataError(
                f"table {self.name} has no column {missing[0]}; it has {', '.join(self.columns)}", self.path
            )
        slot = np.full(len(self.columns), -1, dtype=np.int64)  # the place of each table column in the batch
        for place, column in enumerate(columns):
            slot[self.columns.index(column)] = place
        inside = False  # of an INSERT whose end is not read yet
        rest, line = b"", 1
        for first, piece in chunks(self.path):
            line = first - rest.count(b"\n")
            buffer = rest + piece
            position = 0
            while True:
                if not inside:
                    inside, position = self._next_insert(buffer, position, line)
                if not inside:
                    break
                starts = np.empty((ROWS, len(columns)), dtype=np.int64)
                ends = np.empty_like(starts)
                here = line + buffer.count(b"\n", 0, position)
                view = np.frombuffer(buffer, dtype=np.uint8)
                why, tuples, position = _scan(view, position, slot, starts, ends)
                if tuples:
                    yield SqlRows(self.path, here, buffer, tuple(columns), starts[:tuples], ends[:tuples])
                if why in PROBLEMS:
                    raise self._problem(PROBLEMS[why], buffer, position, line)
                if why == MORE:
                    if len(buffer) - position > MAX_TUPLE:
                        raise self._problem("a quote or bracket that is never closed", buffer, position, line)
                    break
                inside = why == FULL
            rest = buffer[position:]
        if inside:
            raise DataError("the file ends inside an INSERT; download it again", self.path, line)

    def _next_insert(self, buffer: bytes, position: int, line: int) -> tuple[bool, int]:
        """Whether the values of another INSERT start in the buffer, and where to go on."""
        found = re.compile(_INSERT % self.name.encode()).search(buffer, position)
        if found is None:  # the end of the buffer may cut its words
            return False, max(position, len(buffer) - MAX_INSERT)
        if found[1] and tuple(re.findall(r"`(\w+)`", found[1].decode("latin-1"))) != self.columns:
            raise self._problem("its columns are not those of CREATE TABLE", buffer, found.start(), line)
        return True, found.end()

    def _problem(self, message: str, buffer: bytes, position: int, line: int) -> DataError:
        line += buffer.count(b"\n", 0, position)
        return DataError(f"{message}: {buffer[position : position + 60]!r}", self.path, line)


def open_table(path: str | Path, name: str) -> SqlTable:
    """Reads the columns of a table from its CREATE TABLE statement.

    Args:
        path: the dump file.
        name: of the table.

    Returns:
        The table.

    Raises:
        DataError: the file does not start with that table.
    """
    path = Path(path)
    head = b""
    for _, piece in chunks(path):
        head += piece
        for found in _CREATE.finditer(head):
            if found[1].decode() == name and (end := head.find(b"\n)", found.end())) >= 0:
                columns = tuple(column.decode() for column in _COLUMN.findall(head[found.end() : end]))
                return SqlTable(path=path, name=name, columns=columns)
        if b"INSERT INTO" in head or len(head) > MAX_HEAD:
            break
    raise DataError(f"has no CREATE TABLE `{name}` at its start; check that it is the dump of that table", path)


def _plain(value: bytes) -> bytes:
    """A quoted value without MySQL's escapes."""
    if b"\\" not in value and b"'" not in value:
        return value
    return _ESCAPE.sub(lambda found: b"'" if found[1] is None else _CONTROL.get(found[1], found[1]), value)


@njit(nogil=True, cache=True)
def _scan(
    buffer: Bytes, position: int, slot: Longs, starts: Longs, ends: Longs
) -> tuple[int, int, int]:  # pragma: no cover  (compiled)
    """Finds the values of whole tuples from `position` on: (why it stopped, tuples found, where to go on)."""
    quote, backslash, comma, opening, closing = 39, 92, 44, 40, 41
    end = len(buffer)
    tuples = 0
    while True:
        while position < end and (buffer[position] <= 32 or buffer[position] == comma):
            position += 1
        if position >= end:
            return MORE, tuples, position
        if buffer[position] == 59:  # ;
            return DONE, tuples, position + 1
        if buffer[position] != opening:
            return BAD_SYNTAX, tuples, position
        if tuples == len(starts):
            return FULL, tuples, position
        first = position  # a tuple that the end of the buffer cuts is read again from here
        column = 0
        while True:
            position += 1  # the bracket or comma before the value
            start = position
            while position < end:
                byte = buffer[position]
                if byte in (comma, closing, quote):
                    break
                position += 1
            if position >= end:
                return MORE, tuples, first
            if buffer[position] == quote:
                position += 1
                start = position
                while True:
                    while position < end and buffer[position] != quote and buffer[position] != backslash:
                        position += 1
                    if position + 1 >= end:
                        return MORE, tuples, first
                    if buffer[position] == quote and buffer[position + 1] != quote:
                        break
                    position += 2  # an escape: a backslash and its byte, or a doubled quote
                stop = position
                position += 1
                if buffer[position] != comma and buffer[position] != closing:
                    return BAD_SYNTAX, tuples, first
            else:
                stop = position
                if stop - start == 4 and buffer[start] == 78 and buffer[start + 1] == 85:  # NU(LL)
                    start = stop = -1
            if column < len(slot) and slot[column] >= 0:
                starts[tuples, slot[column]] = start
                ends[tuples, slot[column]] = stop
            column += 1
            if buffer[position] == closing:
                break
        if column != len(slot):
            return BAD_WIDTH, tuples, first
        position += 1
        tuples += 1


@njit(nogil=True, cache=True)
def _integers(buffer: Bytes, starts: Longs, ends: Longs, values: Longs) -> int:  # pragma: no cover  (compiled)
    """Parses spans as whole numbers; returns the first row that is not one, or -1."""
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        if start < 0:
            values[row] = NULL
            continue
        negative = start < end and buffer[start] == 45
        if negative:
            start += 1
        if start == end or end - start > 18:
            return row
        value = 0
        for position in range(start, end):
            digit = int(buffer[position]) - 48
            if digit < 0 or digit > 9:
                return row
            value = 10 * value + digit
        values[row] = -value if negative else value
    return -1


@njit(nogil=True, cache=True)
def _equal(
    buffer: Bytes, starts: Longs, ends: Longs, wanted: Bytes, found: Bools
) -> None:  # pragma: no cover  (compiled)
    for row in range(len(starts)):
        same = starts[row] >= 0 and ends[row] - starts[row] == len(wanted)
        for place in range(len(wanted)):
            same = same and buffer[starts[row] + place] == wanted[place]
        found[row] = same
