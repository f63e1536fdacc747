"""Labels grouped by what their rows hold in common: balanced halves, or clusters of any size, again and again."""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.linear.node_rows import Scratch, gather
from longtail.linear.text import unit_rows
from longtail.linear.top import hold
from longtail.threads import in_threads

GAIN = 1e-4  # mean cosine below which another round is not worth it
ROUNDS = 20


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
    plain, scratch = hold(vectors), Scratch(vectors.shape[1])
    while np.diff(levels[-1]).max() > leaf:
        bounds = levels[-1]

        def work(node: int, bounds: Longs = bounds, depth: int = len(levels)) -> None:
            members = order[bounds[node] : bounds[node + 1]]
            if len(members) < 3:
                return
            rows, features = plain, vectors.shape[1]
            if len(members) < labels:  # their own rows over their own columns; all of them need no copy
                *rows, names = gather(members.astype(np.int64), *plain, scratch.place)
                features = len(names)
            members[:] = members[_halve(*rows, features, seed + 7919 * depth + node)]

        in_threads(work, range(len(bounds) - 1))
        middle = bounds[:-1] + (np.diff(bounds) + 1) // 2
        levels.append(np.sort(np.concatenate([bounds, middle])))
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


def _halve(starts: Longs, columns: Ints, values: Floats, features: int, seed: int) -> Longs:
    """The rows in an order whose first half is one cluster: balanced spherical 2-means.

    One centre is enough: a row's side depends on the difference of the two cosines alone.
    """
    rows, entries = len(starts) - 1, int(starts[-1])
    whole = np.bincount(columns[:entries], values[:entries], minlength=features).astype(np.float32)
    centre, left = np.zeros(features, dtype=np.float32), np.zeros(features, dtype=np.float32)
    for row, sign in zip(_seeds(rows, 2, seed), (1, -1), strict=True):
        mine = slice(starts[row], starts[row + 1])
        centre[columns[mine]] += sign * values[mine]
    lean = np.empty(rows, dtype=np.float32)
    before = -np.inf
    for _ in range(ROUNDS):
        _lean(starts, columns, values, centre, lean)
        ranks = np.argsort(lean, kind="stable")
        now = _recentre(ranks, (rows + 1) // 2, starts, columns, values, whole, left, centre) / rows
        if now - before < GAIN:
            break
        before = now
    return ranks


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _lean(starts, columns, values, centre, lean):  # type: ignore[no-untyped-def]
    """How far each row leans away from the first centre."""
    for row in range(len(lean)):
        total = np.float32(0.0)
        for entry in range(np.uintp(starts[row]), np.uintp(starts[row + 1])):
            total += values[entry] * centre[np.uintp(columns[entry])]
        lean[row] = -total


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _recentre(ranks, half, starts, columns, values, whole, left, centre):  # type: ignore[no-untyped-def]
    """New centres from the halves of the ranks, and the sum of the rows' cosines to their own: the length of each sum
    of unit vectors is the sum of their cosines to it. `left` is scratch."""
    for feature in range(len(left)):
        left[feature] = 0
    for rank in range(half):
        for entry in range(np.uintp(starts[ranks[rank]]), np.uintp(starts[ranks[rank] + 1])):
            left[np.uintp(columns[entry])] += values[entry]
    left_length = np.float32(0.0)
    right_length = np.float32(0.0)
    for feature in range(len(left)):
        right = whole[feature] - left[feature]
        left_length += left[feature] * left[feature]
        right_length += right * right
    left_length, right_length = np.sqrt(left_length), np.sqrt(right_length)
    left_scale = np.float32(1.0) / max(left_length, np.float32(1e-12))
    right_scale = np.float32(1.0) / max(right_length, np.float32(1e-12))
    for feature in range(len(left)):
        centre[feature] = left[feature] * left_scale - (whole[feature] - left[feature]) * right_scale
    return left_length + right_length
