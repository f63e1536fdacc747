"""Which labels stand together in rows, and how often: the label graph, without ever holding the whole Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Doubles, Floats, Ints, Longs, Matrix
from longtail.errors import DataError
from longtail.threads import in_threads, thread_count

PIECES = (
    32  # of the labels, with as many positives each: enough to balance threads, and large enough that memory goes back
)
FEW = 8192  # pairs of a label up to which a table in the cache counts them
EVERY = 2**31 - 1


def cooccurrence(
    targets: Matrix,
    threshold: float = 0.1,
    most: int | None = None,
    least: float = 0,
    form: Literal["share", "count"] = "share",
) -> Matrix:
    """How likely each label is in a row that has another one: csr float32 (labels, labels), columns rising.

    Row j holds, for every other label i, G_ij / n_j where that is above the threshold and G_ij at least `least`; of
    more than `most` the largest, of equals those with the smaller number; and 1 for j itself, also where no row has
    it. G_ij sums y_i y_j over the rows and n_j sums y_j: counts where targets are 1, and never more than 1 where they
    are soft. With form "count", G_ij and n_j themselves.

    One pass over the pairs of labels in rows, with one number a label and thread as scratch. G_ij is at most n_i, so
    with labels numbered by frequency only the first ones of a row can pass a common label's threshold: the others are
    never looked at, and the head, which has most pairs, costs least.
    """
    if not 0 <= threshold < 1 or least < 0 or (most is not None and most < 0):
        raise DataError(
            f"a label graph takes a threshold from 0 to below 1, least and most of at least 0, got "
            f"threshold={threshold:g}, least={least:g}, most={most}"
        )
    held, bars = Incidence.of(targets), (float(threshold), float(least))
    bounds = held.pieces(PIECES)
    found: dict[int, tuple[Longs, Ints, Floats]] = {}

    def work(piece: int) -> None:
        begin, end = int(bounds[piece]), int(bounds[piece + 1])
        limits = held.limits(begin, end, *bars)
        sizes, columns, values, size = _together(  # type: ignore[call-arg]
            begin, end, *held.plain, limits, *bars, EVERY if most is None else most, form == "share"
        )
        found[piece] = sizes, columns[:size], values[:size]

    in_threads(work, range(len(bounds) - 1))
    return joined_pieces(found, len(held.mass))


@dataclass(frozen=True, eq=False)
class Incidence:
    """Which labels a row has and which rows a label. Labels also have a rank: the most frequent is 0."""

    order: Ints  # label of each rank
    mass: Doubles  # n_j of each label: the sum of its targets
    label_starts: Longs  # (labels + 1,)
    label_rows: Ints  # rising within a label
    row_starts: Longs  # (rows + 1,)
    row_labels: Ints  # rising within a row
    row_ranks: Ints  # rising within a row
    label_values: Floats  # empty where all targets are 1
    row_values: Floats  # in the order of row_labels
    ranked_values: Floats  # in the order of row_ranks

    @classmethod
    def of(cls, targets: Matrix) -> Incidence:
        """targets: csr (rows, labels). Takes 8 bytes an entry beside them, 16 where targets are soft."""
        rows, labels = targets.shape
        hard = bool((targets.data == 1).all())
        row_starts = targets.indptr.astype(np.int64)
        row_labels = _read_only(targets.indices.astype(np.int32, copy=False))
        row_values = _read_only(targets.data.astype(np.float32, copy=False)[: 0 if hard else None])
        counts = np.zeros((thread_count(), labels), dtype=np.int64)
        bounds = np.searchsorted(row_starts, np.arange(len(counts) + 1) * (targets.nnz / len(counts)))
        bounds[0], bounds[-1] = 0, rows
        in_threads(
            lambda part: _count(bounds[part], bounds[part + 1], row_starts, row_labels, counts[part]),
            range(len(counts)),
        )
        whole = counts.sum(axis=0)
        mass = whole.astype(np.float64)
        if not hard:
            mass = np.bincount(row_labels, row_values, minlength=labels).astype(np.float64)
        order = np.argsort(-mass, kind="stable").astype(np.int32)
        rank = np.empty(labels, dtype=np.int32)
        rank[order] = np.arange(labels, dtype=np.int32)
        label_starts = np.concatenate([[0], np.cumsum(whole)]).astype(np.int64)
        places = label_starts[:-1] + np.cumsum(counts, axis=0) - counts  # where each thread writes its rows of a label
        label_rows, row_ranks = np.empty(targets.nnz, np.int32), np.empty(targets.nnz, np.int32)
        label_values, ranked_values = np.empty(len(row_values), np.float32), np.empty(len(row_values), np.float32)

        def turn(part: int) -> None:
            span = bounds[part], bounds[part + 1]
            _turn(*span, row_starts, row_labels, row_values, places[part], label_rows, label_values)
            _rank(*span, row_starts, row_labels, row_values, rank, row_ranks, ranked_values)

        in_threads(turn, range(len(counts)))
        values = (label_values, row_values, ranked_values)
        return cls(order, mass, label_starts, label_rows, row_starts, row_labels, row_ranks, *values)

    @property
    def plain(self) -> Any:
        """As the kernels take it."""
        return (
            *(self.order, self.mass, self.label_starts, self.label_rows, self.label_values),
            *(self.row_starts, self.row_labels, self.row_values, self.row_ranks, self.ranked_values),
        )

    def pieces(self, number: int) -> Longs:
        """Bounds of ranges of labels with about as many positives each."""
        ends = self.label_starts[1:]
        inner = np.searchsorted(ends, np.arange(1, number) * (self.label_starts[-1] / number))
        return np.unique(np.concatenate([[0], inner, [len(ends)]])).astype(np.int64)

    def limits(self, begin: int, end: int, threshold: float, least: float) -> Ints:
        """For each of these labels, the first rank that is too rare to pass: (end - begin,)."""
        falling = -self.mass[self.order]
        needed = np.maximum(threshold * self.mass[begin:end], least)
        # At the bar itself a label stays in: the kernel decides there, and rounding cannot lose a pair.
        return np.searchsorted(falling, -needed * (1 - 1e-12), side="right").astype(np.int32)


def _read_only(array: AnyArray) -> AnyArray:
    """One set of types for the kernels, as the data is, so that they compile once."""
    view = array.view()
    view.setflags(write=False)
    return view


def joined_pieces(found: dict[int, tuple[Longs, Ints, Floats]], labels: int) -> Matrix:
    """The rows of all pieces, which are emptied one by one: they and the whole never stand side by side."""
    starts = np.concatenate([[0], *(found[piece][0] for piece in range(len(found)))]).cumsum()
    if starts[-1] < 2**31:
        starts = starts.astype(np.int32)  # SciPy would widen the columns to the type of the starts
    columns, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    place = 0
    for piece in range(len(found)):
        _, some, shares = found.pop(piece)
        columns[place : place + len(some)], values[place : place + len(some)] = some, shares
        place += len(some)
    graph = sparse.csr_array((values, columns, starts), shape=(labels, labels))
    graph.has_canonical_format = True
    return graph


def symmetric(targets: Matrix, threshold: float = 0.1, most: int | None = None, least: float = 0) -> Matrix:
    """The graph of GLaS: S_ij = (G_ij / n_j + G_ij / n_i) / 2 where above the threshold; 1 for a label itself.

    A pair that passes has one side of at least the threshold, so both sides come from the pairs that `cooccurrence`
    keeps. Keeps up to twice as many pairs as that before `most` is applied.
    """
    graph = cooccurrence(targets, threshold, None, least, "count")
    mass = np.maximum(np.bincount(targets.indices, targets.data, minlength=targets.shape[1]), 1e-300)
    rows = np.repeat(np.arange(graph.shape[0], dtype=np.int32), np.diff(graph.indptr))
    both = graph.data.astype(np.float64)
    means = 0.5 * (both / mass[rows] + both / mass[graph.indices])
    kept = (means > threshold) & (rows != graph.indices)
    half = sparse.csr_array((means[kept].astype(np.float32), (rows[kept], graph.indices[kept])), shape=graph.shape)
    whole = strongest(half.maximum(half.T).tocsr(), most)
    return sparse.csr_array(whole + sparse.eye_array(graph.shape[0], dtype=np.float32, format="csr"))


def strongest(graph: Matrix, most: int | None) -> Matrix:
    """The largest `most` entries of each row, of equals those with the smaller column."""
    if most is None or np.diff(graph.indptr).max(initial=0) <= most:
        return graph
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    by_value = np.lexsort((graph.indices, -graph.data, rows))
    place = np.arange(len(rows)) - graph.indptr[rows]  # rows are in order before and after
    kept = by_value[place < most]
    chosen = sparse.csr_array((graph.data[kept], (rows[kept], graph.indices[kept])), shape=graph.shape)
    chosen.sort_indices()
    return chosen


@njit(nogil=True, cache=True)
def _count(begin, end, row_starts, row_labels, counts):  # type: ignore[no-untyped-def]
    for entry in range(row_starts[begin], row_starts[end]):
        counts[row_labels[entry]] += 1


@njit(nogil=True, cache=True)
def _turn(begin, end, row_starts, row_labels, row_values, places, label_rows, label_values):  # type: ignore[no-untyped-def]
    """The rows of each label, from rows `begin` to `end`."""
    soft = len(row_values) > 0
    for row in range(begin, end):
        for entry in range(row_starts[row], row_starts[row + 1]):
            label = row_labels[entry]
            spot = places[label]
            places[label] = spot + 1
            label_rows[spot] = row
            if soft:
                label_values[spot] = row_values[entry]


@njit(nogil=True, cache=True)
def _rank(begin, end, row_starts, row_labels, row_values, rank, row_ranks, ranked_values):  # type: ignore[no-untyped-def]
    """The ranks of each row's labels, rising."""
    soft = len(row_values) > 0
    for row in range(begin, end):
        first, last = row_starts[row], row_starts[row + 1]
        keys = np.empty(last - first, dtype=np.int64)
        for place in range(last - first):
            keys[place] = np.int64(rank[row_labels[first + place]]) << 32 | place
        keys.sort()
        for place in range(last - first):
            row_ranks[first + place] = keys[place] >> 32
            if soft:
                ranked_values[first + place] = row_values[first + (keys[place] & 0xFFFFFFFF)]


