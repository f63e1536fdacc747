"""Linear classifiers for the children of one node, trained side by side.

All classifiers of a node see the same rows, so one pass over a row serves them all: the row's dot products with every
child and the updates run over contiguous weights, as wide as the machine's vectors. The method is dual coordinate
descent for the squared hinge (Hsieh et al., 2008), with the same steps for each child as if it were trained alone.

A soft target t is a positive of weight t and a negative of weight 1 - t on the same row.

Children that have converged move to the end of the table and leave the block. One-vs-all is a tree whose root is its
only fork, so every linear learner shares this solver, the saved form and the search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Bools, Floats, Ints, Longs
from longtail.linear.operation_counts import count_touched, is_counting
from longtail.linear.solvers.numba_compile import INNER, KERNEL, ZERO
from longtail.linear.solvers.prefetch import LINE, prefetch_rows

NEWTON_STEPS = 4  # for one dual variable of the log loss; bisection keeps it inside its bounds
LANES = 8  # children are padded to a multiple of this many float32
FAST = {"contract", "reassoc", "nsz", "arcp"}
SPARSE_UPDATE = 16  # where fewer than one lane in so many changes, each is written alone: a cache line holds as many
CACHED = 1 << 18  # float32 that a core's own cache holds; larger tables are prefetched
NIL, UNIT = np.float32(0.0), np.float32(1.0)  # inside a kernel, each would be a call


class NodeRows(NamedTuple):
    """The training rows of a node: row r has the entries begins[r] to ends[r] of `columns` and `values`."""

    begins: AnyArray  # (rows,) int64
    ends: AnyArray  # (rows,) int64
    columns: AnyArray  # (entries,) int32
    values: AnyArray  # (entries,) float32
    features: int  # number of columns


class ChildTargets(NamedTuple):
    """The targets of a node's rows among its children: row r has the entries starts[r] to starts[r + 1]."""

    starts: Longs  # (rows + 1,)
    children: Ints  # (entries,)
    values: Floats  # (entries,) in (0, 1]


class Descent(NamedTuple):
    """When coordinate descent ends, and how much the loss weighs."""

    cost: float  # C: weight of the loss against half the squared norm of the weights
    tol: float  # a child has converged when none of its dual variables changes by more in a pass
    max_iter: int  # passes over the rows
    seed: int


class Variables(NamedTuple):
    """Primal and dual variables of the squared hinge."""

    weights: Floats  # (features + 1, width), the last row is the bias
    negative: Floats  # (rows, width), dual variables of every child as a negative
    positive: Floats  # (entries of the targets,), dual variables of the positives


class PassScratch(NamedTuple):
    """Arrays that `_passes` writes to."""

    squared_norms: Floats  # (rows,) with the bias
    order: Longs  # (rows,)
    converged: Bools  # (width,)
    score: Floats  # (width,), as the following
    step: Floats
    saved: Floats
    worst: Floats


class Limits(NamedTuple):
    """The settings of `_passes`."""

    penalty: np.float32  # 1 / (2 cost): the diagonal that makes the hinge squared
    tol: np.float32
    max_iter: int
    seed: int  # -1 where the passes continue


