"""Labels grouped by what their rows hold in common: balanced halves, or clusters of any size, again and again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

import numpy as np
from numba import njit

from longtail.arrays import Bools, Floats, Ints, Longs, Matrix
from longtail.linear.compiling import KERNEL
from longtail.linear.node_rows import Scratch, gather
from longtail.linear.text import unit_rows
from longtail.linear.top import hold
from longtail.selection import at_place
from longtail.threads import in_threads

GAIN = 1e-4  # mean cosine below which another round is not worth it
ROUNDS = 20
NIL, UNIT, LEAST = np.float32(0.0), np.float32(1.0), np.float32(1e-12)  # each is a call where it stands in a kernel
LOWEST = np.float32(-np.inf)
SMALL = 5  # levels of halves from which a node is cut to the end by one thread

Rows: TypeAlias = tuple[Longs, Ints, Floats, int]  # starts, columns, values, number of columns


def label_vectors(targets: Matrix, rows: Matrix) -> Matrix:
    """The normalised sum of each label's rows, weighted by its targets: csr (labels, features)."""
    return unit_rows(targets.T.tocsr() @ rows)


def companions(targets: Matrix) -> Matrix:
    """The labels that each label occurs with, itself left out, as unit vectors: csr (labels, labels)."""
    together = (targets.T @ targets).tocsr()
    together.setdiag(0)
    together.eliminate_zeros()
    return unit_rows(together)


