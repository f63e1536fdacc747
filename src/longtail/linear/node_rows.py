"""The rows of one node of a tree: what they hold, and which children they belong to."""

from __future__ import annotations

from threading import local

import numpy as np
from numba import njit


class Scratch(local):
    """A place for each feature, -1, of every thread its own: `gather` leaves it as it was."""

    def __init__(self, features: int) -> None:
        self.place = np.full(features, -1, dtype=np.int32)


@njit(nogil=True, cache=True)
def gather(rows, starts, columns, values, place):  # type: ignore[no-untyped-def]
    """The rows of a node over the features they hold: own starts, own columns, values, and the features' names.

    `place` (features,) is scratch, -1 on entry and on return.
    """
    total = 0
    for row in rows:
        total += starts[row + 1] - starts[row]
    own_starts = np.empty(len(rows) + 1, dtype=np.int64)
    own_columns = np.empty(total, dtype=np.int32)
    own_values = np.empty(total, dtype=np.float32)
    names = np.empty(min(total, len(place)), dtype=np.int32)
    found = 0
    at = 0
    own_starts[0] = 0
    for number in range(len(rows)):
        row = rows[number]
        for entry in range(np.uintp(starts[row]), np.uintp(starts[row + 1])):
            feature = np.uintp(columns[entry])
            if place[feature] < 0:
                place[feature] = found
                names[found] = feature
                found += 1
            own_columns[at] = place[feature]
            own_values[at] = values[entry]
            at += 1
        own_starts[number + 1] = at
    for number in range(found):
        place[names[number]] = -1
    return own_starts, own_columns, own_values, names[:found].copy()


@njit(nogil=True, cache=True)
def node_targets(rows, starts, columns, values, first, last):  # type: ignore[no-untyped-def]
    """Targets of these rows among the columns first..last-1: starts, children counted from first, and values."""
    own_starts = np.empty(len(rows) + 1, dtype=np.int64)
    kept = 0
    for number in range(len(rows)):
        own_starts[number] = kept
        for entry in range(starts[rows[number]], starts[rows[number] + 1]):
            kept += first <= columns[entry] < last
    own_starts[len(rows)] = kept
    children = np.empty(kept, dtype=np.int32)
    own = np.empty(kept, dtype=np.float32)
    kept = 0
    for number in range(len(rows)):
        for entry in range(starts[rows[number]], starts[rows[number] + 1]):
            if first <= columns[entry] < last:
                children[kept], own[kept] = columns[entry] - first, values[entry]
                kept += 1
    return own_starts, children, own
