"""`candidate_svc` for dense vectors: a label's weights are one run of memory, so a step is two passes over it."""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import njit

from longtail.arrays import Floats, Matrix
from longtail.linear.solvers.candidate_svc import TOL
from longtail.linear.solvers.numba_compile import KERNEL
from longtail.progress import stage
from longtail.threads import over_rows

AT_ONCE = 4096  # labels between two messages of progress


def fit_dense_candidates(
    vectors: Floats, candidates: Matrix, *, positive_cost: float, negative_cost: float, max_iter: int
) -> tuple[Floats, Floats]:
    """Train a squared-hinge classifier for each label on the rows it is a candidate for.

    Args:
        vectors: (rows, dimension) float32.
        candidates: csc (rows, labels): the rows of each label, with their targets as values. A target above 0 is a
            positive of that weight, 0 a negative.
        positive_cost: C of the positives.
        negative_cost: C of the negatives.
        max_iter: passes over a label's rows.

    Returns:
        (labels, dimension) weights and (labels,) biases. Those of a label without rows are 0.
    """
    labels = candidates.shape[1]
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    norms = np.einsum("rd,rd->r", vectors, vectors) + np.float32(1)  # the bias is a feature of value 1
    weights = np.zeros((labels, vectors.shape[1]), dtype=np.float32)
    bias = np.zeros(labels, dtype=np.float32)
    longest = int(np.diff(candidates.indptr).max(initial=0))
    starts, places = candidates.indptr.astype(np.int64), candidates.indices.astype(np.int64)
    costs = np.array([positive_cost, negative_cost], dtype=np.float32)
    targets = candidates.data.astype(np.float32)
    work = partial(_fit, vectors, norms, starts, places, targets, costs, max_iter, longest, weights, bias)
    with stage("solving classifiers", total=labels) as advance:
        for begin in range(0, labels, AT_ONCE):
            end = min(begin + AT_ONCE, labels)

            def some(low: int, high: int, begin: int = begin) -> None:
                work(begin + low, begin + high)

            over_rows(some, end - begin, least=16)
            advance(end - begin)
    return weights, bias


@njit(**KERNEL, fastmath={"contract", "reassoc", "nsz"})
def _fit(vectors, norms, starts, places, targets, costs, max_iter, longest, weights, bias, low, high):  # type: ignore[no-untyped-def]
    # Safe: `places` are rows of a csc matrix of ours with as many rows as `vectors`; no label has more than `longest`.
    dimension = vectors.shape[1]
    positive_cost, negative_cost = costs
    duals, order = np.zeros(longest, dtype=np.float32), np.zeros(longest, dtype=np.int64)
    for label in range(low, high):
        first, number = starts[label], starts[label + 1] - starts[label]
        own = weights[label]
        for one in range(number):
            duals[one], order[one] = 0, one
        offset = np.float32(0)
        np.random.seed(0)
        for _ in range(max_iter):
            worst = np.float32(0)
            for position in range(number - 1, 0, -1):
                other = np.random.randint(0, position + 1)
                order[position], order[other] = order[other], order[position]
            for position in range(number):
                one = order[position]
                row, target = places[first + one], targets[first + one]
                sign = np.float32(1) if target > 0 else np.float32(-1)
                cost = positive_cost * target if target > 0 else negative_cost
                diagonal = np.float32(0.5) / cost
                score = offset
                for column in range(dimension):
                    score += vectors[row, column] * own[column]
                gradient = sign * score - np.float32(1) + diagonal * duals[one]
                new = max(duals[one] - gradient / (norms[row] + diagonal), np.float32(0))
                change = sign * (new - duals[one])
                if change != 0:
                    duals[one] = new
                    offset += change
                    for column in range(dimension):
                        own[column] += change * vectors[row, column]
                worst = max(worst, abs(change))
            if worst <= TOL:
                break
        bias[label] = offset
