"""Labels that joined a model while it served, on disk before anybody is told.

    {"id": "sea glass", "text": "sea glass", "check": "5d0c1f2e"}     a label a line, in MODEL.added.jsonl

A line is flushed to the disk before the label is acknowledged, so a power cut or kill -9 loses no acknowledged label.
A last line without its end, or one that does not fit its checksum, was being written at that moment: nobody was told
of it, and it is cut off at the next start. A damaged line in the middle is an error, since labels stood there.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from longtail.errors import ModelError


class Entry(NamedTuple):
    id: str
    text: str


def journal_of(model: Path) -> Path:
    """Where the labels that join a model folder are kept: beside it, since a model folder is never changed."""
    folder = model.resolve()
    return folder.parent / f"{folder.name}.added.jsonl"


class Journal:
    """The open file; one process at a time holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = 0  # bytes of an unfinished line that were cut off
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ModelError(f"{path}: labels that are added cannot be kept here ({error.strerror or error})") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise ModelError(f"{path} is held by another service; stop it, or serve a copy of the model") from None
        try:
            self.entries = self._replay()
            _flush_folder(path.parent)  # the file's own name must survive too
        except BaseException:
            self.close()
            raise

    def add(self, entries: Sequence[Entry]) -> None:
        """Append and flush; when this returns, the labels are on the disk. After an error, none of them is."""
        raw = "".join(map(_line, entries)).encode()
        begin = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(raw):
                written += os.write(self._file, raw[written:])
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, begin)
            raise
        self.entries += entries

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _replay(self) -> list[Entry]:
        raw = self.path.read_bytes()
        entries: list[Entry] = []
        begin = 0
        while begin < len(raw):
            end = raw.find(b"\n", begin) + 1
            entry = _read(raw[begin:end]) if end else None
            if entry is None:
                if end and end < len(raw):
                    raise ModelError(
                        f"{self.path}:{len(entries) + 1}: a damaged line, and others stand behind it; restore the file "
                        "from a copy, or remove that line if its label may go"
                    )
                self.torn = len(raw) - begin
                os.ftruncate(self._file, begin)
                os.fsync(self._file)
                break
            entries.append(entry)
            begin = end
        return entries


def _line(entry: Entry) -> str:
    body = {"id": entry.id, "text": entry.text}
    return json.dumps({**body, "check": _check(body)}, ensure_ascii=True) + "\n"


def _read(line: bytes) -> Entry | None:
    """The entry of a line, or None where it is not one we wrote."""
    try:
        row = json.loads(line)
        body = {"id": row["id"], "text": row["text"]}
        if row["check"] == _check(body) and isinstance(row["id"], str) and isinstance(row["text"], str):
            return Entry(**body)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _check(body: dict[str, str]) -> str:
    return f"{zlib.crc32(json.dumps(body, sort_keys=True).encode()):08x}"


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
