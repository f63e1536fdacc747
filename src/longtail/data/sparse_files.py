"""Sparse matrices as `scipy.sparse.save_npz` writes them, put together from arrays that are not to be trusted.

SciPy's own check looks at indices only where there are entries, and its conversions allocate what the shape declares.
So the shape, the row starts and the indices are checked here, before SciPy sees them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Matrix
from longtail.data.limits import FREE_LABELS, INDEX_LIMIT, PER_ENTRY


def sparse_matrix(arrays: Mapping[str, AnyArray]) -> Matrix:
    """Makes a matrix from the arrays of its file.

    Args:
        arrays: by name: format, shape and data, with indptr and indices, or with row and col.

    Returns:
        csr (rows, columns)

    Raises:
        ValueError: the arrays do not make a matrix.
        KeyError: one of them is missing.
    """
    kind = _word(arrays["format"])
    shape, data = _shape(arrays["shape"]), arrays["data"]
    if data.ndim != 1 or data.dtype.kind not in "fiub" or data.dtype.itemsize > 8:
        raise ValueError(f"its entries are {data.dtype} of {data.ndim} dimensions")
    if kind not in ("csr", "csc", "coo"):
        raise ValueError(f"its format is {kind[:20]!r}; use .tocsr() first")
    if kind == "coo":
        row = _indices(arrays["row"], len(data), shape[0])
        column = _indices(arrays["col"], len(data), shape[1])
        _backed(shape[0], len(data))
        return sparse.csr_array((data, (row, column)), shape=shape)
    long, short = shape if kind == "csr" else shape[::-1]
    starts = _starts(arrays["indptr"], long, len(data))
    parts = data, _indices(arrays["indices"], len(data), short), starts
    if kind == "csr":
        return sparse.csr_array(parts, shape=shape)
    _backed(shape[0], len(data))
    return sparse.csc_array(parts, shape=shape).tocsr()


def _word(array: AnyArray) -> str:
    if array.ndim or array.dtype.kind not in "SU":
        raise ValueError("its format is not a word")
    value = array.item()
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _shape(array: AnyArray) -> tuple[int, int]:
    if array.shape != (2,) or array.dtype.kind not in "iu":
        raise ValueError("its shape is not two whole numbers")
    rows, columns = (int(side) for side in array)
    if not (0 <= rows <= INDEX_LIMIT and 0 <= columns <= INDEX_LIMIT):
        raise ValueError(f"its shape is {rows} x {columns}, and at most {INDEX_LIMIT} rows and columns are read")
    return rows, columns


def _backed(rows: int, entries: int) -> None:
    """Rows are allocated one by one, so they must not be a mere claim."""
    limit = max(FREE_LABELS, PER_ENTRY * entries)
    if rows > limit:
        raise ValueError(f"it declares {rows} rows for {entries} entries, and at most {limit} are believed")


def _indices(array: AnyArray, entries: int, limit: int) -> AnyArray:
    if array.shape != (entries,) or array.dtype.kind not in "iu":
        raise ValueError(f"{len(array) if array.ndim else 1} indices of {array.dtype} for {entries} entries")
    if entries and not (array.min() >= 0 and array.max() < limit):
        raise ValueError(f"an index does not lie in 0..{limit - 1}")
    return array.astype(np.int32)


def _starts(array: AnyArray, rows: int, entries: int) -> AnyArray:
    if array.shape != (rows + 1,) or array.dtype.kind not in "iu":
        raise ValueError(f"its shape and its {array.size} row starts do not match")
    if array.dtype.kind == "u" and array.max() > np.uint64(entries):  # casting would wrap
        raise ValueError("the row starts do not end at the number of entries")
    starts = array.astype(np.int64)
    if starts[0] != 0 or starts[-1] != entries or (np.diff(starts) < 0).any():
        raise ValueError("the row starts do not rise from 0 to the number of entries")
    return starts