def halve(vectors: Matrix, leaf: int, seed: int) -> tuple[Ints, list[Longs]]:
    """Split the labels in two equal halves until no group holds more than `leaf`.

    Returns the labels in tree order and, level by level from the root, where each node's labels begin in that order
    (nodes + 1 bounds). All leaves stand at the same depth and differ by one label at most.
    """
    labels = vectors.shape[0]
    order: Ints = np.arange(labels, dtype=np.int32)
    levels: list[Longs] = [np.array([0, labels], dtype=np.int64)]
    while np.diff(levels[-1]).max() > leaf:
        bounds = levels[-1]
        levels.append(np.sort(np.concatenate([bounds, bounds[:-1] + (np.diff(bounds) + 1) // 2])))
    plain, scratch = hold(vectors), Scratch(vectors.shape[1])

    def cut(level: int, node: int, rows: Rows) -> Iterator[tuple[int, int, Longs]]:
        """Halve a node whose labels have these rows; its halves, each with its places among them."""
        members = order[levels[level][node] : levels[level][node + 1]]
        if level == len(levels) - 1 or len(members) < 3:
            return
        lower = _lower(*rows, *_pair(len(members), seed + 7919 * (level + 1) + node))
        halves = (np.flatnonzero(lower), np.flatnonzero(~lower))
        members[:] = members[np.concatenate(halves)]
        yield from ((level + 1, 2 * node + side, half) for side, half in enumerate(halves))

    def own(node: int, level: int) -> Rows:
        members = order[levels[level][node] : levels[level][node + 1]]
        if len(members) == labels:  # all of them need no copy
            return (*plain, vectors.shape[1])
        starts, columns, values, names = gather(members.astype(np.int64), *plain, scratch.place)
        return starts, columns, values, len(names)

    def all_below(node: int, level: int) -> None:
        """A small node and all under it: each takes its rows from its parent's, which are near."""
        waiting = [(level, node, own(node, level))]
        while waiting:
            depth, place, rows = waiting.pop()
            for below, child, mine in cut(depth, place, rows):
                if below < len(levels) - 1:
                    starts, columns, values, names = gather(mine, *rows[:3], scratch.place)
                    waiting.append((below, child, (starts, columns, values, len(names))))

    def alone(node: int, level: int) -> None:
        list(cut(level, node, own(node, level)))

    apart = min(SMALL, len(levels) - 1)
    for level in range(apart):
        in_threads(partial(alone, level=level), range(2**level))
    in_threads(partial(all_below, level=apart), range(2**apart))
    return order, levels


def merged(levels: list[Longs], branches: int) -> list[Longs]:
    """The same halves with fewer levels: every node reaches its descendants log2(branches) levels down at once."""
    step = max(int(np.log2(branches)), 1)
    kept = levels[::-1][::step][::-1]
    return kept if len(kept[0]) == 2 else [levels[0], *kept]


def spread(vectors: Matrix, branches: int, depth: int, seed: int) -> tuple[Ints, list[Longs]]:
    """Split the labels into up to `branches` clusters of any size (spherical k-means), `depth` times; as `halve`."""
    labels = vectors.shape[0]
    order: Ints = np.arange(labels, dtype=np.int32)
    levels: list[Longs] = [np.array([0, labels], dtype=np.int64)]
    plain, scratch = hold(vectors), Scratch(vectors.shape[1])
    for level in range(depth):
        bounds = levels[-1]
        sizes: list[Longs] = [np.zeros(0, dtype=np.int64)] * (len(bounds) - 1)

        def work(node: int, bounds: Longs = bounds, sizes: list[Longs] = sizes, level: int = level) -> None:
            members = order[bounds[node] : bounds[node + 1]]
            clusters = min(branches, len(members) // 2)  # a cluster of one label splits nothing
            if clusters < 2:
                sizes[node] = np.array([len(members)], dtype=np.int64)
                return
            starts, columns, values, names = gather(members.astype(np.int64), *plain, scratch.place)
            seeds = _seeds(len(members), clusters, seed + 7919 * level + node)
            side = _spread(starts, columns, values, len(names), seeds)
            order[bounds[node] : bounds[node + 1]] = members[np.argsort(side, kind="stable")]
            count = np.bincount(side, minlength=clusters)
            sizes[node] = count[count > 0].astype(np.int64)

        in_threads(work, range(len(bounds) - 1))
        levels.append(np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64))
    return order, levels


def _seeds(rows: int, number: int, seed: int) -> Longs:
    """Different rows to start from."""
    return np.random.default_rng(seed).permutation(rows)[:number]


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _spread(starts, columns, values, features, seeds):  # type: ignore[no-untyped-def]
    """The cluster of each row by spherical k-means from the rows `seeds`. Centres stand feature by feature, so that a
    row meets all of them in one walk."""
    rows, clusters = len(starts) - 1, len(seeds)
    centres = np.zeros((features, clusters), dtype=np.float32)
    for cluster in range(clusters):
        for entry in range(starts[seeds[cluster]], starts[seeds[cluster] + 1]):
            centres[columns[entry], cluster] = values[entry]
    side = np.zeros(rows, dtype=np.int64)
    near = np.empty(clusters, dtype=np.float32)
    lengths = np.empty(clusters, dtype=np.float32)
    before = -np.inf
    for _ in range(ROUNDS):
        total = 0.0
        for row in range(rows):
            for cluster in range(clusters):
                near[cluster] = 0
            for entry in range(starts[row], starts[row + 1]):
                value = values[entry]
                line = centres[columns[entry]]
                for cluster in range(clusters):
                    near[cluster] += value * line[cluster]
            best = 0
            for cluster in range(1, clusters):
                if near[cluster] > near[best]:
                    best = cluster
            side[row] = best
            total += near[best]
        if total / rows - before < GAIN:
            break
        before = total / rows
        for feature in range(features):
            for cluster in range(clusters):
                centres[feature, cluster] = 0
        for row in range(rows):
            for entry in range(starts[row], starts[row + 1]):
                centres[columns[entry], side[row]] += values[entry]
        for cluster in range(clusters):
            lengths[cluster] = 0
        for feature in range(features):
            for cluster in range(clusters):
                lengths[cluster] += centres[feature, cluster] * centres[feature, cluster]
        for cluster in range(clusters):
            lengths[cluster] = 1 / np.sqrt(max(lengths[cluster], np.float32(1e-20)))
        for feature in range(features):
            for cluster in range(clusters):
                centres[feature, cluster] *= lengths[cluster]
    return side


def _pair(rows: int, seed: int) -> tuple[int, int]:
    """Two different rows to start from; a generator of NumPy's takes longer to make than a small node to halve."""
    mixed = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    mixed ^= mixed >> 31
    first = mixed % rows
    return first, (first + 1 + mixed // rows % (rows - 1)) % rows


def _lower(starts: Longs, columns: Ints, values: Floats, features: int, one: int, other: int) -> Bools:
    """Which rows belong to the first half (rows,): balanced spherical 2-means from two rows."""
    lower = np.zeros(len(starts) - 1, dtype=np.bool_)
    sums, leans = np.zeros((3, features), dtype=np.float32), np.empty((2, len(lower)), dtype=np.float32)
    _halve(starts, columns, values, one, other, sums, leans, lower)
    return lower


@njit(**KERNEL, fastmath={"contract", "reassoc", "nsz"})
def _halve(starts, columns, values, one, other, sums, leans, lower):  # type: ignore[no-untyped-def]
    """One centre is enough: a row's side depends on the difference of the two cosines alone."""
    rows, features = len(lower), sums.shape[1]
    whole, left, centre = sums[0], sums[1], sums[2]
    lean, ranked = leans[0], leans[1]
    for entry in range(starts[rows]):
        whole[np.uintp(columns[entry])] += values[entry]
    for entry in range(starts[one], starts[one + 1]):
        centre[columns[entry]] += values[entry]
    for entry in range(starts[other], starts[other + 1]):
        centre[columns[entry]] -= values[entry]
    before = LOWEST
    for _ in range(ROUNDS):
        for row in range(rows):  # how far it leans away from the first centre
            total = NIL
            for entry in range(np.uintp(starts[row]), np.uintp(starts[row + 1])):
                total -= values[entry] * centre[np.uintp(columns[entry])]
            lean[row] = ranked[row] = total
        spare = (rows + 1) // 2
        edge = at_place(ranked, spare - 1)
        for row in range(rows):
            spare -= lean[row] < edge
        for row in range(rows):
            before_edge = lean[row] < edge
            if lean[row] == edge and spare > 0:  # ties by row
                before_edge = True
                spare -= 1
            if before_edge != lower[row]:  # few rows change sides after the first rounds
                sign = UNIT if before_edge else -UNIT
                lower[row] = before_edge
                for entry in range(np.uintp(starts[row]), np.uintp(starts[row + 1])):
                    left[np.uintp(columns[entry])] += sign * values[entry]
        left_length, right_length = NIL, NIL
        for feature in range(features):
            right = whole[feature] - left[feature]
            left_length += left[feature] * left[feature]
            right_length += right * right
        left_length, right_length = np.sqrt(left_length), np.sqrt(right_length)
        # The length of a sum of unit vectors is the sum of their cosines to it.
        if (left_length + right_length - before) < GAIN * rows:
            break
        before = left_length + right_length
        left_scale, right_scale = UNIT / (left_length + LEAST), UNIT / (right_length + LEAST)
        for feature in range(features):
            centre[feature] = left[feature] * left_scale - (whole[feature] - left[feature]) * right_scale
