"""The beam's way down label trees, for a block of rows at a time and level by level.

The pairs (row, node) of a level are sorted by node. Words that the rows of a node hold are unpacked, in the order in
which its classifiers lie, into contiguous weights for all rows that stand there; a node that few rows reach is scored
from its packed weights. Both ways add the same numbers in the same order, so a row's answer does not depend on its
company.

A group is a row in one tree. It has `beam` pairs, numbered through: group x beam + place; -1 stands for no node.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.linear.compiling import INNER, KERNEL, ZERO
from longtail.linear.compiling import ONE as STRIDE
from longtail.linear.top import _sift, _worse

LANES = 8  # children are padded to a multiple of this many float32
MANY = 8  # rows at a node from which unpacking its classifiers pays
NONE, ONE, TWO, THREE, FOUR = (np.uintp(number) for number in range(5))  # a call each where they stand in a kernel
NIL, UNIT = np.float32(0.0), np.float32(1.0)
EVERY = 4  # words of the rows at a node for each that it knows, from which noting those that are met costs more


@njit(**KERNEL)
def arrange(low, high, node, first_child, ends, order, begin):  # type: ignore[no-untyped-def]
    """Sort the pairs low..high-1 by node, by counting: order (pairs,), and ends (nodes,) where each node's pairs end.

    begin (pairs,) is where the scores of a pair's children begin. Returns how many scores there are.
    """
    for number in range(len(ends)):
        ends[number] = 0
    for pair in range(low, high):
        number = node[pair]
        if number >= 0:
            ends[number] += 1
    before = ZERO
    for number in range(len(ends)):
        here = ends[number]
        ends[number] = before
        before += here
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
    low, high, ends, order, path, begin, pairs_of_row, r_starts, r_columns, r_values, first_child, rows_for_all,
    node_chunks, chunk_children, chunk_features, bias, features, starts, which, weights, scales, chances, seen, place,
    unpacked, lines, shares, score, out,
):  # fmt: skip
    """Score the children of the pairs order[low:high] into `out`: log chances of the paths to them.

    Where more rows than `rows_for_all` (nodes,) stand at a node, all its words are unpacked, met or not.
    `seen` (columns,) notes words under the number of a node, modulo 256: an old note costs time and does no harm.
    `place` (columns,) is -1 on entry and on return: then the line of a word's unpacked weights.
    """
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
                for entry in range(np.uintp(r_starts[row]), np.uintp(r_starts[row + 1])):
                    seen[np.uintp(r_columns[entry])] = stamp
        for chunk in range(node_chunks[node], node_chunks[node + 1]):
            child, scale = chunk_children[chunk], scales[chunk]
            children = chunk_children[chunk + 1] - child
            padded = (children + LANES - 1) // LANES * LANES
            at, stop = chunk_features[chunk, 0], chunk_features[chunk, 1]
            used = NONE
            if many:
                used = _unpack(
                    at, stop, every, stamp, padded, features, starts, which, weights, seen, place, unpacked, lines
                )
            for position in range(first, last):
                pair = order[position]
                row = pair // pairs_of_row
                for lane in range(np.uintp(children)):
                    score[lane] = bias[np.uintp(child) + lane]
                for lane in range(children, padded):
                    score[lane] = 0
                here, there = np.uintp(r_starts[row]), np.uintp(r_starts[row + 1])
                if many:
                    _add_unpacked(
                        here, there, r_columns, r_values, place, unpacked, np.uintp(padded), used, scale, lines, shares,
                        score,
                    )  # fmt: skip
                else:
                    _add_packed(
                        here, there, r_columns, r_values, at, stop, features, starts, which, weights, scale, score
                    )
                to = np.uintp(begin[pair] + child - first_child[node])
                _log_chances(score, np.uintp(children), path[pair], chances, to, out)
            for line in range(used):
                place[np.uintp(features[np.uintp(lines[line])])] = -1


@njit(**INNER)
def _unpack(  # type: ignore[no-untyped-def]
    at, stop, every, stamp, padded, features, starts, which, weights, seen, place, unpacked, lines
):
    """Unpack the weights of the words that were seen, or of every word; lines[line] is the feature. Returns how many
    lines there are."""
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
def _add_unpacked(here, there, words, values, place, unpacked, padded, used, scale, lines, shares, score):  # type: ignore[no-untyped-def]
    """First find the words that the chunk knows, without a branch; then add them, four at a time, so that memory is
    asked for four lines at once and a score is not put away after each. The lines from `used` on are free."""
    known = NONE
    for entry in range(here, there):
        line = place[np.uintp(words[entry])]
        lines[used + known], shares[known] = line, values[entry] * scale
        known += np.uintp(line >= 0)
    fours = known // FOUR * FOUR
    for entry in range(NONE, fours, FOUR):
        at = used + entry
        a, one = np.uintp(lines[at]) * padded, shares[entry]
        b, two = np.uintp(lines[at + ONE]) * padded, shares[entry + ONE]
        c, three = np.uintp(lines[at + TWO]) * padded, shares[entry + TWO]
        d, four = np.uintp(lines[at + THREE]) * padded, shares[entry + THREE]
        for lane in range(padded):
            total = score[lane] + one * np.float32(unpacked[a + lane])
            total = total + two * np.float32(unpacked[b + lane])
            total = total + three * np.float32(unpacked[c + lane])
            score[lane] = total + four * np.float32(unpacked[d + lane])
    for entry in range(fours, known):
        cell, share = np.uintp(lines[used + entry]) * padded, shares[entry]
        for lane in range(padded):
            score[lane] += share * np.float32(unpacked[cell + lane])


@njit(**INNER)
def _add_packed(here, there, words, values, at, stop, features, starts, which, weights, scale, score):  # type: ignore[no-untyped-def]
    """Words and features both rise: each search starts where the last one ended."""
    for entry in range(here, there):
        feature = words[entry]
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
            share = values[entry] * scale
            for spot in range(starts[at], starts[at + 1]):
                score[which[spot]] += share * np.float32(weights[spot])


@njit(**INNER)
def _log_chances(score, children, path, chances, to, out):  # type: ignore[no-untyped-def]
    """The path's log chance plus each child's."""
    for number in range(children):
        if chances:
            out[to + number] = path - np.log1p(np.exp(-score[number]))
        else:
            lack = UNIT - score[number]
            lack = lack if lack > NIL else NIL
            out[to + number] = path - lack * lack


@njit(**KERNEL)
def go_down(low, high, node, path, beam, begin, first_child, child, next_node, next_path, scores):  # type: ignore[no-untyped-def]
    """Put the best children of the groups low..high-1 in their pairs' place."""
    for group in range(low, high):
        count, first = ZERO, group * beam
        for pair in range(first + beam - 1, first - 1, -1):  # the best stand near the end of a heap
            parent = node[pair]
            if parent < 0:
                continue
            base, here = np.uintp(first_child[parent]), np.uintp(begin[pair])
            for number in range(np.uintp(first_child[parent + 1]) - base):
                value = scores[here + number]
                if count < beam or value >= next_path[0]:
                    count = _offer(next_node, next_path, count, beam, child[base + number], value)
        for place in range(beam):
            node[first + place], path[first + place] = next_node[place] if place < count else -1, next_path[place]


