"""Trees over training examples: examples with similar labels are in the same leaf, which predicts their mean labels.

A node is split in two steps. First by labels: every row goes to the side whose ranking of labels gives it the larger
gain, each side ranks labels by the gains of its rows, and so on until nothing is gained (FastXML's nDCG split). Then by
words: a sparse separator learns the two sides, and rows follow the separator, in training as in prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.linear.csr_arrays import csr_arrays, read_only_arrays
from longtail.linear.solvers.l1_logistic import separate

GAIN = 1e-6  # a split ends when a round gains less than this a row


class Growth(NamedTuple):
    """How a tree is grown."""

    leaf_rows: int = 10  # rows of a leaf at most
    leaf_labels: int = 100  # labels that a leaf keeps
    cost: float = 1.0  # C: weight of the separator's loss against the norm of its weights
    rounds: int = 10  # Newton steps of the separator
    passes: int = 10  # passes over the features in each
    tol: float = 0.01  # a separator has converged when its violations are this share of the first ones


@dataclass(frozen=True, eq=False)
class Tree:
    """One grown tree. A child at or above 0 is a node, below 0 it is the leaf ~child; `root` is coded alike."""

    root: int
    children: Ints  # (nodes, 2): for rows whose margin is not above 0, and for those above 0
    biases: Floats  # (nodes,)
    weights: Matrix  # (nodes, features)
    members: Longs  # training rows, leaf after leaf
    bounds: Longs  # (leaves + 1,) in members


def ideal_gains(targets: Matrix) -> Floats:
    """Gains of nDCG: each target over the best discounted sum of its row.

    Args:
        targets: csr (rows, labels).

    Returns:
        One gain for each entry of the targets, float32.
    """
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    order = np.lexsort((-targets.data, rows))  # best target first within each row
    rank = np.arange(len(rows)) - targets.indptr[rows]
    best = np.bincount(rows, targets.data[order] / np.log2(rank + 2), minlength=targets.shape[0])
    gains: Floats = (targets.data / best[rows]).astype(np.float32)
    return gains


def grow(vectors: Matrix, targets: Matrix, gains: Floats, growth: Growth, seed: int) -> Tree:
    """Grow a tree over the rows that have a label.

    Args:
        vectors: csr (rows, features).
        targets: csr (rows, labels).
        gains: what the split counts for each entry of `targets`.
        growth: settings.
        seed: of the random first sides.

    Returns:
        The tree.
    """
    labelled = np.flatnonzero(np.diff(targets.indptr))
    root, nodes, leaves, children, biases, starts, columns, values, bounds = _grow(
        seed,
        labelled,
        csr_arrays(vectors),
        vectors.shape[1],
        read_only_arrays(targets.indptr, targets.indices, gains),
        1 / np.log2(np.arange(targets.shape[1]) + 2),
        growth,
    )
    starts = starts[: nodes + 1].copy()  # the kernel returns arrays with room to spare
    parts = values[: starts[-1]].copy(), columns[: starts[-1]].copy(), starts
    weights = sparse.csr_array(parts, shape=(nodes, vectors.shape[1]))
    return Tree(
        int(root), children[:nodes].copy(), biases[:nodes].copy(), weights, labelled, bounds[: leaves + 1].copy()
    )


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
    """Move rows between two sides until the mean gain stops growing. A row with equal gains on both sides stays.

    Args:
        starts: (rows + 1,), row r has labels[starts[r]:starts[r + 1]].
        labels: numbered 0 to count - 1.
        gains: of each label of each row.
        count: number of labels.
        sides: +1 or -1 (rows,), the first sides, changed in place.
        discounts: of each rank.

    Returns:
        The mean gain.
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
    """Labels of these rows, numbered from 0 in their order, with gains. `place` (labels,) is scratch, all -1."""
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
def _own_features(rows, starts, columns, values, sides, costs, bounds, place):  # type: ignore[no-untyped-def]
    """The rows by feature: starts, members, values, and the features in order; only those whose weight can differ from
    0.

    The gradient of the loss by a feature's weight lies between -bounds[0] and bounds[1]: the cost-weighted sums of
    |value| over rows where side x value is above 0, and over the others. Where neither exceeds the penalty, the
    weight is 0 at the optimum. bounds (2, features) is scratch, all 0; place (features,) is scratch too.
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
            if bounds[0, feature] == 0 and bounds[1, feature] == 0:
                names[found] = feature
                found += 1
                place[feature] = 0
            place[feature] += 1
            if value > 0:
                bounds[0, feature] += value
            else:
                bounds[1, feature] += max(-value, 1e-30)  # also marks a feature whose value is 0 as found
    kept = 0
    for feature in names[:found]:
        if max(bounds[0, feature], bounds[1, feature]) > 1:
            names[kept] = feature
            kept += 1
        else:
            place[feature] = -1
        bounds[0, feature], bounds[1, feature] = 0, 0
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
def _grow(seed, order, vectors, features, targets, discounts, growth):  # type: ignore[no-untyped-def]
    """Grow one tree over the rows in `order`, which is sorted by leaf in place."""
    vector_starts, vector_columns, vector_values = vectors
    target_starts, target_columns, gains = targets
    leaf_rows, _, cost, rounds, passes, tol = growth
    np.random.seed(seed)
    rows = len(order)
    max_nodes = max(rows, 1)  # a tree has fewer inner nodes than rows
    children = np.empty((max_nodes, 2), dtype=np.int32)
    biases = np.empty(max_nodes, dtype=np.float32)
    starts = np.zeros(max_nodes + 1, dtype=np.int64)
    columns, values = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.float32)
    bounds = np.zeros(max_nodes + 1, dtype=np.int64)
    nodes, leaves, root = 0, 0, 0
    label_place = np.full(len(discounts), -1, dtype=np.int32)
    place = np.empty(features, dtype=np.int32)
    gradient_bounds = np.zeros((2, features))
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
            own_starts, labels, own_gains, count = _own_targets(mine, target_starts, target_columns, gains, label_place)
            split(own_starts, labels, own_gains, count, sides, discounts)
            above = 0
            for side in sides:
                above += side > 0
            if 0 < above < size:
                costs = np.empty(size)  # the two sides weigh the same in the loss, however few rows one has
                for number in range(size):
                    costs[number] = cost * size / (above if sides[number] > 0 else size - above)
                by_feature, members, own_values, names = _own_features(
                    mine, vector_starts, vector_columns, vector_values, sides, costs, gradient_bounds, place
                )
                weights, bias = separate(by_feature, members, own_values, sides, costs, rounds, passes, tol)
                # Rows are routed with the weights that are stored, summed in the order of prediction.
                margins = np.empty(size)
                for number in range(size):
                    margins[number] = np.float64(np.float32(bias))
                at = starts[nodes]
                for feature in range(len(weights)):
                    weight = np.float32(weights[feature])
                    if weight != 0:
                        columns, values = _longer(columns, at + 1), _longer(values, at + 1)
                        columns[at], values[at] = names[feature], weight
                        at += 1
                        for entry in range(by_feature[feature], by_feature[feature + 1]):
                            margins[members[entry]] += np.float64(weight) * np.float64(own_values[entry])
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
            for child in (1, 0):  # the lower rows are taken first, so that leaves are in order
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
