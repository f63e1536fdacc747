"""Beam search down label trees, for a block of rows at a time and level by level.

The pairs (row, node) of a level are sorted by node. At a node with many rows, the weights of the words that its rows
have are unpacked into contiguous memory, in the order of its classifiers, and serve all these rows. A node with few
rows is scored from its packed weights. Both ways add the same numbers in the same order, so the scores of a row do not
depend on the other rows. Unpacked weights keep their 16 bits, because adding them up waits for memory.

A group is a row in one tree. It has `beam` pairs, numbered group x beam + place; node -1 means no node.

No index is tested here. `forest_declared.py` holds those of a loaded forest: nodes, chunks, children, features and
weights inside their arrays, every node behind its parent, every label once in each tree, all leaves equally deep, and
features below the columns, which `Features` gives the rows as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bools, Bytes, Floats, Ints, Longs
from longtail.linear.features.sparse_top import _sift, _worse
from longtail.linear.solvers.numba_compile import INNER, KERNEL, ZERO
from longtail.linear.solvers.numba_compile import ONE as STRIDE

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


class CollectScratch(NamedTuple):
    """Arrays that `collect` writes to."""

    marked: Bools  # (labels,), False on entry and on return
    sums: Floats  # (labels,), 0 on entry and on return
    candidates: Ints  # (labels,)
    best: Ints  # (k,)
    worth: Floats  # (k,)


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
    low, high, pairs, pairs_of_row, rows, nodes, packed, log_loss, rows_for_all, scratch, out
):
    """Score the children of the pairs order[low:high].

    Args:
        low: first place in `order`.
        high: behind the last place.
        pairs: `BeamPairs`.
        pairs_of_row: pairs of each row, in all trees.
        rows: `CsrArrays` of the rows.
        nodes: `Nodes`.
        packed: `PackedWeights`.
        log_loss: whether scores are log odds rather than margins.
        rows_for_all: rows at each node above which all its features are unpacked (nodes,).
        scratch: `ScoreScratch`.
        out: log probabilities of the paths to the children, filled.
    """
    _, path, order, ends, begin = pairs
    row_starts, row_columns, _ = rows
    first_child, node_chunks, chunk_children, chunk_features, scales, bias = nodes
    features = packed.features
    seen, place, _, lines, _, score = scratch
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
            for position in range(first, last):
                pair = order[position]
                row = pair // pairs_of_row
                for lane in range(np.uintp(children)):
                    score[lane] = bias[np.uintp(child) + lane]
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
def _unpack(at, stop, every, stamp, padded, packed, scratch):  # type: ignore[no-untyped-def]
    """Unpack the weights of the words that were seen, or of every word; lines[line] is the feature. Returns the number
    of lines."""
    features, starts, which, weights = packed
    seen, place, unpacked, lines, _, _ = scratch
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
    _, place, unpacked, lines, products, score = scratch
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


@njit(**KERNEL)
def go_down(low, high, pairs, beam, first_child, child, next_node, next_path, scores):  # type: ignore[no-untyped-def]
    """Replace the nodes of each group by their best children.

    Args:
        low: first group.
        high: behind the last group.
        pairs: `BeamPairs`; `node` and `path` are overwritten.
        beam: pairs of a group.
        first_child: (nodes + 1,).
        child: node or label of each child.
        next_node: (beam,) scratch.
        next_path: (beam,) scratch.
        scores: of the children.
    """
    node, path, _, _, begin = pairs
    for group in range(low, high):
        count, first = ZERO, group * beam
        for pair in range(first + beam - 1, first - 1, -1):  # the best are near the end of a heap
            parent = node[pair]
            if parent < 0:
                continue
            base, at = np.uintp(first_child[parent]), np.uintp(begin[pair])
            for number in range(np.uintp(first_child[parent + 1]) - base):
                value = scores[at + number]
                if count < beam or value >= next_path[0]:
                    count = _offer(next_node, next_path, count, beam, child[base + number], value)
        for place in range(beam):
            node[first + place], path[first + place] = next_node[place] if place < count else -1, next_path[place]


@njit(**KERNEL)
def collect(low, high, trees, beam, pairs, first_child, child, probabilities, scratch, labels, scores):  # type: ignore[no-untyped-def]
    """The best labels of each row by their mean over the trees.

    A label is in one leaf of each tree. So the k-th best entry of a tree is a sum that k labels reach, and no label's
    sum is more than trees x its largest entry: only labels with an entry near enough are summed at all.

    Args:
        low: first row.
        high: behind the last row.
        trees: number of trees.
        beam: pairs of a group.
        pairs: `BeamPairs` of the leaves.
        first_child: (nodes + 1,).
        child: label of each child of a leaf.
        probabilities: of the children.
        scratch: `CollectScratch`.
        labels: (rows, k), filled best first.
        scores: (rows, k), filled.
    """
    node, _, _, _, begin = pairs
    marked, sums, candidates, best, worth = scratch
    k = labels.shape[1]
    for row in range(low, high):
        first, last = row * trees * beam, (row + 1) * trees * beam
        entries = ZERO
        for pair in range(first, last):
            leaf = node[pair]
            if leaf >= 0:
                entries += first_child[leaf + 1] - first_child[leaf]
        near, size = NIL, ZERO
        narrow = k * trees * 8 < entries  # else finding the best entries costs more than it saves
        for pair in range(first + beam - 1, first - 1 if narrow else first + beam, -1):  # the best near the end
            leaf = node[pair]
            if leaf < 0:
                continue
            at = np.uintp(begin[pair])
            for number in range(np.uintp(first_child[leaf + 1] - first_child[leaf])):
                value = probabilities[at + number]
                if size < k or value > worth[0]:
                    size = _offer(best, worth, size, k, leaf, value)
        if narrow and size == k:
            near = worth[0] / np.float32(trees * 1.0001)
        count = ZERO
        for adding in range(2):  # first find the candidates, then add up their entries
            for pair in range(first, last):
                leaf = node[pair]
                if leaf < 0:
                    continue
                base, at = np.uintp(first_child[leaf]), np.uintp(begin[pair])
                for number in range(np.uintp(first_child[leaf + 1]) - base):
                    label, value = child[base + number], probabilities[at + number]
                    known = marked[label]
                    if adding and known:
                        sums[label] += value
                    elif not adding and not known and value >= near:
                        marked[label] = True
                        candidates[count] = label
                        count += 1
        size = ZERO
        for place in range(count):
            label = candidates[place]
            size = _offer(best, worth, size, k, label, sums[label])
            sums[label], marked[label] = NIL, False
        if size < k:
            for start in range(size // 2 - 1, -1, -1):
                _sift(best, worth, start, size)
        for last in range(size - 1, -1, -1):  # take the worst off the heap, again and again
            labels[row, last], scores[row, last] = best[0], worth[0] / np.float32(trees)
            best[0], worth[0] = best[last], worth[last]
            _sift(best, worth, ZERO, last)


@njit(**INNER)
def _offer(best, worth, size, limit, name, value):  # type: ignore[no-untyped-def]
    """Put a name among the best `limit` if it belongs there; full, they are a heap with the worst on top."""
    if size < limit:
        best[size], worth[size] = name, value
        size += 1
        if size == limit:
            for start in range(size // 2 - 1, -1, -1):
                _sift(best, worth, start, size)
    elif _worse(worth[0], best[0], value, name):
        best[0], worth[0] = name, value
        _sift(best, worth, ZERO, size)
    return size