@njit(**KERNEL)
def collect(  # type: ignore[no-untyped-def]
    low, high, trees, node, beam, begin, first_child, child, chances, marked, sums, candidates, best, worth, labels,
    scores,
):  # fmt: skip
    """Mean over trees, and the best labels of the rows low..high-1.

    A label stands in one leaf of a tree. So the k-th best entry of a tree is a sum that k labels reach; and no label's
    sum is more than trees x its largest entry: only labels with an entry near enough are summed at all. `marked` and
    `sums` (labels,) are 0 on entry and on return.
    """
    k = labels.shape[1]
    for row in range(low, high):
        first, last = row * trees * beam, (row + 1) * trees * beam
        entries = ZERO
        for pair in range(first, last):
            leaf = node[pair]
            if leaf >= 0:
                entries += first_child[leaf + 1] - first_child[leaf]
        near, size = NIL, ZERO
        narrow = k * trees * 8 < entries  # else looking for the best entries costs more than it saves
        for pair in range(first + beam - 1, first - 1 if narrow else first + beam, -1):  # the best near the end
            leaf = node[pair]
            if leaf < 0:
                continue
            here = np.uintp(begin[pair])
            for number in range(np.uintp(first_child[leaf + 1] - first_child[leaf])):
                value = chances[here + number]
                if size < k or value > worth[0]:
                    size = _offer(best, worth, size, k, leaf, value)
        if narrow and size == k:
            near = worth[0] / np.float32(trees * 1.0001)
        count = ZERO
        for adding in range(2):  # first find the candidates, then add up what they have
            for pair in range(first, last):
                leaf = node[pair]
                if leaf < 0:
                    continue
                base, here = np.uintp(first_child[leaf]), np.uintp(begin[pair])
                for number in range(np.uintp(first_child[leaf + 1]) - base):
                    label, value = child[base + number], chances[here + number]
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
def _offer(best, worth, size, most, name, value):  # type: ignore[no-untyped-def]
    """Put a name among the best if it belongs there; they are a heap with the worst on top once they are full."""
    if size < most:
        best[size], worth[size] = name, value
        size += 1
        if size == most:
            for start in range(size // 2 - 1, -1, -1):
                _sift(best, worth, start, size)
    elif _worse(worth[0], best[0], value, name):
        best[0], worth[0] = name, value
        _sift(best, worth, ZERO, size)
    return size
