"""The compiled part of counting which labels stand together."""

from __future__ import annotations

import numpy as np
from numba import njit

FEW = 8192  # pairs of a label below which a table in the cache counts them


@njit(nogil=True, cache=True)
def count(begin, end, row_starts, row_labels, counts, pairs):  # type: ignore[no-untyped-def]
    """Rows of each label among rows `begin` to `end`, and labels in these rows."""
    for row in range(begin, end):
        size = row_starts[row + 1] - row_starts[row]
        for entry in range(row_starts[row], row_starts[row + 1]):
            counts[row_labels[entry]] += 1
            pairs[row_labels[entry]] += size


@njit(nogil=True, cache=True)
def turn(begin, end, row_starts, row_labels, row_values, places, label_rows, label_values):  # type: ignore[no-untyped-def]
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
def rank_rows(begin, end, row_starts, row_labels, row_values, rank, row_ranks, ranked_values):  # type: ignore[no-untyped-def]
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
def longer(array, size, needed):  # type: ignore[no-untyped-def]
    """The array, or where it has no room for so many more, its first `size` entries in one with room to spare."""
    if size + needed <= len(array):
        return array
    wider = np.empty(2 * len(array) + needed, dtype=array.dtype)
    wider[:size] = array[:size]
    return wider


@njit(nogil=True, cache=True)
def common_rows(  # type: ignore[no-untyped-def]
    some, limits, order, mass, label_starts, label_rows, label_values, row_starts, row_ranks, ranked_values,
    threshold, least, most, divide,
):  # fmt: skip
    """Graph rows of labels with many pairs, counted by rank: those from a label's limit on are too rare to pass, and
    stand last in every row. Returns sizes, columns, values with room left, and how many there are."""
    sums, touched = np.zeros(len(mass), dtype=np.float64), np.empty(len(mass), dtype=np.int32)
    keys, found = np.empty(FEW, dtype=np.int64), np.empty(FEW, dtype=np.float64)
    sizes = np.empty(len(some), dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    size = 0
    soft = len(ranked_values) > 0
    for number in range(len(some)):
        label, limit = some[number], limits[number]
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
            if total >= least and total / mass[label] > threshold:
                other = order[touched[place]]
                if other != label:
                    keys[kept], found[kept] = np.int64(other) << 32 | kept, total
                    kept += 1
        columns, values = longer(columns, size, kept + 1), longer(values, size, kept + 1)
        before = size
        size = emit_row(label, mass[label], kept, keys, found, most, divide, columns, values, size)
        sizes[number] = size - before
    return sizes, columns, values, size


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
def all_rows(  # type: ignore[no-untyped-def]
    begin, end, mass, pairs, label_starts, label_rows, label_values, row_starts, row_labels, row_values,
    common, common_starts, common_columns, common_values, threshold, least, most, divide,
):  # fmt: skip
    """Graph rows `begin` to `end`: those of common labels as they are, the others counted in a small table."""
    slots, totals = np.full(2 * FEW, -1, dtype=np.int32), np.empty(2 * FEW, dtype=np.float64)
    touched = np.empty(FEW, dtype=np.int32)
    keys, found = np.empty(FEW + 1, dtype=np.int64), np.empty(FEW + 1, dtype=np.float64)
    sizes = np.empty(end - begin, dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    size = 0
    for label in range(begin, end):
        before, known = size, common[label]
        if known >= 0:
            first, last = common_starts[known], common_starts[known + 1]
            columns, values = longer(columns, size, last - first), longer(values, size, last - first)
            for entry in range(first, last):
                columns[size], values[size] = common_columns[entry], common_values[entry]
                size += 1
            sizes[label - begin] = size - before
            continue
        by_label, by_row = (label_starts, label_rows, label_values), (row_starts, row_labels, row_values)
        count = _met(label, pairs[label], *by_label, *by_row, slots, totals, touched)
        kept = 0
        for place in range(count):
            slot = touched[place]
            other, total = slots[slot], totals[slot]
            slots[slot] = -1
            if total >= least and total / mass[label] > threshold and other != label:
                keys[kept], found[kept] = np.int64(other) << 32 | kept, total
                kept += 1
        columns, values = longer(columns, size, kept + 1), longer(values, size, kept + 1)
        size = emit_row(label, mass[label], kept, keys, found, most, divide, columns, values, size)
        sizes[label - begin] = size - before
    return sizes, columns, values, size
