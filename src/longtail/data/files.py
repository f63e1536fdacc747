"""Finds files and reads them line by line, also from gzip and xz; every error names its file and line."""

from __future__ import annotations

import json
import os
import reprlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

from longtail.data.limits import CHECK_EVERY, MAX_DEPTH, MAX_LINE, MAX_RATIO, MAX_WHOLE, RATIO_FROM, RESERVE
from longtail.data.mending import decoded_lines, pass_over
from longtail.data.opening import cannot_read, file_size, open_file
from longtail.data.transcoded import transcoded, wide_encoding
from longtail.data.unpack import Stream, Unpacked
from longtail.errors import DataError, WillNotFit
from longtail.memory import available_bytes, readable, resident_bytes
from longtail.progress import stage

CHUNK = 1 << 20
COMPRESSED = ("", ".gz", ".xz")


def find(folder: Path, *names: str) -> Path | None:
    """Finds the one file with one of these names, plain or compressed.

    Args:
        folder: where to look.
        names: without .gz or .xz.

    Returns:
        The file; None where there is none.

    Raises:
        DataError: there are several, which may differ; or there is something else than a file of that name.
    """
    wanted = [folder / (name + ending) for name in names for ending in COMPRESSED]
    found = [path for path in wanted if os.path.lexists(path)]
    for path in found:
        file_size(path)
    if len(found) > 1:
        both = " and ".join(path.relative_to(folder).as_posix() for path in found)
        raise DataError(f"{both} are both here and may differ; keep one of them", folder)
    return found[0] if found else None


def listing(folder: Path, max_names: int = 12) -> str:
    """The files of a folder, for error messages.

    Args:
        folder: the folder.
        max_names: how many to name.

    Returns:
        Their names, separated by commas.
    """
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in folder.iterdir())
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(names[:max_names]) + more if names else "nothing"


def chunks(path: Path, quiet: bool = False) -> Iterator[tuple[int, bytes]]:
    """Reads a file in pieces of about a megabyte, without cutting lines.

    Args:
        path: the file, plain or compressed.
        quiet: reports no stage, for one file of many.

    Yields:
        The number of the first line of each piece, and the piece. It ends with a line end, except perhaps the last.

    Raises:
        DataError: the file cannot be read, or its compression is damaged.
    """
    try:
        with open_file(path) as raw:
            yield from _chunks(raw, path, quiet)
    except EOFError:
        raise DataError("the compressed file ends too early; copy or make it again", path) from None
    except OSError as error:
        raise cannot_read(path, error) from None


def _chunks(raw: IO[bytes], path: Path, quiet: bool) -> Iterator[tuple[int, bytes]]:
    packed = path.suffix in COMPRESSED[1:]
    size = os.fstat(raw.fileno()).st_size
    if size == 0 and packed:
        raise DataError("the compressed file has 0 bytes; copy or make it again", path)
    shown_stage = stage(f"reading {path.name.split('.')[0]}", total=size)
    with nullcontext(lambda _: None) if quiet else shown_stage as advance:
        stream: Stream = transcoded(Unpacked(raw, path.suffix) if packed else raw, path)
        line, reported, unpacked, held = 1, 0, 0, 0
        watch = MemoryWatch(path)
        rest: list[bytes] = []  # parts of an incomplete line; joined once, since it may be longer than many chunks
        while piece := _next_piece(stream, path):
            unpacked += len(piece)
            position = raw.tell() if raw.seekable() else unpacked  # a pipe has no position
            if packed and unpacked > max(RATIO_FROM, MAX_RATIO * position):
                raise DataError(
                    f"unpacks to more than {MAX_RATIO} times its size, which data does not; if it is right, unpack it "
                    "and give the unpacked file",
                    path,
                    line,
                )
            watch.check(unpacked)
            if unpacked == len(piece):
                if encoding := wide_encoding(piece):
                    raise DataError(
                        f"this is {encoding[:6].upper()}, not UTF-8; pass --encoding auto where the command has it, or "
                        f"convert it: iconv -f {encoding} -t utf-8 {path.name}",
                        path,
                    )
                piece = piece.removeprefix(b"\xef\xbb\xbf")  # a byte order mark is not part of the text
            advance(position - reported)
            reported = position
            cut = piece.rfind(b"\n") + 1
            if cut:
                whole = b"".join([*rest, piece[:cut]])
                yield line, whole
                line, rest, held = line + whole.count(b"\n"), [piece[cut:]], len(piece) - cut
            else:
                rest.append(piece)
                held += len(piece)
                if held > MAX_LINE:
                    raise DataError(
                        f"the line is longer than {readable(MAX_LINE)}, the most that a line may have; split it, or "
                        "check that the file is text",
                        path,
                        line,
                    )
        if any(rest):
            yield line, b"".join(rest)


def _next_piece(stream: Stream, path: Path) -> bytes:
    try:
        return stream.read(CHUNK)
    except ValueError as error:
        raise DataError(
            f"not whole {path.suffix[1:]} data ({error}); compress it again or drop {path.suffix} from its name", path
        ) from None


