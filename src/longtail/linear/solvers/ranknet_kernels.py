"""The hot loops of RankNet: the forward and backward pass, the population-aware loss, and Adagrad.

An example is a short list of candidates, so nothing here is as wide as the label set: W1 y is a sum of at most as many
rows of `into` as there are candidates, and only the candidates' rows of `out` are read or updated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import Bools, Floats, Ints, Longs
from longtail.threads import over_rows

DAMPING = np.float32(0.1)  # initial squared gradients of each weight, so that its first step is not by far its longest


class Blocks(NamedTuple):
    """The weights of F = (W2 + rarity x shared) sigmoid(W1 y) + y, block after block."""

    into: Floats  # (blocks, labels, bottleneck), W1 transposed
    out: Floats  # (blocks, labels, bottleneck), W2
    shared: Floats  # (blocks, bottleneck)
    rarity: Floats  # (labels,)


class Loss(NamedTuple):
    """The settings of the population-aware loss."""

    margin: np.float32
    margin_weight: np.float32
    negatives: int
    seed: int = -1  # of negatives that are drawn at random; below 0: those with the highest scores

    def of_epoch(self, epoch: int) -> Loss:
        """The same with other random negatives in each pass."""
        return self if self.seed < 0 else self._replace(seed=(self.seed + 7919 * epoch) % 2**31)


class Candidates(NamedTuple):
    """Candidates of held-out examples and what is known of them."""

    indices: Ints  # (rows, places)
    inputs: Floats  # (rows, places), y
    hits: Bools  # (rows, places)
    usable: Bools  # (labels,), which labels may serve as negatives
    counts: Floats  # (labels,), n


class SquaredGradients(NamedTuple):
    """Row-wise Adagrad's sums of squared gradients: one number for each row of weights."""

    into: Floats  # (blocks, labels)
    out: Floats  # (blocks, labels)
    shared: Floats  # (blocks,)


def added(blocks: Blocks, indices: Ints, inputs: Floats) -> Floats:
    """What the blocks add to the input of each candidate.

    Args:
        blocks: the weights.
        indices: labels of the candidates (rows, places), -1 behind the last.
        inputs: their inputs (rows, places).

    Returns:
        (rows, places), 0 where there is no candidate.
    """
    result = np.zeros(inputs.shape, dtype=np.float32)

    def work(begin: int, end: int) -> None:
        _added(begin, end, indices, inputs, blocks, result)

    over_rows(work, len(indices))
    return result


def descend(
    blocks: Blocks, loss: Loss, rows: Candidates, learning_rate: float, orders: Iterable[Longs]
) -> Iterator[float]:
    """Train the blocks in place, one pass over the rows for each of the orders.

    Row-wise Adagrad: a row of weights steps by learning_rate / root of the sum of its squared gradients, so a rare
    label keeps long steps. One thread, one row at a time: the result does not depend on the machine.

    Args:
        blocks: the weights, which are updated.
        loss: settings of the loss.
        rows: candidates of held-out examples.
        learning_rate: of Adagrad.
        orders: for each pass, the rows in the order of their steps.

    Yields:
        The mean loss of each pass.
    """
    into, out = (np.full(blocks.into.shape[:2], DAMPING) for _ in range(2))
    squares = SquaredGradients(into, out, np.full(len(blocks.into), DAMPING))
    for epoch, order in enumerate(orders):
        yield float(_pass(order, rows, blocks, squares, loss.of_epoch(epoch), np.float32(learning_rate)))


@njit(nogil=True, cache=True)
def forward(labels, number, into, out, shared, rarity, values, hidden):  # type: ignore[no-untyped-def]
    """Fill `hidden[block]` and `values[block + 1]` from the inputs in `values[0]`, for one row.

    Args:
        labels: labels of the candidates (places,).
        number: how many of the places hold a candidate.
        into: as in `Blocks`, like the next three.
        out: see `Blocks`.
        shared: see `Blocks`.
        rarity: see `Blocks`.
        values: inputs and scores after each block (blocks + 1, places).
        hidden: activations (blocks, bottleneck).
    """
    # Safe: `RankNetBlocks.declared` holds a row of every array for each label, and `Predictions` the labels among them.
    blocks, _, bottleneck = into.shape
    for block in range(blocks):
        units = hidden[block]
        units[:] = 0
        for place in range(number):
            value, weights = values[block, place], into[block, labels[place]]
            for column in range(bottleneck):
                units[column] += value * weights[column]
        common = 0 * units[0]
        for column in range(bottleneck):
            units[column] = 1 / (1 + np.exp(-units[column]))
            common += shared[block, column] * units[column]
        for place in range(number):
            weights = out[block, labels[place]]
            change = rarity[labels[place]] * common
            for column in range(bottleneck):
                change += weights[column] * units[column]
            values[block + 1, place] = values[block, place] + change


