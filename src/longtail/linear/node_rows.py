"""The rows of one node of a tree: what they hold, and which children they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from threading import local

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.linear.compiling import KERNEL, ZERO
from longtail.linear.top import fixed


class Scratch(local):
    """A place for each feature, -1, of every thread its own: `gather` leaves it as it was."""

    def __init__(self, features: int) -> None:
        self.place = np.full(features, -1, dtype=np.int32)


def gather(
    rows: AnyArray, starts: AnyArray, columns: AnyArray, values: AnyArray, place: Ints, rising: bool = False
) -> tuple[AnyArray, AnyArray, AnyArray, Ints]:
    """The rows of a node over the features they hold: own starts, own columns, values, and the features' names, as they
    are met or `rising`.

    `place` (features,) is scratch, -1 on entry and on return.
    """
    begins = starts[rows]
    own_starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(starts[rows + 1] - begins, out=own_starts[1:])
    total = int(own_starts[-1])
    own_columns, own_values = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.float32)
    names = np.empty(min(total, len(place)) + 1, dtype=np.int32)
    names = names[: gather_into(len(rows), begins, own_starts, columns, values, place, own_columns, own_values, names)]
    if rising:
        met, names = names, np.sort(names)
        _renumber(met, names, place, own_columns)
    return fixed(own_starts), fixed(own_columns), fixed(own_values), names


@njit(**KERNEL)
def _renumber(met, names, place, own_columns):  # type: ignore[no-untyped-def]
    """Count columns as `names` stand, not as they were `met`."""
    for number in range(len(names)):
        place[names[number]] = number
    for at in range(len(own_columns)):
        own_columns[at] = place[met[own_columns[at]]]
    for number in range(len(names)):
        place[names[number]] = -1


@njit(**KERNEL)
def gather_into(rows, begins, own_starts, columns, values, place, own_columns, own_values, names):  # type: ignore[no-untyped-def]
    """`gather` from and into arrays that may be longer; returns the number of names."""
    found = ZERO
    for number in range(rows):
        shift = begins[number] - own_starts[number]
        for at in range(np.uintp(own_starts[number]), np.uintp(own_starts[number + 1])):
            entry = at + np.uintp(shift)
            feature = np.uintp(columns[entry])
            spot = place[feature]
            names[found] = feature  # without a branch: what was known is written over
            new = spot < 0
            spot = found if new else spot
            found += new
            place[feature], own_columns[at], own_values[at] = spot, spot, values[entry]
    for number in range(found):
        place[names[number]] = -1
    return found


@dataclass(frozen=True, eq=False)
class NodeTargets:
    """Which rows a node trains on, and their targets among its children."""

    rows: Longs
    starts: Longs  # (rows + 1,)
    children: Ints
    values: Floats
    importance: Floats  # (rows,) the largest target of each

    def among(self, first: int, last: int) -> tuple[Longs, Ints, Floats]:
        """Targets among the children first..last-1: starts, children counted from first, and values."""
        kept = (self.children >= first) & (self.children < last)
        if kept.all():
            return self.starts.copy(), self.children - np.int32(first), self.values.copy()
        before = np.zeros(len(kept) + 1, dtype=np.int64)
        np.cumsum(kept, out=before[1:])
        return before[self.starts], self.children[kept] - np.int32(first), self.values[kept]


class LevelTargets:
    """Targets over the children of a level's nodes (rows, children), sorted by node: those of one stand together.

    `more` are pairs of rows and nodes: rows that train there as well, with a no to all children.
    """

    def __init__(self, targets: Matrix, first_child: Longs, more: tuple[Longs, Ints] | None = None) -> None:
        node_of = np.repeat(np.arange(len(first_child) - 1, dtype=np.int32), np.diff(first_child))
        number = np.arange(targets.nnz, dtype=np.int32 if targets.nnz < 2**31 else np.int64)
        shape = (targets.shape[0], len(first_child) - 1)
        sorted_by_node = sparse.csr_array((number, node_of[targets.indices], targets.indptr), shape).tocsc()
        self._entries: Longs = sorted_by_node.indptr.astype(np.int64)  # (nodes + 1,)
        self._children: Ints = targets.indices[sorted_by_node.data].astype(np.int32, copy=False)
        self._values: Floats = targets.data[sorted_by_node.data]
        holders = sorted_by_node.indices
        new = np.ones(len(holders) + 1, dtype=np.bool_)
        new[1:-1] = holders[1:] != holders[:-1]
        new[self._entries] = True
        self._begins: Longs = np.flatnonzero(new)  # of each row in each node, and the end of all
        self._rows: Ints = holders[self._begins[:-1]]
        self._pairs: Longs = np.searchsorted(self._begins, self._entries)  # (nodes + 1,)
        more_rows, more_nodes = more or (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))
        by_node = np.argsort(more_nodes, kind="stable")
        self._more: Longs = more_rows[by_node]
        self._more_starts: Longs = np.searchsorted(more_nodes[by_node], np.arange(len(first_child)))

    def rows(self, node: int) -> int:
        """How many rows a node trains on: 0 where none has a label in it."""
        own = int(self._pairs[node + 1] - self._pairs[node])
        return own and own + int(self._more_starts[node + 1] - self._more_starts[node])

    def of(self, node: int) -> NodeTargets:
        begin, end = self._pairs[node], self._pairs[node + 1]
        mine = slice(self._entries[node], self._entries[node + 1])
        starts, values = self._begins[begin : end + 1] - self._entries[node], self._values[mine]
        importance = np.maximum.reduceat(values, starts[:-1]) if len(values) else values
        rows = self._rows[begin:end].astype(np.int64)
        more = self._more[self._more_starts[node] : self._more_starts[node + 1]]
        if len(more):
            rows, told = np.concatenate([rows, more]), np.concatenate([np.diff(starts), np.zeros_like(more)])
            rising = np.argsort(rows, kind="stable")
            rows, starts = rows[rising], np.concatenate([[0], np.cumsum(told[rising])])
            importance = np.concatenate([importance, np.ones(len(more), dtype=np.float32)])[rising]
        return NodeTargets(rows, starts, self._children[mine], values, importance)
