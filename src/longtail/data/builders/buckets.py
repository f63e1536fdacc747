"""Reads files piece by piece on several processes, and distributes what is found over bucket files.

What belongs together has the same key and so lands in the same bucket; a bucket is small enough to be read whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar
from zlib import crc32

from longtail.data.files import chunks
from longtail.data.worker_pool import Workers
from longtail.errors import DataError

BUCKET = 48 << 20  # bytes of text in a bucket: with Python's objects around it, about half a gigabyte in memory
MAX_BUCKETS = 256  # files that are open at once
MAX_FAULTS = 0.001  # share of damaged lines from which on a file is refused
MARKS = (  # the first bytes of files that are no text
    (b"\x1f\x8b", "gzip data", "add .gz to the file's name"),
    (b"BZh", "bzip2 data", "unpack it: bunzip2 FILE"),
    (b"PK\x03\x04", "a zip archive", "unpack it: unzip FILE"),
    (b"\xff\xfe", "UTF-16", "convert it: iconv -f utf-16 -t utf-8 FILE"),
    (b"\xfe\xff", "UTF-16", "convert it: iconv -f utf-16 -t utf-8 FILE"),
)
Item = TypeVar("Item")


@dataclass(frozen=True)
class FilePiece:
    """Some whole lines of a file."""

    path: Path
    line: int  # number of the first one
    data: bytes


@dataclass
class Found:
    """What one piece gives: bytes to append to files, by their names; counts; damaged lines."""

    outputs: dict[str, bytes] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    faults: int = 0
    fault: str = ""  # the first, with its place
    more: Any = None  # for the caller, in order

    def damaged(self, piece: FilePiece, line: int, what: str) -> None:
        """Counts a line that is left out.

        Args:
            piece: where it is.
            line: its number.
            what: is wrong with it.
        """
        self.faults += 1
        self.fault = self.fault or f"{piece.path}:{line}: {what}"

    def add(self, other: Found) -> None:
        """Adds the counts of another piece."""
        self.counts.update(other.counts)
        self.faults += other.faults
        self.fault = self.fault or other.fault

    def check(self, lines: int, what: str = "lines") -> list[str]:
        """Refuses a file with many damaged lines.

        Args:
            lines: read in all.
            what: they are, for the message.

        Returns:
            A note where few lines are damaged.

        Raises:
            DataError: many are.
        """
        if self.faults > MAX_FAULTS * lines:
            raise DataError(
                f"{self.fault}; {self.faults:,} of {lines:,} {what} are damaged: check that it is the right file, and "
                "copy it again"
            )
        return [f"{self.faults:,} of {lines:,} {what} were left out; the first: {self.fault}"] if self.faults else []


def buckets_for(size: int) -> int:
    """How many buckets a text of this size needs.

    Args:
        size: bytes.

    Returns:
        At least 1.
    """
    return max(1, min(MAX_BUCKETS, -(-size // BUCKET)))


def unpacked_size(paths: Iterable[Path]) -> int:
    """Estimates the bytes of files after unpacking.

    Args:
        paths: the files.

    Returns:
        Bytes; packed text is taken as a quarter of its size.
    """
    return sum(path.stat().st_size * (4 if path.suffix in (".gz", ".xz", ".bz2") else 1) for path in paths)


def bucket_of(key: bytes, buckets: int) -> int:
    """The bucket of a string.

    Args:
        key: the string.
        buckets: how many there are.

    Returns:
        A number below `buckets`, the same on every machine.
    """
    return crc32(key) % buckets


def pieces_of(paths: Sequence[Path]) -> Iterator[FilePiece]:
    """Reads files one after the other.

    Args:
        paths: the files, plain or compressed.

    Yields:
        Pieces of about a megabyte.
    """
    for path in paths:
        for line, data in chunks(path):
            yield FilePiece(path, line, data)


def distribute(
    pieces: Iterable[Item],
    work: Callable[[Item], Found],
    folder: Path,
    workers: Workers,
    seen: Callable[[Found], None] | None = None,
) -> Found:
    """Calls `work` on each piece and appends its outputs to files, in the order of the pieces.

    Args:
        pieces: of the input.
        work: makes outputs of a piece; must be picklable.
        folder: of the files.
        workers: processes that work at once.
        seen: called with what each piece gave, in order; may change its outputs.

    Returns:
        The counts of all pieces.
    """
    total = Found()
    with ExitStack() as stack:
        files: dict[str, IO[bytes]] = {}
        for found in workers.in_order(work, pieces):
            if seen is not None:
                seen(found)
            total.add(found)
            for name, data in found.outputs.items():
                if name not in files:
                    files[name] = stack.enter_context((folder / name).open("wb"))
                files[name].write(data)
    return total


def by_bucket(kind: str, lines: Iterable[tuple[int, bytes]]) -> dict[str, bytes]:
    """Joins lines by their buckets.

    Args:
        kind: the files are named `kind-000`, ...
        lines: each with its bucket and without its line end.

    Returns:
        The content of each file.
    """
    joined: dict[int, list[bytes]] = {}
    for bucket, line in lines:
        joined.setdefault(bucket, []).append(line)
    return {f"{kind}-{bucket:03}": b"\n".join(found) + b"\n" for bucket, found in joined.items()}


def read_bucket(folder: Path, kind: str, bucket: int) -> list[bytes]:
    """The lines of a bucket.

    Args:
        folder: of the files.
        kind: of the lines.
        bucket: its number.

    Returns:
        The lines; none where nothing fell into the bucket.
    """
    path = folder / f"{kind}-{bucket:03}"
    return lines_of(path) if path.exists() else []


def lines_of(path: Path) -> list[bytes]:
    """The lines of a file that a stage wrote; only a line feed ends a line.

    Args:
        path: the file.

    Returns:
        The lines, without line ends.
    """
    data = path.read_bytes()
    return data.removesuffix(b"\n").split(b"\n") if data else []


def text_lines(piece: FilePiece, found: Found) -> Iterator[tuple[int, bytes]]:
    """The lines of a piece that are UTF-8; others are counted as damaged.

    Args:
        piece: of a file.
        found: counts the lines, and the damaged ones.

    Yields:
        Numbers and lines, as `each_line`.

    Raises:
        DataError: the file is packed, or in UTF-16.
    """
    check_kind(piece)
    whole = is_utf8(piece.data)
    for number, line in each_line(piece):
        found.counts["lines"] += 1
        if whole or is_utf8(line):
            yield number, line
        else:
            found.damaged(piece, number, "the line is not UTF-8")


def check_kind(piece: FilePiece) -> None:
    """Refuses a file that is no text, by its first bytes.

    Args:
        piece: of a file; only its first piece is looked at.

    Raises:
        DataError: the file is packed, or in UTF-16.
    """
    for mark, kind, do in MARKS:
        if piece.line == 1 and piece.data.startswith(mark):
            raise DataError(f"this is {kind}, not UTF-8 text; {do}", piece.path)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are text.

    Args:
        data: any.

    Returns:
        True for UTF-8.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def each_line(piece: FilePiece) -> Iterator[tuple[int, bytes]]:
    """The lines of a piece, without line ends, Windows' included.

    Args:
        piece: of a file.

    Yields:
        Numbers and lines; empty ones are left out.
    """
    for number, line in enumerate(piece.data.split(b"\n"), piece.line):
        line = line.removesuffix(b"\r")
        if line:
            yield number, line
