"""Arrays from `.npy` files and from the archives of `.npz`, whose headers are believed only up to what the file holds.

A header of a hundred bytes may declare any shape, and a library that takes its word allocates it. Nothing in these
files is unpickled or run.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from longtail.arrays import AnyArray
from longtail.data.limits import MAX_MEMBERS, MAX_RATIO, RATIO_FROM
from longtail.data.opening import check_room, file_size, open_file
from longtail.errors import DataError, LongtailError

KINDS = "fiubSU"  # numbers, and the short words that name the format of a sparse matrix
MAX_WORD = 16  # bytes of such a word
DIMENSIONS = 4


def read_array(path: Path, *, copies: float = 1.0, mapped: bool = False) -> AnyArray:
    """Reads a `.npy` file.

    Args:
        path: the file.
        copies: how often its bytes will be in memory, for the question whether they fit.
        mapped: leaves them in the file until they are used.

    Returns:
        The array.

    Raises:
        DataError: it is not a whole array of numbers.
        WillNotFit: there is too little memory for it.
    """
    with open_file(path) as file:
        try:
            return _array(file, file_size(path), path, 0 if mapped else copies)
        except (ValueError, EOFError) as error:
            raise DataError(f"is not a NumPy array of numbers ({error}); write it with numpy.save", path) from None


def read_arrays(path: Path) -> dict[str, AnyArray]:
    """Reads a `.npz` file.

    Args:
        path: the file.

    Returns:
        Its arrays by name.

    Raises:
        DataError: it is a damaged archive, or unpacks to far more than its size.
        ValueError: one of its arrays is damaged.
        WillNotFit: there is too little memory for them.
    """
    with open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if len(members) > MAX_MEMBERS:
                    raise ValueError(f"{len(members)} arrays, and at most {MAX_MEMBERS} are read")
                size = sum(member.file_size for member in members)
                if size > max(RATIO_FROM, MAX_RATIO * file_size(path)):
                    raise DataError(
                        f"unpacks to more than {MAX_RATIO} times its size, which data does not; save it uncompressed",
                        path,
                    )
                check_room(2 * size, path, "its content")
                found: dict[str, AnyArray] = {}
                for member in members:
                    with archive.open(member) as packed:
                        name = member.filename.removesuffix(".npy")
                        found[name] = _array(packed, member.file_size, path, 1.0)
                return found
        except (MemoryError, LongtailError):
            raise
        except Exception as error:  # a damaged archive fails in dozens of ways
            raise ValueError(str(error)) from None


def _array(file: IO[bytes], size: int, path: Path, copies: float) -> AnyArray:
    """The array of a file of `size` bytes. Raises ValueError where its header and its content differ."""
    shape, fortran, dtype, start = _header(file)
    if dtype.kind not in KINDS or (dtype.kind in "SU" and dtype.itemsize > MAX_WORD * 4):
        raise ValueError(f"it holds {str(dtype)[:40]}")
    if len(shape) > DIMENSIONS or not all(type(side) is int and 0 <= side < 2**62 for side in shape):
        raise ValueError(f"its shape is {str(shape)[:60]}")
    count = math.prod(shape)
    expected = count * dtype.itemsize
    if expected != size - start:
        raise ValueError(f"its header says {expected} bytes, and {size - start} follow")
    check_room(int(expected * copies), path, "the array")
    if not copies and expected:
        return np.memmap(file, dtype, "r", start, shape, "F" if fortran else "C")
    flat = np.empty(count, dtype=dtype)
    read = file.readinto(flat.view(np.uint8)) if expected else 0  # type: ignore[attr-defined]
    if read != expected:
        raise ValueError(f"its header says {expected} bytes, and {read} follow")
    return flat.reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes]) -> tuple[tuple[Any, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns come first, type, and where the numbers begin."""
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"its version is {version}")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except Exception as error:  # a header is parsed as Python, which can fail in any way
        raise ValueError(f"its header is damaged: {' '.join(str(error)[:80].split())}") from None
    return shape, fortran, dtype, file.tell()