@njit(**KERNEL, fastmath=FAST)
def _passes(lanes, rows, targets, variables, limits, scratch):  # type: ignore[no-untyped-def]
    """Pass over the rows until all children have converged or `max_iter` is reached. In the first half of the passes it
    is enough that half of the children have.

    The children are in the first `lanes` of the width. Returns the number of passes.
    """
    begins, ends, columns, values, _ = rows
    target_starts, target_children, target_values = targets
    weights, negative, positive = variables
    penalty, tol, max_iter, seed = limits
    squared_norms, order, converged, score, step, saved, worst = scratch
    bias = weights.shape[0] - 1
    made = ZERO
    number = len(squared_norms)
    if seed >= 0:
        _start(seed, begins, ends, values, squared_norms, order)
    far = (weights.shape[0] + number) * lanes > CACHED
    while made < max_iter:
        made += 1
        for lane in range(lanes):
            worst[lane] = 0
        for position in range(number - 1, 0, -1):  # a new order each pass
            other = np.random.randint(0, position + 1)
            order[position], order[other] = order[other], order[position]
        for position in range(number):
            row = order[position]
            if far:
                prefetch_rows(order, position, rows, targets, squared_norms, negative, positive, weights, lanes)
            for lane in range(lanes):
                score[lane] = weights[bias, lane]
            first, last = np.uintp(begins[row]), np.uintp(ends[row])
            for entry in range(first, last):
                value, word = values[entry], np.uintp(columns[entry])
                for lane in range(lanes):
                    score[lane] += value * weights[word, lane]
            norm = squared_norms[row]
            scale = UNIT / (norm + penalty)
            dual = negative[row]
            begin, end = target_starts[row], target_starts[row + 1]
            for entry in range(begin, end):
                child = target_children[entry]
                saved[child] = dual[child]
            for lane in range(lanes):  # every child as a plain negative
                old = dual[lane]
                new = max(old - (-score[lane] - UNIT + penalty * old) * scale, NIL)
                step[lane], dual[lane] = old - new, new
            for entry in range(begin, end):  # then the positives, whole or soft
                child, share, old = target_children[entry], target_values[entry], saved[target_children[entry]]
                before = positive[entry]
                found, new = score[child], old
                if share < 1:
                    own = penalty / (1 - share)
                    new = max(old - (-found - UNIT + own * old) / (norm + own), NIL)
                dual[child], change = new, old - new
                own = penalty / share
                after = max(before - (found + change * norm - UNIT + own * before) / (norm + own), NIL)
                worst[child] = max(worst[child], abs(after - before))
                step[child], positive[entry] = change + (after - before), after
            changed = ZERO
            for lane in range(lanes):
                size = abs(step[lane])
                worst[lane] = max(worst[lane], size)
                changed += size > 0
            if changed == 0:
                continue
            for lane in range(lanes):
                weights[bias, lane] += step[lane]
            if changed * SPARSE_UPDATE > lanes:
                for entry in range(first, last):
                    value, word = values[entry], np.uintp(columns[entry])
                    for lane in range(lanes):
                        weights[word, lane] += value * step[lane]
            else:
                for lane in range(lanes):
                    if step[lane] != 0:
                        for entry in range(first, last):
                            weights[np.uintp(columns[entry]), lane] += values[entry] * step[lane]
        finished = ZERO
        for lane in range(lanes):
            converged[lane] = worst[lane] <= tol
            finished += converged[lane]
        # In the second half of the passes, moving the other children together costs more than it saves.
        if finished == lanes or (finished * 2 >= lanes and made * 2 <= max_iter):
            break
    return made


def fit_logistic(rows: NodeRows, targets: ChildTargets, importance: Floats, children: int, settings: Descent) -> Floats:
    """Logistic weights of each child for soft targets.

    Minimises half the squared norm of the weights plus cost x importance x cross-entropy of each row. The dual
    variable of a row is cost x importance x (target - probability); each update solves for it with a few Newton steps.

    Args:
        rows: the rows of the node.
        targets: their targets among the children.
        importance: weight of each row (rows,).
        children: number of children.
        settings: cost, tolerance, passes and seed.

    Returns:
        Weights (features + 1, children or a few more), the bias last.
    """
    number, width = len(rows.begins), _padded(children)
    squared_norms, order = np.empty(number, dtype=np.float32), np.empty(number, dtype=np.int64)
    weights, duals = _aligned(rows.features + 1, width), _aligned(number, width)
    _logistic_passes(
        rows,
        targets,
        weights,
        duals,
        importance,
        squared_norms,
        order,
        np.float32(settings.cost),
        np.float32(settings.tol),
        settings.max_iter,
        settings.seed,
    )
    return weights


@njit(**KERNEL, fastmath=FAST)
def _logistic_passes(  # type: ignore[no-untyped-def]
    rows, targets, weights, duals, importance, squared_norms, order, cost, tol, max_iter, seed
):
    """Pass over the rows until no dual variable (rows, lanes) changes by more than `tol` x its bound."""
    begins, ends, columns, values, _ = rows
    target_starts, target_children, target_values = targets
    lanes = weights.shape[1]
    bias, number = weights.shape[0] - 1, len(squared_norms)
    _start(seed, begins, ends, values, squared_norms, order)
    far = weights.size + duals.size > CACHED
    target = np.zeros(lanes, dtype=np.float32)
    score = np.empty(lanes, dtype=np.float32)
    step = np.empty(lanes, dtype=np.float32)
    for _ in range(max_iter):
        worst = NIL
        for position in range(number - 1, 0, -1):
            other = np.random.randint(0, position + 1)
            order[position], order[other] = order[other], order[position]
        for position in range(number):
            row = order[position]
            if far:
                prefetch_rows(order, position, rows, targets, squared_norms, duals, target_values, weights, lanes)
            for lane in range(lanes):
                score[lane] = weights[bias, lane]
            first, last = np.uintp(begins[row]), np.uintp(ends[row])
            for entry in range(first, last):
                value, word = values[entry], np.uintp(columns[entry])
                for lane in range(lanes):
                    score[lane] += value * weights[word, lane]
            for entry in range(target_starts[row], target_starts[row + 1]):
                target[target_children[entry]] = target_values[entry]
            norm = squared_norms[row]
            scale = cost * importance[row]
            dual = duals[row]
            largest = NIL
            for lane in range(lanes):
                new = dual[lane]
                wanted = scale * target[lane]
                low, high = wanted - scale, wanted  # the dual variable lies between these, whatever the score
                for _ in range(NEWTON_STEPS):
                    probability = _sigmoid(score[lane] + (new - dual[lane]) * norm)
                    gradient = new - wanted + scale * probability
                    low = new if gradient < 0 else low
                    high = new if gradient > 0 else high
                    change = gradient / (UNIT + scale * norm * probability * (UNIT - probability))
                    inside = low < new - change < high or abs(change) <= np.float32(1e-6) * scale
                    new = new - change if inside else np.float32(0.5) * (low + high)
                step[lane] = new - dual[lane]
                dual[lane] = new
                largest = max(largest, abs(step[lane]))
            for entry in range(target_starts[row], target_starts[row + 1]):
                target[target_children[entry]] = 0
            worst = max(worst, largest / scale)
            for lane in range(lanes):
                weights[bias, lane] += step[lane]
            for entry in range(first, last):
                value, word = values[entry], np.uintp(columns[entry])
                for lane in range(lanes):
                    weights[word, lane] += value * step[lane]
        if worst <= tol:
            break


