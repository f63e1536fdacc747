"""One linear classifier a label, each trained on the rows for which the label is a candidate, and on no others.

The method is dual coordinate descent for the squared hinge (Hsieh et al., 2008), as in `coordinate_descent`, which
trains children that all see the same rows; here every label has rows of its own, so labels are trained one by one.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.linear.csr_arrays import CsrArrays, csr_arrays
from longtail.progress import stage
from longtail.threads import over_rows

BLOCK_ENTRIES = 1 << 24  # words of all rows of the labels that are trained at once
TOL = np.float32(0.01)  # a label has converged when no dual variable changes by more in a pass


class _Examples(NamedTuple):
    """The training rows, and which of them each label of a block is trained on."""

    rows: CsrArrays
    starts: Longs  # (labels + 1,) where the places and targets of each label begin
    places: Longs  # numbers of rows
    targets: Floats


class _Settings(NamedTuple):
    """Settings of the solver, in the types that the kernel computes with."""

    features: int
    positive_cost: np.float32
    negative_cost: np.float32
    threshold: np.float32  # smaller weights are dropped
    max_iter: int


class _Found(NamedTuple):
    """The classifiers of a block of labels, which the kernel fills in. A label may not need all of its room."""

    bounds: Longs  # (labels + 1,) where the room of each label begins
    columns: Ints
    values: Floats
    kept: Longs  # (labels,) weights of each label
    bias: Floats  # (labels,)


def fit_candidates(
    rows: Matrix, candidates: Matrix, *, positive_cost: float, negative_cost: float, max_iter: int, threshold: float
) -> tuple[Matrix, Floats]:
    """Train a squared-hinge classifier for each label on the rows it is a candidate for.

    Args:
        rows: csr (rows, features).
        candidates: csc (rows, labels): the rows of each label, with their targets from 0 to 1 as values. A target
            above 0 is a positive of that weight, 0 a negative.
        positive_cost: C of the positives.
        negative_cost: C of the negatives.
        max_iter: passes over a label's rows.
        threshold: smaller weights are dropped.

    Returns:
        csr (labels, features) of weights, and (labels,) biases. A label without rows has neither.
    """
    labels, features = candidates.shape[1], rows.shape[1]
    words = np.diff(rows.indptr).astype(np.int64)
    entries = np.concatenate([[0], np.cumsum(words[candidates.indices])])[candidates.indptr]  # before each label
    bias = np.zeros(labels, dtype=np.float32)
    places, targets = candidates.indices.astype(np.int64), candidates.data.astype(np.float32)
    costs = (np.float32(positive_cost), np.float32(negative_cost), np.float32(threshold))
    settings = _Settings(features, *costs, max_iter)
    parts, begin = [], 0
    with stage("training the ranker", total=labels) as advance:
        while begin < labels:
            end = max(int(np.searchsorted(entries, entries[begin] + BLOCK_ENTRIES, side="right")) - 1, begin + 1)
            bounds = entries[begin : end + 1] - entries[begin]
            found = _Found(
                bounds,
                np.empty(int(bounds[-1]), dtype=np.int32),
                np.empty(int(bounds[-1]), dtype=np.float32),
                np.zeros(end - begin, dtype=np.int64),
                bias[begin:end],
            )
            examples = _Examples(csr_arrays(rows), candidates.indptr[begin : end + 1].astype(np.int64), places, targets)
            over_rows(partial(_fit, examples, settings, found), end - begin, least=16)
            room = np.diff(bounds)
            inside = np.arange(len(found.columns)) - np.repeat(bounds[:-1], room) < np.repeat(found.kept, room)
            pointers = np.concatenate([[0], np.cumsum(found.kept)])
            part = sparse.csr_array(
                (found.values[inside], found.columns[inside], pointers), shape=(end - begin, features)
            )
            part.sort_indices()
            parts.append(part)
            advance(end - begin)
            begin = end
    weights = sparse.vstack(parts, format="csr") if parts else sparse.csr_array((0, features), dtype=np.float32)
    return sparse.csr_array(weights), bias


@njit(nogil=True, cache=True)
def _fit(examples, settings, found, low, high):  # type: ignore[no-untyped-def]
    # Safe: `places` are rows of a csc matrix of ours with as many rows as `rows`, whose columns are below `features`;
    # a label's words are no more than its `bounds` hold.
    rows, starts, places, targets = examples
    features, positive_cost, negative_cost, threshold, max_iter = settings
    bounds, found_columns, found_values, kept, bias = found
    row_starts, columns, values = rows
    weights = np.zeros(features, dtype=np.float32)
    seen = np.zeros(features, dtype=np.bool_)
    for label in range(low, high):
        own = places[starts[label] : starts[label + 1]]
        target = targets[starts[label] : starts[label + 1]]
        number = len(own)
        if number == 0:
            continue
        duals = np.zeros(number, dtype=np.float32)
        norms = np.empty(number, dtype=np.float32)
        for one in range(number):
            total = np.float32(1.0)  # the bias is a feature of value 1
            for entry in range(row_starts[own[one]], row_starts[own[one] + 1]):
                total += values[entry] * values[entry]
            norms[one] = total
        offset = np.float32(0.0)
        np.random.seed(0)
        order = np.arange(number)
        for _ in range(max_iter):
            worst = np.float32(0.0)
            for position in range(number - 1, 0, -1):
                other = np.random.randint(0, position + 1)
                order[position], order[other] = order[other], order[position]
            for position in range(number):
                one = order[position]
                is_positive = target[one] > 0
                sign = np.float32(1.0) if is_positive else np.float32(-1.0)
                cost = positive_cost * target[one] if is_positive else negative_cost
                diagonal = np.float32(0.5) / cost
                first, last = row_starts[own[one]], row_starts[own[one] + 1]
                score = offset
                for entry in range(first, last):
                    score += values[entry] * weights[columns[entry]]
                gradient = sign * score - np.float32(1.0) + diagonal * duals[one]
                new = max(duals[one] - gradient / (norms[one] + diagonal), np.float32(0.0))
                change = new - duals[one]
                if change != 0:
                    duals[one] = new
                    offset += sign * change
                    for entry in range(first, last):
                        weights[columns[entry]] += sign * change * values[entry]
                worst = max(worst, abs(change))
            if worst <= TOL:
                break
        bias[label] = offset
        place = bounds[label]
        for one in range(number):
            for entry in range(row_starts[own[one]], row_starts[own[one] + 1]):
                word = columns[entry]
                if not seen[word]:
                    seen[word] = True
                    if abs(weights[word]) > threshold:
                        found_columns[place], found_values[place] = word, weights[word]
                        place += 1
        kept[label] = place - bounds[label]
        for one in range(number):  # as they were, for the next label
            for entry in range(row_starts[own[one]], row_starts[own[one] + 1]):
                weights[columns[entry]], seen[columns[entry]] = 0.0, False
