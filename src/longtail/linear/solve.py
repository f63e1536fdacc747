"""Linear classifiers for the children of one node, trained side by side.

All classifiers of a node see the same rows, so one pass over a row serves them all: the row's dot products with every
child and the updates run over contiguous weights, as wide as the machine's vectors. The method is dual coordinate
descent for the squared hinge (Hsieh et al., 2008), the same steps for each child as if it were trained alone.

A soft target t is a yes of weight t and a no of weight 1 - t on the same row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Floats, Ints, Longs
from longtail.linear.ahead import LINE, look_ahead
from longtail.linear.compiling import INNER, KERNEL, ZERO

NEWTON_STEPS = 4  # for one dual variable of the log loss; halving steps keep them inside their bounds
LANES = 8  # children are padded to a multiple of this many float32
FAST = {"contract", "reassoc", "nsz", "arcp"}
SINGLY = 16  # where fewer than one lane in so many moves, each is written alone: a line of the cache holds as many
NEAR = 1 << 18  # float32 that a core's own cache holds; what is larger is asked for ahead
NIL, UNIT = np.float32(0.0), np.float32(1.0)  # each is a call where it stands in a kernel
TINY = np.finfo(np.float32).tiny


@njit(**KERNEL, fastmath=FAST)
def _passes(  # type: ignore[no-untyped-def]
    lanes, begins, ends, columns, values, lengths, t_starts, t_child, t_value, weights, no, yes, penalty, limit, most,
    seed, order, done, score, step, kept, worst,
):  # fmt: skip
    """Pass over the rows until children are done, half of them early or all, or `most` passes are; returns passes made.

    weights (features + 1, width), the last row is the bias; no (rows, width) and yes (targets,) are the dual variables;
    children stand in the first `lanes`. `penalty` is 1 / (2 cost): the diagonal that makes the hinge squared. `seed` is
    -1 where the passes go on. The last four (width,) are scratch.
    """
    bias = weights.shape[0] - 1
    made = ZERO
    rows = len(lengths)
    if seed >= 0:
        _start(seed, begins, ends, values, lengths, order)
    far = (weights.shape[0] + rows) * lanes > NEAR
    while made < most:
        made += 1
        for lane in range(lanes):
            worst[lane] = 0
        for position in range(rows - 1, 0, -1):  # a new order each pass
            other = np.random.randint(0, position + 1)
            order[position], order[other] = order[other], order[position]
        for position in range(rows):
            row = order[position]
            if far:
                look_ahead(
                    order, position, begins, ends, columns, values, lengths, t_starts, t_child, t_value, yes, no,
                    weights, lanes,
                )  # fmt: skip
            for lane in range(lanes):
                score[lane] = weights[bias, lane]
            here, there = np.uintp(begins[row]), np.uintp(ends[row])
            for entry in range(here, there):
                value, word = values[entry], np.uintp(columns[entry])
                for lane in range(lanes):
                    score[lane] += value * weights[word, lane]
            length = lengths[row]
            scale = UNIT / (length + penalty)
            line = no[row]
            begin, end = t_starts[row], t_starts[row + 1]
            for entry in range(begin, end):
                child = t_child[entry]
                kept[child] = line[child]
            for lane in range(lanes):  # every child as a plain no
                old = line[lane]
                moved = max(old - (-score[lane] - UNIT + penalty * old) * scale, NIL)
                step[lane], line[lane] = old - moved, moved
            for entry in range(begin, end):  # then those that are a yes, wholly or in part
                child, share, old, before = t_child[entry], t_value[entry], kept[t_child[entry]], yes[entry]
                found, moved = score[child], old
                if share < 1:
                    own = penalty / (1 - share)
                    moved = max(old - (-found - UNIT + own * old) / (length + own), NIL)
                line[child], change = moved, old - moved
                own = penalty / share
                after = max(before - (found + change * length - UNIT + own * before) / (length + own), NIL)
                worst[child] = max(worst[child], abs(after - before))
                step[child], yes[entry] = change + (after - before), after
            moving = ZERO
            for lane in range(lanes):
                moved = abs(step[lane])
                worst[lane] = max(worst[lane], moved)
                moving += moved > 0
            if moving == 0:
                continue
            for lane in range(lanes):
                weights[bias, lane] += step[lane]
            if moving * SINGLY > lanes:
                for entry in range(here, there):
                    value, word = values[entry], np.uintp(columns[entry])
                    for lane in range(lanes):
                        weights[word, lane] += value * step[lane]
            else:
                for lane in range(lanes):
                    if step[lane] != 0:
                        for entry in range(here, there):
                            weights[np.uintp(columns[entry]), lane] += values[entry] * step[lane]
        finished = ZERO
        for lane in range(lanes):
            done[lane] = worst[lane] <= limit
            finished += done[lane]
        if finished == lanes or (finished * 2 >= lanes and made * 2 <= most):  # later, a move costs more than it saves
            break
    return made


def fit_chances(
    begins: Longs,
    ends: Longs,
    columns: Ints,
    values: Floats,
    features: int,
    t_starts: Longs,
    t_child: Ints,
    t_value: Floats,
    importance: Floats,
    children: int,
    cost: float,
    limit: float,
    most: int,
    seed: int,
) -> Floats:
    """Logistic weights of each child for soft targets: (features + 1, children or a few more), the bias last.

    Minimises half the squared length of the weights plus cost x importance x cross-entropy of each row. The dual
    variable of a row is cost x importance x (target - chance); each step solves for it with a few of Newton's steps.
    """
    rows, width = len(begins), _padded(children)
    lengths, order = np.empty(rows, dtype=np.float32), np.empty(rows, dtype=np.int64)
    weights, pull = _lined_up(features + 1, width), _lined_up(rows, width)
    told = (t_starts, t_child, t_value, weights, pull, importance)
    settings = (np.float32(cost), np.float32(limit), most, seed, order)
    _chance_passes(*(begins, ends, columns, values, lengths, *told, *settings))
    return weights


@njit(**KERNEL, fastmath=FAST)
def _chance_passes(  # type: ignore[no-untyped-def]
    begins, ends, columns, values, lengths, t_starts, t_child, t_value, weights, pull, importance, cost, limit, most,
    seed, order,
):  # fmt: skip
    """Pass over the rows until no pull moves by more than `limit`; weights and pull as in `_passes`."""
    lanes = weights.shape[1]
    features, rows = weights.shape[0] - 1, len(lengths)
    _start(seed, begins, ends, values, lengths, order)
    far = weights.size + pull.size > NEAR
    target = np.zeros(lanes, dtype=np.float32)
    score = np.empty(lanes, dtype=np.float32)
    step = np.empty(lanes, dtype=np.float32)
    for _ in range(most):
        worst = NIL
        for position in range(rows - 1, 0, -1):
            other = np.random.randint(0, position + 1)
            order[position], order[other] = order[other], order[position]
        for position in range(rows):
            row = order[position]
            if far:
                look_ahead(
                    order, position, begins, ends, columns, values, lengths, t_starts, t_child, t_value, t_value, pull,
                    weights, lanes,
                )  # fmt: skip
            for lane in range(lanes):
                score[lane] = weights[features, lane]
            here, there = np.uintp(begins[row]), np.uintp(ends[row])
            for entry in range(here, there):
                value, word = values[entry], np.uintp(columns[entry])
                for lane in range(lanes):
                    score[lane] += value * weights[word, lane]
            for entry in range(t_starts[row], t_starts[row + 1]):
                target[t_child[entry]] = t_value[entry]
            length = lengths[row]
            scale = cost * importance[row]
            line = pull[row]
            largest = NIL
            for lane in range(lanes):
                moved = line[lane]
                wanted = scale * target[lane]
                low, high = wanted - scale, wanted  # the pull lies between these, whatever the score
                for _ in range(NEWTON_STEPS):
                    chance = _chance(score[lane] + (moved - line[lane]) * length)
                    slope = moved - wanted + scale * chance
                    low = moved if slope < 0 else low
                    high = moved if slope > 0 else high
                    change = slope / (UNIT + scale * length * chance * (UNIT - chance))
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
            for entry in range(here, there):
                value, word = values[entry], np.uintp(columns[entry])
                for lane in range(lanes):
                    weights[word, lane] += value * step[lane]
        if worst <= limit:
            break


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


def fit_children(
    begins: Longs,
    ends: Longs,
    columns: Ints,
    values: Floats,
    features: int,
    t_starts: Longs,
    t_child: Ints,
    t_value: Floats,
    children: int,
    cost: float,
    limit: float,
    most: int,
    seed: int,
) -> Floats:
    """Weights of each child against its siblings: (features + 1, children or a few more), the last row is the bias.

    A child is done when no dual variable of it moves by more than `limit` in a pass. The others then close ranks in
    front, so that later passes are narrower; those that are done may fill the last vector.
    """
    rows, width = len(begins), _padded(children)
    lengths, order = np.empty(rows, dtype=np.float32), np.empty(rows, dtype=np.int64)
    weights, no = _lined_up(features + 1, width), _lined_up(rows, width)
    yes = np.zeros(len(t_child), dtype=np.float32)
    lanes, done, scratch = width, np.empty(width, dtype=np.bool_), np.empty((4, width), dtype=np.float32)
    swaps: list[tuple[Longs, Longs]] = []
    while True:
        told = (t_starts, t_child, t_value, weights, no, yes)
        rest = (np.float32(0.5 / cost), np.float32(limit), most, seed, order, done, *scratch)
        most -= _passes(*(lanes, begins, ends, columns, values, lengths, *told, *rest))
        wide, staying = lanes, lanes - int(np.count_nonzero(done[:lanes]))
        if most == 0 or staying == 0:
            break
        seed = -1
        lanes = min(_padded(max(staying, LANES)), wide)
        back = lanes + np.flatnonzero(~done[lanes:wide])  # who stays changes places with who is done in front
        front = np.flatnonzero(done[:lanes])[: len(back)]
        lane_of = np.arange(wide, dtype=np.int32)
        lane_of[front], lane_of[back] = back, front
        _swap(weights, front, back)
        _swap(no, front, back)
        swaps.append((front, back))
        t_child = lane_of[t_child]
        kept = t_child < lanes
        t_starts = np.concatenate([[0], np.cumsum(kept)])[t_starts]
        t_child, t_value, yes = t_child[kept], t_value[kept], yes[kept]
    for front, back in reversed(swaps):
        _swap(weights, front, back)
    return weights


@njit(**KERNEL)
def _swap(table, front, back):  # type: ignore[no-untyped-def]
    """Exchange columns (pairs,) of a table in place."""
    for row in range(len(table)):
        for pair in range(len(front)):
            one, other = front[pair], back[pair]
            held = table[row, one]
            table[row, one] = table[row, other]
            table[row, other] = held


@njit(**INNER)
def _start(seed, begins, ends, values, lengths, order):  # type: ignore[no-untyped-def]
    """Seed the draws of this thread; the squared lengths of the rows, with the bias, and their first order."""
    np.random.seed(seed)
    for row in range(len(begins)):
        order[row] = row
        total = UNIT
        for entry in range(begins[row], ends[row]):
            total += values[entry] * values[entry]
        lengths[row] = total


def pruned(weights: Floats, names: Ints, children: int, least: Floats) -> tuple[Ints, Longs, AnyArray, Floats]:
    """What is left of the weights (features + 1, lanes) of the first `children` lanes without zeros, those smaller than
    `least`, one number or (children,), and the bias.

    By feature, as they stand: features, starts (features + 1,), children, values.
    """
    features, lanes = weights.shape[0] - 1, weights.shape[1]
    bound = np.full(lanes, np.inf, dtype=np.float32)  # lanes without a child keep nothing
    bound[:children] = np.maximum(least, TINY)
    which, kept = np.empty(features * lanes, dtype=np.uint8), np.empty(features * lanes, dtype=np.float32)
    lines, starts = np.empty(features + 1, dtype=np.int32), np.empty(features + 1, dtype=np.int64)
    large = np.zeros(-(-lanes // 8) * 8, dtype=np.uint8)
    found = _prune(weights, bound, large, large.view(np.uint64), which, kept, lines, starts)
    few = int(starts[found])  # one in thirty
    return names[lines[:found]], starts[: found + 1].copy(), which[:few].copy(), kept[:few].copy()


@njit(**KERNEL)
def _prune(weights, bound, large, eight, which, kept, lines, starts):  # type: ignore[no-untyped-def]
    """Fills the last four from the front; returns the features that keep a weight. `eight` sees `large` (lanes,) eight
    at a time: most keep nothing."""
    found, at = ZERO, ZERO
    lanes = weights.shape[1]
    for feature in range(np.uintp(weights.shape[0] - 1)):
        lines[found], starts[found] = feature, at
        for lane in range(np.uintp(lanes)):
            large[lane] = abs(weights[feature, lane]) >= bound[lane]
        for group in range(np.uintp(len(eight))):
            if eight[group] != 0:
                for lane in range(np.uintp(8) * group, min(np.uintp(8) * group + np.uintp(8), np.uintp(lanes))):
                    which[at], kept[at] = lane, weights[feature, lane]  # what is not large is written over
                    at += large[lane]
        found += at > starts[found]
    starts[found] = at
    return found


def _lined_up(rows: int, width: int) -> Floats:
    """Zeros (rows, width) that begin where a line of the cache does. NumPy's own begin 16 bytes later, and then most
    vectors lie in two lines."""
    flat = np.zeros(rows * width + LINE, dtype=np.float32)
    skip = -flat.__array_interface__["data"][0] // flat.itemsize % LINE
    return flat[skip : skip + rows * width].reshape(rows, width)


def _padded(children: int) -> int:
    """Lanes for this many children: a power of two up to LANES, then multiples of it."""
    if children >= LANES:
        return -(-children // LANES) * LANES
    return 1 << (children - 1).bit_length()
