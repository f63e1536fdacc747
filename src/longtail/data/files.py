"""Finding and streaming files: whole lines at a time, gzip or xz undone, every failure with its place."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from longtail.errors import DataError
from longtail.progress import stage

CHUNK = 1 << 20
COMPRESSED = ("", ".gz", ".xz")


def find(folder: Path, *names: str) -> Path | None:
    """The one file of these names, plain or compressed; more than one is an error, as they may differ."""
    wanted = [folder / (name + ending) for name in names for ending in COMPRESSED]
    found = [path for path in wanted if path.is_file()]
    if len(found) > 1:
        both = " and ".join(path.relative_to(folder).as_posix() for path in found)
        raise DataError(f"{both} are both here and may differ; keep one of them", folder)
    return found[0] if found else None


def listing(folder: Path, most: int = 12) -> str:
    """What stands in a folder, in words, for errors that say what was found."""
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in folder.iterdir())
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "nothing"


def chunks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines in pieces of about a megabyte, each with the number of its first line.

    Every piece ends with a line end, except perhaps the last.
    """
    try:
        size = path.stat().st_size
        if size == 0 and path.is_file() and path.suffix in COMPRESSED[1:]:  # a pipe has no size
            raise DataError("the compressed file has 0 bytes; copy or make it again", path)
        with path.open("rb") as raw, stage(f"reading {path.name.split('.')[0]}", total=size) as advance:
            stream = _unpacked(raw, path)
            line, told = 1, 0
            rest: list[bytes] = []  # the begun line; joined once, since a line may be longer than many chunks
            while piece := stream.read(CHUNK):
                if not told:
                    piece = piece.removeprefix(b"\xef\xbb\xbf")  # a byte order mark is no part of the text
                here = raw.tell() if raw.seekable() else told + len(piece)  # a pipe does not know its place
                advance(here - told)
                told = here
                cut = piece.rfind(b"\n") + 1
                if cut:
                    whole = b"".join([*rest, piece[:cut]])
                    yield line, whole
                    line, rest = line + whole.count(b"\n"), [piece[cut:]]
                else:
                    rest.append(piece)
            if any(rest):
                yield line, b"".join(rest)
    except FileNotFoundError:
        raise DataError("no such file; check the path", path) from None
    except EOFError:
        raise DataError("the compressed file ends too early; copy or make it again", path) from None
    except (zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(
            f"not whole {path.suffix[1:]} data ({error}); compress it again or drop {path.suffix} from its name",
            path,
        ) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error}); check the disk and the rights", path) from None


def _unpacked(raw: IO[bytes], path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if path.suffix == ".xz":
        return lzma.LZMAFile(raw)
    return raw


def decoded(piece: bytes, path: Path, first: int) -> str:
    """A piece of a file as text; what is not UTF-8 is an error that names its line."""
    try:
        return piece.decode()
    except UnicodeDecodeError as error:
        if first == 1 and piece[:2] == b"\x1f\x8b":
            raise DataError("this is gzip data; add .gz to the file's name", path) from None
        if first == 1 and piece[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise DataError(
                f"this is UTF-16, not UTF-8; convert the file: iconv -f utf-16 -t utf-8 {path.name} > new", path
            ) from None
        line = first + piece.count(b"\n", 0, error.start)
        wrong = piece[error.start]
        raise DataError(
            f"byte 0x{wrong:02x} is not UTF-8; convert the file, perhaps: iconv -f latin1 -t utf-8 {path.name} > new",
            path,
            line,
        ) from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without their line feeds. Only the line feed ends a line, so texts keep the rest."""
    for first, piece in chunks(path):
        yield from enumerate(decoded(piece, path, first).removesuffix("\n").split("\n"), first)


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file with one a line; blank lines are skipped."""
    loads = json.loads
    for number, line in lines(path):
        try:
            value = loads(line)
        except (ValueError, RecursionError) as error:
            if not line.strip():
                continue
            what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            raise DataError(f"broken JSON ({what}); each line holds one whole JSON object", path, number) from None
        if type(value) is not dict:
            raise DataError(f'expected a JSON object like {{"id": ...}} on the line, got {_kind(value)}', path, number)
        yield number, value


def whole_object(path: Path) -> dict[str, Any]:
    """A file that is one JSON object."""
    text = "".join(decoded(piece, path, first) for first, piece in chunks(path))
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"broken JSON ({error.msg}); mend the file", path, error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"broken JSON ({error}); mend the file", path) from None
    if type(value) is not dict:
        raise DataError(f"expected one JSON object, got {_kind(value)}", path)
    return value


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
