"""The training rows of one node of a tree: their features, and the children they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import local

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.linear.csr_arrays import read_only
from longtail.linear.solvers.coordinate_descent import ChildTargets
from longtail.linear.solvers.numba_compile import KERNEL, ZERO


class Scratch(local):
    """One number for each feature, -1, for each thread; `gather` leaves it unchanged."""

    def __init__(self, features: int) -> None:
        self.place = np.full(features, -1, dtype=np.int32)


def gather(
    rows: AnyArray, starts: AnyArray, columns: AnyArray, values: AnyArray, place: Ints, ascending: bool = False
) -> tuple[AnyArray, AnyArray, AnyArray, Ints]:
    """Copy the rows of a node, over only the features that they have.

    Args:
        rows: rows of the node.
        starts: csr arrays of all rows, with the next two.
        columns: see `starts`.
        values: see `starts`.
        place: (features,) scratch, -1 on entry and on return.
        ascending: number the features in their own order, not in order of appearance.

    Returns:
        Starts, columns and values of the copy, read-only, and the feature of each of its columns.
    """
    begins = starts[rows]
    own_starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(starts[rows + 1] - begins, out=own_starts[1:])
    total = int(own_starts[-1])
    own_columns, own_values = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.float32)
    names = np.empty(min(total, len(place)) + 1, dtype=np.int32)
    names = names[: gather_into(len(rows), begins, own_starts, columns, values, place, own_columns, own_values, names)]
    if ascending:
        found, names = names, np.sort(names)
        _renumber(found, names, place, own_columns)
    return read_only(own_starts), read_only(own_columns), read_only(own_values), names


@njit(**KERNEL)
def _renumber(found, names, place, own_columns):  # type: ignore[no-untyped-def]
    """Number columns in the order of `names`, not as they were `found`."""
    for number in range(len(names)):
        place[names[number]] = number
    for at in range(len(own_columns)):
        own_columns[at] = place[found[own_columns[at]]]
    for number in range(len(names)):
        place[names[number]] = -1


@njit(**KERNEL)
def gather_into(rows, begins, own_starts, columns, values, place, own_columns, own_values, names):  # type: ignore[no-untyped-def]
    """`gather` into arrays that may be longer than needed.

    Args:
        rows: number of rows.
        begins: where each row begins in `columns` and `values` (rows,).
        own_starts: where each row begins in the copy (rows + 1,).
        columns: of all rows.
        values: of all rows.
        place: (features,) scratch, -1 on entry and on return.
        own_columns: filled.
        own_values: filled.
        names: feature of each column of the copy, filled.

    Returns:
        The number of columns of the copy.
    """
    found = ZERO
    for number in range(rows):
        shift = begins[number] - own_starts[number]
        for at in range(np.uintp(own_starts[number]), np.uintp(own_starts[number + 1])):
            entry = at + np.uintp(shift)
            feature = np.uintp(columns[entry])
            spot = place[feature]
            names[found] = feature  # without a branch: a known feature is overwritten by the next
            new = spot < 0
            spot = found if new else spot
            found += new
            place[feature], own_columns[at], own_values[at] = spot, spot, values[entry]
    for number in range(found):
        place[names[number]] = -1
    return found


@dataclass(frozen=True, eq=False)
class NodeTargets:
    """The rows that a node trains on, and their targets among its children."""

    rows: Longs
    starts: Longs  # (rows + 1,)
    children: Ints
    values: Floats
    importance: Floats  # (rows,) the largest target of each

    def among(self, first: int, last: int) -> ChildTargets:
        """Targets among the children first..last-1, which are numbered from `first`."""
        kept = (self.children >= first) & (self.children < last)
        if kept.all():
            return ChildTargets(self.starts.copy(), self.children - np.int32(first), self.values.copy())
        before = np.zeros(len(kept) + 1, dtype=np.int64)
        np.cumsum(kept, out=before[1:])
        return ChildTargets(before[self.starts], self.children[kept] - np.int32(first), self.values[kept])


class LevelTargets:
    """Targets over the children of a level's nodes (rows, children), sorted by node.

    `negatives` are pairs of rows and nodes: rows that also train there, as negatives of all children.
    """

    def __init__(self, targets: Matrix, first_child: Longs, negatives: tuple[Longs, Ints] | None = None) -> None:
        node_of = np.repeat(np.arange(len(first_child) - 1, dtype=np.int32), np.diff(first_child))
        number = np.arange(targets.nnz, dtype=np.int32 if targets.nnz < 2**31 else np.int64)
        shape = (targets.shape[0], len(first_child) - 1)
        sorted_by_node = sparse.csr_array((number, node_of[targets.indices], targets.indptr), shape).tocsc()
        self._entries: Longs = sorted_by_node.indptr.astype(np.int64)  # (nodes + 1,)
        self._children: Ints = targets.indices[sorted_by_node.data].astype(np.int32, copy=False)
        self._values: Floats = targets.data[sorted_by_node.data]
        rows = sorted_by_node.indices
        new = np.ones(len(rows) + 1, dtype=np.bool_)
        new[1:-1] = rows[1:] != rows[:-1]
        new[self._entries] = True
        self._begins: Longs = np.flatnonzero(new)  # of each row in each node, and the end of all
        self._rows: Ints = rows[self._begins[:-1]]
        self._pairs: Longs = np.searchsorted(self._begins, self._entries)  # (nodes + 1,)
        negative_rows, nodes = negatives or (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))
        by_node = np.argsort(nodes, kind="stable")
        self._negatives: Longs = negative_rows[by_node]
        self._negative_starts: Longs = np.searchsorted(nodes[by_node], np.arange(len(first_child)))

    def arrays(self) -> dict[str, AnyArray]:
        """What `from_arrays` takes."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> LevelTargets:
        """The same targets, from the arrays of another."""
        made = cls.__new__(cls)
        vars(made).update(arrays)
        return made

    def rows(self, node: int) -> int:
        """How many rows a node trains on: 0 where none has a label in it."""
        own = int(self._pairs[node + 1] - self._pairs[node])
        return own and own + int(self._negative_starts[node + 1] - self._negative_starts[node])

    def of(self, node: int) -> NodeTargets:
        """The rows and targets of a node."""
        begin, end = self._pairs[node], self._pairs[node + 1]
        mine = slice(self._entries[node], self._entries[node + 1])
        starts, values = self._begins[begin : end + 1] - self._entries[node], self._values[mine]
        importance = np.maximum.reduceat(values, starts[:-1]) if len(values) else values
        rows = self._rows[begin:end].astype(np.int64)
        negatives = self._negatives[self._negative_starts[node] : self._negative_starts[node + 1]]
        if len(negatives):
            rows, sizes = np.concatenate([rows, negatives]), np.concatenate([np.diff(starts), np.zeros_like(negatives)])
            order = np.argsort(rows, kind="stable")
            rows, starts = rows[order], np.concatenate([[0], np.cumsum(sizes[order])])
            importance = np.concatenate([importance, np.ones(len(negatives), dtype=np.float32)])[order]
        return NodeTargets(rows, starts, self._children[mine], values, importance)
