"""Labels that were added to a model while it was served, on disk.

    {"id": "sea glass", "text": "sea glass", "check": "5d0c1f2e"}     one label per line, in MODEL.added.jsonl

A line is flushed to the disk before the label is acknowledged, so a power cut or kill -9 loses no acknowledged label.
A last line that is incomplete or does not match its checksum was being written at that moment. It was never
acknowledged, and the next start cuts it off. A damaged line in the middle is an error: acknowledged labels are lost.

The journal lies beside the model folder, because the folder's checksums cover everything in it.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from longtail.data.opening import check_room
from longtail.errors import ModelError, WriteError, what_to_do
from longtail.read_back import check_regular

ATTEMPTS = 100  # to open a file that others remove


class Entry(NamedTuple):
    """An added label."""

    id: str
    text: str


def journal_of(model: Path) -> Path:
    """The journal of a model: a file beside its folder, because a model folder never changes.

    Args:
        model: the model folder.

    Returns:
        The path of the file.
    """
    folder = model.resolve()
    return folder.parent / f"{folder.name}.added.jsonl"


class Journal:
    """The open file; only one process at a time can hold it.

    Args:
        path: the file; created where it is missing.

    Raises:
        ModelError: the file cannot be opened or is no file, another process holds it, or a line is damaged.
        WillNotFit: there is too little memory for it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1
        if path.exists():
            check_regular(path, "added labels are kept in a file: move it away")
        self.torn = 0  # bytes of an unfinished line that were cut off
        try:
            self._open()
        except BlockingIOError:
            self.close()
            raise ModelError(f"{path} is held by another service; stop it, or serve a copy of the model") from None
        except OSError as error:
            self.close()
            raise ModelError(
                f"{path}: added labels cannot be saved here ({error.strerror or error}); serve the model from a folder "
                "that can be written"
            ) from None
        try:
            self.entries = self._replay()
            _flush_folder(path.parent)  # the name of the file must survive a power cut, too
        except OSError as error:
            self.close()
            raise ModelError(
                f"{path}: the journal of added labels cannot be used ({error.strerror or error}); nothing in it was "
                f"changed; {what_to_do(error)}"
            ) from None
        except BaseException:
            self.close()
            raise
        self._size = os.fstat(self._file).st_size  # bytes of acknowledged lines

    def add(self, entries: Sequence[Entry]) -> None:
        """Appends labels and flushes them to the disk.

        Args:
            entries: the labels. When this returns, all are on the disk; after an error, none is.

        Raises:
            WriteError: the disk is full or the file cannot be written. The next call tries anew.
        """
        raw = "".join(map(_line, entries)).encode()
        try:
            self._cut()
            written = 0
            while written < len(raw):
                written += os.write(self._file, raw[written:])
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # else the next call, or the next start, cuts it off
                self._cut()
            raise WriteError(self.path, error) from None
        self._size += len(raw)
        self.entries += entries

    def _cut(self) -> None:
        """Cuts off what a failed write left: appended to, it would become a damaged line among good ones."""
        if os.fstat(self._file).st_size != self._size:
            os.ftruncate(self._file, self._size)

    def close(self) -> None:
        """Closes the file, so that another process can hold it; an empty file is removed."""
        handle, self._file = self._file, -1
        if handle >= 0:
            with suppress(OSError):  # every line that counts is on the disk already
                if not os.fstat(handle).st_size and _is_at(handle, self.path):
                    self.path.unlink()  # under the lock: whoever has opened it meanwhile sees that it is gone
            with suppress(OSError):
                os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        """Opens the file and takes its lock; again where the last holder removed it in between."""
        for _ in range(ATTEMPTS):
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._file)  # not `close`: the file belongs to its holder, empty or not
                self._file = -1
                raise
            if _is_at(self._file, self.path):
                return
            os.close(self._file)
            self._file = -1
        raise BlockingIOError

    def _replay(self) -> list[Entry]:
        size = os.fstat(self._file).st_size
        check_room(3 * size, self.path, "reading the added labels again")  # the bytes, the entries, and their texts
        with open(self._file, "rb", closefd=False) as file:
            raw = file.read(size)
        entries: list[Entry] = []
        start = 0
        while start < len(raw):
            end = raw.find(b"\n", start) + 1
            entry = _read(raw[start:end]) if end else None
            if entry is None:
                if end and end < len(raw):
                    raise ModelError(
                        f"{self.path}:{len(entries) + 1}: a damaged line, followed by others; restore the file from a "
                        "copy, or remove that line if its label is not needed"
                    )
                self.torn = len(raw) - start
                os.ftruncate(self._file, start)
                os.fsync(self._file)
                break
            entries.append(entry)
            start = end
        return entries


def _line(entry: Entry) -> str:
    body = {"id": entry.id, "text": entry.text}
    return json.dumps({**body, "check": _check(body)}, ensure_ascii=True) + "\n"


def _read(line: bytes) -> Entry | None:
    """The entry of a line; None where the line is damaged."""
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


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