@njit(nogil=True, cache=True, inline="always")
def _sigmoid(value):  # type: ignore[no-untyped-def]
    """The logistic function by a ratio of polynomials for tanh: exact to float32, and it runs in vector lanes."""
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


def fit_children(rows: NodeRows, targets: ChildTargets, children: int, settings: Descent) -> Floats:
    """Weights of each child against its siblings, by the squared hinge.

    Children that have not converged move together to the front, so that later passes are narrower; converged ones may
    fill the last vector.

    Args:
        rows: the rows of the node.
        targets: their targets among the children.
        children: number of children.
        settings: cost, tolerance, passes and seed.

    Returns:
        Weights (features + 1, children or a few more), the bias last.
    """
    number, width = len(rows.begins), _padded(children)
    converged, lines = np.empty(width, dtype=np.bool_), np.empty((4, width), dtype=np.float32)
    scratch = PassScratch(np.empty(number, dtype=np.float32), np.empty(number, dtype=np.int64), converged, *lines)
    weights, negative = _aligned(rows.features + 1, width), _aligned(number, width)
    positive = np.zeros(len(targets.children), dtype=np.float32)
    lanes, left, seed = width, settings.max_iter, settings.seed
    swaps: list[tuple[Longs, Longs]] = []
    while True:
        limits = Limits(np.float32(0.5 / settings.cost), np.float32(settings.tol), left, seed)
        made = _passes(lanes, rows, targets, Variables(weights, negative, positive), limits, scratch)
        left -= made
        if is_counting():
            entries = int((rows.ends - rows.begins).sum())
            count_touched("scores", made * lanes * entries)
            if seed >= 0:
                count_touched("once", lanes * entries)
                count_touched("nodes", weights.size + negative.size)
        wide, staying = lanes, lanes - int(np.count_nonzero(converged[:lanes]))
        if left == 0 or staying == 0:
            break
        seed = -1
        lanes = min(_padded(max(staying, LANES)), wide)
        back = lanes + np.flatnonzero(~converged[lanes:wide])  # these change places with converged ones in front
        front = np.flatnonzero(converged[:lanes])[: len(back)]
        lane_of = np.arange(wide, dtype=np.int32)
        lane_of[front], lane_of[back] = back, front
        _swap(weights, front, back)
        _swap(negative, front, back)
        swaps.append((front, back))
        child = lane_of[targets.children]
        kept = child < lanes
        starts = np.concatenate([[0], np.cumsum(kept)])[targets.starts]
        targets, positive = ChildTargets(starts, child[kept], targets.values[kept]), positive[kept]
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
def _start(seed, begins, ends, values, squared_norms, order):  # type: ignore[no-untyped-def]
    """Seed this thread's random numbers; fill the squared norms of the rows, with the bias, and their first order."""
    np.random.seed(seed)
    for row in range(len(begins)):
        order[row] = row
        total = UNIT
        for entry in range(begins[row], ends[row]):
            total += values[entry] * values[entry]
        squared_norms[row] = total


def _aligned(rows: int, width: int) -> Floats:
    """Zeros (rows, width) that begin where a cache line does. NumPy's own begin 16 bytes later, and then most vectors
    lie in two lines."""
    flat = np.zeros(rows * width + LINE, dtype=np.float32)
    skip = -flat.__array_interface__["data"][0] // flat.itemsize % LINE
    return flat[skip : skip + rows * width].reshape(rows, width)


def _padded(children: int) -> int:
    """Lanes for this many children: a power of two up to LANES, then multiples of it."""
    if children >= LANES:
        return -(-children // LANES) * LANES
    return 1 << (children - 1).bit_length()
