"""Sparse one-vs-all classifiers: squared hinge with an L1 penalty, many labels side by side.

Proximal coordinate descent: feature by feature, each label's weight takes a step against the slope of its loss, as
long as the loss's largest curvature allows, and is then pulled to zero by the penalty. Labels stand in vector lanes;
features that are zero for every label and want to stay so are left out of most passes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FULL_EVERY = 5  # passes over all features come at the start and then once in this many


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"})
def fit_sparse(starts, rows, values, targets, penalty, limit, most):  # type: ignore[no-untyped-def]
    """Weights (features + 1, labels), the last row is the bias, which carries no penalty.

    starts, rows, values: the training rows by feature (csc). targets (rows, labels) in [0, 1]. Minimises for each label
    penalty x |weights|_1 + sum of target x max(0, 1 - score)^2 + (1 - target) x max(0, 1 + score)^2.
    """
    features, number = len(starts) - 1, targets.shape[0]
    labels = targets.shape[1]
    weights = np.zeros((features + 1, labels), dtype=np.float32)
    scores = np.zeros((number, labels), dtype=np.float32)
    slope = np.empty(labels, dtype=np.float32)
    step = np.empty(labels, dtype=np.float32)
    live = np.ones(features, dtype=np.bool_)
    for made in range(most):
        full = made % FULL_EVERY == 0
        worst = _bias_step(scores, targets, weights[features], slope)
        for feature in range(features):
            if not (full or live[feature]):
                continue
            slope[:] = 0
            curve = np.float32(0.0)
            for entry in range(starts[feature], starts[feature + 1]):
                value = values[entry]
                curve += np.float32(2.0) * value * value
                score, target = scores[rows[entry]], targets[rows[entry]]
                for label in range(labels):
                    down = max(np.float32(0.0), np.float32(1.0) + score[label])
                    up = max(np.float32(0.0), np.float32(1.0) - score[label])
                    slope[label] += value * np.float32(2.0) * (down - target[label] * (down + up))
            if curve == 0:
                live[feature] = False
                continue
            line = weights[feature]
            moving = False
            holding = False
            for label in range(labels):
                aim = line[label] * curve - slope[label]
                size = max(abs(aim) - penalty, np.float32(0.0)) / curve
                moved = size if aim > 0 else -size
                step[label] = moved - line[label]
                line[label] = moved
                moving |= step[label] != 0
                holding |= moved != 0
                worst = max(worst, abs(step[label]))
            live[feature] = moving or holding
            if moving:
                for entry in range(starts[feature], starts[feature + 1]):
                    value = values[entry]
                    score = scores[rows[entry]]
                    for label in range(labels):
                        score[label] += value * step[label]
        if worst <= limit:
            if full:
                break
            live[:] = True  # settled on the live features: look at all of them once more
    return weights


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz", "arcp"})
def _bias_step(scores, targets, bias, slope):  # type: ignore[no-untyped-def]
    """One step of every label's bias; returns the largest."""
    slope[:] = 0
    for row in range(len(scores)):
        score, target = scores[row], targets[row]
        for label in range(len(bias)):
            down = max(np.float32(0.0), np.float32(1.0) + score[label])
            up = max(np.float32(0.0), np.float32(1.0) - score[label])
            slope[label] += np.float32(2.0) * (down - target[label] * (down + up))
    largest = np.float32(0.0)
    for label in range(len(bias)):
        slope[label] /= np.float32(-2.0) * len(scores)
        bias[label] += slope[label]
        largest = max(largest, abs(slope[label]))
    for row in range(len(scores)):
        score = scores[row]
        for label in range(len(bias)):
            score[label] += slope[label]
    return largest
