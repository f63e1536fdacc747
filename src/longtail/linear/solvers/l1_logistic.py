"""A sparse separator between two sides: logistic regression with an L1 penalty.

    min over w, b of  |w|_1 + sum_i cost_i ln(1 + exp(-side_i (w.x_i + b)))

Newton's method around coordinate descent (Yuan et al., 2012): the loss is replaced by its quadratic model, which is
solved feature by feature without a single exponential, and a line search checks every step. Only active features, which
have a weight or violate the optimality condition, are visited, so a pass costs what these few cost. The bias carries no
penalty.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

SUFFICIENT = 0.01  # share of the predicted decrease that a step must reach
HALVINGS = 30  # of a step, in the line search


@njit(nogil=True, cache=True)
def _loss(margins, sides, costs):  # type: ignore[no-untyped-def]
    total = 0.0
    for row in range(len(margins)):
        value = -sides[row] * margins[row]
        total += costs[row] * (value + math.log1p(math.exp(-value)) if value > 0 else math.log1p(math.exp(value)))
    return total


@njit(nogil=True, cache=True)
def separate(starts, members, values, sides, costs, rounds, passes, tol):  # type: ignore[no-untyped-def]
    """Weights and bias of the separator.

    Args:
        starts: (features + 1,), the rows of feature f are members[starts[f]:starts[f + 1]].
        members: rows, by feature.
        values: their values.
        sides: +1 or -1 (rows,).
        costs: weight of each row's loss (rows,).
        rounds: Newton steps at most.
        passes: passes over the active features at most, in each Newton step.
        tol: done when the violations of the optimality conditions add up to no more than this share of the first sum.

    Returns:
        Weights (features,) and the bias, float64.
    """
    features, rows = len(starts) - 1, len(sides)
    weights = np.zeros(features)
    bias = 0.0
    margins = np.zeros(rows)
    row_gradients = np.empty(rows)  # derivative of the loss by the row's margin; holds new margins in the line search
    row_curvatures = np.empty(rows)  # second derivative
    margin_step = np.empty(rows)  # what the step so far adds to the margins
    step = np.zeros(features)
    gradient = np.zeros(features)
    curvature = np.zeros(features)
    active = np.empty(features, dtype=np.int32)
    loss = _loss(margins, sides, costs)
    first_violation = -1.0
    inner_violation = 1.0  # a tenth of it ends the passes of a round; tightened when a round takes one pass
    for _ in range(rounds):
        bias_gradient, bias_curvature = 0.0, 1e-12
        for row in range(rows):
            wrong = 1.0 / (1.0 + math.exp(min(sides[row] * margins[row], 700.0)))
            row_gradients[row] = -costs[row] * sides[row] * wrong
            row_curvatures[row] = costs[row] * wrong * (1.0 - wrong)
            margin_step[row] = 0.0
            bias_gradient += row_gradients[row]
            bias_curvature += row_curvatures[row]
        violation = abs(bias_gradient)
        active_count = 0
        for feature in range(features):
            total = 0.0
            for entry in range(starts[feature], starts[feature + 1]):
                total += values[entry] * row_gradients[members[entry]]
            gradient[feature] = total
            if weights[feature] > 0:
                excess = abs(total + 1)
            elif weights[feature] < 0:
                excess = abs(total - 1)
            else:
                excess = max(abs(total) - 1, 0.0)
            violation += excess
            if weights[feature] != 0 or excess > 0:
                curve = 1e-12
                for entry in range(starts[feature], starts[feature + 1]):
                    curve += values[entry] * values[entry] * row_curvatures[members[entry]]
                curvature[feature] = curve
                step[feature] = 0.0
                active[active_count] = feature
                active_count += 1
        if first_violation < 0:
            first_violation = violation
            inner_violation = violation
        if violation <= tol * first_violation or violation == 0:
            break
        bias_step = 0.0
        done = 0
        while done < passes:
            done += 1
            remaining = 0.0
            total = bias_gradient
            for row in range(rows):
                total += row_curvatures[row] * margin_step[row]
            remaining += abs(total)
            change = -total / bias_curvature
            bias_step += change
            for row in range(rows):
                margin_step[row] += change
            for position in range(active_count):
                feature = active[position]
                begin, end = starts[feature], starts[feature + 1]
                total = gradient[feature]
                for entry in range(begin, end):
                    total += values[entry] * row_curvatures[members[entry]] * margin_step[members[entry]]
                here = weights[feature] + step[feature]
                curve = curvature[feature]
                if total + 1 <= curve * here:
                    change = -(total + 1) / curve
                elif total - 1 >= curve * here:
                    change = -(total - 1) / curve
                else:
                    change = -here
                if here > 0:
                    remaining += abs(total + 1)
                elif here < 0:
                    remaining += abs(total - 1)
                else:
                    remaining += max(abs(total) - 1, 0.0)
                if change == 0:
                    continue
                change = min(max(change, -10.0), 10.0)
                step[feature] += change
                for entry in range(begin, end):
                    margin_step[members[entry]] += change * values[entry]
            if remaining <= 0.1 * inner_violation:
                break
        if done == 1:
            inner_violation *= 0.25
        predicted = bias_gradient * bias_step
        before, after = 0.0, 0.0
        for position in range(active_count):
            feature = active[position]
            predicted += gradient[feature] * step[feature]
            before += abs(weights[feature])
            after += abs(weights[feature] + step[feature])
        predicted += after - before
        share = 1.0
        better = False
        for _ in range(HALVINGS):
            for row in range(rows):
                row_gradients[row] = margins[row] + share * margin_step[row]
            reached = _loss(row_gradients, sides, costs)
            norm = 0.0
            for position in range(active_count):
                norm += abs(weights[active[position]] + share * step[active[position]])
            if reached - loss + norm - before <= SUFFICIENT * share * predicted:
                better = True
                break
            share *= 0.5
        if not better:
            break
        loss = reached
        bias += share * bias_step
        margins, row_gradients = row_gradients, margins
        for position in range(active_count):
            weights[active[position]] += share * step[active[position]]
    return weights, bias
