"""Labels clustered by the words of their rows: balanced halves, or k-means clusters of any size, level by level."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bools, Floats, Ints, Longs, Matrix
from longtail.linear.csr_arrays import CsrArrays, csr_arrays, read_only
from longtail.linear.features.sparse_features import unit_rows
from longtail.linear.operation_counts import count_touched, is_counting
from longtail.linear.solvers.numba_compile import KERNEL, ZERO
from longtail.linear.trees.node_rows import Scratch, gather, gather_into
from longtail.selection import at_place
from longtail.threads import in_threads

GAIN = 1e-4  # mean cosine below which another round is not worth it
ROUNDS = 20
NIL, UNIT, EPSILON = np.float32(0.0), np.float32(1.0), np.float32(1e-12)  # inside a kernel, each would be a call
LOWEST = np.float32(-np.inf)
SMALL, LAST = 5, 2  # from level SMALL on, and in the LAST levels of any tree, a thread halves a node down to its leaves

Rows: TypeAlias = tuple[AnyArray, AnyArray, AnyArray, int]  # starts, columns, values, number of columns


class HalvingScratch(NamedTuple):
    """Arrays that `_halve` writes to; the sums are 0 and `lower` False on entry."""

    whole: Floats  # (features,) sum of all rows
    left: Floats  # (features,) sum of the first half
    centre: Floats  # (features,) difference of the two centres
    lean: Floats  # (rows,)
    ranked: Floats  # (rows,)
    lower: Bools  # (rows,) whether a row is in the first half


class GatherScratch(NamedTuple):
    """Arrays that `_halve_below` writes to."""

    place: Ints  # (features,), -1
    names: Ints  # (features + 1,)
    begins: Longs  # (rows,)
    spare: Longs  # (rows,)


def label_vectors(targets: Matrix, rows: Matrix) -> Matrix:
    """The normalised sum of each label's rows, weighted by its targets.

    Args:
        targets: csr (rows, labels).
        rows: csr (rows, features).

    Returns:
        csr (labels, features), unit-norm.
    """
    if is_counting():
        count_touched("groups", np.diff(rows.indptr) @ np.diff(targets.indptr))
    return unit_rows(targets.T.tocsr() @ rows)


def cooccurrence_vectors(targets: Matrix) -> Matrix:
    """The labels that each label occurs with, without itself.

    Args:
        targets: csr (rows, labels).

    Returns:
        csr (labels, labels), unit-norm.
    """
    together = (targets.T @ targets).tocsr()
    together.setdiag(0)
    together.eliminate_zeros()
    return unit_rows(together)


def balanced_halves(vectors: Matrix, max_leaf_labels: int, seed: int) -> tuple[Ints, list[Longs]]:
    """Split the labels into two equal halves by balanced 2-means, again and again.

    All leaves are at the same depth and differ by one label at most.

    Args:
        vectors: csr (labels, features), unit-norm.
        max_leaf_labels: splitting ends when no node has more labels.
        seed: of the starts of 2-means.

    Returns:
        The labels in tree order and, level by level from the root, where each node's labels begin in that order
        (nodes + 1,).
    """
    labels = vectors.shape[0]
    order: Ints = np.arange(labels, dtype=np.int32)
    levels: list[Longs] = [np.array([0, labels], dtype=np.int64)]
    while np.diff(levels[-1]).max() > max_leaf_labels:
        bounds = levels[-1]
        levels.append(np.sort(np.concatenate([bounds, bounds[:-1] + (np.diff(bounds) + 1) // 2])))
    arrays, scratch = csr_arrays(vectors), Scratch(vectors.shape[1])

    def below(node: int, level: int, last: int) -> None:
        """Halve a node and its descendants, down to the `last` level."""
        cuts = [levels[at][node << at - level : (node + 1 << at - level) + 1] for at in range(level, last)]
        if not cuts:
            return
        members = order[cuts[0][0] : cuts[0][1]]
        rows: Rows = (*arrays, vectors.shape[1])
        if len(members) < labels:  # all of them need no copy
            starts, columns, values, names = gather(members.astype(np.int64), *arrays, scratch.place)
            count_touched("groups", len(columns))
            rows = (starts, columns, values, len(names))
        seeds = [
            seed + 7919 * (level + down + 1) + (node << down) + np.arange(len(cut)) for down, cut in enumerate(cuts)
        ]
        members[:] = members[_halved(rows, np.concatenate(cuts) - cuts[0][0], np.concatenate(seeds)[:-1])]

    leaves = len(levels) - 1
    apart = min(SMALL, max(leaves - LAST, 0))
    for level in range(apart):
        in_threads(partial(below, level=level, last=level + 1), range(2**level))
    in_threads(partial(below, level=apart, last=leaves), range(2**apart))
    return order, levels


def merge_levels(levels: list[Longs], branches: int) -> list[Longs]:
    """The same halves with fewer levels: a node's children are its descendants log2(branches) levels below.

    Args:
        levels: bounds of the nodes, as `balanced_halves` returns them.
        branches: children of a node, a power of two.

    Returns:
        The levels that are left.
    """
    step = max(int(np.log2(branches)), 1)
    kept = levels[::-1][::step][::-1]
    return kept if len(kept[0]) == 2 else [levels[0], *kept]


def kmeans_tree(vectors: Matrix, branches: int, depth: int, seed: int) -> tuple[Ints, list[Longs]]:
    """Split the labels into clusters of any size by spherical k-means, again and again.

    Args:
        vectors: csr (labels, features), unit-norm.
        branches: clusters of a node at most.
        depth: how many times to split.
        seed: of the starts of k-means.

    Returns:
        As `balanced_halves`.
    """
    labels = vectors.shape[0]
    order: Ints = np.arange(labels, dtype=np.int32)
    levels: list[Longs] = [np.array([0, labels], dtype=np.int64)]
    arrays, scratch = csr_arrays(vectors), Scratch(vectors.shape[1])
    for level in range(depth):
        bounds = levels[-1]
        sizes: list[Longs] = [np.zeros(0, dtype=np.int64)] * (len(bounds) - 1)

        def work(node: int, bounds: Longs = bounds, sizes: list[Longs] = sizes, level: int = level) -> None:
            members = order[bounds[node] : bounds[node + 1]]
            clusters = min(branches, len(members) // 2)  # a cluster of one label splits nothing
            if clusters < 2:
                sizes[node] = np.array([len(members)], dtype=np.int64)
                return
            starts, columns, values, names = gather(members.astype(np.int64), *arrays, scratch.place)
            count_touched("groups", len(columns))
            seeds = _seeds(len(members), clusters, seed + 7919 * level + node)
            side = _kmeans(starts, columns, values, len(names), seeds)
            order[bounds[node] : bounds[node + 1]] = members[np.argsort(side, kind="stable")]
            count = np.bincount(side, minlength=clusters)
            sizes[node] = count[count > 0].astype(np.int64)

        in_threads(work, range(len(bounds) - 1))
        below = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
        if level and len(below) == len(bounds):  # nothing is left to split
            break
        levels.append(below)
    return order, levels


def _seeds(rows: int, number: int, seed: int) -> Longs:
    """Different rows to start from."""
    return np.random.default_rng(seed).permutation(rows)[:number]


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _kmeans(starts, columns, values, features, seeds):  # type: ignore[no-untyped-def]
    """The cluster of each row by spherical k-means that starts from the rows `seeds`. Centres are stored by feature, so
    that one pass over a row meets all of them."""
    rows, clusters = len(starts) - 1, len(seeds)
    centres = np.zeros((features, clusters), dtype=np.float32)
    for cluster in range(clusters):
        for entry in range(starts[seeds[cluster]], starts[seeds[cluster] + 1]):
            centres[columns[entry], cluster] = values[entry]
    side = np.zeros(rows, dtype=np.int64)
    near = np.empty(clusters, dtype=np.float32)
    scale = np.empty(clusters, dtype=np.float32)
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
            scale[cluster] = 0
        for feature in range(features):
            for cluster in range(clusters):
                scale[cluster] += centres[feature, cluster] * centres[feature, cluster]
        for cluster in range(clusters):
            scale[cluster] = 1 / np.sqrt(max(scale[cluster], np.float32(1e-20)))
        for feature in range(features):
            for cluster in range(clusters):
                centres[feature, cluster] *= scale[cluster]
    return side


def _pairs(rows: Longs, seeds: Longs) -> Longs:
    """Two different rows to start from (2, nodes), for nodes of so many rows. Creating a NumPy generator would take
    longer than halving a small node."""
    mixed = (seeds.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    number = np.maximum(rows, 2).astype(np.uint64)
    first = mixed % number
    other = (first + np.uint64(1) + mixed // number % (number - np.uint64(1))) % number
    return np.stack([first, other]).astype(np.int64)


def _halved(rows: Rows, bounds: Longs, seeds: Longs) -> Longs:
    """The order of a node's rows after it and its descendants are halved.

    `bounds` are those of one level of nodes after another; `seeds` has one number for each two neighbouring bounds.
    """
    starts, columns, values, features = rows
    number = len(starts) - 1
    vectors = CsrArrays(starts, columns, values)
    order, pairs = np.arange(number), _pairs(np.diff(bounds), seeds)
    sums, leans = np.zeros((3, features), dtype=np.float32), np.empty((2, number), dtype=np.float32)
    whole, left, centre = sums
    lean, ranked = leans
    halving = HalvingScratch(whole, left, centre, lean, ranked, np.zeros(number, dtype=np.bool_))
    if len(bounds) == 2:
        if number > 2:
            count_touched("groups", _halve(number, features, vectors, *pairs[:, 0], halving))
            order = np.argsort(~halving.lower, kind="stable")
        return order
    copy = CsrArrays(np.empty_like(starts), np.empty_like(columns), np.empty_like(values))
    copy_view = CsrArrays(read_only(copy.starts), read_only(copy.columns), read_only(copy.values))
    gathering = GatherScratch(
        np.full(features, -1, dtype=np.int32),
        np.empty(features + 1, dtype=np.int32),
        *np.empty_like(pairs, shape=(2, number)),
    )
    count_touched("groups", _halve_below(vectors, bounds, *pairs, order, copy, copy_view, gathering, halving))
    return order


@njit(**KERNEL)
def _halve_below(vectors, bounds, ones, others, order, copy, copy_view, gathering, halving):  # type: ignore[no-untyped-def]
    """Halve one node after another, each over a copy of its rows that stays in the cache. `copy_view` is a read-only
    view of `copy`, so that `_halve` compiles once. Returns the number of touched entries, as `_halve` does."""
    starts, columns, values = vectors
    own_starts, own_columns, own_values = copy
    place, names, begins, spare = gathering
    whole, left, centre, _, _, lower = halving
    touched = ZERO
    for node in range(len(bounds) - 1):
        first, rows = bounds[node], bounds[node + 1] - bounds[node]
        if rows < 3:  # negative where the next level begins
            continue
        own_starts[0] = 0
        for number in range(rows):
            row = order[first + number]
            begins[number], lower[number], spare[number] = starts[row], False, row
            own_starts[number + 1] = own_starts[number] + starts[row + 1] - starts[row]
        found = gather_into(rows, begins, own_starts, columns, values, place, own_columns, own_values, names)
        for feature in range(found):
            whole[feature], left[feature], centre[feature] = NIL, NIL, NIL
        touched += found + own_starts[rows] + _halve(rows, found, copy_view, ones[node], others[node], halving)
        front, back = first, first + (rows + 1) // 2
        for number in range(rows):
            if lower[number]:
                order[front] = spare[number]
                front += 1
            else:
                order[back] = spare[number]
                back += 1
    return touched


@njit(**KERNEL, fastmath={"contract", "reassoc", "nsz"})
def _halve(rows, features, vectors, one, other, halving):  # type: ignore[no-untyped-def]
    """Balanced 2-means that starts from the rows `one` and `other`; fills `lower`. One centre is enough: the side of a
    row depends only on the difference of the two cosines. Returns how many entries and features were touched, which
    benchmarks count."""
    starts, columns, values = vectors
    whole, left, centre, lean, ranked, lower = halving
    touched = starts[rows]
    for entry in range(starts[rows]):
        whole[np.uintp(columns[entry])] += values[entry]
    for entry in range(starts[one], starts[one + 1]):
        centre[columns[entry]] += values[entry]
    for entry in range(starts[other], starts[other + 1]):
        centre[columns[entry]] -= values[entry]
    before = LOWEST
    for _ in range(ROUNDS):
        touched += starts[rows] + features
        for row in range(rows):  # how much nearer it is to the second centre than to the first
            total = NIL
            for entry in range(np.uintp(starts[row]), np.uintp(starts[row + 1])):
                total -= values[entry] * centre[np.uintp(columns[entry])]
            lean[row] = ranked[row] = total
        spare = (rows + 1) // 2
        edge = at_place(ranked[:rows], spare - 1)
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
                touched += starts[row + 1] - starts[row]
                for entry in range(np.uintp(starts[row]), np.uintp(starts[row + 1])):
                    left[np.uintp(columns[entry])] += sign * values[entry]
        left_norm, right_norm = NIL, NIL
        for feature in range(features):
            right = whole[feature] - left[feature]
            left_norm += left[feature] * left[feature]
            right_norm += right * right
        left_norm, right_norm = np.sqrt(left_norm), np.sqrt(right_norm)
        # The norm of a sum of unit vectors is the sum of their cosines to it.
        if (left_norm + right_norm - before) < GAIN * rows:
            break
        before = left_norm + right_norm
        touched += features
        left_scale, right_scale = UNIT / (left_norm + EPSILON), UNIT / (right_norm + EPSILON)
        for feature in range(features):
            centre[feature] = left[feature] * left_scale - (whole[feature] - left[feature]) * right_scale
    return touched
