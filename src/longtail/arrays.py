"""Names for the array shapes that travel between rooms, and strings as arrays."""

from __future__ import annotations

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


def pack_strings(strings: Sequence[str]) -> tuple[Bytes, Longs]:
    """Strings as one run of UTF-8 bytes and the offsets between them, so that they save as tensors."""
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8).copy(), offsets


def unpack_strings(packed: Bytes, offsets: Longs) -> list[str]:
    """The strings that `pack_strings` packed."""
    raw = packed.tobytes()
    return [raw[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(offsets.tolist())]
