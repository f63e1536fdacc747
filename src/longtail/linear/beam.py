"""Beam search down label trees, for many rows at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.linear.top import _sift, _worse
from longtail.linear.tree import Chunk
from longtail.threads import over_rows


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over the same labels as flat arrays: what prediction walks and `store` saves.

    Nodes of all trees are numbered together; a node's children are nodes, or, on the last level, labels.
    """

    roots: Ints  # (trees,) node
    node_chunks: Longs  # (nodes + 1,) chunks of each node
    node_leaf: Ints  # (nodes,) 1 where the children are labels
    chunk_children: Longs  # (chunks + 1,) places in `child` and `bias`
    chunk_features: Longs  # (chunks + 1,) places in `features`
    child: Ints  # (children in all,) node or label
    bias: Floats  # (children in all,)
    features: Ints  # sorted within a chunk
    starts: Longs  # (features in all + 1,) places in `which` and `weights`
    which: Ints  # child of the chunk
    weights: Floats
    labels: int
    chances: bool  # scores are log odds (log loss) rather than margins (squared hinge)


def make_forest(trees: list[tuple[list[Chunk], list[Longs], Ints]], chances: bool = False) -> Forest:
    """Flatten trained trees: their chunks, levels and label orders."""
    roots, node_leaf, chunk_lists = [], [], []
    child_parts, ordered = [], []
    before = 0
    for chunks, levels, order in trees:
        offsets = np.concatenate([[0], np.cumsum([len(bounds) - 1 for bounds in levels])]) + before
        roots.append(before)
        for level, bounds in enumerate(levels):
            node_leaf.extend([int(level == len(levels) - 1)] * (len(bounds) - 1))
        for chunk in sorted(chunks, key=lambda chunk: (chunk.level, chunk.parent, chunk.first)):
            numbers = np.arange(chunk.first, chunk.first + len(chunk.bias))
            leaf = chunk.level == len(levels) - 1
            child_parts.append(order[numbers] if leaf else numbers + offsets[chunk.level + 1])
            chunk_lists.append(int(offsets[chunk.level]) + chunk.parent)
            ordered.append(chunk)
        before = int(offsets[-1])
    entries = np.concatenate([[0], np.cumsum([len(chunk.weights) for chunk in ordered])])
    starts = [chunk.starts[:-1] + entries[number] for number, chunk in enumerate(ordered)]
    return Forest(
        roots=np.array(roots, dtype=np.int32),
        node_chunks=np.searchsorted(np.array(chunk_lists), np.arange(before + 1)).astype(np.int64),
        node_leaf=np.array(node_leaf, dtype=np.int32),
        chunk_children=np.concatenate([[0], np.cumsum([len(part) for part in child_parts])]).astype(np.int64),
        chunk_features=np.concatenate([[0], np.cumsum([len(chunk.features) for chunk in ordered])]).astype(np.int64),
        child=np.concatenate(child_parts).astype(np.int32),
        bias=np.concatenate([chunk.bias for chunk in ordered]),
        features=np.concatenate([chunk.features for chunk in ordered]),
        starts=np.concatenate([*starts, entries[-1:]]).astype(np.int64),
        which=np.concatenate([chunk.children for chunk in ordered]),
        weights=np.concatenate([chunk.weights for chunk in ordered]),
        labels=len(trees[0][2]),
        chances=chances,
    )


def search(forest: Forest, rows: Matrix, k: int, beam: int) -> tuple[Ints, Floats]:
    """The k best labels of each row and their scores: exp of the summed log chances down a path, mean over trees."""
    labels = np.full((rows.shape[0], k), -1, dtype=np.int32)
    scores = np.zeros((rows.shape[0], k), dtype=np.float32)
    plain = (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float32))
    held = tuple(vars(forest).values())

    def work(begin: int, end: int) -> None:
        _search(*(begin, end, *plain, *held, beam, labels, scores))

    over_rows(work, rows.shape[0], least=32)
    return labels, scores


