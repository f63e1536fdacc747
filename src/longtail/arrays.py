"""Names for the types of arrays, strings as arrays, and the size of arrays in a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int32]
Longs: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
Matrix: TypeAlias = Any  # scipy.sparse.csr_array; SciPy ships no types

HEADER_ALIGNMENT = 8  # safetensors pads its header to a multiple of this many bytes
# How safetensors writes a data type, in the order in which it writes the tensors: widest first.
DTYPES = {"uint64": "U64", "int64": "I64", "float64": "F64", "float32": "F32", "uint32": "U32", "int32": "I32"}
DTYPES |= {"float16": "F16", "uint16": "U16", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL"}


def pack_strings(strings: Sequence[str]) -> tuple[Bytes, Longs]:
    """Turn strings into arrays, which can be saved as tensors.

    Args:
        strings: any strings.

    Returns:
        All strings as UTF-8 bytes (bytes,) uint8, and offsets (strings + 1,) int64: string i has the bytes from offset
        i to offset i + 1.
    """
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8).copy(), offsets


def unpack_strings(packed: Bytes, offsets: Longs) -> list[str]:
    """Turn the arrays of `pack_strings` into strings again.

    Args:
        packed: (bytes,) uint8.
        offsets: (strings + 1,) int64.

    Returns:
        The strings.
    """
    raw = packed.tobytes()
    return [raw[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(offsets.tolist())]


def safetensors_bytes(arrays: dict[str, AnyArray]) -> int:
    """Compute the size of the safetensors file with these arrays: 8 bytes, a padded JSON header, then the arrays.

    Args:
        arrays: by name.

    Returns:
        Bytes.
    """
    order, offset, header = list(DTYPES), 0, {}
    for name in sorted(arrays, key=lambda name: (order.index(arrays[name].dtype.name), name)):
        array = arrays[name]
        span = [offset, offset + array.nbytes]
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": span}
        offset += array.nbytes
    written = len(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode())
    return 8 + -(-written // HEADER_ALIGNMENT) * HEADER_ALIGNMENT + offset