@njit(nogil=True, cache=True)
def backward(labels, number, into, out, shared, rarity, hidden, gradients, under):  # type: ignore[no-untyped-def]
    """From the gradients of the last scores to those of every block's input and hidden sums, for one row.

    The gradients of the weights follow: that of out[block, label] is gradients[block + 1, place] x hidden[block], that
    of into[block, label] is values[block, place] x under[block].

    Args:
        labels: labels of the candidates (places,).
        number: how many of the places hold a candidate.
        into: as in `Blocks`, like the next three.
        out: see `Blocks`.
        shared: see `Blocks`.
        rarity: see `Blocks`.
        hidden: activations (blocks, bottleneck) of `forward`.
        gradients: of `values` (blocks + 1, places); the last row is given, the others are filled.
        under: of the sums under the sigmoid (blocks, bottleneck), filled.
    """
    blocks, _, bottleneck = into.shape
    for block in range(blocks - 1, -1, -1):
        units, sums = hidden[block], under[block]
        sums[:] = 0
        rare = sums[0]
        for place in range(number):
            gradient = gradients[block + 1, place]
            if gradient != 0:
                rare += gradient * rarity[labels[place]]
                for column in range(bottleneck):
                    sums[column] += gradient * out[block, labels[place], column]
        for column in range(bottleneck):
            sums[column] = (sums[column] + rare * shared[block, column]) * units[column] * (1 - units[column])
        for place in range(number):
            gradient = gradients[block + 1, place]
            weights = into[block, labels[place]]
            for column in range(bottleneck):
                gradient += weights[column] * sums[column]
            gradients[block, place] = gradient


@njit(nogil=True, cache=True)
def population_loss(scores, counts, positives, negatives, margin, margin_weight, gradients):  # type: ignore[no-untyped-def]
    """The loss of one row; its gradient by each score is added to `gradients`.

    The sum over positives i, j of [(n_i - n_j) / (n_i + n_j) (F_i - F_j)]+, each pair counted both ways round, plus
    margin_weight x the sum over positives i and negatives k of [F_k - F_i + margin]+.

    Args:
        scores: F of the row's candidates (places,).
        counts: n of their labels (places,).
        positives: places of the positives.
        negatives: places of the negatives.
        margin: see above.
        margin_weight: see above.
        gradients: (places,).
    """
    loss = 0 * margin
    for first in range(len(positives)):
        i = positives[first]
        for second in range(first + 1, len(positives)):
            j = positives[second]
            weight = (counts[i] - counts[j]) / max(counts[i] + counts[j], 1)
            wrong = weight * (scores[i] - scores[j])
            if wrong > 0:
                loss += 2 * wrong
                gradients[i] += 2 * weight
                gradients[j] -= 2 * weight
        for k in negatives:
            short = scores[k] - scores[i] + margin
            if short > 0:
                loss += margin_weight * short
                gradients[k] += margin_weight
                gradients[i] -= margin_weight
    return loss


@njit(nogil=True, cache=True)
def parted(labels, hits, usable, positives, negatives):  # type: ignore[no-untyped-def]
    """Fill in the places of a row's positives and of the candidates that may serve as negatives.

    Args:
        labels: labels of the candidates (places,), -1 behind the last.
        hits: which of them are right (places,).
        usable: which labels may serve as negatives (labels,).
        positives: places of the positives, filled from the front.
        negatives: places of the negatives, filled from the front.

    Returns:
        The number of candidates, of positives and of negatives.
    """
    number = found = others = 0
    while number < len(labels) and labels[number] >= 0:
        if hits[number]:
            positives[found] = number
            found += 1
        elif usable[labels[number]]:
            negatives[others] = number
            others += 1
        number += 1
    return number, found, others


@njit(nogil=True, cache=True)
def hardest(places, wanted, scores):  # type: ignore[no-untyped-def]
    """Bring the places with the highest scores to the front.

    Args:
        places: to be sorted in part, in place.
        wanted: how many of them to bring to the front.
        scores: score of each place.
    """
    for spot in range(wanted):
        best = spot
        for other in range(spot + 1, len(places)):
            if scores[places[other]] > scores[places[best]]:
                best = other
        places[spot], places[best] = places[best], places[spot]


