"""The k largest entries of each row of a sparse product, without ever holding the product."""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.arrays import Floats, Ints, Matrix
from longtail.linear.csr_arrays import CsrArrays, csr_arrays
from longtail.linear.solvers.numba_compile import INNER, ZERO
from longtail.threads import over_rows


def sparse_top(queries: Matrix, index: Matrix, k: int) -> tuple[Ints, Floats]:
    """The best k columns of `queries @ index` for each row.

    Costs one pass over the index entries of each query's terms, and one dense vector over the items for each thread.

    Args:
        queries: csr (rows, terms).
        index: csr (terms, items).
        k: columns to find for each row.

    Returns:
        Columns and values (rows, k), best first. Only values above 0 count; -1 and 0 fill the rest. Equal values are in
        the order of their columns.

    Raises:
        ValueError: the queries have other terms than the index.
    """
    if queries.shape[1] != index.shape[0]:  # the kernel looks up each column of a query in the index
        raise ValueError(f"queries have {queries.shape[1]} terms, and the index {index.shape[0]}")
    return sparse_top_arrays(queries, csr_arrays(index), index.shape[1], k)


def sparse_top_arrays(queries: Matrix, index: CsrArrays, items: int, k: int) -> tuple[Ints, Floats]:
    """`sparse_top` over an index whose arrays are ready, for callers that ask for one row at a time.

    Args:
        queries: csr (rows, terms).
        index: arrays of the csr index (terms, items).
        items: number of columns of the index.
        k: columns to find for each row.

    Returns:
        As `sparse_top`.
    """
    rows = queries.shape[0]
    columns = np.full((rows, k), -1, dtype=np.int32)
    values = np.zeros((rows, k), dtype=np.float32)
    if k == 0:  # the kernel looks at the first place
        return columns, values
    query_arrays = csr_arrays(queries)

    def work(begin: int, end: int) -> None:
        _top(begin, end, query_arrays, index, items, columns, values)

    over_rows(work, rows)
    return columns, values


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
def _top(begin, end, queries, index, items, columns, values):  # type: ignore[no-untyped-def]
    # Safe: a stored index is declared by `csr`, which holds its pointers, its items below `items` and a row for every
    # term; queries come from `Features` or from this function, over the same terms. k is at least 1.
    query_starts, query_terms, query_values = queries
    index_starts, index_items, index_values = index
    sums = np.zeros(items, dtype=np.float32)
    seen = np.zeros(items, dtype=np.bool_)
    touched = np.empty(items, dtype=np.int32)
    k = columns.shape[1]
    for row in range(begin, end):
        count = ZERO
        for place in range(query_starts[row], query_starts[row + 1]):
            term, weight = query_terms[place], query_values[place]
            for entry in range(index_starts[term], index_starts[term + 1]):
                item = index_items[entry]
                if not seen[item]:
                    seen[item] = True
                    touched[count] = item
                    count += 1
                sums[item] += weight * index_values[entry]
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
        for last in range(size - 1, 0, -1):  # take the worst off the heap until the best is first
            best[0], best[last] = best[last], best[0]
            score[0], score[last] = score[last], score[0]
            _sift(best, score, ZERO, last)
