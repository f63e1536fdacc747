"""The compiled part of counting which labels occur together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Longs

FEW = 8192  # pairs of a label below which they are counted in a hash table that stays in the cache


class GraphLimits(NamedTuple):
    """Which entries a row of the graph keeps."""

    threshold: float  # smallest share, exclusive
    min_count: float  # smallest count
    max_labels: int  # other labels in a row
    divide: bool  # shares rather than counts


class CommonRows(NamedTuple):
    """Rows of the graph that are already known."""

    number: AnyArray  # (labels,) int32: which row is the label's, -1 where none is
    starts: Longs
    columns: AnyArray  # int32
    values: AnyArray  # float32


@njit(nogil=True, cache=True)
def count(begin, end, row_starts, row_labels, counts, pairs):  # type: ignore[no-untyped-def]
    """Count the rows of each label, and the labels in these rows.

    Args:
        begin: first row to count.
        end: behind the last.
        row_starts: (rows + 1,).
        row_labels: labels of each row.
        counts: (labels,), added to.
        pairs: (labels,), added to.
    """
    for row in range(begin, end):
        size = row_starts[row + 1] - row_starts[row]
        for entry in range(row_starts[row], row_starts[row + 1]):
            counts[row_labels[entry]] += 1
            pairs[row_labels[entry]] += size


@njit(nogil=True, cache=True)
def transpose(begin, end, by_row, places, label_rows, label_values):  # type: ignore[no-untyped-def]
    """List the rows of each label.

    Args:
        begin: first row to list.
        end: behind the last.
        by_row: `CsrArrays` of the targets, values empty where all are 1.
        places: where each label's next row is written (labels,), advanced.
        label_rows: filled.
        label_values: filled, or empty.
    """
    row_starts, row_labels, row_values = by_row
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
def rank_rows(begin, end, by_row, rank, row_ranks, ranked_values):  # type: ignore[no-untyped-def]
    """Ranks of each row's labels, ascending.

    Args:
        begin: first row.
        end: behind the last.
        by_row: `CsrArrays` of the targets, values empty where all are 1.
        rank: of each label (labels,).
        row_ranks: filled.
        ranked_values: filled, or empty.
    """
    row_starts, row_labels, row_values = by_row
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
def emit_row(label, whole, kept, keys, found, max_labels, divide, columns, values, size):  # type: ignore[no-untyped-def]
    """Write a label's row: the label itself and the others that it keeps, columns ascending.

    Args:
        label: whose row it is.
        whole: its own count.
        kept: how many others are given.
        keys: the others, label << 32 | place, with room for one more.
        found: their counts by place, with room for one more.
        max_labels: how many others to keep, the largest.
        divide: write shares of `whole` rather than counts.
        columns: written from `size` on.
        values: written from `size` on.
        size: entries that are already written.

    Returns:
        The new size.
    """
    needed, ties = 0.0, 0
    if kept > max_labels:  # the smallest count that stays, and how many labels with just that count stay
        needed = np.partition(found[:kept], kept - max_labels)[kept - max_labels] if max_labels > 0 else np.inf
        ties = max_labels
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
        if kept > max_labels and total <= needed:
            if total < needed or ties == 0:
                continue
            ties -= 1
        columns[size] = other
        values[size] = min(total / whole, 1.0) if divide else total
        size += 1
    return size


@njit(nogil=True, cache=True)
def longer(array, size, needed):  # type: ignore[no-untyped-def]
    """The array with room for more entries.

    Args:
        array: one dimension.
        size: entries in use.
        needed: further entries.

    Returns:
        The array, or a longer copy of its first `size` entries with room to spare.
    """
    if size + needed <= len(array):
        return array
    wider = np.empty(2 * len(array) + needed, dtype=array.dtype)
    wider[:size] = array[:size]
    return wider


@njit(nogil=True, cache=True)
def common_rows(labels, limits, order, mass, by_label, by_rank, settings):  # type: ignore[no-untyped-def]
    """Graph rows of labels with many pairs. Labels are counted by rank: those from a label's limit on are too rare to
    pass the threshold, and are last in every row.

    Args:
        labels: whose rows to make.
        limits: of each of them, the first rank that is too rare.
        order: label of each rank (labels,).
        mass: sum of each label's targets (labels,).
        by_label: `CsrArrays` of the rows of each label.
        by_rank: `CsrArrays` of the ranks of each row.
        settings: `GraphLimits`.

    Returns:
        Sizes of the rows, columns and values with room to spare, and the number of entries.
    """
    label_starts, label_rows, label_values = by_label
    row_starts, row_ranks, ranked_values = by_rank
    threshold, min_count, max_labels, divide = settings
    sums, touched = np.zeros(len(mass), dtype=np.float64), np.empty(len(mass), dtype=np.int32)
    keys, found = np.empty(FEW, dtype=np.int64), np.empty(FEW, dtype=np.float64)
    sizes = np.empty(len(labels), dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    size = 0
    soft = len(ranked_values) > 0
    for number in range(len(labels)):
        label, limit = labels[number], limits[number]
        count, kept = 0, 0
        for entry in range(label_starts[label], label_starts[label + 1]):
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
        keys, found = longer(keys, 0, count + 1), longer(found, 0, count + 1)
        for place in range(count):
            total = sums[touched[place]]
            sums[touched[place]] = 0
            if total >= min_count and total / mass[label] > threshold:
                other = order[touched[place]]
                if other != label:
                    keys[kept], found[kept] = np.int64(other) << 32 | kept, total
                    kept += 1
        columns, values = longer(columns, size, kept + 1), longer(values, size, kept + 1)
        before = size
        size = emit_row(label, mass[label], kept, keys, found, max_labels, divide, columns, values, size)
        sizes[number] = size - before
    return sizes, columns, values, size


@njit(nogil=True, cache=True)
def _count_pairs(label, pairs, by_label, by_row, slots, totals, used):  # type: ignore[no-untyped-def]
    """Sums of a label's pairs in a hash table that stays in the cache.

    Fills `slots` and `totals` with labels and sums, and `used` with the slots in use; returns their number. Empty slots
    are -1, and the caller must reset them.
    """
    label_starts, label_rows, label_values = by_label
    row_starts, row_labels, row_values = by_row
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
                    used[count] = slot
                    count += 1
                    break
                slot = (slot + 1) & mask
            totals[slot] += weight * row_values[spot] if soft else 1.0
    return count


@njit(nogil=True, cache=True)
def all_rows(begin, end, mass, pairs, by_label, by_row, common, settings):  # type: ignore[no-untyped-def]
    """Graph rows of a range of labels: those of common labels are copied, the others counted in a hash table.

    Args:
        begin: first label.
        end: behind the last.
        mass: sum of each label's targets (labels,).
        pairs: labels in all rows of each label (labels,).
        by_label: `CsrArrays` of the rows of each label.
        by_row: `CsrArrays` of the labels of each row.
        common: `CommonRows`.
        settings: `GraphLimits`.

    Returns:
        As `common_rows`.
    """
    threshold, min_count, max_labels, divide = settings
    slots, totals = np.full(2 * FEW, -1, dtype=np.int32), np.empty(2 * FEW, dtype=np.float64)
    used = np.empty(FEW, dtype=np.int32)
    keys, found = np.empty(FEW + 1, dtype=np.int64), np.empty(FEW + 1, dtype=np.float64)
    sizes = np.empty(end - begin, dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    size = 0
    for label in range(begin, end):
        before, known = size, common.number[label]
        if known >= 0:
            first, last = common.starts[known], common.starts[known + 1]
            columns, values = longer(columns, size, last - first), longer(values, size, last - first)
            for entry in range(first, last):
                columns[size], values[size] = common.columns[entry], common.values[entry]
                size += 1
            sizes[label - begin] = size - before
            continue
        count = _count_pairs(label, pairs[label], by_label, by_row, slots, totals, used)
        kept = 0
        for place in range(count):
            slot = used[place]
            other, total = slots[slot], totals[slot]
            slots[slot] = -1
            if total >= min_count and total / mass[label] > threshold and other != label:
                keys[kept], found[kept] = np.int64(other) << 32 | kept, total
                kept += 1
        columns, values = longer(columns, size, kept + 1), longer(values, size, kept + 1)
        size = emit_row(label, mass[label], kept, keys, found, max_labels, divide, columns, values, size)
        sizes[label - begin] = size - before
    return sizes, columns, values, size
