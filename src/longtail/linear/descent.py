"""The beam's way down label trees, for a block of rows at a time.

The pairs (row, node) of a level are sorted by node. A node's classifiers are unpacked, word by word as the words come,
into contiguous weights for all rows that stand there; a node that few rows reach is scored from its packed weights.
Both ways add the same numbers in the same order, so a row's answer does not depend on its company.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.linear.top import _sift, _worse

LANES = 8  # children are padded to a multiple of this many float32
MANY = 8  # rows at a node from which unpacking its classifiers pays
LEAST = np.float32(-87.0)  # exp of it is the smallest normal float32, nearly


@njit(nogil=True, cache=True)
def descend(  # type: ignore[no-untyped-def]
    begin, end, block, r_starts, r_columns, r_values, columns, roots, node_chunks, node_leaf, chunk_children,
    chunk_features, child, bias, features, starts, which, weights, number_of_labels, chances, beam, labels, scores,
):  # fmt: skip
    """Fill `labels` and `scores` of the rows begin..end-1 with their best labels, best first; `block` rows go down
    together, and all blocks use the same scratch."""
    block, nodes = max(min(block, end - begin), 1), len(node_leaf)
    inner_width, leaf_width, lanes, cells = _sizes(node_leaf, node_chunks, chunk_children, chunk_features)
    several = block >= MANY
    place = np.full(columns if several else 0, -1, dtype=np.int32)
    unpacked = np.empty(cells if several else 0, dtype=np.float32)
    longest = 0
    for row in range(begin, end):
        longest = max(longest, r_starts[row + 1] - r_starts[row])
    lines = np.empty(longest + 1, dtype=np.int32)
    shares = np.empty(longest + 1, dtype=np.float32)
    score = np.empty(lanes, dtype=np.float32)
    bits = np.empty(lanes, dtype=np.int32)
    most = len(roots) * beam  # leaves of a row
    leaves = np.empty((block, most), dtype=np.int32)
    leaf_scores = np.empty((block * most, leaf_width), dtype=np.float32)
    found = np.zeros(block, dtype=np.int32)  # leaves of each row so far
    pair_node = np.empty((block, beam), dtype=np.int32)
    pair_path = np.empty((block, beam), dtype=np.float32)
    width = np.empty(block, dtype=np.int32)  # pairs of each row
    inner = np.empty((block * beam, inner_width), dtype=np.float32)
    next_node = np.empty(beam * inner_width, dtype=np.int32)
    next_path = np.empty(beam * inner_width, dtype=np.float32)
    at_node = np.zeros(nodes + 1, dtype=np.int64)
    order = np.empty(block * beam, dtype=np.int64)
    for first_row in range(begin, end, block):
        rows = min(block, end - first_row)
        for row in range(rows):
            found[row] = 0
        for root in roots:
            for row in range(rows):
                pair_node[row, 0], pair_path[row, 0], width[row] = root, 0, 1
            standing = rows
            while standing > 0:
                for node in range(nodes + 1):  # sort the pairs by node, by counting
                    at_node[node] = 0
                for row in range(rows):
                    for spot in range(width[row]):
                        at_node[pair_node[row, spot] + 1] += 1
                for node in range(nodes):
                    at_node[node + 1] += at_node[node]
                for row in range(rows):
                    for spot in range(width[row]):
                        node = pair_node[row, spot]
                        order[at_node[node]] = row * beam + spot
                        at_node[node] += 1
                low = 0
                for node in range(nodes):
                    high = at_node[node]  # by now where the node's pairs end
                    if high == low:
                        continue
                    leaf = node_leaf[node]
                    base = chunk_children[node_chunks[node]]
                    for chunk in range(node_chunks[node], node_chunks[node + 1]):
                        first, last = chunk_children[chunk], chunk_children[chunk + 1]
                        at, stop = chunk_features[chunk, 0], chunk_features[chunk, 1]
                        padded = (last - first + LANES - 1) // LANES * LANES
                        many = high - low >= MANY
                        used = 0
                        if many:
                            for feature in range(at, stop):
                                place[features[feature]] = at - 2 - feature
                        for position in range(low, high):
                            pair = order[position]
                            row = pair // beam
                            for lane in range(padded):
                                score[lane] = 0
                            for lane in range(last - first):
                                score[lane] = bias[first + lane]
                            here, there = r_starts[first_row + row], r_starts[first_row + row + 1]
                            if many:
                                used = _add_unpacked(
                                    here, there, r_columns, r_values, place, at, starts, which, weights, unpacked, used,
                                    padded, lines, shares, score,
                                )  # fmt: skip
                            else:
                                _add_packed(
                                    here, there, r_columns, r_values, at, stop, features, starts, which, weights, score
                                )
                            path = pair_path[row, pair - row * beam]
                            if leaf:
                                slot = row * most + found[row]
                                _leaf_chances(score, bits, last - first, path, chances, leaf_scores, slot, first - base)
                            else:
                                _log_chances(score, last - first, path, chances, inner, pair, first - base)
                        if many:
                            for feature in range(at, stop):
                                place[features[feature]] = -1
                    if leaf:
                        for position in range(low, high):
                            row = order[position] // beam
                            leaves[row, found[row]] = node
                            found[row] += 1
                    low = high
                standing = 0
                for row in range(rows):  # the best children of each row
                    count = 0
                    for spot in range(width[row]):
                        node = pair_node[row, spot]
                        if node_leaf[node]:
                            continue
                        base = chunk_children[node_chunks[node]]
                        for number in range(chunk_children[node_chunks[node + 1]] - base):
                            next_node[count] = child[base + number]
                            next_path[count] = inner[row * beam + spot, number]
                            count += 1
                    width[row] = min(count, beam)
                    standing += width[row]
                    _best(next_node, next_path, count, pair_node[row], pair_path[row])
        _collect(
            first_row, rows, len(roots), found, leaves, leaf_scores, node_chunks, chunk_children, child,
            number_of_labels, labels, scores,
        )  # fmt: skip


@njit(nogil=True, cache=True)
def _collect(  # type: ignore[no-untyped-def]
    begin, rows, trees, found, leaves, leaf_scores, node_chunks, chunk_children, child, number_of_labels, labels, scores
):
    """Mean over trees, and the best labels of each row.

    A label stands in one leaf of a tree, so k labels at least are among the k x trees largest entries, and no label's
    sum is more than trees x its largest entry: only labels with an entry near enough to the largest are summed at all.
    """
    sums = np.zeros(number_of_labels, dtype=np.float32)
    marked = np.zeros(number_of_labels, dtype=np.bool_)
    candidates = np.empty(leaf_scores.shape[1] * leaves.shape[1], dtype=np.int32)
    k = labels.shape[1]
    largest = np.empty(k * trees, dtype=np.float32)
    most = leaves.shape[1]
    for row in range(rows):
        size = 0
        entries = 0
        for spot in range(found[row]):
            node = leaves[row, spot]
            entries += chunk_children[node_chunks[node + 1]] - chunk_children[node_chunks[node]]
        narrow = len(largest) * 8 < entries  # else looking for the largest costs more than it saves
        for spot in range(found[row] if narrow else 0):
            node, slot = leaves[row, spot], row * most + spot
            for number in range(chunk_children[node_chunks[node + 1]] - chunk_children[node_chunks[node]]):
                value = leaf_scores[slot, number]
                if size < len(largest):
                    largest[size] = value
                    size += 1
                    if size == len(largest):
                        for start in range(size // 2 - 1, -1, -1):
                            _sink(largest, start)
                elif value > largest[0]:
                    largest[0] = value
                    _sink(largest, 0)
        near = largest[0] / np.float32(trees * 1.0001) if narrow else np.float32(0.0)
        count = 0
        for spot in range(found[row]):
            node, slot = leaves[row, spot], row * most + spot
            base = chunk_children[node_chunks[node]]
            for number in range(chunk_children[node_chunks[node + 1]] - base):
                if leaf_scores[slot, number] >= near:
                    label = child[base + number]
                    if not marked[label]:
                        marked[label] = True
                        candidates[count] = label
                        count += 1
        for spot in range(found[row]):
            node, slot = leaves[row, spot], row * most + spot
            base = chunk_children[node_chunks[node]]
            for number in range(chunk_children[node_chunks[node + 1]] - base):
                if marked[child[base + number]]:
                    sums[child[base + number]] += leaf_scores[slot, number]
        best, worth = labels[begin + row], scores[begin + row]
        size = 0
        for position in range(count):
            label = candidates[position]
            size = _offer(best, worth, size, label, sums[label])
            sums[label] = 0
            marked[label] = False
        _settle(best, worth, size)
        for position in range(size):
            worth[position] /= trees


@njit(nogil=True, cache=True)
def _sink(values, place):  # type: ignore[no-untyped-def]
    """Restore the heap (smallest on top) below `place`."""
    while True:
        below = 2 * place + 1
        if below >= len(values):
            return
        if below + 1 < len(values) and values[below + 1] < values[below]:
            below += 1
        if values[below] >= values[place]:
            return
        values[place], values[below] = values[below], values[place]
        place = below


@njit(nogil=True, cache=True)
def _sizes(node_leaf, node_chunks, chunk_children, chunk_features):  # type: ignore[no-untyped-def]
    """Most children of an inner node and of a leaf, most padded children of a chunk, most cells of an unpacked one."""
    inner_width, leaf_width, lanes, cells = 1, 1, 1, 1
    for node in range(len(node_leaf)):
        wide = chunk_children[node_chunks[node + 1]] - chunk_children[node_chunks[node]]
        if node_leaf[node]:
            leaf_width = max(leaf_width, wide)
        else:
            inner_width = max(inner_width, wide)
    for chunk in range(len(chunk_children) - 1):
        padded = (chunk_children[chunk + 1] - chunk_children[chunk] + LANES - 1) // LANES * LANES
        lanes = max(lanes, padded)
        cells = max(cells, padded * (chunk_features[chunk, 1] - chunk_features[chunk, 0]))
    return inner_width, leaf_width, lanes, cells


@njit(nogil=True, cache=True)
def _add_unpacked(  # type: ignore[no-untyped-def]
    here, there, words, values, place, at, starts, which, weights, unpacked, used, padded, lines, shares, score
):
    """First find the words that the chunk knows, without a branch; then add. Returns the cells in use.

    place[word] is where its unpacked weights begin, -1 for an unknown word, and less for one whose weights are still
    packed: -2 - its number in the chunk. Unsigned places spare a test for each.
    """
    known = 0
    for entry in range(here, there):
        line = place[words[entry]]
        if line < -1:
            feature = at - 2 - line
            line = used
            place[words[entry]] = line
            used += padded
            for cell in range(line, used):
                unpacked[cell] = 0
            for spot in range(starts[feature], starts[feature + 1]):
                unpacked[line + which[spot]] += weights[spot]
        lines[known], shares[known] = line, values[entry]
        known += line >= 0
    for entry in range(known):
        place_of, value = np.uintp(lines[entry]), shares[entry]
        for lane in range(np.uintp(padded)):
            score[lane] += value * unpacked[place_of + lane]
    return used


@njit(nogil=True, cache=True)
def _add_packed(here, there, words, values, at, stop, features, starts, which, weights, score):  # type: ignore[no-untyped-def]
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
            value = values[entry]
            for spot in range(starts[at], starts[at + 1]):
                score[which[spot]] += value * weights[spot]


@njit(nogil=True, cache=True)
def _log_chances(score, children, path, chances, out, slot, skip):  # type: ignore[no-untyped-def]
    """The path's log chance plus each child's."""
    for number in range(children):
        if chances:
            out[slot, skip + number] = path - np.log1p(np.exp(-score[number]))
        else:
            lack = max(np.float32(1.0) - score[number], np.float32(0.0))
            out[slot, skip + number] = path - lack * lack


@njit(nogil=True, cache=True)
def _leaf_chances(score, bits, children, path, chances, out, slot, skip):  # type: ignore[no-untyped-def]
    """The path's chance times each child's; the score is used up.

    exp(x) = 2^n exp(r) with n the integer next to x / ln 2: a polynomial for exp(r), and 2^n put together from its
    bits. It runs in vector lanes and is good to float32.
    """
    if chances:
        for number in range(children):
            score[number] = -score[number]
    else:
        for number in range(children):
            lack = max(np.float32(1.0) - score[number], np.float32(0.0))
            score[number] = path - lack * lack
    power = bits.view(np.float32)
    for number in range(children):
        value = min(max(score[number], LEAST), -LEAST)
        whole = np.int32(value * np.float32(1.44269504) + np.float32(128.5)) - np.int32(128)
        rest = value - np.float32(whole) * np.float32(0.693359375) - np.float32(whole) * np.float32(-2.12194440e-4)
        bits[number] = (whole + np.int32(127)) << np.int32(23)
        near = np.float32(1.9875691500e-4) * rest + np.float32(1.3981999507e-3)
        near = near * rest + np.float32(8.3334519073e-3)
        near = near * rest + np.float32(4.1665795894e-2)
        near = near * rest + np.float32(1.6666665459e-1)
        near = near * rest + np.float32(5.0000001201e-1)
        score[number] = near * rest * rest + rest + np.float32(1.0)
    if chances:
        whole_path = np.float32(np.exp(max(path, LEAST)))
        for number in range(children):
            out[slot, skip + number] = whole_path / (np.float32(1.0) + score[number] * power[number])
    else:
        for number in range(children):
            out[slot, skip + number] = score[number] * power[number]


@njit(nogil=True, cache=True)
def _best(nodes, paths, count, best_nodes, best_paths):  # type: ignore[no-untyped-def]
    """The best of `count` nodes, by a heap with the worst on top."""
    beam = len(best_nodes)
    if count > beam:
        for start in range(beam // 2 - 1, -1, -1):
            _sift(nodes, paths, start, beam)
        for position in range(beam, count):
            if _worse(paths[0], nodes[0], paths[position], nodes[position]):
                nodes[0], paths[0] = nodes[position], paths[position]
                _sift(nodes, paths, 0, beam)
        count = beam
    for position in range(count):
        best_nodes[position], best_paths[position] = nodes[position], paths[position]


@njit(nogil=True, cache=True)
def _offer(best, worth, size, label, value):  # type: ignore[no-untyped-def]
    """Put a label among the best if it belongs there; they are a heap with the worst on top once they are full."""
    if size < len(best):
        best[size], worth[size] = label, value
        size += 1
        if size == len(best):
            for start in range(size // 2 - 1, -1, -1):
                _sift(best, worth, start, size)
    elif _worse(worth[0], best[0], value, label):
        best[0], worth[0] = label, value
        _sift(best, worth, 0, size)
    return size


@njit(nogil=True, cache=True)
def _settle(best, worth, size):  # type: ignore[no-untyped-def]
    """Best first."""
    if size < len(best):
        for start in range(size // 2 - 1, -1, -1):
            _sift(best, worth, start, size)
    for last in range(size - 1, 0, -1):
        best[0], best[last] = best[last], best[0]
        worth[0], worth[last] = worth[last], worth[0]
        _sift(best, worth, 0, last)
