"""The k largest of many numbers, kept while they stream by.

Numbers are compared as integers of the same bits: `key = bits ^ ((bits >> sign) & rest)` sorts as the floats do, and
processors find the largest integer of a block many times faster. The list of the best has room for more than k, holds
them in order of arrival, and is cut back to k when it is full. So a new number costs the same for any k, and among
equal numbers the first ones stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Floats, Ints, Longs
from longtail.selection import at_place
from longtail.threads import over_rows

BLOCK = 128  # numbers that are compared together: in most blocks none beats the bound


@dataclass(frozen=True, eq=False)
class Best:
    """The k best of each query so far, each with room for 2k + 64."""

    k: int
    rows: Ints  # (queries, room) the vector each key belongs to
    keys: AnyArray  # (queries, room) int32 for float32, int16 for bfloat16
    counts: Longs  # (queries,)
    bounds: AnyArray  # (queries,) what a new key must exceed
    shared: bool = True  # whether the queries are divided over threads

    @classmethod
    def none(cls, queries: int, k: int, kind: type[np.int32] | type[np.int16], shared: bool = True) -> Best:
        """Make empty lists.

        Args:
            queries: number of queries.
            k: how many to keep of each.
            kind: int32 for float32 scores, int16 for bfloat16.
            shared: whether to divide the queries over threads.

        Returns:
            Lists with room for 2k + 64 a query.
        """
        room = (queries, 2 * k + 64)
        bounds = np.full(queries, np.iinfo(kind).min, dtype=kind)
        return cls(k, np.empty(room, np.int32), np.empty(room, kind), np.zeros(queries, np.int64), bounds, shared)

    def keep(self, bits: AnyArray, offset: int) -> None:
        """Take in more scores.

        Args:
            bits: (queries, columns) scores, viewed as integers of the same bits.
            offset: the vector of the first column; the others follow.
        """
        kind = bits.dtype.type
        sign, rest = kind(np.iinfo(kind).bits - 1), kind(np.iinfo(kind).max)
        state = (self.rows, self.keys, self.counts, self.bounds)
        self._over(partial(_keep, bits, offset, *state, self.k, sign, rest))

    def cut(self) -> tuple[Ints, AnyArray]:
        """Cut every list back to its k best.

        Returns:
            Rows and keys, each (queries, k), in order of the row.
        """
        self._over(partial(_cut, self.rows, self.keys, self.counts, self.k))
        return self.rows[:, : self.k], self.keys[:, : self.k]

    def _over(self, work: Callable[[int, int], None]) -> None:
        if self.shared:
            over_rows(work, len(self.rows))
        else:
            work(0, len(self.rows))


def ordered(rows: Ints, keys: AnyArray) -> tuple[Ints, Floats]:
    """Sort the best of each query.

    Args:
        rows: (queries, k) in rising order.
        keys: (queries, k) int32.

    Returns:
        Rows (int32) and float32 scores, each (queries, k), best first, ties in order of the row.
    """
    order = np.argsort(-keys.astype(np.int64), axis=1, kind="stable")
    keys = np.take_along_axis(keys, order, axis=1)
    scores = (keys ^ ((keys >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
    return np.take_along_axis(rows, order, axis=1), scores


@njit(nogil=True, cache=True)
def _shrink(rows, keys, count, k):  # type: ignore[no-untyped-def]
    """Keep the k largest of the first `count`, among equal keys the first, in their order. Returns the smallest."""
    copy = np.empty(count, keys.dtype)
    for place in range(count):
        copy[place] = keys[place]
    bound = at_place(copy, count - k)
    equal = k
    for place in range(count):
        equal -= keys[place] > bound
    kept = 0
    for place in range(count):
        if keys[place] > bound or (keys[place] == bound and equal > 0):
            equal -= keys[place] == bound
            rows[kept], keys[kept] = rows[place], keys[place]
            kept += 1
    return bound


@njit(nogil=True, cache=True)
def _take(line, start, end, offset, rows, keys, count, bound, k, sign, rest):  # type: ignore[no-untyped-def]
    for column in range(start, end):
        key = line[column] ^ ((line[column] >> sign) & rest)
        if key > bound:
            rows[count] = offset + column
            keys[count] = key + (key == -1)  # -1 is -0.0, which equals 0.0
            count += 1
            if count == len(rows):
                bound, count = _shrink(rows, keys, count, k), k
    return count, bound


@njit(nogil=True, cache=True)
def _keep(bits, offset, rows, keys, counts, bounds, k, sign, rest, low, high):  # type: ignore[no-untyped-def]
    columns = bits.shape[1]
    whole = columns // BLOCK * BLOCK
    for row in range(low, high):
        line, count, bound = bits[row], counts[row], bounds[row]
        for start in range(0, whole, BLOCK):
            top = bound
            for column in range(start, start + BLOCK):
                top = max(top, line[column] ^ ((line[column] >> sign) & rest))
            if top > bound:
                count, bound = _take(
                    line, start, start + BLOCK, offset, rows[row], keys[row], count, bound, k, sign, rest
                )
        counts[row], bounds[row] = _take(
            line, whole, columns, offset, rows[row], keys[row], count, bound, k, sign, rest
        )


@njit(nogil=True, cache=True)
def _cut(rows, keys, counts, k, low, high):  # type: ignore[no-untyped-def]
    for row in range(low, high):
        if counts[row] > k:
            _shrink(rows[row], keys[row], counts[row], k)
            counts[row] = k