@njit(nogil=True, cache=True)
def _met(label, pairs, label_starts, label_rows, label_values, row_starts, row_labels, row_values, slots, totals, met):  # type: ignore[no-untyped-def]
    """Sums of a label's pairs in a small table that stays in the cache.

    Fills `slots` and `totals` with labels and sums, and `met` with the slots in use; returns their number. Empty slots
    hold -1 before and, once the caller has read them, must again.
    """
    bits = 4
    while 1 << bits < 2 * pairs:
        bits += 1
    mask = (1 << bits) - 1
    soft = len(row_values) > 0
    count = 0
    for entry in range(label_starts[label], label_starts[label + 1]):
        row = label_rows[entry]
        weight = np.float64(label_values[entry]) if soft else 1.0
        for spot in range(row_starts[row], row_starts[row + 1]):
            other = row_labels[spot]
            slot = (np.int64(other) * 2654435769 & 0xFFFFFFFF) >> (32 - bits)
            while slots[slot] != other:
                if slots[slot] < 0:
                    slots[slot] = other
                    totals[slot] = 0
                    met[count] = slot
                    count += 1
                    break
                slot = (slot + 1) & mask
            totals[slot] += weight * row_values[spot] if soft else 1.0
    return count


@njit(nogil=True, cache=True)
def emit_row(label, whole, kept, keys, found, most, divide, columns, values, size):  # type: ignore[no-untyped-def]
    """Write a label's row: itself and the others that stay, columns rising. Returns where it ends."""
    needed, ties = 0.0, 0
    if kept > most:  # what the last that stays has, and how many with just that stay
        needed = np.partition(found[:kept], kept - most)[kept - most] if most > 0 else np.inf
        ties = most
        for place in range(kept):
            if found[place] > needed:
                ties -= 1
    keys[kept], found[kept] = np.int64(label) << 32 | kept, whole
    keys[: kept + 1].sort()
    for place in range(kept + 1):
        other, total = keys[place] >> 32, found[keys[place] & 0xFFFFFFFF]
        if other == label:
            columns[size], values[size] = label, 1.0 if divide else whole
            size += 1
            continue
        if kept > most and total <= needed:
            if total < needed or ties == 0:
                continue
            ties -= 1
        columns[size] = other
        values[size] = min(total / whole, 1.0) if divide else total
        size += 1
    return size


