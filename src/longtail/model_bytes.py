"""Files of a model folder as bytes and arrays, read without trust: type and size come before the first byte.

A file may be anything that a name can lead to: a pipe that never answers, a device that never ends, a header that
claims more than there is. So a path is looked at before it is opened, only regular files are read, no more is read than
was there at that moment, and arrays are views of what was read: a folder takes as much memory as its files have bytes.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from longtail.arrays import DTYPES, AnyArray, Bytes
from longtail.errors import ModelError

MAX_HEADER = 1 << 22  # bytes of a safetensors header: some 30,000 arrays
MAX_AXES, MAX_AXIS = 8, 1 << 48
TYPES = {written: np.dtype(name) for name, written in DTYPES.items()}


def size_of(path: Path, advice: str = "the model is not whole, copy it again") -> int:
    """The size of a regular file, which is not opened.

    Args:
        path: the file; a link is followed.
        advice: what to do, for the error.

    Returns:
        Bytes.

    Raises:
        ModelError: there is no such file, or it is something else than a file.
    """
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({_reason(error)}); {advice}") from None
    return _regular_size(path, found)


def read_regular(
    path: Path, most: int, advice: str = "the model is not whole, copy it again", mapped: bool = False
) -> Bytes:
    """Read a regular file whole.

    Args:
        path: the file; a link is followed.
        most: bytes that it may have.
        advice: what to do where it cannot be read, for the error.
        mapped: map it instead: processes that map the same file share its pages. The file is opened for reading only;
            a page that is written becomes this process's own, so what works on a copy works on these bytes.

    Returns:
        Its bytes (bytes,) uint8, which can be written without changing the file.

    Raises:
        ModelError: it cannot be read, is no regular file, is too long, or changes while it is read.
    """
    size_of(path, advice)  # opening a device may already do something
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(handle, "rb", buffering=0) as file:
            size = _regular_size(path, os.fstat(handle))
            if size > most:
                raise ModelError(f"{path}: has {size:,} bytes, and a file of this kind at most {most:,}")
            if mapped and size:  # nothing cannot be mapped
                return np.frombuffer(mmap.mmap(handle, size, access=mmap.ACCESS_COPY), dtype=np.uint8)
            raw = np.empty(size, dtype=np.uint8)
            room, got = raw.data, 0
            while got < size and (more := file.readinto(room[got:])):
                got += more
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({_reason(error)}); {advice}") from None
    if got < size:
        raise ModelError(f"{path}: became shorter while it was read; {advice}")
    return raw


def arrays_from(path: Path, raw: Bytes) -> dict[str, AnyArray]:
    """The arrays of a safetensors file, as views of its bytes.

    Args:
        path: of the file, for errors.
        raw: its bytes.

    Returns:
        Arrays by name.

    Raises:
        ModelError: the header does not describe exactly the bytes behind it.
    """
    length = int.from_bytes(raw[:8].tobytes(), "little")
    if len(raw) < 8 or length > min(len(raw) - 8, MAX_HEADER):
        raise ModelError(f"{path}: is no safetensors file: a header of {length:,} bytes in a file of {len(raw):,}")
    try:
        header = json.loads(raw[8 : 8 + length].tobytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: its header is not valid JSON ({_reason(error)})") from None
    if not isinstance(header, dict):
        raise ModelError(f"{path}: its header is no JSON object")
    header.pop("__metadata__", None)
    body, arrays, spans = raw[8 + length :], {}, []
    for name, facts in header.items():
        dtype, shape, (begin, end) = _facts(path, name, facts)
        if end > len(body) or math.prod(shape) * dtype.itemsize != end - begin:
            raise ModelError(
                f"{path}: array {name!r} has the shape {shape} of {dtype.name} in bytes {begin} to {end} of {len(body)}"
            )
        spans.append((begin, end))
        piece = body[begin:end]
        if dtype == np.bool_ and len(piece) and int(piece.max()) > 1:
            raise ModelError(f"{path}: array {name!r} has bytes that are neither true nor false")
        view = piece.view(np.uint8) if piece.ctypes.data % dtype.alignment == 0 else piece.copy()
        arrays[name] = view.view(dtype).reshape(shape)
    spans.sort()
    ends = [0, *(end for _, end in spans)]
    if [begin for begin, _ in spans] != ends[:-1] or ends[-1] != len(body):
        raise ModelError(f"{path}: its arrays leave out bytes, or share some")
    return arrays


def _facts(path: Path, name: str, facts: Any) -> tuple[np.dtype[Any], list[int], list[int]]:
    """Type, shape and place of an array in the file."""
    try:
        dtype, shape, span = TYPES[facts["dtype"]], facts["shape"], facts["data_offsets"]
        numbers = [*shape, *span]
        fits = isinstance(shape, list) and len(shape) <= MAX_AXES and isinstance(span, list) and len(span) == 2
        if not fits or not all(type(number) is int and 0 <= number <= MAX_AXIS for number in numbers):
            raise ValueError
        if math.prod(size for size in shape if size) > MAX_AXIS:  # NumPy's limit holds even if one axis is 0
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise ModelError(f"{path}: the header says of array {name!r} what no array can be") from None
    return dtype, shape, span


def _regular_size(path: Path, found: os.stat_result) -> int:
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), "something else")
        raise ModelError(f"{path}: is {kind}, where a model has a file; it is not read")
    return found.st_size


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
