"""Which labels a random walk over examples and labels meets: a graph that also links labels two and more steps away."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from longtail.arrays import Matrix
from longtail.errors import DataError
from longtail.linear.graph.cooccurrence import NO_LIMIT, PIECES, Incidence, in_pieces
from longtail.linear.graph.cooccurrence_kernels import GraphLimits, emit_row, longer

GOLDEN, MIX_A, MIX_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
LOW = np.uint64(0xFFFFFFFF)
TRIES = 64  # rejection sampling of a soft target; the last draw is taken in any case


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
    """How often a random walk from each label meets the others.

    A step goes from a label to one of its rows and on to one of the row's labels, each drawn in proportion to the
    targets. Row j of the result has the visits to i over those to j itself, at most 1, where above the threshold, and 1
    for j itself. After one step that is the share of j's rows that also have i, rows with few labels weighing more.

    Needs no memory but the visits of one walk. Every label has its own random numbers, seeded by `seed` and its number:
    the same graph on any number of threads.

    Args:
        targets: csr (rows, labels).
        steps: of each walk.
        restart: probability to return to the first label before the next step.
        threshold: smallest share, exclusive.
        most: keep the largest so many of a row; None keeps all.
        head: labels of more rows than this are left out of every walk and keep only themselves.
        visits: return the visits themselves, not shares.
        seed: of the walks.

    Returns:
        csr float32 (labels, labels), columns ascending.

    Raises:
        DataError: a setting is out of range.
    """
    if steps < 1 or not 0 <= restart <= 1 or not 0 <= threshold < 1 or (most is not None and most < 0):
        raise DataError(
            "random walks take at least 1 step, a restart from 0 to 1, a threshold from 0 to below 1 and most of at "
            f"least 0, got steps={steps}, restart={restart:g}, threshold={threshold:g}, most={most}"
        )
    if head is not None:
        targets = targets.copy()
        counts = np.bincount(targets.indices, minlength=targets.shape[1])
        targets.data = np.where(counts[targets.indices] > head, 0, targets.data)
        targets.eliminate_zeros()
    incidence = Incidence.of(targets)
    bounds = incidence.pieces(PIECES)
    limits = GraphLimits(float(threshold), 0.0, NO_LIMIT if most is None else most, not visits)

    def rows(piece: int) -> Any:
        begin, end = int(bounds[piece]), int(bounds[piece + 1])
        by_label, by_row = incidence.by_label, incidence.by_row
        return _walk(begin, end, by_label, by_row, steps, float(restart), limits, np.uint64(seed))

    return in_pieces(rows, len(bounds) - 1, len(incidence.mass))


@njit(nogil=True, cache=True)
def _drawn(state):  # type: ignore[no-untyped-def]
    """The random number of a state (splitmix64)."""
    mixed = (state ^ (state >> np.uint64(30))) * MIX_A
    mixed = (mixed ^ (mixed >> np.uint64(27))) * MIX_B
    return mixed ^ (mixed >> np.uint64(31))


@njit(nogil=True, cache=True)
def _entry(state, first, last, values):  # type: ignore[no-untyped-def]
    """An entry from `first` to `last`, drawn in proportion to its value, and the state after the draws."""
    entry = first
    for _ in range(TRIES if len(values) > 0 else 1):
        state += GOLDEN
        drawn = _drawn(state)
        entry = first + np.int64(((drawn >> np.uint64(32)) * np.uint64(last - first)) >> np.uint64(32))
        if len(values) == 0 or np.float64(drawn & LOW) < np.float64(values[entry]) * 4294967296.0:
            break
    return entry, state


@njit(nogil=True, cache=True)
def _walk(begin, end, by_label, by_row, steps, restart, limits, seed):  # type: ignore[no-untyped-def]
    """Rows `begin` to `end` of the graph: their sizes, columns and values with room to spare, and their number."""
    label_starts, label_rows, label_values = by_label
    row_starts, row_labels, row_values = by_row
    met = np.empty(steps, dtype=np.int32)
    keys, found = np.empty(steps + 1, dtype=np.int64), np.empty(steps + 1, dtype=np.float64)
    sizes = np.empty(end - begin, dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    restart_bound = restart * 4294967296.0
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
                label = root if np.float64(_drawn(state) & LOW) < restart_bound else met[step]
            met.sort()
            own = max(1.0, np.float64(np.searchsorted(met, root, side="right") - np.searchsorted(met, root)))
            step = 0
            while step < steps:
                first = step
                while step < steps and met[step] == met[first]:
                    step += 1
                if met[first] != root and (step - first) / own > limits.threshold:
                    keys[kept], found[kept] = np.int64(met[first]) << 32 | kept, step - first
                    kept += 1
        columns, values = longer(columns, size, kept + 1), longer(values, size, kept + 1)
        before = size
        size = emit_row(root, own, kept, keys, found, limits.max_labels, limits.divide, columns, values, size)
        sizes[root - begin] = size - before
    return sizes, columns, values, size
