"""Labels grouped by what their rows hold in common: balanced halves, or clusters of any size, again and again."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import numpy as np
from numba import njit

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.linear.compiling import KERNEL, ZERO
from longtail.linear.node_rows import Scratch, gather, gather_into
from longtail.linear.text import unit_rows
from longtail.linear.top import fixed, hold
from longtail.selection import at_place
from longtail.threads import in_threads

GAIN = 1e-4  # mean cosine below which another round is not worth it
ROUNDS = 20
NIL, UNIT, LEAST = np.float32(0.0), np.float32(1.0), np.float32(1e-12)  # each is a call where it stands in a kernel
LOWEST = np.float32(-np.inf)
SMALL, LAST = 5, 2  # levels of halves from which a node is cut to the end by one thread; the last two always are

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

    def below(node: int, level: int, last: int) -> None:
        """Halve a node and what comes of it, down to the `last` level."""
        cuts = [levels[at][node << at - level : (node + 1 << at - level) + 1] for at in range(level, last)]
        if not cuts:
            return
        members = order[cuts[0][0] : cuts[0][1]]
        rows: Rows = (*plain, vectors.shape[1])
        if len(members) < labels:  # all of them need no copy
            starts, columns, values, names = gather(members.astype(np.int64), *plain, scratch.place)
            rows = (starts, columns, values, len(names))
        lucks = [
            seed + 7919 * (level + down + 1) + (node << down) + np.arange(len(cut)) for down, cut in enumerate(cuts)
        ]
        members[:] = members[_halved(rows, np.concatenate(cuts) - cuts[0][0], np.concatenate(lucks)[:-1])]

    leaves = len(levels) - 1
    apart = min(SMALL, max(leaves - LAST, 0))
    for level in range(apart):
        in_threads(partial(below, level=level, last=level + 1), range(2**level))
    in_threads(partial(below, level=apart, last=leaves), range(2**apart))
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
        below = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
        if level and len(below) == len(bounds):  # nothing is left to split
            break
        levels.append(below)
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


def _pairs(rows: Longs, seeds: Longs) -> Longs:
    """Two different rows to start from (2, nodes), of so many; a generator of NumPy's takes longer to make than a small
    node to halve."""
    mixed = (seeds.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    number = np.maximum(rows, 2).astype(np.uint64)
    first = mixed % number
    other = (first + np.uint64(1) + mixed // number % (number - np.uint64(1))) % number
    return np.stack([first, other]).astype(np.int64)


def _halved(rows: Rows, bounds: Longs, lucks: Longs) -> Longs:
    """The order of a node's rows after all halves of it: `bounds` of one level of nodes after another, and a number to
    draw by, `lucks`, for each two of them."""
    starts, columns, values, features = rows
    number = len(starts) - 1
    order, pairs = np.arange(number), _pairs(np.diff(bounds), lucks)
    sums, leans = np.zeros((3, features), dtype=np.float32), np.empty((2, number), dtype=np.float32)
    lower = np.zeros(number, dtype=np.bool_)
    if len(bounds) == 2:
        if number > 2:
            _halve(number, features, starts, columns, values, *pairs[:, 0], *sums, *leans, lower)
            order = np.argsort(~lower, kind="stable")
        return order
    own = (np.empty_like(starts), np.empty_like(columns), np.empty_like(values))
    told = (fixed(own[0]), fixed(own[1]), fixed(own[2]))
    scratch = (
        np.full(features, -1, dtype=np.int32),
        np.empty(features + 1, dtype=np.int32),
        *np.empty_like(pairs, shape=(2, number)),
    )
    _halve_below(*(starts, columns, values, bounds, *pairs, order, *own, *told, *scratch, *sums, *leans, lower))
    return order


@njit(**KERNEL)
def _halve_below(  # type: ignore[no-untyped-def]
    starts, columns, values, bounds, ones, others, order, own_starts, own_columns, own_values, told_starts,
    told_columns, told_values, place, names, begins, spare, whole, left, centre, lean, ranked, lower,
):  # fmt: skip
    """One node after another, each over a copy of its rows, which is near; what is told is what is written as own.
    Returns what was touched, as `_halve` does."""
    touched = ZERO
    for node in range(len(bounds) - 1):
        first, rows = bounds[node], bounds[node + 1] - bounds[node]
        if rows < 3:  # below 0 where the next level begins
            continue
        own_starts[0] = 0
        for number in range(rows):
            row = order[first + number]
            begins[number], lower[number], spare[number] = starts[row], False, row
            own_starts[number + 1] = own_starts[number] + starts[row + 1] - starts[row]
        found = gather_into(rows, begins, own_starts, columns, values, place, own_columns, own_values, names)
        for feature in range(found):
            whole[feature], left[feature], centre[feature] = NIL, NIL, NIL
        touched += found + own_starts[rows] + _halve(
            rows, found, told_starts, told_columns, told_values, ones[node], others[node], whole, left, centre, lean,
            ranked, lower,
        )  # fmt: skip
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
def _halve(  # type: ignore[no-untyped-def]
    rows, features, starts, columns, values, one, other, whole, left, centre, lean, ranked, lower
):
    """One centre is enough: a row's side depends on the difference of the two cosines alone. The sums `whole`,
    `left` and `centre` (features,) are 0. Returns how many entries and features were touched, for benchmarks to
    count."""
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
        for row in range(rows):  # how far it leans away from the first centre
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
        touched += features
        left_scale, right_scale = UNIT / (left_length + LEAST), UNIT / (right_length + LEAST)
        for feature in range(features):
            centre[feature] = left[feature] * left_scale - (whole[feature] - left[feature]) * right_scale
    return touched