@njit(nogil=True, cache=True)
def _together(  # type: ignore[no-untyped-def]
    begin, end, order, mass, label_starts, label_rows, label_values, row_starts, row_labels, row_values, row_ranks,
    ranked_values, limits, threshold, least, most, divide,
):  # fmt: skip
    """Rows `begin` to `end` of the graph: entries of each, and their columns and values in arrays with room left."""
    labels = len(mass)
    sums, touched = np.zeros(labels, dtype=np.float64), np.empty(max(labels, FEW), dtype=np.int32)
    slots, totals = np.full(2 * FEW, -1, dtype=np.int32), np.empty(2 * FEW, dtype=np.float64)
    keys, found = np.empty(FEW, dtype=np.int64), np.empty(FEW, dtype=np.float64)
    sizes = np.empty(end - begin, dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    size = 0
    soft = len(row_values) > 0
    for label in range(begin, end):
        limit, whole = limits[label - begin], mass[label]
        first, last = label_starts[label], label_starts[label + 1]
        pairs = last - first
        if pairs < FEW:
            pairs = 0
            for entry in range(first, last):
                pairs += row_starts[label_rows[entry] + 1] - row_starts[label_rows[entry]]
        kept = 0
        if pairs < FEW:
            by_row = (row_starts, row_labels, row_values)
            count = _met(label, pairs, label_starts, label_rows, label_values, *by_row, slots, totals, touched)
            for place in range(count):
                slot = touched[place]
                other, total = slots[slot], totals[slot]
                slots[slot] = -1
                if total >= least and total / whole > threshold and other != label:
                    keys[kept], found[kept] = np.int64(other) << 32 | kept, total
                    kept += 1
        else:
            count = 0
            for entry in range(first, last):
                row = label_rows[entry]
                weight = np.float64(label_values[entry]) if soft else 1.0
                for spot in range(row_starts[row], row_starts[row + 1]):
                    other = row_ranks[spot]
                    if other >= limit:
                        break
                    if sums[other] == 0:
                        touched[count] = other
                        count += 1
                    sums[other] += weight * ranked_values[spot] if soft else 1.0
            if count >= len(keys):
                keys, found = np.empty(2 * count, dtype=np.int64), np.empty(2 * count, dtype=np.float64)
            for place in range(count):
                total = sums[touched[place]]
                sums[touched[place]] = 0
                if total >= least and total / whole > threshold:
                    other = order[touched[place]]
                    if other != label:
                        keys[kept], found[kept] = np.int64(other) << 32 | kept, total
                        kept += 1
        if size + kept + 1 > len(columns):
            room = 2 * len(columns) + kept + 1
            wider, longer = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.float32)
            wider[:size], longer[:size] = columns[:size], values[:size]
            columns, values = wider, longer
        before = size
        size = emit_row(label, whole, kept, keys, found, most, divide, columns, values, size)
        sizes[label - begin] = size - before
    return sizes, columns, values, size
