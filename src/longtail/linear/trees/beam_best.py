"""The best children of a group's pairs, and the best labels of a row: what follows on the scores of `beam_kernels`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import Bools, Floats, Ints
from longtail.linear.features.sparse_top import _sift, _worse
from longtail.linear.solvers.numba_compile import INNER, KERNEL, ZERO

NIL = np.float32(0.0)


class CollectScratch(NamedTuple):
    """Arrays that `collect` writes to."""

    marked: Bools  # (labels,), False on entry and on return
    sums: Floats  # (labels,), 0 on entry and on return
    candidates: Ints  # (labels,)
    best: Ints  # (k,)
    worth: Floats  # (k,)


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
