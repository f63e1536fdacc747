"""Csr matrices as kernels take them: always the same types, so that a kernel compiles once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from longtail.arrays import AnyArray, Matrix


class CsrArrays(NamedTuple):
    """The three arrays of a csr matrix: row r has the entries starts[r] to starts[r + 1]."""

    starts: AnyArray  # (rows + 1,) int64
    columns: AnyArray  # (entries,) int32
    values: AnyArray  # (entries,) float32


def csr_arrays(matrix: Matrix) -> CsrArrays:
    """The arrays of a matrix, read-only, because those of data sets are.

    Args:
        matrix: csr (rows, columns).

    Returns:
        Its arrays; they share memory with the matrix where the types fit.
    """
    return read_only_arrays(matrix.indptr, matrix.indices, matrix.data)


def read_only_arrays(starts: AnyArray, columns: AnyArray, values: AnyArray) -> CsrArrays:
    """The same as `csr_arrays`, from the single arrays.

    Args:
        starts: (rows + 1,).
        columns: (entries,).
        values: (entries,).

    Returns:
        Read-only views of them, or copies of the types that kernels take.
    """
    return CsrArrays(
        read_only(starts.astype(np.int64, copy=False)),
        read_only(columns.astype(np.int32, copy=False)),
        read_only(values.astype(np.float32, copy=False)),
    )


def read_only(array: AnyArray) -> AnyArray:
    """A view that cannot be written to.

    Args:
        array: any array.

    Returns:
        The read-only view.
    """
    view = array.view()
    view.flags.writeable = False
    return view
