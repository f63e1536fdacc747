"""The few largest of many numbers, kept while they stream by.

Numbers are compared as integers of the same bits: `key = bits ^ ((bits >> sign) & rest)` has the order of the floats,
and processors find the largest integer of a block many times faster. A list of the best holds some more than it must,
in the order they came, and is cut back when full; so a number that comes costs the same for any k, and of equal ones
the first stay.
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

BLOCK = 128  # numbers looked at in one go: mostly none is good enough


@dataclass(frozen=True, eq=False)
class Best:
    """The k best of each row so far: a row may hold up to 2k + 64."""

    k: int
    rows: Ints  # (queries, room) where they came from
    keys: AnyArray  # (queries, room) int32 for float32, int16 for bfloat16
    counts: Longs  # (queries,)
    bounds: AnyArray  # (queries,) what a new one must beat
    shared: bool = True  # whether the queries are shared out over threads

    @classmethod
    def none(cls, queries: int, k: int, kind: type[np.int32] | type[np.int16], shared: bool = True) -> Best:
        room = (queries, 2 * k + 64)
        bounds = np.full(queries, np.iinfo(kind).min, dtype=kind)
        return cls(k, np.empty(room, np.int32), np.empty(room, kind), np.zeros(queries, np.int64), bounds, shared)

    def keep(self, bits: AnyArray, offset: int) -> None:
        """Look at the scores (queries, columns) of rows offset, offset + 1, ..., given as integers of the same bits."""
        kind = bits.dtype.type
        sign, rest = kind(np.iinfo(kind).bits - 1), kind(np.iinfo(kind).max)
        state = (self.rows, self.keys, self.counts, self.bounds)
        self._over(partial(_keep, bits, offset, *state, self.k, sign, rest))

    def cut(self) -> tuple[Ints, AnyArray]:
        """Rows and keys of the k best (queries, k), in order of the row."""
        self._over(partial(_cut, self.rows, self.keys, self.counts, self.k))
        return self.rows[:, : self.k], self.keys[:, : self.k]

    def _over(self, work: Callable[[int, int], None]) -> None:
        if self.shared:
            over_rows(work, len(self.rows))
        else:
            work(0, len(self.rows))


def ordered(rows: Ints, keys: AnyArray) -> tuple[Ints, Floats]:
    """Best first, equal ones in order of the row, with the float32 scores that the int32 keys stand for."""
    order = np.argsort(-keys.astype(np.int64), axis=1, kind="stable")
    keys = np.take_along_axis(keys, order, axis=1)
    scores = (keys ^ ((keys >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
    return np.take_along_axis(rows, order, axis=1), scores


@njit(nogil=True, cache=True)
def _shrink(rows, keys, count, k):  # type: ignore[no-untyped-def]
    """Leave the k largest of the first `count`, of equal ones the first, in the order they stand. Returns the least."""
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
def _take(line, begin, end, offset, rows, keys, count, bound, k, sign, rest):  # type: ignore[no-untyped-def]
    for column in range(begin, end):
        key = line[column] ^ ((line[column] >> sign) & rest)
        if key > bound:
            rows[count] = offset + column
            keys[count] = key + (key == -1)  # -1 is -0.0, which equals 0.0
            count += 1
            if count == len(rows):
                bound, count = _shrink(rows, keys, count, k), k
    return count, bound


@njit(nogil=True, cache=True)
def _keep(found, offset, rows, keys, counts, bounds, k, sign, rest, low, high):  # type: ignore[no-untyped-def]
    columns = found.shape[1]
    whole = columns // BLOCK * BLOCK
    for row in range(low, high):
        line, count, bound = found[row], counts[row], bounds[row]
        for begin in range(0, whole, BLOCK):
            top = bound
            for column in range(begin, begin + BLOCK):
                top = max(top, line[column] ^ ((line[column] >> sign) & rest))
            if top > bound:
                count, bound = _take(
                    line, begin, begin + BLOCK, offset, rows[row], keys[row], count, bound, k, sign, rest
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
