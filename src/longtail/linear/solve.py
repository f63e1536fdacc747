"""Linear classifiers for the children of one node, trained side by side.

All classifiers of a node see the same rows, so one pass over a row serves them all: the row's dot products with every
child and the updates run over contiguous weights, as wide as the machine's vectors. The method is dual coordinate
descent for the squared hinge (Hsieh et al., 2008), the same steps for each child as if it were trained alone.

A soft target t is a yes of weight t and a no of weight 1 - t on the same row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NEWTON_STEPS = 4  # for one dual variable of the log loss; halving steps keep them inside their bounds
LANES = 8  # children are padded to a multiple of this many float32


@njit(nogil=True, cache=True)
def gather(rows, starts, columns, values, place):  # type: ignore[no-untyped-def]
    """The rows of a node over the features they hold: own starts, own columns, values, and the features' names.

    `place` (features,) is scratch, -1 on entry and on return.
    """
    total = 0
    for row in rows:
        total += starts[row + 1] - starts[row]
    own_starts = np.empty(len(rows) + 1, dtype=np.int64)
    own_columns = np.empty(total, dtype=np.int32)
    own_values = np.empty(total, dtype=np.float32)
    names = np.empty(min(total, len(place)), dtype=np.int32)
    found = 0
    at = 0
    own_starts[0] = 0
    for number in range(len(rows)):
        row = rows[number]
        for entry in range(starts[row], starts[row + 1]):
            feature = columns[entry]
            if place[feature] < 0:
                place[feature] = found
                names[found] = feature
                found += 1
            own_columns[at] = place[feature]
            own_values[at] = values[entry]
            at += 1
        own_starts[number + 1] = at
    for feature in names[:found]:
        place[feature] = -1
    return own_starts, own_columns, own_values, names[:found].copy()


@njit(nogil=True, cache=True)
def node_targets(rows, starts, columns, values, first, last):  # type: ignore[no-untyped-def]
    """Targets of these rows among the columns first..last-1: starts, children counted from first, and values."""
    begin = np.empty(len(rows), dtype=np.int64)
    own_starts = np.empty(len(rows) + 1, dtype=np.int64)
    own_starts[0] = 0
    for number in range(len(rows)):
        row = rows[number]
        low, high = starts[row], starts[row + 1]
        low += np.searchsorted(columns[low:high], first)
        high = low + np.searchsorted(columns[low:high], last)
        begin[number] = low
        own_starts[number + 1] = own_starts[number] + high - low
    children = np.empty(own_starts[-1], dtype=np.int32)
    own = np.empty(own_starts[-1], dtype=np.float32)
    for number in range(len(rows)):
        for step in range(own_starts[number + 1] - own_starts[number]):
            children[own_starts[number] + step] = columns[begin[number] + step] - first
            own[own_starts[number] + step] = values[begin[number] + step]
    return own_starts, children, own


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"})
def _passes(  # type: ignore[no-untyped-def]
    begins, ends, columns, values, lengths, t_starts, t_child, t_value, weights, no, yes, penalty, limit, most, order
):
    """Pass over the rows until half of the children are done or `most` passes are; returns passes made and who is done.

    weights (features + 1, lanes), the last row is the bias; no (rows, lanes) and yes (targets,) are the dual variables.
    `penalty` is 1 / (2 cost): the diagonal that makes the hinge squared.
    """
    lanes = weights.shape[1]
    bias = weights.shape[0] - 1
    score = np.empty(lanes, dtype=np.float32)
    step = np.empty(lanes, dtype=np.float32)
    kept = np.empty(lanes, dtype=np.float32)
    worst = np.empty(lanes, dtype=np.float32)
    done = np.zeros(lanes, dtype=np.bool_)
    made = 0
    rows = len(lengths)
    while made < most:
        made += 1
        worst[:] = 0
        for position in range(rows - 1, 0, -1):  # a new order each pass
            other = np.random.randint(0, position + 1)
            order[position], order[other] = order[other], order[position]
        for position in range(rows):
            row = order[position]
            for lane in range(lanes):
                score[lane] = weights[bias, lane]
            for entry in range(begins[row], ends[row]):
                value = values[entry]
                line = weights[columns[entry]]
                for lane in range(lanes):
                    score[lane] += value * line[lane]
            length = lengths[row]
            scale = np.float32(1.0) / (length + penalty)
            line = no[row]
            begin, end = t_starts[row], t_starts[row + 1]
            for entry in range(begin, end):
                kept[t_child[entry]] = line[t_child[entry]]
            for lane in range(lanes):  # every child as a plain no
                slope = -score[lane] - np.float32(1.0) + penalty * line[lane]
                moved = max(line[lane] - slope * scale, np.float32(0.0))
                change = moved - line[lane]
                step[lane] = -change
                line[lane] = moved
                worst[lane] = max(worst[lane], abs(change))
            for entry in range(begin, end):  # then those that are a yes, wholly or in part
                lane = t_child[entry]
                share = t_value[entry]
                old = kept[lane]
                line[lane] = old
                step[lane] = 0
                if share < 1:
                    own = penalty / (1 - share)
                    moved = max(old - (-score[lane] - np.float32(1.0) + own * old) / (length + own), np.float32(0.0))
                    line[lane] = moved
                    step[lane] = old - moved
                own = penalty / share
                slope = score[lane] + step[lane] * length - np.float32(1.0) + own * yes[entry]
                moved = max(yes[entry] - slope / (length + own), np.float32(0.0))
                step[lane] += moved - yes[entry]
                yes[entry] = moved
                worst[lane] = max(worst[lane], abs(step[lane]))
            moving = 0
            for lane in range(lanes):
                if step[lane] != 0:
                    moving += 1
            if moving == 0:
                continue
            for lane in range(lanes):
                weights[bias, lane] += step[lane]
            if moving * 4 > lanes:
                for entry in range(begins[row], ends[row]):
                    value = values[entry]
                    line = weights[columns[entry]]
                    for lane in range(lanes):
                        line[lane] += value * step[lane]
            else:
                for lane in range(lanes):
                    if step[lane] != 0:
                        for entry in range(begins[row], ends[row]):
                            weights[columns[entry], lane] += values[entry] * step[lane]
        finished = 0
        for lane in range(lanes):
            done[lane] = worst[lane] <= limit
            finished += done[lane]
        if finished * 2 >= lanes:
            break
    return made, done


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"})
def fit_chances(  # type: ignore[no-untyped-def]
    begins, ends, columns, values, features, t_starts, t_child, t_value, importance, children, cost, limit, most, seed
):
    """Logistic weights of each child for soft targets: (features + 1, children), the last row is the bias.

    Minimises half the squared length of the weights plus cost x importance x cross-entropy of each row. The dual
    variable of a row is cost x importance x (target - chance); each step solves for it with a few of Newton's steps.
    """
    np.random.seed(seed)
    rows = len(begins)
    lanes = _padded(children)
    weights = np.zeros((features + 1, lanes), dtype=np.float32)
    pull = np.zeros((rows, lanes), dtype=np.float32)
    target = np.zeros(lanes, dtype=np.float32)
    score = np.empty(lanes, dtype=np.float32)
    step = np.empty(lanes, dtype=np.float32)
    order = np.arange(rows)
    lengths = np.empty(rows, dtype=np.float32)
    for row in range(rows):
        total = np.float32(1.0)
        for entry in range(begins[row], ends[row]):
            total += values[entry] * values[entry]
        lengths[row] = total
    for _ in range(most):
        worst = np.float32(0.0)
        for position in range(rows - 1, 0, -1):
            other = np.random.randint(0, position + 1)
            order[position], order[other] = order[other], order[position]
        for position in range(rows):
            row = order[position]
            for lane in range(lanes):
                score[lane] = weights[features, lane]
            for entry in range(begins[row], ends[row]):
                value = values[entry]
                line = weights[columns[entry]]
                for lane in range(lanes):
                    score[lane] += value * line[lane]
            for entry in range(t_starts[row], t_starts[row + 1]):
                target[t_child[entry]] = t_value[entry]
            length = lengths[row]
            scale = np.float32(cost) * importance[row]
            line = pull[row]
            largest = np.float32(0.0)
            for lane in range(lanes):
                moved = line[lane]
                wanted = scale * target[lane]
                low, high = wanted - scale, wanted  # the pull lies between these, whatever the score
                for _ in range(NEWTON_STEPS):
                    chance = _chance(score[lane] + (moved - line[lane]) * length)
                    slope = moved - wanted + scale * chance
                    low = moved if slope < 0 else low
                    high = moved if slope > 0 else high
                    change = slope / (np.float32(1.0) + scale * length * chance * (np.float32(1.0) - chance))
                    inside = low < moved - change < high or abs(change) <= np.float32(1e-6) * scale
                    moved = moved - change if inside else np.float32(0.5) * (low + high)
                step[lane] = moved - line[lane]
                line[lane] = moved
                largest = max(largest, abs(step[lane]))
            for entry in range(t_starts[row], t_starts[row + 1]):
                target[t_child[entry]] = 0
            worst = max(worst, largest / scale)
            for lane in range(lanes):
                weights[features, lane] += step[lane]
            for entry in range(begins[row], ends[row]):
                value = values[entry]
                line = weights[columns[entry]]
                for lane in range(lanes):
                    line[lane] += value * step[lane]
        if worst <= limit:
            break
    return weights[:, :children].copy()


@njit(nogil=True, cache=True, inline="always")
def _chance(value):  # type: ignore[no-untyped-def]
    """The logistic function by a ratio of polynomials for tanh: good to float32, and it runs in vector lanes."""
    x = np.float32(0.5) * value
    x = min(max(x, np.float32(-9.0)), np.float32(9.0))
    x2 = x * x
    top = np.float32(-2.76076847742355e-16)
    top = top * x2 + np.float32(2.00018790482477e-13)
    top = top * x2 + np.float32(-8.60467152213735e-11)
    top = top * x2 + np.float32(5.12229709037114e-08)
    top = top * x2 + np.float32(1.48572235717979e-05)
    top = top * x2 + np.float32(6.37261928875436e-04)
    top = top * x2 + np.float32(4.89352455891786e-03)
    under = np.float32(1.19825839466702e-06)
    under = under * x2 + np.float32(1.18534705686654e-04)
    under = under * x2 + np.float32(2.26843463243900e-03)
    under = under * x2 + np.float32(4.89352518554385e-03)
    return np.float32(0.5) + np.float32(0.5) * x * top / under


@njit(nogil=True, cache=True)
def fit_children(  # type: ignore[no-untyped-def]
    begins, ends, columns, values, features, t_starts, t_child, t_value, children, cost, limit, most, seed
):
    """Weights of each child against its siblings: (features + 1, children), the last row is the bias.

    A child is done when no dual variable of it moves by more than `limit` in a pass; done children leave the block, so
    the rest run in narrower, faster passes.
    """
    np.random.seed(seed)
    rows = len(begins)
    penalty = np.float32(0.5 / cost)
    lengths = np.empty(rows, dtype=np.float32)
    for row in range(rows):
        total = np.float32(1.0)
        for entry in range(begins[row], ends[row]):
            total += values[entry] * values[entry]
        lengths[row] = total
    result = np.zeros((features + 1, children), dtype=np.float32)
    order = np.arange(rows)
    left = np.arange(children)
    weights = np.zeros((features + 1, _padded(children)), dtype=np.float32)
    no = np.zeros((rows, _padded(children)), dtype=np.float32)
    yes = np.zeros(len(t_child), dtype=np.float32)
    while len(left) > 0 and most > 0:
        made, done = _passes(
            begins,
            ends,
            columns,
            values,
            lengths,
            t_starts,
            t_child,
            t_value,
            weights,
            no,
            yes,
            penalty,
            limit,
            most,
            order,
        )
        most -= made
        for lane in range(len(left)):
            if done[lane] or most == 0:
                for feature in range(features + 1):
                    result[feature, left[lane]] = weights[feature, lane]
        if most == 0:
            break
        staying = np.flatnonzero(~done[: len(left)])
        if len(staying) == 0:
            break
        # Close the ranks: weights, dual variables and targets of the children that stay.
        lane_of = np.full(len(done), -1, dtype=np.int32)
        lane_of[staying] = np.arange(len(staying))
        width = _padded(len(staying))
        narrower = np.zeros((features + 1, width), dtype=np.float32)
        fewer = np.zeros((rows, width), dtype=np.float32)
        for feature in range(features + 1):
            for lane in range(len(staying)):
                narrower[feature, lane] = weights[feature, staying[lane]]
        for row in range(rows):
            for lane in range(len(staying)):
                fewer[row, lane] = no[row, staying[lane]]
        kept_starts = np.zeros(rows + 1, dtype=np.int64)
        kept = 0
        for row in range(rows):
            for entry in range(t_starts[row], t_starts[row + 1]):
                lane = lane_of[t_child[entry]]
                if lane >= 0:
                    t_child[kept], t_value[kept], yes[kept] = lane, t_value[entry], yes[entry]
                    kept += 1
            kept_starts[row + 1] = kept
        weights, no, t_starts = narrower, fewer, kept_starts
        left = left[staying]
    return result


@njit(nogil=True, cache=True)
def pruned(weights, names, least):  # type: ignore[no-untyped-def]
    """What is left of the weights (features + 1, children) without those smaller than `least` (children,) and the bias.

    By feature, in the order of their names: features, starts (features + 1,), children, values.
    """
    order = np.argsort(names)
    children = weights.shape[1]
    kept = 0
    held = 0
    for feature in order:
        before = kept
        for child in range(children):
            kept += abs(weights[feature, child]) >= least[child] and weights[feature, child] != 0
        held += kept > before
    features = np.empty(held, dtype=np.int32)
    starts = np.zeros(held + 1, dtype=np.int64)
    which = np.empty(kept, dtype=np.uint16)
    values = np.empty(kept, dtype=np.float32)
    at, line = 0, 0
    for feature in order:
        before = at
        for child in range(children):
            if abs(weights[feature, child]) >= least[child] and weights[feature, child] != 0:
                which[at], values[at] = child, weights[feature, child]
                at += 1
        if at > before:
            features[line] = names[feature]
            line += 1
            starts[line] = at
    return features, starts, which, values


@njit(nogil=True, cache=True)
def _padded(children):  # type: ignore[no-untyped-def]
    """Lanes for this many children: a power of two up to LANES, then multiples of it."""
    if children >= LANES:
        return (children + LANES - 1) // LANES * LANES
    lanes = 1
    while lanes < children:
        lanes *= 2
    return lanes
