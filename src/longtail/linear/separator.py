"""One sparse line between two sides: logistic regression with an L1 penalty.

    min over w, b of  |w|_1 + sum_i cost_i ln(1 + exp(-side_i (w.x_i + b)))

Newton's method around coordinate descent (Yuan et al., 2012): the loss is replaced by its quadratic model, which is
solved feature by feature without a single exponential, and a line search keeps every step honest. Only features that
hold a weight or break the optimality condition are visited, so a pass costs what the few live features cost. The bias
carries no penalty.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

SUFFICIENT = 0.01  # share of the promised decrease that a step must keep
HALVINGS = 30


@njit(nogil=True, cache=True)
def _loss(margins, sides, costs):  # type: ignore[no-untyped-def]
    total = 0.0
    for row in range(len(margins)):
        value = -sides[row] * margins[row]
        total += costs[row] * (value + math.log1p(math.exp(-value)) if value > 0 else math.log1p(math.exp(value)))
    return total


@njit(nogil=True, cache=True)
def separate(starts, members, values, sides, costs, rounds, passes, limit):  # type: ignore[no-untyped-def]
    """Weights (features,) and bias. The rows come by feature: those of feature f are members[starts[f]:starts[f + 1]].

    sides (rows,) are +1 or -1. At most `rounds` Newton steps of at most `passes` passes each; done when the broken
    conditions add up to no more than `limit` times what they did at the start.
    """
    features, rows = len(starts) - 1, len(sides)
    weights = np.zeros(features)
    bias = 0.0
    margins = np.zeros(rows)
    slopes = np.empty(rows)  # of the loss, by margin
    bends = np.empty(rows)  # its second derivative
    moved = np.empty(rows)  # what the step so far adds to the margins
    step = np.zeros(features)
    slope = np.zeros(features)
    bend = np.zeros(features)
    live = np.empty(features, dtype=np.int32)
    loss = _loss(margins, sides, costs)
    first = -1.0
    inner = 1.0  # broken conditions that end the passes of a round; gets tighter when a round ends at once
    for _ in range(rounds):
        bias_slope, bias_bend = 0.0, 1e-12
        for row in range(rows):
            wrong = 1.0 / (1.0 + math.exp(min(sides[row] * margins[row], 700.0)))
            slopes[row] = -costs[row] * sides[row] * wrong
            bends[row] = costs[row] * wrong * (1.0 - wrong)
            moved[row] = 0.0
            bias_slope += slopes[row]
            bias_bend += bends[row]
        broken = abs(bias_slope)
        alive = 0
        for feature in range(features):
            total = 0.0
            for entry in range(starts[feature], starts[feature + 1]):
                total += values[entry] * slopes[members[entry]]
            slope[feature] = total
            if weights[feature] > 0:
                excess = abs(total + 1)
            elif weights[feature] < 0:
                excess = abs(total - 1)
            else:
                excess = max(abs(total) - 1, 0.0)
            broken += excess
            if weights[feature] != 0 or excess > 0:
                curve = 1e-12
                for entry in range(starts[feature], starts[feature + 1]):
                    curve += values[entry] * values[entry] * bends[members[entry]]
                bend[feature] = curve
                step[feature] = 0.0
                live[alive] = feature
                alive += 1
        if first < 0:
            first = broken
            inner = broken
        if broken <= limit * first or broken == 0:
            break
        bias_step = 0.0
        made = 0
        while made < passes:
            made += 1
            left = 0.0
            total = bias_slope
            for row in range(rows):
                total += bends[row] * moved[row]
            left += abs(total)
            change = -total / bias_bend
            bias_step += change
            for row in range(rows):
                moved[row] += change
            for position in range(alive):
                feature = live[position]
                begin, end = starts[feature], starts[feature + 1]
                total = slope[feature]
                for entry in range(begin, end):
                    total += values[entry] * bends[members[entry]] * moved[members[entry]]
                here = weights[feature] + step[feature]
                curve = bend[feature]
                if total + 1 <= curve * here:
                    change = -(total + 1) / curve
                elif total - 1 >= curve * here:
                    change = -(total - 1) / curve
                else:
                    change = -here
                if here > 0:
                    left += abs(total + 1)
                elif here < 0:
                    left += abs(total - 1)
                else:
                    left += max(abs(total) - 1, 0.0)
                if change == 0:
                    continue
                change = min(max(change, -10.0), 10.0)
                step[feature] += change
                for entry in range(begin, end):
                    moved[members[entry]] += change * values[entry]
            if left <= 0.1 * inner:
                break
        if made == 1:
            inner *= 0.25
        promised = bias_slope * bias_step
        before, after = 0.0, 0.0
        for position in range(alive):
            feature = live[position]
            promised += slope[feature] * step[feature]
            before += abs(weights[feature])
            after += abs(weights[feature] + step[feature])
        promised += after - before
        share = 1.0
        better = False
        for _ in range(HALVINGS):
            for row in range(rows):
                slopes[row] = margins[row] + share * moved[row]
            reached = _loss(slopes, sides, costs)
            length = 0.0
            for position in range(alive):
                length += abs(weights[live[position]] + share * step[live[position]])
            if reached - loss + length - before <= SUFFICIENT * share * promised:
                better = True
                break
            share *= 0.5
        if not better:
            break
        loss = reached
        bias += share * bias_step
        margins, slopes = slopes, margins
        for position in range(alive):
            weights[live[position]] += share * step[live[position]]
    return weights, bias
