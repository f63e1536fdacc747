"""Files and folders that appear whole or not at all: written under a temporary name, flushed, then renamed.

The temporary name is `.NAME.writing-PID-WORD`. Its writer holds a lock on it (flock), which the system releases when
the process ends, however it ends. The next writer of NAME removes temporary names that nobody has locked. A process
number would not do: it may belong to another process by then, or to a process of another container. On a file system
without locks nothing is removed.

A folder is replaced by one system call that exchanges two names, so there is no moment without it. Where the system has
no such call, the older folder is moved aside first; the next writer moves it back if the process was killed in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from longtail.errors import WriteError

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows, where nothing left over is removed
    fcntl = None

ATTEMPTS = 100  # to make a temporary file that no other writer takes for a left-over
RENAME_EXCHANGE = 2  # of Linux's renameat2
AT_FDCWD = -100
OPENED = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """Write a text file that appears when the block ends without an error. Until then an older file stays.

    Args:
        path: the file; missing folders are made.

    Yields:
        The file to write to, UTF-8.
    """
    if path.exists() and not path.is_file():  # a device or a pipe is written to, never replaced
        with _telling(path, lambda: path), path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    with new_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def new_own_file(path: Path) -> Iterator[TextIO]:
    """Write a text file of a folder of our own, as `new_file`. Whatever has its name is replaced, a pipe too: nobody
    has named it, so nobody reads from it, and opening it would wait for ever.

    Args:
        path: the file; missing folders are made.

    Yields:
        The file to write to, UTF-8.
    """
    if path.is_symlink() and not path.is_file():  # the link is replaced, and never the device that it leads to
        with _telling(path, lambda: path):
            path.unlink()
    with new_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def new_path(path: Path) -> Iterator[Path]:
    """Write a file through its path; otherwise as `new_file`.

    Args:
        path: the file; missing folders are made.

    Yields:
        The path of an empty temporary file, to be opened and written. It is flushed here.

    Raises:
        WriteError: the file cannot be written.
    """
    path = _resolved(path)
    temporary = path
    with _telling(path, lambda: temporary):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, path.name)
        with _locked(path, folder=False) as temporary:
            yield temporary
            _flush(temporary)
            temporary.replace(path)
        _flush(path.parent)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Write a folder that appears when the block ends without an error, and then replaces an older one.

    Args:
        path: the folder; missing parents are made.

    Yields:
        The temporary folder to write into.

    Raises:
        WriteError: the folder cannot be written. What was there before stays.
    """
    path = _resolved(path)
    temporary = path
    with _telling(path, lambda: temporary):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, path.name)
        with _locked(path, folder=True) as temporary:
            yield temporary
            _flush(temporary)
            _put(temporary, path)


def _resolved(path: Path) -> Path:
    """What a link leads to: the link stays, and what it leads to is replaced."""
    try:
        return path.resolve()
    except RuntimeError:  # it leads back to itself
        raise WriteError(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP))) from None


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove temporary files and folders whose writer has ended, and move back what was moved aside.

    Args:
        folder: where they are.
        name: of the file or folder that was being written; None: of any.
    """
    if fcntl is None:
        return
    # Releases before 0.2 wrote `.NAME.writing-PID` without a lock; these names do not match.
    written = r"\.(?P<name>.+)" if name is None else rf"\.(?P<name>{re.escape(name)})"
    pattern = re.compile(written + r"\.(?P<kind>writing|replaced)-\d+-[0-9a-f]{8}", re.DOTALL)
    try:
        found = [match for place in folder.iterdir() if (match := pattern.fullmatch(place.name)) is not None]
    except OSError:
        return
    for match in found:
        place = folder / match[0]
        with suppress(OSError), _lock(place):
            home = folder / match["name"]
            if match["kind"] == "replaced" and not home.exists():
                place.rename(home)
            else:
                _remove(place)


@contextmanager
def _locked(path: Path, folder: bool) -> Iterator[Path]:
    """A new temporary file or folder beside the path, locked in this block and removed after it."""
    for attempt in range(ATTEMPTS):
        temporary = _beside(path, "writing")
        with contextlib.ExitStack() as lock:
            try:
                if folder:
                    temporary.mkdir()
                else:
                    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
                if fcntl is not None:
                    lock.enter_context(_lock(temporary))
            except (BlockingIOError, FileNotFoundError):
                if not path.parent.is_dir() or attempt == ATTEMPTS - 1:  # such as a folder where nothing can be made
                    raise
                continue  # another writer took it for a left-over before it was locked
            except OSError as error:
                if temporary.exists() and not _knows_no_locks(error):
                    _remove(temporary)
                    raise
            try:
                yield temporary
            finally:
                _remove(temporary)
            return


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Holds the lock of a file or folder. BlockingIOError: another process does; FileNotFoundError: it is gone."""
    handle = os.open(place, OPENED)
    try:
        kind = os.fstat(handle).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise FileNotFoundError(place)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), place.lstat()):  # removed while this process waited for the lock
            raise FileNotFoundError(place)
        yield
    finally:
        with suppress(OSError):
            os.close(handle)


def _put(temporary: Path, path: Path) -> None:
    """Give a finished folder its name. After an error the older folder has it again."""
    if not path.exists():
        temporary.rename(path)
        with _undone(lambda: path.rename(temporary)):
            _flush(path.parent)
    elif _exchange(temporary, path):
        with _undone(lambda: _exchange(temporary, path)):
            _flush(path.parent)
    else:
        aside = _beside(path, "replaced")
        with contextlib.ExitStack() as lock:
            with suppress(OSError):
                if fcntl is not None:
                    lock.enter_context(_lock(path))  # a writer that starts now leaves it alone
            path.rename(aside)
            with _undone(lambda: aside.rename(path)):
                temporary.rename(path)
            with _undone(lambda: (path.rename(temporary), aside.rename(path))):
                _flush(path.parent)
            _remove(aside)


@contextmanager
def _undone(undo: Any) -> Iterator[None]:
    """Undoes the step before where this block fails: Ctrl-C counts, too."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            undo()
        raise


@contextmanager
def _telling(path: Path, temporary: Any) -> Iterator[None]:
    """Turns errors of the file system into one that names the path. Errors in reading other files pass."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        named = error.filename
        ours = (path, path.parent, temporary())
        if isinstance(named, str | os.PathLike) and not any(Path(named).is_relative_to(one) for one in ours):
            raise
        raise WriteError(path, error) from None


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two names in one step; False where the system cannot."""
    call = _renameat2()
    # Some file systems refuse. Where names cannot be changed at all, the rename that follows says why.
    return call is not None and call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0


@cache
def _renameat2() -> Any:
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call


def _knows_no_locks(error: OSError) -> bool:
    return error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL)


def _remove(place: Path) -> None:
    """Removes a file or folder as far as possible. Twice: what fails once, as by EIO, may succeed."""
    for _ in range(2):
        with suppress(OSError):
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place, ignore_errors=True)  # still raises where a folder cannot be closed
            else:
                place.unlink(missing_ok=True)
        if not os.path.lexists(place):
            return


def _beside(path: Path, purpose: str) -> Path:
    return path.parent / f".{path.name}.{purpose}-{os.getpid()}-{secrets.token_hex(4)}"


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
