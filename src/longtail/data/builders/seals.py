"""What a build has finished, as it was then: the size and checksum of each file, so that a later run sees any change.

A seal is a small file of its own beside the stages. It is written before its part gets its name, so a part that has a
name has a seal.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from longtail.errors import DataError
from longtail.read_back import reading_back

READ = 1 << 22  # bytes hashed at once
LARGEST = 1 << 28  # bytes of a seal; one entry takes about a hundred


def write_seal(part: Path, seal: Path, names: tuple[str, ...] | None = None) -> None:
    """Writes down what a part holds.

    Args:
        part: a file, or a folder of files.
        seal: the file to write.
        names: those in the folder that stay, where the others are about to be removed; None: all.
    """
    files = _files_of(part) if names is None else {name: part / name for name in names}
    facts = {name: [path.stat().st_size, _checksum(path)] for name, path in files.items()}
    seal.parent.mkdir(parents=True, exist_ok=True)
    seal.write_text(json.dumps({"whole": names is None, "files": facts}))


def is_intact(part: Path, seal: Path) -> bool:
    """Whether a part still holds what it held when it was sealed.

    Args:
        part: a file, or a folder of files.
        seal: that `write_seal` wrote.

    Returns:
        False where a file was changed, added or removed, is a link or no regular file, or where the seal is damaged.
    """
    try:
        with reading_back(seal, "", DataError):
            if seal.is_symlink() or seal.stat().st_size > LARGEST:
                return False
            said: dict[str, Any] = json.loads(seal.read_text())
            wanted = {str(name): (int(size), str(checksum)) for name, (size, checksum) in said["files"].items()}
            there = _files_of(part)
            if said["whole"] and there.keys() != wanted.keys():
                return False
            sizes = all(name in there and there[name].stat().st_size == size for name, (size, _) in wanted.items())
            return sizes and all(_checksum(there[name]) == checksum for name, (_, checksum) in wanted.items())
    except DataError:
        return False


def remove(path: Path) -> None:
    """Removes a file, a link or a folder, if there is one; what a link leads to stays.

    Args:
        path: of it.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _files_of(part: Path) -> dict[str, Path]:
    """The files of a part by their paths within it.

    Raises:
        ValueError: one is a link, a pipe or a device.
    """
    found: dict[str, Path] = {}
    ahead = [part]
    while ahead:
        path = ahead.pop()
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise ValueError(f"{path} is no regular file")
        if path.is_dir():
            ahead += path.iterdir()
        else:
            found[os.path.relpath(path, part)] = path
    return found


def _checksum(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(READ):
            digest.update(block)
    return digest.hexdigest()
