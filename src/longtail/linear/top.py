"""The k largest entries of each row of a sparse product, without ever holding the product."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Floats, Ints, Matrix
from longtail.linear.compiling import INNER, ZERO
from longtail.threads import over_rows

Plain: TypeAlias = tuple[AnyArray, AnyArray, AnyArray]  # starts, columns, values


def sparse_top(queries: Matrix, index: Matrix, k: int) -> tuple[Ints, Floats]:
    """Best k columns of `queries @ index` for each row: (rows, k) columns and values, best first.

    queries: csr (rows, terms); index: csr (terms, items). Only values above 0 count; -1 fills the rest. Equal
    values stand in order of the column. Costs one pass over the index entries of each query's terms, and
    one dense vector over the items for each thread.
    """
    return held_top(queries, hold(index), index.shape[1], k)


def held_top(queries: Matrix, held: Plain, items: int, k: int) -> tuple[Ints, Floats]:
    """`sparse_top` over an index held ready: for those who ask one row at a time."""
    rows = queries.shape[0]
    columns = np.full((rows, k), -1, dtype=np.int32)
    values = np.zeros((rows, k), dtype=np.float32)
    asked = hold(queries)

    def work(begin: int, end: int) -> None:
        _top(begin, end, *asked, *held, items, columns, values)

    over_rows(work, rows)
    return columns, values


def hold(matrix: Matrix) -> Plain:
    """One set of types for the kernels, so that they compile once: arrays of data sets can not be written to."""
    return (
        fixed(matrix.indptr.astype(np.int64, copy=False)),
        fixed(matrix.indices.astype(np.int32, copy=False)),
        fixed(matrix.data.astype(np.float32, copy=False)),
    )


def fixed(array: AnyArray) -> AnyArray:
    """The same numbers, not to be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@njit(**INNER)
def _worse(left_value, left_column, right_value, right_column):  # type: ignore[no-untyped-def]
    """Whether the left pair ranks behind the right one: smaller value, or the same value and a later column."""
    return left_value < right_value or (left_value == right_value and left_column > right_column)


@njit(**INNER)
def _sift(columns, values, place, size):  # type: ignore[no-untyped-def]
    """Restore the heap (worst pair on top) below `place`."""
    while True:
        child = 2 * place + 1
        if child >= size:
            return
        if child + 1 < size and _worse(values[child + 1], columns[child + 1], values[child], columns[child]):
            child += 1
        if not _worse(values[child], columns[child], values[place], columns[place]):
            return
        values[place], values[child] = values[child], values[place]
        columns[place], columns[child] = columns[child], columns[place]
        place = child


@njit(nogil=True, cache=True)
def _top(begin, end, q_start, q_term, q_value, i_start, i_item, i_value, items, columns, values):  # type: ignore[no-untyped-def]
    sums = np.zeros(items, dtype=np.float32)
    seen = np.zeros(items, dtype=np.bool_)
    touched = np.empty(items, dtype=np.int32)
    k = columns.shape[1]
    for row in range(begin, end):
        count = ZERO
        for place in range(q_start[row], q_start[row + 1]):
            term, weight = q_term[place], q_value[place]
            for entry in range(i_start[term], i_start[term + 1]):
                item = i_item[entry]
                if not seen[item]:
                    seen[item] = True
                    touched[count] = item
                    count += 1
                sums[item] += weight * i_value[entry]
        best, score = columns[row], values[row]
        size = ZERO
        for position in range(count):
            item = touched[position]
            value = sums[item]
            sums[item] = 0
            seen[item] = False
            if value <= 0:
                continue
            if size < k:
                best[size], score[size] = item, value
                size += 1
                if size == k:
                    for start in range(k // 2 - 1, -1, -1):
                        _sift(best, score, start, k)
            elif _worse(score[0], best[0], value, item):
                best[0], score[0] = item, value
                _sift(best, score, ZERO, k)
        if size < k:
            for start in range(size // 2 - 1, -1, -1):
                _sift(best, score, start, size)
        for last in range(size - 1, 0, -1):  # take the worst off the heap, again and again: best first remains
            best[0], best[last] = best[last], best[0]
            score[0], score[last] = score[last], score[0]
            _sift(best, score, ZERO, last)