class MemoryWatch:
    """Stops the reading of a file before the memory of the machine is used up.

    How much a file takes is known only once it is read: most of it may be unpacked, or left out. So the memory is
    looked at while it is read. What reading took is copied in part at its end, when lists become arrays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next = CHECK_EVERY
        self._before = resident_bytes()

    def check(self, done: int) -> None:
        """Checks the free memory, where enough was read since the last time.

        Args:
            done: bytes read so far.

        Raises:
            WillNotFit: too little is left, and it is this reading that took it.
        """
        if done < self._next:
            return
        self._next = done + CHECK_EVERY
        taken = resident_bytes() - self._before
        if taken > RESERVE and available_bytes() < max(RESERVE, taken // 8):
            raise WillNotFit(
                f"{self._path}: after {readable(done)} of it the data takes {readable(taken)} of memory, and only "
                f"{readable(available_bytes())} are left; use fewer rows or a larger machine"
            )


def decoded(piece: bytes, path: Path, first: int) -> str:
    """Decodes a piece of a file.

    Args:
        piece: bytes of whole lines.
        path: the file, for the message.
        first: the number of the piece's first line.

    Returns:
        The text.

    Raises:
        DataError: it is not UTF-8; names the line.
    """
    try:
        return piece.decode()
    except UnicodeDecodeError as error:
        if first == 1 and piece[:2] == b"\x1f\x8b":
            raise DataError("this is gzip data; add .gz to the file's name", path) from None
        mended = decoded_lines(piece, path, first)
        if mended is not None:
            return mended
        line = first + piece.count(b"\n", 0, error.start)
        wrong = piece[error.start]
        raise DataError(
            f"byte 0x{wrong:02x} is not UTF-8; pass --encoding auto, or see all such lines: longtail check {path.name}",
            path,
            line,
        ) from None


def document_text(path: Path) -> str:
    """Reads a file that is one document of many: no stage of its own is reported.

    Args:
        path: the file, plain or compressed.

    Returns:
        Its text, with line feeds as line ends.

    Raises:
        DataError: it cannot be read, is not UTF-8, or is longer than a line may be.
    """
    pieces: list[str] = []
    read = 0
    for first, piece in chunks(path, quiet=True):
        read += len(piece)
        if read > MAX_LINE:
            raise DataError(f"has more than {readable(MAX_LINE)}, the most that a document may have; split it", path)
        pieces.append(decoded(piece, path, first))
    return "".join(pieces).replace("\r\n", "\n")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Reads a file line by line. Only a line feed ends a line; other line ends are part of the text.

    Args:
        path: the file, plain or compressed.

    Yields:
        The number of each line, and the line without its line feed.
    """
    for first, piece in chunks(path):
        yield from lines_in(piece, path, first)


def lines_in(piece: bytes, path: Path, first: int) -> Iterator[tuple[int, str]]:
    """Cuts a piece of a file into lines.

    Args:
        piece: bytes of whole lines, from `chunks`.
        path: the file, for the message.
        first: the number of the piece's first line.

    Returns:
        The number of each line, and the line without its line feed.

    Raises:
        DataError: it is not UTF-8; names the line.
    """
    return enumerate(decoded(piece, path, first).removesuffix("\n").split("\n"), first)


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads a file with one JSON object per line; blank lines are skipped.

    Args:
        path: the file, plain or compressed.

    Yields:
        The number of each line, and its object.

    Raises:
        DataError: a line is not a JSON object.
    """
    yield from objects_in(lines(path), path)


def objects_in(numbered: Iterable[tuple[int, str]], path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads lines with one JSON object each; blank lines are skipped.

    Args:
        numbered: numbers of lines, and the lines.
        path: their file, for the message.

    Yields:
        The number of each line, and its object.

    Raises:
        DataError: a line is not a JSON object.
    """
    loads = json.loads
    for number, line in numbered:
        if not line or line.isspace():
            continue
        try:
            value = loads(line)
        except (ValueError, RecursionError) as error:
            wrong = DataError(f"{_broken(error)}; each line must be one whole JSON object", path, number)
            pass_over(wrong, "lines that are not JSON", line)
            continue
        if type(value) is not dict:
            wrong = DataError(
                f'expected a JSON object like {{"id": ...}} on the line, got {_kind(value)}', path, number
            )
            pass_over(wrong, "lines that are not JSON objects", line)
            continue
        yield number, value


def whole_object(path: Path) -> dict[str, Any]:
    """Reads a file that is one JSON object.

    Args:
        path: the file, plain or compressed.

    Returns:
        The object.

    Raises:
        DataError: it is not a JSON object.
    """
    text = whole_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise DataError(f"{_broken(error)}; correct the file", path, line) from None
    if type(value) is not dict:
        raise DataError(f"expected one JSON object, got {_kind(value)}", path)
    return value


def whole_text(path: Path) -> str:
    """Reads a small file, such as one of settings.

    Args:
        path: the file, plain or compressed.

    Returns:
        Its text.

    Raises:
        DataError: it is not UTF-8, or longer than MAX_WHOLE.
    """
    pieces: list[str] = []
    read = 0
    for first, piece in chunks(path):
        read += len(piece)
        if read > MAX_WHOLE:
            raise DataError(f"has more than {readable(MAX_WHOLE)}, the most that such a file may have", path)
        pieces.append(decoded(piece, path, first))
    return "".join(pieces)


def _broken(error: ValueError | RecursionError) -> str:
    """What is wrong with a text that is no JSON, or is nested too deep or has too long a number."""
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON ({error.msg} at column {error.colno})"
    if isinstance(error, RecursionError):
        return f"broken JSON (lists or objects inside each other, deeper than {MAX_DEPTH} levels)"
    return f"broken JSON (a number with more than {sys.get_int_max_str_digits()} digits)"


_shortener = reprlib.Repr()
_shortener.maxlevel = 3
_shortener.maxstring = _shortener.maxother = _shortener.maxlong = 80


def shown(value: object) -> str:
    """A value of a file for an error message: short, however long or deep it is.

    Args:
        value: any value.

    Returns:
        As Python writes it, with dots for what is left out.
    """
    return _shortener.repr(value)


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
