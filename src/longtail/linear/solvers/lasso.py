"""Sparse one-vs-all classifiers: squared hinge with an L1 penalty, many labels side by side.

Proximal coordinate descent: feature by feature, each label's weight takes a gradient step whose size the largest
curvature of the loss allows, and is then shrunk towards zero by the penalty. Labels are in vector lanes. A feature
whose weight is and stays zero for every label is skipped in most passes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FULL_EVERY = 5  # passes over all features come at the start and then once in this many


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"})
def fit_sparse(starts, rows, values, targets, penalty, tol, max_iter):  # type: ignore[no-untyped-def]
    """Sparse weights of a block of labels.

    Minimises for each label penalty x |weights|_1 + sum of target x max(0, 1 - score)^2 + (1 - target) x
    max(0, 1 + score)^2. The bias carries no penalty.

    Args:
        starts: (features + 1,), the training rows by feature (csc), with the next two.
        rows: row of each entry.
        values: value of each entry, float32.
        targets: (rows, labels) in [0, 1], float32.
        penalty: weight of the L1 norm, float32.
        tol: done when no weight changes by more in a pass over all features, float32.
        max_iter: passes at most.

    Returns:
        Weights (features + 1, labels), the last row is the bias.
    """
    features, number = len(starts) - 1, targets.shape[0]
    labels = targets.shape[1]
    weights = np.zeros((features + 1, labels), dtype=np.float32)
    scores = np.zeros((number, labels), dtype=np.float32)
    gradient = np.empty(labels, dtype=np.float32)
    step = np.empty(labels, dtype=np.float32)
    active = np.ones(features, dtype=np.bool_)
    for iteration in range(max_iter):
        full = iteration % FULL_EVERY == 0
        largest = _bias_step(scores, targets, weights[features], gradient)
        for feature in range(features):
            if not (full or active[feature]):
                continue
            gradient[:] = 0
            curvature = np.float32(0.0)
            for entry in range(starts[feature], starts[feature + 1]):
                value = values[entry]
                curvature += np.float32(2.0) * value * value
                score, target = scores[rows[entry]], targets[rows[entry]]
                for label in range(labels):
                    down = max(np.float32(0.0), np.float32(1.0) + score[label])
                    up = max(np.float32(0.0), np.float32(1.0) - score[label])
                    gradient[label] += value * np.float32(2.0) * (down - target[label] * (down + up))
            if curvature == 0:
                active[feature] = False
                continue
            line = weights[feature]
            changed = False
            nonzero = False
            for label in range(labels):
                unshrunk = line[label] * curvature - gradient[label]
                size = max(abs(unshrunk) - penalty, np.float32(0.0)) / curvature
                new = size if unshrunk > 0 else -size
                step[label] = new - line[label]
                line[label] = new
                changed |= step[label] != 0
                nonzero |= new != 0
                largest = max(largest, abs(step[label]))
            active[feature] = changed or nonzero
            if changed:
                for entry in range(starts[feature], starts[feature + 1]):
                    value = values[entry]
                    score = scores[rows[entry]]
                    for label in range(labels):
                        score[label] += value * step[label]
        if largest <= tol:
            if full:
                break
            active[:] = True  # converged on the active features: check all of them once more
    return weights


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"})
def _bias_step(scores, targets, bias, gradient):  # type: ignore[no-untyped-def]
    """One step of every label's bias; returns the largest step. `gradient` (labels,) is scratch."""
    gradient[:] = 0
    for row in range(len(scores)):
        score, target = scores[row], targets[row]
        for label in range(len(bias)):
            down = max(np.float32(0.0), np.float32(1.0) + score[label])
            up = max(np.float32(0.0), np.float32(1.0) - score[label])
            gradient[label] += np.float32(2.0) * (down - target[label] * (down + up))
    largest = np.float32(0.0)
    for label in range(len(bias)):
        gradient[label] /= np.float32(-2.0) * len(scores)  # now the step
        bias[label] += gradient[label]
        largest = max(largest, abs(gradient[label]))
    for row in range(len(scores)):
        score = scores[row]
        for label in range(len(bias)):
            score[label] += gradient[label]
    return largest
