"""Beam search down label trees, for a block of rows at a time and level by level.

The pairs (row, node) of a level are sorted by node. At a node with many rows, the weights of the words that its rows
have are unpacked into contiguous memory, in the order of its classifiers, and serve all these rows. A node with few
rows is scored from its packed weights. Both ways add the same numbers in the same order, so the scores of a row do not
depend on the other rows. Unpacked weights keep their 16 bits, because adding them up waits for memory.

A group is a row in one tree. It has `beam` pairs, numbered group x beam + place; node -1 means no node. Which pairs the
next level has, and which labels are the answers: `beam_best.py`.

No index is tested here. `forest_declared.py` holds those of a loaded forest: nodes, chunks, children, features and
weights inside their arrays, every node behind its parent, every label once in each tree, all leaves equally deep, and
features below the columns, which `Features` gives the rows as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bytes, Floats, Ints, Longs
from longtail.linear.solvers.numba_compile import INNER, KERNEL, ZERO
from longtail.linear.solvers.numba_compile import ONE as STRIDE
from longtail.linear.trees.dense_kernels import DenseScratch, add_four, add_one, unpack_table

LANES = 8  # children are padded to a multiple of this many float32
MANY = 8  # rows at a node from which unpacking its classifiers pays
NONE, ONE, TWO, THREE, FOUR = (np.uintp(number) for number in range(5))  # inside a kernel, each would be a call
NIL, UNIT = np.float32(0.0), np.float32(1.0)
UNPACK_ALL = 4  # where the rows at a node have more than so many words for each of its features, all are unpacked


class BeamPairs(NamedTuple):
    """The pairs (row, node) of a level."""

    node: Ints  # (pairs,), -1 for none
    path: Floats  # (pairs,) log probability of the path to the node
    order: Longs  # (pairs,) pairs sorted by node
    ends: Longs  # (nodes,) where the pairs of each node end in `order`
    begin: Longs  # (pairs,) where the scores of a pair's children begin


class Nodes(NamedTuple):
    """The nodes of a `LabelForest` and their chunks of classifiers."""

    first_child: Longs  # (nodes + 1,)
    node_chunks: Longs  # (nodes + 1,)
    chunk_children: Longs  # (chunks + 1,)
    chunk_features: Longs  # (chunks, 2)
    scales: Floats  # (chunks,)
    bias: Floats  # (children in all,)


class PackedWeights(NamedTuple):
    """The sparse weights of a `LabelForest`, chunk by chunk."""

    features: Ints
    starts: AnyArray  # uint32
    which: AnyArray  # uint8
    weights: AnyArray  # int16


class ScoreScratch(NamedTuple):
    """Arrays of one thread that `score_nodes` writes to."""

    seen: Bytes  # (columns,) words of a node's rows, marked with its number modulo 256: an old mark costs only time
    place: Ints  # (columns,) line of a word's unpacked weights; -1 on entry and on return
    unpacked: AnyArray  # (lines x lanes,) int16
    lines: Ints  # feature of each line, and behind them the lines of a row's words
    products: Floats  # of a row's values and the scale
    score: Floats  # (lanes,)
    dense: DenseScratch


@njit(**KERNEL)
def arrange(low, high, pairs, first_child):  # type: ignore[no-untyped-def]
    """Sort the pairs low..high-1 by node, by counting; fills `order`, `ends` and `begin`.

    Args:
        low: first pair.
        high: behind the last pair.
        pairs: `BeamPairs`.
        first_child: (nodes + 1,).

    Returns:
        How many scores the children of all pairs need.
    """
    node, _, order, ends, begin = pairs
    for number in range(len(ends)):
        ends[number] = 0
    for pair in range(low, high):
        number = node[pair]
        if number >= 0:
            ends[number] += 1
    before = ZERO
    for number in range(len(ends)):
        size = ends[number]
        ends[number] = before
        before += size
    room = ZERO
    for pair in range(low, high):
        number = node[pair]
        if number >= 0:
            end = ends[number]
            order[end], ends[number] = pair, end + 1
            begin[pair] = room
            room += first_child[number + 1] - first_child[number]
    return room


@njit(**KERNEL)
def score_nodes(  # type: ignore[no-untyped-def]
    low, high, pairs, pairs_of_row, rows, nodes, packed, dense, log_loss, rows_for_all, scratch, out
):
    """Score the children of the pairs order[low:high].

    Args:
        low: first place in `order`.
        high: behind the last place.
        pairs: `BeamPairs`.
        pairs_of_row: pairs of each row, in all trees.
        rows: `CsrArrays` of the rows, without the dense columns.
        nodes: `Nodes`.
        packed: `PackedWeights`.
        dense: `DenseWeights`.
        log_loss: whether scores are log odds rather than margins.
        rows_for_all: rows at each node above which all its features are unpacked (nodes,).
        scratch: `ScoreScratch`.
        out: log probabilities of the paths to the children, filled.
    """
    _, path, order, ends, begin = pairs
    row_starts, row_columns, _ = rows
    first_child, node_chunks, chunk_children, chunk_features, scales, bias = nodes
    features = packed.features
    seen, place, _, lines, _, score, dense_scratch = scratch
    sums = dense_scratch.sums
    for node in range(len(ends)):
        first, last = low, ends[node]
        if last > high:
            last = high
        if first >= last:
            continue
        low = last
        many = last - first >= MANY
        stamp = np.uint8(node)
        every = last - first > rows_for_all[node]
        if many and not every:
            for position in range(first, last):
                row = order[position] // pairs_of_row
                for entry in range(np.uintp(row_starts[row]), np.uintp(row_starts[row + 1])):
                    seen[np.uintp(row_columns[entry])] = stamp
        for chunk in range(node_chunks[node], node_chunks[node + 1]):
            child, scale = chunk_children[chunk], scales[chunk]
            children = chunk_children[chunk + 1] - child
            padded = (children + LANES - 1) // LANES * LANES
            at, stop = chunk_features[chunk, 0], chunk_features[chunk, 1]
            used = NONE
            unpacks = many and (stop - at) * padded <= len(scratch.unpacked)
            if unpacks:
                used = _unpack(at, stop, every, stamp, padded, packed, scratch)
            has_table = dense.begins[chunk] >= 0
            if many and has_table:
                unpack_table(dense.begins[chunk], children, padded, dense, dense_scratch)
            for position in range(first, last):
                pair = order[position]
                row = pair // pairs_of_row
                for lane in range(np.uintp(children)):
                    score[lane] = bias[np.uintp(child) + lane]
                if has_table:
                    slot = (position - first) % 4 if many else ZERO
                    if slot == 0:
                        _add_dense(position, last, many, pairs_of_row, order, children, chunk, dense, dense_scratch)
                    base = np.uintp(slot * padded)
                    for lane in range(np.uintp(children)):
                        score[lane] += scale * sums[base + lane]
                for lane in range(children, padded):
                    score[lane] = 0
                row_begin, row_end = np.uintp(row_starts[row]), np.uintp(row_starts[row + 1])
                if unpacks:
                    _add_unpacked(row_begin, row_end, rows, np.uintp(padded), used, scale, scratch)
                else:
                    _add_packed(row_begin, row_end, rows, at, stop, packed, scale, score)
                to = np.uintp(begin[pair] + child - first_child[node])
                _log_probabilities(score, np.uintp(children), path[pair], log_loss, to, out)
            for line in range(used):
                place[np.uintp(features[np.uintp(lines[line])])] = -1


@njit(**INNER)
def _add_dense(position, last, many, pairs_of_row, order, children, chunk, dense, scratch):  # type: ignore[no-untyped-def]
    """Sums of the dense columns: of the next four rows, or of one where the table is not unpacked."""
    begins, weights, columns, vectors = dense
    width, end = -(-columns // 4) * 4, last - 1
    a = np.uintp(order[position] // pairs_of_row * width)
    if not many:
        add_one(a, np.uintp(begins[chunk]), np.uintp(children), np.uintp(columns), vectors, weights, scratch.sums)
        return
    b = np.uintp(order[min(position + 1, end)] // pairs_of_row * width)
    c = np.uintp(order[min(position + 2, end)] // pairs_of_row * width)
    d = np.uintp(order[min(position + 3, end)] // pairs_of_row * width)
    lanes = np.uintp((children + LANES - 1) // LANES * LANES)
    add_four(a, b, c, d, lanes, np.uintp(width), vectors, scratch)


@njit(**INNER)
def _unpack(at, stop, every, stamp, padded, packed, scratch):  # type: ignore[no-untyped-def]
    """Unpack the weights of the words that were seen, or of every word; lines[line] is the feature. Returns the number
    of lines."""
    features, starts, which, weights = packed
    seen, place, unpacked, lines, _, _, _ = scratch
    used = NONE
    for feature in range(np.uintp(at), np.uintp(stop)):
        lines[used] = feature
        used += np.uintp(every or seen[np.uintp(features[feature])] == stamp)
    for line in range(used):
        known, cell = np.uintp(lines[line]), line * np.uintp(padded)
        place[np.uintp(features[known])] = line
        for lane in range(np.uintp(padded)):
            unpacked[cell + lane] = 0
        for spot in range(np.uintp(starts[known]), np.uintp(starts[known + ONE])):
            unpacked[cell + np.uintp(which[spot])] = weights[spot]
    return used


@njit(**INNER)
def _add_unpacked(begin, end, rows, padded, used, scale, scratch):  # type: ignore[no-untyped-def]
    """First find the row's words that the chunk has, without a branch. Then add their weights, four words at a time, so
    that four lines are loaded at once and a score is written once for the four. The lines from `used` on are free."""
    _, columns, values = rows
    _, place, unpacked, lines, products, score, _ = scratch
    known = NONE
    for entry in range(begin, end):
        line = place[np.uintp(columns[entry])]
        lines[used + known], products[known] = line, values[entry] * scale
        known += np.uintp(line >= 0)
    fours = known // FOUR * FOUR
    for entry in range(NONE, fours, FOUR):
        at = used + entry
        a, one = np.uintp(lines[at]) * padded, products[entry]
        b, two = np.uintp(lines[at + ONE]) * padded, products[entry + ONE]
        c, three = np.uintp(lines[at + TWO]) * padded, products[entry + TWO]
        d, four = np.uintp(lines[at + THREE]) * padded, products[entry + THREE]
        for lane in range(padded):
            total = score[lane] + one * np.float32(unpacked[a + lane])
            total = total + two * np.float32(unpacked[b + lane])
            total = total + three * np.float32(unpacked[c + lane])
            score[lane] = total + four * np.float32(unpacked[d + lane])
    for entry in range(fours, known):
        cell, product = np.uintp(lines[used + entry]) * padded, products[entry]
        for lane in range(padded):
            score[lane] += product * np.float32(unpacked[cell + lane])


@njit(**INNER)
def _add_packed(begin, end, rows, at, stop, packed, scale, score):  # type: ignore[no-untyped-def]
    """Add the weights of the row's words. Words and features ascend, so each search starts where the last ended."""
    _, columns, values = rows
    features, starts, which, weights = packed
    for entry in range(begin, end):
        feature = columns[entry]
        stride, low = STRIDE, at
        while at < stop and features[at] < feature:  # strides that double, then halve
            low = at + 1
            at += stride
            stride *= 2
        high = at if at < stop else stop
        while low < high:
            middle = (low + high) // 2
            if features[middle] < feature:
                low = middle + 1
            else:
                high = middle
        at = low
        if at == stop:
            return
        if features[at] == feature:
            product = values[entry] * scale
            for spot in range(starts[at], starts[at + 1]):
                score[which[spot]] += product * np.float32(weights[spot])


@njit(**INNER)
def _log_probabilities(score, children, path, log_loss, to, out):  # type: ignore[no-untyped-def]
    """The path's log probability plus each child's."""
    for number in range(children):
        if log_loss:
            out[to + number] = path - np.log1p(np.exp(-score[number]))
        else:
            short = UNIT - score[number]
            short = short if short > NIL else NIL
            out[to + number] = path - short * short
