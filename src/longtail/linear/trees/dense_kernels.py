"""Products of rows' vectors with the dense weights of a forest's classifiers.

A chunk's dense weights are a table (dense columns, children), in steps of the chunk's scale. At a node with many rows
they are unpacked once, and serve four rows at a time, so that a line of weights is loaded once for the four. A node
with few rows reads the packed table. Both ways add the same numbers in the same order, so the scores of a row do not
depend on the other rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Floats, Longs
from longtail.linear.csr_arrays import CsrArrays
from longtail.linear.solvers.numba_compile import INNER, KERNEL, ZERO

NONE, ONE, TWO, THREE, FOUR = (np.uintp(number) for number in range(5))  # inside a kernel, each would be a call
NIL = np.float32(0.0)
NO_TABLE = -1  # of a chunk whose dense weights are all 0
FUSED: dict[str, Any] = {**INNER, "fastmath": {"contract"}}  # a product and a sum in one operation


class DenseColumns(NamedTuple):
    """The last columns of a matrix, where they are dense."""

    first: int  # column
    number: int


class DenseWeights(NamedTuple):
    """The dense weights of a `LabelForest`, and the rows' values in their columns."""

    begins: Longs  # (chunks,) where the table of each chunk begins in `weights`; NO_TABLE for none
    weights: AnyArray  # int16
    columns: int
    vectors: Floats  # (rows x padded columns,), 0 in the padding


class DenseScratch(NamedTuple):
    """Arrays of one thread."""

    table: Floats  # (padded columns x lanes,) the weights of a chunk
    sums: Floats  # (4 x lanes,)


def padded(columns: int) -> int:
    """Columns of rows and tables in the kernels: a multiple of four.

    Args:
        columns: dense ones.

    Returns:
        So many, and the padding.
    """
    return -(-columns // 4) * 4


def split(rows: CsrArrays, dense: DenseColumns) -> tuple[CsrArrays, Floats]:
    """Rows' dense columns apart from the others.

    Args:
        rows: a block of rows; columns ascend in each.
        dense: which are dense.

    Returns:
        The same rows without their dense columns, and their vectors (rows x padded columns,).
    """
    number, begin = len(rows.starts) - 1, int(rows.starts[0])
    room = int(rows.starts[-1]) - begin
    starts = np.zeros(number + 1, dtype=rows.starts.dtype)
    columns, values = np.empty(room, dtype=rows.columns.dtype), np.empty(room, dtype=np.float32)
    vectors = np.zeros(number * padded(dense.number), dtype=np.float32)
    _split(*rows, dense.first, padded(dense.number), starts, columns, values, vectors)
    kept = int(starts[-1])
    return CsrArrays(starts, columns[:kept].copy(), values[:kept].copy()), vectors


@njit(**KERNEL)
def _split(row_starts, row_columns, row_values, first, width, starts, columns, values, vectors):  # type: ignore[no-untyped-def]
    """Fill the last four arrays."""
    kept = ZERO
    for row in range(len(starts) - 1):
        for entry in range(row_starts[row], row_starts[row + 1]):
            column = row_columns[entry]
            if column < first:
                columns[kept], values[kept] = column, row_values[entry]
                kept += 1
            else:
                vectors[row * width + column - first] = row_values[entry]
        starts[row + 1] = kept


@njit(**INNER)
def unpack_table(begin, children, lanes, dense, scratch):  # type: ignore[no-untyped-def]
    """The table of a chunk as float32, its children padded to `lanes`.

    Args:
        begin: where it begins.
        children: of the chunk.
        lanes: children with padding.
        dense: `DenseWeights`.
        scratch: `DenseScratch`; `table` is filled.
    """
    _, weights, columns, _ = dense
    table = scratch.table
    spot, cell = np.uintp(begin), NONE
    for _ in range(columns):
        for lane in range(np.uintp(children)):
            table[cell + lane] = np.float32(weights[spot + lane])
        for lane in range(np.uintp(children), np.uintp(lanes)):
            table[cell + lane] = NIL
        spot += np.uintp(children)
        cell += np.uintp(lanes)
    for at in range(cell, np.uintp(-(-columns // 4) * 4) * np.uintp(lanes)):
        table[at] = NIL


@njit(**INNER)
def _quad(vectors, at):  # type: ignore[no-untyped-def]
    return vectors[at], vectors[at + ONE], vectors[at + TWO], vectors[at + THREE]


@njit(**FUSED)
def add_four(a, b, c, d, lanes, columns, vectors, scratch):  # type: ignore[no-untyped-def]
    """Products of four rows, which may be the same, with the unpacked table, in steps of the scale; fills `sums`.

    Args:
        a: where the first row's vector begins; the others' are `b`, `c` and `d`.
        b: see `a`.
        c: see `a`.
        d: see `a`.
        lanes: children with padding.
        columns: with padding.
        vectors: of the rows.
        scratch: `DenseScratch`.
    """
    table, sums = scratch
    second, third, fourth = lanes, TWO * lanes, THREE * lanes
    for lane in range(FOUR * lanes):
        sums[lane] = NIL
    for column in range(NONE, columns, FOUR):
        one, two, three, four = column * lanes, (column + ONE) * lanes, (column + TWO) * lanes, (column + THREE) * lanes
        a0, a1, a2, a3 = _quad(vectors, a + column)
        b0, b1, b2, b3 = _quad(vectors, b + column)
        c0, c1, c2, c3 = _quad(vectors, c + column)
        d0, d1, d2, d3 = _quad(vectors, d + column)
        for lane in range(lanes):
            w, x, y, z = table[one + lane], table[two + lane], table[three + lane], table[four + lane]
            total = sums[lane] + a0 * w
            total = total + a1 * x
            total = total + a2 * y
            sums[lane] = total + a3 * z
            total = sums[second + lane] + b0 * w
            total = total + b1 * x
            total = total + b2 * y
            sums[second + lane] = total + b3 * z
            total = sums[third + lane] + c0 * w
            total = total + c1 * x
            total = total + c2 * y
            sums[third + lane] = total + c3 * z
            total = sums[fourth + lane] + d0 * w
            total = total + d1 * x
            total = total + d2 * y
            sums[fourth + lane] = total + d3 * z


@njit(**FUSED)
def add_one(row, begin, children, columns, vectors, weights, sums):  # type: ignore[no-untyped-def]
    """Products of one row with a chunk's packed table; fills `sums`, as `add_four` would.

    Args:
        row: where its vector begins.
        begin: where the table begins.
        children: of the chunk.
        columns: without padding.
        vectors: of the rows.
        weights: of all tables.
        sums: (lanes,)
    """
    for lane in range(children):
        sums[lane] = NIL
    fours = columns // FOUR * FOUR
    for column in range(NONE, fours, FOUR):
        w, x, y, z = _quad(vectors, row + column)
        one = begin + column * children
        two, three, four = one + children, one + TWO * children, one + THREE * children
        for lane in range(children):
            total = sums[lane] + w * np.float32(weights[one + lane])
            total = total + x * np.float32(weights[two + lane])
            total = total + y * np.float32(weights[three + lane])
            sums[lane] = total + z * np.float32(weights[four + lane])
    for column in range(fours, columns):
        value, one = vectors[row + column], begin + column * children
        for lane in range(children):
            sums[lane] += value * np.float32(weights[one + lane])
