"""RankNet's first form: one matrix over labels, F = W y + y. The loss is that of `ranknet_kernels`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numba import njit

from longtail.arrays import Floats, Ints, Longs
from longtail.linear.solvers.ranknet_kernels import DAMPING, Candidates, Loss, choose, parted, population_loss
from longtail.threads import over_rows


def matrix_added(matrix: Floats, indices: Ints, inputs: Floats) -> Floats:
    """What the matrix adds to the input of each candidate: W y, where y is 0 beside the candidates.

    Args:
        matrix: W (labels, labels).
        indices: labels of the candidates (rows, places), -1 behind the last.
        inputs: their inputs (rows, places).

    Returns:
        (rows, places), 0 where there is no candidate.
    """
    result = np.zeros(inputs.shape, dtype=np.float32)

    def work(begin: int, end: int) -> None:
        _added(begin, end, indices, inputs, matrix, result)

    over_rows(work, len(indices))
    return result


def matrix_descend(
    matrix: Floats, loss: Loss, rows: Candidates, learning_rate: float, orders: Iterable[Longs]
) -> Iterator[float]:
    """Train the matrix in place, one pass over the rows for each of the orders, with row-wise Adagrad.

    Args:
        matrix: W (labels, labels), which is updated.
        loss: settings of the loss.
        rows: candidates of held-out examples.
        learning_rate: of Adagrad.
        orders: for each pass, the rows in the order of their steps.

    Yields:
        The mean loss of each pass.
    """
    squares = np.full(len(matrix), DAMPING)
    for epoch, order in enumerate(orders):
        yield float(_pass(order, rows, matrix, squares, loss.of_epoch(epoch), np.float32(learning_rate)))


@njit(nogil=True, cache=True)
def _pass(order, rows, matrix, squares, settings, learning_rate):  # type: ignore[no-untyped-def]
    """A step for each row, in this order. Returns the mean loss."""
    # Safe: labels of `Predictions` lie among the matrix's rows, and `parted` stops at the first -1.
    indices, inputs, hits, usable, counts = rows
    margin, margin_weight, negatives, seed = settings
    width = indices.shape[1]
    scores, gradients = np.zeros(width, dtype=np.float32), np.zeros(width, dtype=np.float32)
    right, wrong = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    total = 0.0
    for row in order:
        labels = indices[row]
        number, found, others = parted(labels, hits[row], usable, right, wrong)
        if found == 0:
            continue
        for place in range(number):
            score = inputs[row, place]
            for other in range(number):
                score += matrix[labels[place], labels[other]] * inputs[row, other]
            scores[place] = score
        chosen = min(negatives, others)
        choose(wrong[:others], chosen, scores, seed, row)
        gradients[:number] = 0
        loss = population_loss(
            scores, counts[labels[:number]], right[:found], wrong[:chosen], margin, margin_weight, gradients
        )
        if loss == 0:
            continue
        total += loss
        mean = np.float32(0)
        for other in range(number):
            mean += inputs[row, other] * inputs[row, other] / np.float32(number)
        for place in range(number):
            gradient = gradients[place]
            if gradient == 0 or mean == 0:
                continue
            label = labels[place]
            squares[label] += gradient * gradient * mean
            step = learning_rate * gradient / np.sqrt(squares[label])
            for other in range(number):
                matrix[label, labels[other]] -= step * inputs[row, other]
    return total / max(len(order), 1)


@njit(nogil=True, cache=True)
def _added(begin, end, indices, inputs, matrix, result):  # type: ignore[no-untyped-def]
    # Safe: `Predictions` holds the labels among them, and `_declared_matrix` a row and a column of each.
    width = indices.shape[1]
    for row in range(begin, end):
        number = 0
        while number < width and indices[row, number] >= 0:
            number += 1
        for place in range(number):
            for other in range(number):
                result[row, place] += matrix[indices[row, place], indices[row, other]] * inputs[row, other]