@njit(nogil=True, cache=True)
def _search(  # type: ignore[no-untyped-def]
    begin, end, r_starts, r_columns, r_values, roots, node_chunks, node_leaf, chunk_children, chunk_features, child,
    bias, features, starts, which, weights, number_of_labels, chances, beam, labels, scores,
):  # fmt: skip
    sums = np.zeros(number_of_labels, dtype=np.float32)
    touched = np.empty(number_of_labels, dtype=np.int32)
    widest = 0
    for node in range(len(node_leaf)):
        widest = max(widest, chunk_children[node_chunks[node + 1]] - chunk_children[node_chunks[node]])
    nodes = np.empty(beam, dtype=np.int32)
    paths = np.empty(beam, dtype=np.float32)
    next_nodes = np.empty(beam * widest + 1, dtype=np.int32)
    next_paths = np.empty(beam * widest + 1, dtype=np.float32)
    score = np.empty(widest, dtype=np.float32)
    k = labels.shape[1]
    for row in range(begin, end):
        low, high = r_starts[row], r_starts[row + 1]
        count = 0
        for root in roots:
            nodes[0], paths[0], width = root, 0, 1
            while width > 0:
                found = 0
                for position in range(width):
                    node, path = nodes[position], paths[position]
                    leaf = node_leaf[node]
                    for chunk in range(node_chunks[node], node_chunks[node + 1]):
                        first, last = chunk_children[chunk], chunk_children[chunk + 1]
                        for number in range(last - first):
                            score[number] = bias[first + number]
                        at, stop = chunk_features[chunk], chunk_features[chunk + 1]
                        for entry in range(low, high):
                            feature = r_columns[entry]
                            at = _seek(features, at, stop, feature)
                            if at == stop:
                                break
                            if features[at] == feature:
                                value = r_values[entry]
                                for spot in range(starts[at], starts[at + 1]):
                                    score[which[spot]] += value * weights[spot]
                        for number in range(last - first):
                            if chances:
                                value = path - np.log1p(np.exp(-score[number]))
                            else:
                                lack = max(np.float32(1.0) - score[number], np.float32(0.0))
                                value = path - lack * lack
                            if leaf:
                                label = child[first + number]
                                if sums[label] == 0:
                                    touched[count] = label
                                    count += 1
                                sums[label] += np.exp(value)
                            else:
                                next_nodes[found], next_paths[found] = child[first + number], value
                                found += 1
                width = min(found, beam)
                if found > beam:  # the best come first: a heap with the worst on top
                    for start in range(beam // 2 - 1, -1, -1):
                        _sift(next_nodes, next_paths, start, beam)
                    for position in range(beam, found):
                        if _worse(next_paths[0], next_nodes[0], next_paths[position], next_nodes[position]):
                            next_nodes[0], next_paths[0] = next_nodes[position], next_paths[position]
                            _sift(next_nodes, next_paths, 0, beam)
                for position in range(width):
                    nodes[position], paths[position] = next_nodes[position], next_paths[position]
        best, worth = labels[row], scores[row]
        size = 0
        for position in range(count):
            label = touched[position]
            value = sums[label] / len(roots)
            sums[label] = 0
            if size < k:
                best[size], worth[size] = label, value
                size += 1
                if size == k:
                    for start in range(k // 2 - 1, -1, -1):
                        _sift(best, worth, start, k)
            elif _worse(worth[0], best[0], value, label):
                best[0], worth[0] = label, value
                _sift(best, worth, 0, k)
        if size < k:
            for start in range(size // 2 - 1, -1, -1):
                _sift(best, worth, start, size)
        for last in range(size - 1, 0, -1):
            best[0], best[last] = best[last], best[0]
            worth[0], worth[last] = worth[last], worth[0]
            _sift(best, worth, 0, last)


@njit(nogil=True, cache=True, inline="always")
def _seek(features, at, stop, feature):  # type: ignore[no-untyped-def]
    """The first place from `at` whose feature is not smaller: strides that double, then halve."""
    stride = 1
    low = at
    while at < stop and features[at] < feature:
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
    return low