@njit(nogil=True, cache=True)
def drawn(places, wanted, seed, row):  # type: ignore[no-untyped-def]
    """Bring places drawn at random to the front.

    Args:
        places: to be shuffled in part, in place.
        wanted: how many of them to bring to the front.
        seed: with `row`, decides which.
        row: of the example.
    """
    state = (np.uint64(seed) << np.uint64(32)) ^ (np.uint64(row + 1) * np.uint64(0x9E3779B97F4A7C15))
    for spot in range(wanted):
        # SplitMix64, so that draws depend on the seed and the row alone, on any number of threads.
        state += np.uint64(0x9E3779B97F4A7C15)
        mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        other = spot + np.int64((mixed >> np.uint64(33)) % np.uint64(len(places) - spot))
        places[spot], places[other] = places[other], places[spot]


@njit(nogil=True, cache=True)
def choose(places, wanted, scores, seed, row):  # type: ignore[no-untyped-def]
    """Bring the negatives of a row to the front: the highest-scoring ones, or random ones where `seed` is not below 0.

    Args:
        places: places of the candidates that may serve, sorted or shuffled in part, in place.
        wanted: how many of them to bring to the front.
        scores: score of each place.
        seed: see above.
        row: of the example.
    """
    if wanted < len(places):
        if seed < 0:
            hardest(places, wanted, scores)
        else:
            drawn(places, wanted, seed, row)


@njit(nogil=True, cache=True)
def _pass(order, rows, weights, squares, settings, learning_rate):  # type: ignore[no-untyped-def]
    """A step for each row, in this order. Returns the mean loss."""
    indices, inputs, hits, usable, counts = rows
    into, out, shared, rarity = weights
    into_squares, out_squares, shared_squares = squares
    margin, margin_weight, negatives, seed = settings
    blocks, _, bottleneck = into.shape
    width = indices.shape[1]
    values = np.zeros((blocks + 1, width), dtype=np.float32)
    gradients = np.zeros((blocks + 1, width), dtype=np.float32)
    hidden = np.zeros((blocks, bottleneck), dtype=np.float32)
    under = np.zeros((blocks, bottleneck), dtype=np.float32)
    right, wrong = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    total = 0.0
    for row in order:
        labels = indices[row]
        number, found, others = parted(labels, hits[row], usable, right, wrong)
        if found == 0:
            continue
        values[0, :number] = inputs[row, :number]
        forward(labels, number, into, out, shared, rarity, values, hidden)
        scores, by_score = values[blocks], gradients[blocks]
        chosen = min(negatives, others)
        choose(wrong[:others], chosen, scores, seed, row)
        by_score[:number] = 0
        loss = population_loss(
            scores, counts[labels[:number]], right[:found], wrong[:chosen], margin, margin_weight, by_score
        )
        if loss == 0:
            continue
        total += loss
        backward(labels, number, into, out, shared, rarity, hidden, gradients, under)
        for block in range(blocks):
            units, sums = hidden[block], under[block]
            unit_square, sum_square, rare = np.float32(0), np.float32(0), np.float32(0)
            for column in range(bottleneck):
                unit_square += units[column] * units[column] / np.float32(bottleneck)
                sum_square += sums[column] * sums[column] / np.float32(bottleneck)
            for place in range(number):
                label, value, gradient = labels[place], values[block, place], gradients[block + 1, place]
                rare += gradient * rarity[label]
                if gradient != 0:
                    out_squares[block, label] += gradient * gradient * unit_square
                    step = learning_rate * gradient / np.sqrt(out_squares[block, label])
                    for column in range(bottleneck):
                        out[block, label, column] -= step * units[column]
                if sum_square > 0:
                    into_squares[block, label] += value * value * sum_square
                    step = learning_rate * value / np.sqrt(into_squares[block, label])
                    for column in range(bottleneck):
                        into[block, label, column] -= step * sums[column]
            shared_squares[block] += rare * rare * unit_square
            step = learning_rate * rare / np.sqrt(shared_squares[block])
            for column in range(bottleneck):
                shared[block, column] -= step * units[column]
    return total / max(len(order), 1)


@njit(nogil=True, cache=True)
def _added(begin, end, indices, inputs, weights, result):  # type: ignore[no-untyped-def]
    into, out, shared, rarity = weights
    blocks, _, bottleneck = into.shape
    width = indices.shape[1]
    values = np.zeros((blocks + 1, width), dtype=np.float32)
    hidden = np.zeros((blocks, bottleneck), dtype=np.float32)
    for row in range(begin, end):
        number = 0
        while number < width and indices[row, number] >= 0:
            values[0, number] = inputs[row, number]
            number += 1
        forward(indices[row], number, into, out, shared, rarity, values, hidden)
        for place in range(number):
            result[row, place] = values[blocks, place] - values[0, place]
