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

from longtail.linear import compiling as compiling
from longtail.linear.top import FIRST, _sift, _worse

LANES = 8  # children are padded to a multiple of this many float32
MANY = 8  # rows at a node from which unpacking its classifiers pays
NONE, ONE, TWO, THREE, FOUR = (np.uintp(number) for number in range(5))  # a call each where they stand in a kernel
EVERY = 4  # words of the rows at a node for each that it knows, from which noting those that are met costs more


@njit(nogil=True, cache=True)
def arrange(low, high, node, first_child, ends, order, begin):  # type: ignore[no-untyped-def]
    """Sort the pairs low..high-1 by node, by counting: order (pairs,), and ends (nodes,) where each node's pairs end.

    begin (pairs,) is where the scores of a pair's children begin. Returns how many scores there are.
    """
    for number in range(len(ends)):
        ends[number] = 0
    for pair in range(low, high):
        if node[pair] >= 0:
            ends[node[pair]] += 1
    before = 0
    for number in range(len(ends)):
        here = ends[number]
        ends[number] = before
        before += here
    room = 0
    for pair in range(low, high):
        number = node[pair]
        if number >= 0:
            order[ends[number]] = pair
            ends[number] += 1
            begin[pair] = room
            room += first_child[number + 1] - first_child[number]
    return room


@njit(nogil=True, cache=True)
def score_nodes(  # type: ignore[no-untyped-def]
    low, high, ends, order, path, begin, pairs_of_row, r_starts, r_columns, r_values, first_child, node_chunks,
    chunk_children, chunk_features, bias, features, starts, which, weights, scales, chances, seen, place, unpacked,
    lines, shares, lanes, out,
):  # fmt: skip
    """Score the children of the pairs order[low:high] into `out`: log chances of the paths to them.

    `seen` (columns,) notes words under the number of a node, modulo 256: an old note costs time and does no harm.
    `place` (columns,) is -1 on entry and on return: then the line of a word's unpacked weights.
    """
    score = np.empty(lanes, dtype=np.float32)  # made here, so that the compiler knows that nobody else has it
    words = (r_starts[-1] - r_starts[0]) // (len(r_starts) - 1)
    for node in range(len(ends)):
        first, last = low, min(high, ends[node])
        if first >= last:
            continue
        low = last
        many = last - first >= MANY
        stamp = np.uint8(node)
        held = 0
        for chunk in range(node_chunks[node], node_chunks[node + 1]):
            held += chunk_features[chunk, 1] - chunk_features[chunk, 0]
        every = (last - first) * words > EVERY * held
        if many and not every:
            for position in range(first, last):
                row = order[position] // pairs_of_row
                for entry in range(np.uintp(r_starts[row]), np.uintp(r_starts[row + 1])):
                    seen[np.uintp(r_columns[entry])] = stamp
        for chunk in range(node_chunks[node], node_chunks[node + 1]):
            child = chunk_children[chunk]
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
                if many:
                    _add_unpacked(
                        np.uintp(r_starts[row]), np.uintp(r_starts[row + 1]), r_columns, r_values, place, unpacked,
                        np.uintp(padded), used, scales[chunk], lines, shares, score,
                    )  # fmt: skip
                else:
                    _add_packed(
                        r_starts[row], r_starts[row + 1], r_columns, r_values, at, stop, features, starts, which,
                        weights, scales[chunk], score,
                    )  # fmt: skip
                here = np.uintp(begin[pair] + child - first_child[node])
                _log_chances(score, np.uintp(children), path[pair], chances, here, out)
            for line in range(used):
                place[np.uintp(features[np.uintp(lines[line])])] = -1


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _add_packed(here, there, words, values, at, stop, features, starts, which, weights, scale, score):  # type: ignore[no-untyped-def]
    """Words and features both rise: each search starts where the last one ended."""
    for entry in range(here, there):
        feature = words[entry]
        stride, low = 1, at
        while at < stop and features[at] < feature:  # strides that double, then halve
            low = at + 1
            at += stride
            stride *= 2
        high = min(at, stop)
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


@njit(nogil=True, cache=True)
def _log_chances(score, children, path, chances, to, out):  # type: ignore[no-untyped-def]
    """The path's log chance plus each child's."""
    for number in range(children):
        if chances:
            out[to + number] = path - np.log1p(np.exp(-score[number]))
        else:
            lack = max(np.float32(1.0) - score[number], np.float32(0.0))
            out[to + number] = path - lack * lack


@njit(nogil=True, cache=True)
def go_down(low, high, node, path, beam, begin, first_child, child, next_node, next_path, scores):  # type: ignore[no-untyped-def]
    """Put the best children of the groups low..high-1 in their pairs' place."""
    for group in range(low, high):
        count = FIRST
        for pair in range(group * beam + beam - 1, group * beam - 1, -1):  # the best stand near the end of a heap
            if node[pair] < 0:
                continue
            base, here = np.uintp(first_child[node[pair]]), np.uintp(begin[pair])
            for number in range(np.uintp(first_child[node[pair] + 1]) - base):
                value = scores[here + number]
                if count < beam or value >= next_path[0]:
                    count = _offer(next_node, next_path, count, beam, child[base + number], value)
        for place in range(beam):
            pair = group * beam + place
            node[pair], path[pair] = next_node[place] if place < count else -1, next_path[place]


@njit(nogil=True, cache=True)
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
        entries = 0
        for pair in range(first, last):
            if node[pair] >= 0:
                entries += first_child[node[pair] + 1] - first_child[node[pair]]
        near, size = np.float32(0.0), FIRST
        narrow = k * trees * 8 < entries  # else looking for the best entries costs more than it saves
        for pair in range(first + beam - 1, first - 1 if narrow else first + beam, -1):  # the best near the end
            if node[pair] < 0:
                continue
            here = np.uintp(begin[pair])
            for number in range(np.uintp(first_child[node[pair] + 1] - first_child[node[pair]])):
                value = chances[here + number]
                if size < k or value > worth[0]:
                    size = _offer(best, worth, size, k, node[pair], value)
        if narrow and size == k:
            near = worth[0] / np.float32(trees * 1.0001)
        count = 0
        for pair in range(first, last):
            if node[pair] < 0:
                continue
            base, here = np.uintp(first_child[node[pair]]), np.uintp(begin[pair])
            for number in range(np.uintp(first_child[node[pair] + 1]) - base):
                if chances[here + number] >= near and not marked[child[base + number]]:
                    marked[child[base + number]] = True
                    candidates[count] = child[base + number]
                    count += 1
        for pair in range(first, last):
            if node[pair] < 0:
                continue
            base, here = np.uintp(first_child[node[pair]]), np.uintp(begin[pair])
            for number in range(np.uintp(first_child[node[pair] + 1]) - base):
                if marked[child[base + number]]:
                    sums[child[base + number]] += chances[here + number]
        size = FIRST
        for place in range(count):
            size = _offer(best, worth, size, k, candidates[place], sums[candidates[place]])
            sums[candidates[place]], marked[candidates[place]] = 0, False
        if size < k:
            for start in range(size // 2 - 1, -1, -1):
                _sift(best, worth, start, size)
        for last in range(size - 1, -1, -1):  # take the worst off the heap, again and again
            labels[row, last], scores[row, last] = best[0], worth[0] / np.float32(trees)
            best[0], worth[0] = best[last], worth[last]
            _sift(best, worth, FIRST, last)


@njit(nogil=True, cache=True)
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
        _sift(best, worth, FIRST, size)
    return size
