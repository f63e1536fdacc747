"""The hot loops of RankNet: scores through the blocks, the population-aware loss, and its descent.

A row is a short list of candidates, so nothing here is as wide as the label set: W1 y is a sum of at most as many
rows of `into` as there are candidates, and only the candidates' rows of `out` are read or moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from longtail.arrays import Bools, Floats, Ints, Longs
from longtail.threads import over_rows

DAMPING = np.float32(0.1)  # squared slopes each weight starts with, so that its first step is not its longest by far


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


def added(blocks: Blocks, indices: Ints, inputs: Floats) -> Floats:
    """What the blocks add to the input of each candidate: (rows, places), 0 where there is none."""
    result = np.zeros(inputs.shape, dtype=np.float32)

    def work(begin: int, end: int) -> None:
        _added(begin, end, indices, inputs, *blocks, result)

    over_rows(work, len(indices))
    return result


class Candidates(NamedTuple):
    """Candidates of held-out rows and what is known of them."""

    indices: Ints  # (rows, places)
    inputs: Floats  # (rows, places), y
    hits: Bools  # (rows, places)
    usable: Bools  # (labels,), which labels may serve as negatives
    counts: Floats  # (labels,), n


def descend(blocks: Blocks, loss: Loss, rows: Candidates, rate: float, orders: Iterable[Longs]) -> Iterator[float]:
    """Train the blocks in place, one pass over the rows for each of the orders; yields the mean loss of each pass.

    Row-wise Adagrad: a row of weights steps by rate / root of the squared slopes it has met, so a label met rarely
    keeps long steps. One thread, one row at a time: the result does not depend on the machine.
    """
    into_power, out_power = (np.full(blocks.into.shape[:2], DAMPING) for _ in range(2))
    shared_power = np.full(len(blocks.into), DAMPING)
    for order in orders:
        yield float(_pass(order, *rows, *blocks, into_power, out_power, shared_power, *loss, np.float32(rate)))


@njit(nogil=True, cache=True)
def forward(labels, number, into, out, shared, rarity, values, hidden):  # type: ignore[no-untyped-def]
    """Fill `hidden[block]` and `values[block + 1]` from the inputs in `values[0]`, for one row.

    labels: (places,), the first `number` of them are candidates; values: (blocks + 1, places).
    """
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
def backward(labels, number, into, out, shared, rarity, hidden, slopes, under):  # type: ignore[no-untyped-def]
    """From `slopes[blocks]`, the loss by the last scores, to the slopes by every block's input and hidden sums.

    Fills `slopes[block]` (by `values[block]`) and `under[block]` (by the sums under the sigmoid). The slopes of the
    weights follow: by out[block, label] it is slopes[block + 1, place] x hidden[block], by into[block, label] it is
    values[block, place] x under[block].
    """
    blocks, _, bottleneck = into.shape
    for block in range(blocks - 1, -1, -1):
        units, sums = hidden[block], under[block]
        sums[:] = 0
        rare = sums[0]
        for place in range(number):
            slope = slopes[block + 1, place]
            if slope != 0:
                rare += slope * rarity[labels[place]]
                for column in range(bottleneck):
                    sums[column] += slope * out[block, labels[place], column]
        for column in range(bottleneck):
            sums[column] = (sums[column] + rare * shared[block, column]) * units[column] * (1 - units[column])
        for place in range(number):
            slope = slopes[block + 1, place]
            weights = into[block, labels[place]]
            for column in range(bottleneck):
                slope += weights[column] * sums[column]
            slopes[block, place] = slope


@njit(nogil=True, cache=True)
def population_loss(scores, counts, positives, negatives, margin, margin_weight, slopes):  # type: ignore[no-untyped-def]
    """The loss of one row; its slope by each score is added to `slopes`.

    The sum over positives i, j of [(n_i - n_j) / (n_i + n_j) (F_i - F_j)]+, each pair counted both ways round, plus
    margin_weight x the sum over positives i and negatives k of [F_k - F_i + margin]+. `positives` and `negatives`
    are places; scores F and counts n (places,) are those of the row's candidates.
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
                slopes[i] += 2 * weight
                slopes[j] -= 2 * weight
        for k in negatives:
            short = scores[k] - scores[i] + margin
            if short > 0:
                loss += margin_weight * short
                slopes[k] += margin_weight
                slopes[i] -= margin_weight
    return loss


@njit(nogil=True, cache=True)
def parted(labels, hits, usable, positives, negatives):  # type: ignore[no-untyped-def]
    """Places of the row's positives and of the candidates that may serve as negatives; how many of each, and of all."""
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
    """Bring the `wanted` places with the highest scores to the front."""
    for spot in range(wanted):
        best = spot
        for other in range(spot + 1, len(places)):
            if scores[places[other]] > scores[places[best]]:
                best = other
        places[spot], places[best] = places[best], places[spot]


@njit(nogil=True, cache=True)
def _pass(  # type: ignore[no-untyped-def]
    order, indices, inputs, hits, usable, counts, into, out, shared, rarity, into_power, out_power, shared_power,
    margin, margin_weight, negatives, rate,
):  # fmt: skip
    """A step for each row, in this order. Returns the mean loss."""
    blocks, _, bottleneck = into.shape
    width = indices.shape[1]
    values = np.zeros((blocks + 1, width), dtype=np.float32)
    slopes = np.zeros((blocks + 1, width), dtype=np.float32)
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
        scores, slope_by_score = values[blocks], slopes[blocks]
        chosen = min(negatives, others)
        if chosen < others:
            hardest(wrong[:others], chosen, scores)
        slope_by_score[:number] = 0
        loss = population_loss(
            scores, counts[labels[:number]], right[:found], wrong[:chosen], margin, margin_weight, slope_by_score
        )
        if loss == 0:
            continue
        total += loss
        backward(labels, number, into, out, shared, rarity, hidden, slopes, under)
        for block in range(blocks):
            units, sums = hidden[block], under[block]
            unit_power, sum_power, rare = np.float32(0), np.float32(0), np.float32(0)
            for column in range(bottleneck):
                unit_power += units[column] * units[column] / np.float32(bottleneck)
                sum_power += sums[column] * sums[column] / np.float32(bottleneck)
            for place in range(number):
                label, value, slope = labels[place], values[block, place], slopes[block + 1, place]
                rare += slope * rarity[label]
                if slope != 0:
                    out_power[block, label] += slope * slope * unit_power
                    step = rate * slope / np.sqrt(out_power[block, label])
                    for column in range(bottleneck):
                        out[block, label, column] -= step * units[column]
                if sum_power > 0:
                    into_power[block, label] += value * value * sum_power
                    step = rate * value / np.sqrt(into_power[block, label])
                    for column in range(bottleneck):
                        into[block, label, column] -= step * sums[column]
            shared_power[block] += rare * rare * unit_power
            step = rate * rare / np.sqrt(shared_power[block])
            for column in range(bottleneck):
                shared[block, column] -= step * units[column]
    return total / max(len(order), 1)


@njit(nogil=True, cache=True)
def _added(begin, end, indices, inputs, into, out, shared, rarity, result):  # type: ignore[no-untyped-def]
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
