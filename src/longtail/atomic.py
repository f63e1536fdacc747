"""Files and folders that appear whole or not at all: a temporary name beside the real one, flushed, then renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """A text file that takes its name when the block ends well; what stood there before stays until then."""
    if path.exists() and not path.is_file():  # a device or a pipe is written to, never replaced
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    path = path.resolve()  # a link stays a link; the file it leads to is replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path, "writing")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder that takes its name when the block ends well, in the place of one that stood there."""
    path = path.resolve()  # a link stays a link; the folder it leads to is replaced
    temporary, aside = _beside(path, "writing"), _beside(path, "replaced")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        _flush_folder(temporary)
        try:
            if path.exists():
                path.rename(aside)
            temporary.rename(path)
        except BaseException:  # Ctrl-C too: what stood there comes back
            if aside.exists() and not path.exists():
                aside.rename(path)
            raise
        _flush_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if path.exists():
            shutil.rmtree(aside, ignore_errors=True)


def _beside(path: Path, why: str) -> Path:
    return path.parent / f".{path.name}.{why}-{os.getpid()}"


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
