"""The one place where data files are opened: their type and size are looked at before a byte is read.

A pipe, a socket or a device where a file is expected would block for ever or never end. Links are followed, and what
they lead to is looked at. A pipe is read only where the caller hands it over as an open descriptor, as shells do for
`<(command)`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from longtail.data.limits import ASK_FROM
from longtail.errors import DataError, WillNotFit
from longtail.memory import available_bytes, readable

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# Opening a pipe waits for its other end, and opening a terminal may make it ours; these flags forbid both.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


def open_file(path: str | Path) -> IO[bytes]:
    """Opens a file for reading.

    Args:
        path: the file.

    Returns:
        The open file; close it.

    Raises:
        DataError: there is none, it may not be read, or it is something else than a file.
    """
    path = Path(path)
    file_size(path)  # before opening, since to open a device can already do something
    try:
        handle = os.open(path, FLAGS)
    except (OSError, ValueError) as error:
        raise cannot_read(path, error) from None
    try:
        _refuse(path, os.fstat(handle).st_mode)  # it may have been replaced in between
        if hasattr(os, "set_blocking"):
            os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def file_size(path: Path) -> int:
    """Looks at a file without opening it.

    Args:
        path: the file.

    Returns:
        Its bytes on the disk.

    Raises:
        DataError: there is none, or it is something else than a file.
    """
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise cannot_read(path, error) from None
    _refuse(path, found.st_mode)
    return found.st_size


def cannot_read(path: Path, error: Exception) -> DataError:
    """What the system says of a file, as an error of the data.

    Args:
        path: the file.
        error: what opening or reading it raised.

    Returns:
        The error to raise.
    """
    number = getattr(error, "errno", None)
    if number == errno.ENOENT:
        leads = "is a link to a file that is not there; check the link" if path.is_symlink() else ""
        return DataError(leads or "no such file; check the path", path)
    if number == errno.ELOOP:
        return DataError("is a link that leads back to itself; replace it by the file", path)
    reason = getattr(error, "strerror", None) or error
    return DataError(f"cannot be read ({reason}); check the disk and the rights", path)


def check_room(size: int, path: str | Path | None, what: str) -> None:
    """Asks whether there is memory for something, before it is taken.

    Args:
        size: its bytes.
        path: the file that it comes from.
        what: what it is, for the message.

    Raises:
        WillNotFit: less memory is free.
    """
    if size <= ASK_FROM:
        return
    free = available_bytes()
    if size > free:
        where = "" if path is None else f"{path}: "
        raise WillNotFit(
            f"{where}{what} needs about {readable(size)} of memory, but only {readable(free)} are free; use fewer "
            "rows or a larger machine"
        )


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turns what the system says while a data set is read into errors of longtail.

    Args:
        path: the file or folder.

    Yields:
        Nothing.

    Raises:
        DataError: a file or folder cannot be read.
        WillNotFit: memory ran out.
    """
    try:
        yield
    except MemoryError:
        raise WillNotFit(
            f"{path}: reading it takes more memory than there is; use fewer rows or a larger machine"
        ) from None
    except OSError as error:
        raise cannot_read(Path(error.filename or path), error) from None


def _refuse(path: Path, mode: int) -> None:
    """Raises DataError for anything that is not a file."""
    if stat.S_ISREG(mode) or (not stat.S_ISDIR(mode) and _handed_over(path)):
        return
    kind = next((name for is_kind, name in KINDS if is_kind(mode)), "not a file")
    hint = "; write what comes out of it to a file, or give it as <(command)" if stat.S_ISFIFO(mode) else ""
    link = "a link to " if path.is_symlink() else ""
    raise DataError(f"is {link}{kind}, and a file is expected{hint or '; give a file'}", path)


def _handed_over(path: Path) -> bool:
    """Whether a path names a descriptor that is already open, such as /dev/fd/63 or /dev/stdin."""
    return path.parent in (Path("/dev/fd"), Path("/proc/self/fd")) or path == Path("/dev/stdin")
