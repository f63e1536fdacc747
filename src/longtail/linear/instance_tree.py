"""Trees over training rows: rows with like labels fall into the same leaf, and a leaf answers with their mean labels.

A node is cut in two steps. First the labels decide: every row goes to the side whose ranking of labels serves it
better, each side ranks labels by what its rows gain from them, and so on until nothing is gained (FastXML's nDCG
split). Then the words decide: a sparse separator learns the two sides, and rows follow the separator, in training as in
prediction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.linear.separator import separate

GAIN = 1e-6  # a split ends when a round gains less than this a row


@dataclass(frozen=True)
class Growth:
    """How a tree is grown."""

    leaf_rows: int = 10  # rows a leaf may hold
    leaf_labels: int = 100  # labels a leaf keeps
    cost: float = 1.0  # C: weight of the separator's loss against the length of its weights
    rounds: int = 10  # Newton steps of the separator
    passes: int = 10  # passes over the features in each
    limit: float = 0.01  # broken conditions, as a share of those at the start, that a separator may leave


@dataclass(frozen=True, eq=False)
class Tree:
    """One grown tree. A child at or above 0 is a node, below it is the leaf ~child; the root is `root`, coded alike."""

    root: int
    children: Ints  # (nodes, 2): where a row goes whose margin is not above 0, and above it
    biases: Floats  # (nodes,)
    weights: Matrix  # (nodes, features)
    members: Longs  # training rows, leaf after leaf
    bounds: Longs  # (leaves + 1,) in members


def ideal_gains(targets: Matrix) -> Floats:
    """The targets over the best discounted sum their row can reach, entry by entry: gains of the normalised measure."""
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    order = np.lexsort((-targets.data, rows))  # best target first within each row
    rank = np.arange(len(rows)) - targets.indptr[rows]
    best = np.bincount(rows, targets.data[order] / np.log2(rank + 2), minlength=targets.shape[0])
    gains: Floats = (targets.data / best[rows]).astype(np.float32)
    return gains


def grow(vectors: Matrix, targets: Matrix, gains: Floats, growth: Growth, seed: int) -> Tree:
    """A tree over the rows that have a label. `gains` are what the split counts for each entry of `targets`."""
    labelled = np.flatnonzero(np.diff(targets.indptr))
    root, nodes, leaves, children, biases, starts, columns, values, bounds = _grow(
        seed,
        labelled,
        *plain(vectors.indptr, vectors.indices, vectors.data),
        vectors.shape[1],
        *plain(targets.indptr, targets.indices, gains),
        1 / np.log2(np.arange(targets.shape[1]) + 2),
        *(growth.leaf_rows, growth.cost, growth.rounds, growth.passes, growth.limit),
    )
    starts = starts[: nodes + 1].copy()  # the kernel returns arrays with room to spare
    parts = values[: starts[-1]].copy(), columns[: starts[-1]].copy(), starts
    weights = sparse.csr_array(parts, shape=(nodes, vectors.shape[1]))
    return Tree(
        int(root), children[:nodes].copy(), biases[:nodes].copy(), weights, labelled, bounds[: leaves + 1].copy()
    )


def plain(starts: AnyArray, columns: AnyArray, values: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """One set of types for the kernels, read-only as the data is, so that they compile once."""
    views: list[AnyArray] = [
        starts.astype(np.int64, copy=False).view(),
        columns.astype(np.int32, copy=False).view(),
        values.astype(np.float32, copy=False).view(),
    ]
    for view in views:
        view.setflags(write=False)
    return views[0], views[1], views[2]


@njit(nogil=True, cache=True)
def _discounted(sums, discounts):  # type: ignore[no-untyped-def]
    """The discount of each label where labels are ranked by these sums; equal sums rank in order of the label."""
    found = np.empty(len(sums))
    order = np.argsort(-sums, kind="mergesort")
    for rank in range(len(order)):
        found[order[rank]] = discounts[rank]
    return found


@njit(nogil=True, cache=True)
def split(starts, labels, gains, count, sides, discounts):  # type: ignore[no-untyped-def]
    """Move rows between two sides, from the `sides` given (+1 or -1), until the mean gain stops growing; returns it.

    Row r has labels[starts[r]:starts[r + 1]], numbered 0 to count - 1, and gains from them. A row that gains as much on
    either side stays where it is.
    """
    rows = len(starts) - 1
    last = -1.0
    while True:
        sums = np.zeros((2, count))
        for row in range(rows):
            side = 1 if sides[row] > 0 else 0
            for entry in range(starts[row], starts[row + 1]):
                sums[side, labels[entry]] += gains[entry]
        below, above = _discounted(sums[0], discounts), _discounted(sums[1], discounts)
        total = 0.0
        for row in range(rows):
            down, up = 0.0, 0.0
            for entry in range(starts[row], starts[row + 1]):
                down += gains[entry] * below[labels[entry]]
                up += gains[entry] * above[labels[entry]]
            if up > down:
                sides[row] = 1
            elif down > up:
                sides[row] = -1
            total += max(up, down)
        total /= rows
        if total - last < GAIN:
            return total
        last = total


@njit(nogil=True, cache=True)
def _own_targets(rows, starts, columns, values, place):  # type: ignore[no-untyped-def]
    """Labels of these rows, numbered from 0 in their order, with gains. `place` (labels,) is scratch, -1 all over."""
    own_starts = np.zeros(len(rows) + 1, dtype=np.int64)
    for number in range(len(rows)):
        own_starts[number + 1] = own_starts[number] + starts[rows[number] + 1] - starts[rows[number]]
    labels = np.empty(own_starts[-1], dtype=np.int32)
    gains = np.empty(own_starts[-1], dtype=np.float32)
    names = np.empty(min(own_starts[-1], len(place)), dtype=np.int32)
    count, at = 0, 0
    for row in rows:
        for entry in range(starts[row], starts[row + 1]):
            label = columns[entry]
            labels[at], gains[at] = label, values[entry]
            at += 1
            if place[label] < 0:
                place[label] = 0
                names[count] = label
                count += 1
    names = np.sort(names[:count])
    for number in range(count):
        place[names[number]] = number
    for entry in range(at):
        labels[entry] = place[labels[entry]]
    for label in names:
        place[label] = -1
    return own_starts, labels, gains, count


@njit(nogil=True, cache=True)
def _own_features(rows, starts, columns, values, sides, costs, pull, place):  # type: ignore[no-untyped-def]
    """The rows by feature: starts, members, values, and the features' names in order; only those that can matter.

    The loss pulls a feature's weight up by no more than `pull[0]`, the cost-weighted sum over rows it speaks for, and
    down by no more than `pull[1]`; where neither exceeds the penalty the weight is 0 at the optimum. pull (2, features)
    is scratch, 0 all over; place (features,) is scratch too.
    """
    total = 0
    for row in rows:
        total += starts[row + 1] - starts[row]
    names = np.empty(min(total, len(place)), dtype=np.int32)
    found = 0
    for number in range(len(rows)):
        row = rows[number]
        for entry in range(starts[row], starts[row + 1]):
            feature = columns[entry]
            value = sides[number] * costs[number] * values[entry]
            if pull[0, feature] == 0 and pull[1, feature] == 0:
                names[found] = feature
                found += 1
                place[feature] = 0
            place[feature] += 1
            if value > 0:
                pull[0, feature] += value
            else:
                pull[1, feature] += max(-value, 1e-30)  # also marks a feature whose value is 0 as met
    kept = 0
    for feature in names[:found]:
        if max(pull[0, feature], pull[1, feature]) > 1:
            names[kept] = feature
            kept += 1
        else:
            place[feature] = -1
        pull[0, feature], pull[1, feature] = 0, 0
    names = np.sort(names[:kept])
    own_starts = np.zeros(kept + 1, dtype=np.int64)
    for number in range(kept):
        own_starts[number + 1] = own_starts[number] + place[names[number]]
        place[names[number]] = number
    members = np.empty(own_starts[-1], dtype=np.int32)
    own_values = np.empty(own_starts[-1], dtype=np.float32)
    at = own_starts[:-1].copy()
    for number in range(len(rows)):
        row = rows[number]
        for entry in range(starts[row], starts[row + 1]):
            spot = place[columns[entry]]
            if spot >= 0:
                members[at[spot]], own_values[at[spot]] = number, values[entry]
                at[spot] += 1
    return own_starts, members, own_values, names


@njit(nogil=True, cache=True)
def _longer(array, needed):  # type: ignore[no-untyped-def]
    """The array with room for at least this many entries."""
    if needed <= len(array):
        return array
    result = np.empty(max(needed, 2 * len(array)), dtype=array.dtype)
    for place in range(len(array)):
        result[place] = array[place]
    return result


@njit(nogil=True, cache=True)
def _grow(  # type: ignore[no-untyped-def]
    seed, order, x_starts, x_columns, x_values, features, t_starts, t_columns, gains, discounts,
    leaf_rows, cost, rounds, passes, limit,
):  # fmt: skip
    """Grow one tree over the rows in `order`, which is left leaf after leaf."""
    np.random.seed(seed)
    rows = len(order)
    most = max(rows, 1)  # a tree has fewer inner nodes than rows
    children = np.empty((most, 2), dtype=np.int32)
    biases = np.empty(most, dtype=np.float32)
    starts = np.zeros(most + 1, dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    bounds = np.zeros(most + 1, dtype=np.int64)
    nodes, leaves, root = 0, 0, 0
    label_place = np.full(len(discounts), -1, dtype=np.int32)
    place = np.empty(features, dtype=np.int32)
    pull = np.zeros((2, features))
    todo = np.empty((rows + 2, 4), dtype=np.int64)  # begin, end, parent, which child of it; the last is taken first
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, rows, -1, 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        begin, end, parent, which = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2], todo[waiting, 3]
        size, cut = end - begin, 0
        if size > leaf_rows:
            mine = order[begin:end].copy()
            sides = np.empty(size)
            for number in range(size):
                sides[number] = -1.0 if np.random.random() < 0.5 else 1.0
            own_starts, labels, own_gains, count = _own_targets(mine, t_starts, t_columns, gains, label_place)
            split(own_starts, labels, own_gains, count, sides, discounts)
            above = 0
            for side in sides:
                above += side > 0
            if 0 < above < size:
                costs = np.empty(size)  # each side's losses weigh as much as the other's, however few its rows are
                for number in range(size):
                    costs[number] = cost * size / (above if sides[number] > 0 else size - above)
                held = _own_features(mine, x_starts, x_columns, x_values, sides, costs, pull, place)
                weights, bias = separate(held[0], held[1], held[2], sides, costs, rounds, passes, limit)
                # Rows are routed with the numbers that are kept, summed in the order prediction sums them.
                margins = np.empty(size)
                for number in range(size):
                    margins[number] = np.float64(np.float32(bias))
                at = starts[nodes]
                for feature in range(len(weights)):
                    weight = np.float32(weights[feature])
                    if weight != 0:
                        columns, values = _longer(columns, at + 1), _longer(values, at + 1)
                        columns[at], values[at] = held[3][feature], weight
                        at += 1
                        for entry in range(held[0][feature], held[0][feature + 1]):
                            margins[held[1][entry]] += np.float64(weight) * np.float64(held[2][entry])
                for margin in margins:
                    cut += margin <= 0
                if 0 < cut < size:
                    low, high = begin, begin + cut
                    for number in range(size):
                        if margins[number] > 0:
                            order[high] = mine[number]
                            high += 1
                        else:
                            order[low] = mine[number]
                            low += 1
        if 0 < cut < size:
            code = nodes
            biases[nodes] = bias
            starts[nodes + 1] = at
            nodes += 1
            for child in (1, 0):  # the lower rows are taken first, so that leaves stand in order
                todo[waiting, 0] = begin + cut if child else begin
                todo[waiting, 1] = end if child else begin + cut
                todo[waiting, 2], todo[waiting, 3] = code, child
                waiting += 1
        else:
            code = ~leaves
            leaves += 1
            bounds[leaves] = end
        if parent >= 0:
            children[parent, which] = code
        else:
            root = code
    return root, nodes, leaves, children, biases, starts, columns, values, bounds
