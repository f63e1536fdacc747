"""What the footer of a Parquet file says of its column chunks, read by our own code.

pyarrow builds its own description of a chunk in a place where an exception ends the process: statistics of a damaged
file are enough. So the few numbers that are needed before a chunk is read come from here. The footer is a Thrift
structure in the compact protocol: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

# Types of the compact protocol. A boolean of a structure is its type; one in a list takes a byte.
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
MAX_NESTING = 32  # structures inside structures; Parquet has five


class ColumnChunk(NamedTuple):
    """A column of a row group."""

    path: str  # the column's name, and those of the fields inside it, joined by dots
    values: int  # those of lists are counted one by one
    unpacked_bytes: int  # of all its pages
    has_dictionary: bool


def read_chunks(footer: bytes) -> list[list[ColumnChunk]]:
    """Read the column chunks of each row group.

    Args:
        footer: the metadata of the file, without the eight bytes at its end.

    Returns:
        For each row group, its columns from left to right.

    Raises:
        ValueError: the footer is damaged, or describes encrypted columns.
    """
    reader = _Compact(footer)
    groups = []
    for field, kind in reader.fields():
        if field == 4 and kind == LIST:
            groups += [_group(reader) for _ in reader.structures()]
        else:
            reader.skip(kind)
    return groups


def _group(reader: _Compact) -> list[ColumnChunk]:
    chunks = []
    for field, kind in reader.fields():
        if field == 1 and kind == LIST:
            chunks += [_chunk(reader) for _ in reader.structures()]
        else:
            reader.skip(kind)
    return chunks


def _chunk(reader: _Compact) -> ColumnChunk:
    found = None
    for field, kind in reader.fields():
        if field == 3 and kind == STRUCT:
            found = _metadata(reader)
        else:
            reader.skip(kind)
    if found is None:
        raise ValueError("a column is encrypted, or not described")
    return found


def _metadata(reader: _Compact) -> ColumnChunk:
    path, numbers = "", {5: 0, 6: 0, 11: 0}
    dictionary = False
    for field, kind in reader.fields():
        if field == 3 and kind == LIST:
            path = ".".join(reader.text() for _ in reader.items(BINARY))
        elif field in numbers and kind == I64:
            numbers[field] = reader.signed()
            dictionary |= field == 11
        else:
            reader.skip(kind)
    return ColumnChunk(path, numbers[5], numbers[6], dictionary)


class _Compact:
    """A position in the bytes of a structure. Every read moves it, and ends in `ValueError` behind the last byte."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise ValueError("its footer ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("a number of its footer is too long")

    def signed(self) -> int:
        number = self.unsigned()
        return number >> 1 ^ -(number & 1)

    def text(self) -> str:
        size = self.unsigned()
        begin = self.at
        self._jump(size)
        return self.data[begin : self.at].decode("utf-8", errors="replace")

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a structure; whoever asks reads or skips its value before the next."""
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.signed()
            yield field, head & 15

    def items(self, kind: int) -> Iterator[None]:
        """The items of a list, which all have the type given."""
        size, found = self._list()
        if found != kind:
            raise ValueError("a list of its footer has items of another type")
        for _ in range(size):
            yield

    def structures(self) -> Iterator[None]:
        return self.items(STRUCT)

    def skip(self, kind: int, nesting: int = 0) -> None:
        """Pass over a value."""
        if nesting > MAX_NESTING:
            raise ValueError("its footer is nested too deep")
        if kind in (TRUE, FALSE):
            return
        if kind == BYTE:
            self._jump(1)
        elif kind in (I16, I32, I64):
            self.unsigned()
        elif kind == DOUBLE:
            self._jump(8)
        elif kind == BINARY:
            self._jump(self.unsigned())
        elif kind in (LIST, SET):
            size, found = self._list()
            for _ in range(size):
                self._skip_item(found, nesting)
        elif kind == MAP:
            size = self.unsigned()
            kinds = self.byte() if size else 0
            for _ in range(size):
                self._skip_item(kinds >> 4, nesting)
                self._skip_item(kinds & 15, nesting)
        elif kind == STRUCT:
            for _, found in self.fields():
                self.skip(found, nesting + 1)
        else:
            raise ValueError("its footer has a type that Thrift does not know")

    def _skip_item(self, kind: int, nesting: int) -> None:
        """An item takes a byte at least, so that no count makes a loop longer than the footer."""
        self.skip(BYTE if kind in (TRUE, FALSE) else kind, nesting + 1)

    def _list(self) -> tuple[int, int]:
        head = self.byte()
        return (self.unsigned() if head >> 4 == 15 else head >> 4), head & 15

    def _jump(self, size: int) -> None:
        if size > len(self.data) - self.at:
            raise ValueError("its footer ends too early")
        self.at += size
