"""Which labels a random walk over rows and labels meets: a graph that also links labels two and more steps away."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from longtail.arrays import Matrix
from longtail.errors import DataError
from longtail.linear.cooccurrence import EVERY, PIECES, Incidence, in_pieces
from longtail.linear.pair_kernels import emit_row, longer

GOLDEN, MIX_A, MIX_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
LOW = np.uint64(0xFFFFFFFF)
TRIES = 64  # draws of a soft target before one is taken as it comes


def walks(
    targets: Matrix,
    *,
    steps: int = 400,
    restart: float = 0.8,
    threshold: float = 0.0,
    most: int | None = None,
    head: int | None = None,
    visits: bool = False,
    seed: int = 0,
) -> Matrix:
    """How often a walk from each label meets the others: csr float32 (labels, labels), columns rising.

    A step goes from a label to one of its rows and on to one of the row's labels, each drawn in proportion to the
    targets; before the next step the walk is back at its root with chance `restart`. Row j holds the visits to i over
    those to j itself, at most 1, where above the threshold: after one step that is the share of j's rows that also
    have i, rows with few labels weighing more. Of more than `most`, the largest; 1 for j itself. With `visits`, the
    visits themselves. Labels of more than `head` rows are left out of every walk and keep only themselves.

    Needs no scratch but the visits of one walk. Every label has its own chance, made of the seed and its number: the
    same graph on any number of threads.
    """
    if steps < 1 or not 0 <= restart <= 1 or not 0 <= threshold < 1 or (most is not None and most < 0):
        raise DataError(
            f"walks take at least 1 step, a restart from 0 to 1, a threshold from 0 to below 1 and most of at least 0, "
            f"got steps={steps}, restart={restart:g}, threshold={threshold:g}, most={most}"
        )
    if head is not None:
        targets = targets.copy()
        counts = np.bincount(targets.indices, minlength=targets.shape[1])
        targets.data = np.where(counts[targets.indices] > head, 0, targets.data)
        targets.eliminate_zeros()
    held = Incidence.of(targets)
    bounds = held.pieces(PIECES)
    settings = (steps, float(restart), float(threshold), EVERY if most is None else most, not visits, np.uint64(seed))

    def rows(piece: int) -> Any:
        return _walk(int(bounds[piece]), int(bounds[piece + 1]), *held.by_label, *held.by_row, *settings)

    return in_pieces(rows, len(bounds) - 1, len(held.mass))


@njit(nogil=True, cache=True)
def _drawn(state):  # type: ignore[no-untyped-def]
    """The next of a row of random numbers (splitmix64)."""
    mixed = (state ^ (state >> np.uint64(30))) * MIX_A
    mixed = (mixed ^ (mixed >> np.uint64(27))) * MIX_B
    return mixed ^ (mixed >> np.uint64(31))


@njit(nogil=True, cache=True)
def _entry(state, first, last, values):  # type: ignore[no-untyped-def]
    """An entry from `first` to `last`, in proportion to its value, and the state after the draws."""
    entry = first
    for _ in range(TRIES if len(values) > 0 else 1):
        state += GOLDEN
        drawn = _drawn(state)
        entry = first + np.int64(((drawn >> np.uint64(32)) * np.uint64(last - first)) >> np.uint64(32))
        if len(values) == 0 or np.float64(drawn & LOW) < np.float64(values[entry]) * 4294967296.0:
            break
    return entry, state


@njit(nogil=True, cache=True)
def _walk(  # type: ignore[no-untyped-def]
    begin, end, label_starts, label_rows, label_values, row_starts, row_labels, row_values,
    steps, restart, threshold, most, divide, seed,
):  # fmt: skip
    """Rows `begin` to `end` of the graph: entries of each, and their columns and values in arrays with room left."""
    met = np.empty(steps, dtype=np.int32)
    keys, found = np.empty(steps + 1, dtype=np.int64), np.empty(steps + 1, dtype=np.float64)
    sizes = np.empty(end - begin, dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    again = restart * 4294967296.0
    size = 0
    for root in range(begin, end):
        kept, own = 0, 1.0
        if label_starts[root + 1] > label_starts[root]:
            state = _drawn(seed * MIX_A + np.uint64(root) * MIX_B + GOLDEN)
            label = root
            for step in range(steps):
                entry, state = _entry(state, label_starts[label], label_starts[label + 1], label_values)
                row = label_rows[entry]
                entry, state = _entry(state, row_starts[row], row_starts[row + 1], row_values)
                met[step] = row_labels[entry]
                state += GOLDEN
                label = root if np.float64(_drawn(state) & LOW) < again else met[step]
            met.sort()
            own = max(1.0, np.float64(np.searchsorted(met, root, side="right") - np.searchsorted(met, root)))
            step = 0
            while step < steps:
                first = step
                while step < steps and met[step] == met[first]:
                    step += 1
                if met[first] != root and (step - first) / own > threshold:
                    keys[kept], found[kept] = np.int64(met[first]) << 32 | kept, step - first
                    kept += 1
        columns, values = longer(columns, size, kept + 1), longer(values, size, kept + 1)
        before = size
        size = emit_row(root, own, kept, keys, found, most, divide, columns, values, size)
        sizes[root - begin] = size - before
    return sizes, columns, values, size
