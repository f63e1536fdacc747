"""The compiled pass over rows that all measures share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float32, float64, int32, int64, njit, types, void

from longtail.arrays import Doubles, Floats, Ints, Longs

SCORE_BINS = 15  # equal-width bins of the calibration error

# columns of `sums`
HITS, RECALL, RPRECISION, F1, RECIPROCAL, NDCG, GAIN, BEST_GAIN, SCALED_GAIN, BEST_SCALED_GAIN = range(10)
SUMS = 10
# columns of `events`
REPEATED, SHORT, LOST = range(3)
EVENTS = 3

# state of a label within a row
_TRUE, _EXCLUDED, _TAKEN = 0, 1, 2


class RowLabels(NamedTuple):
    """The true and the excluded labels of all rows; every array is read-only."""

    truth_starts: Longs  # (rows + 1,) where the true labels of each row start
    truth: Ints  # true labels of all rows
    excluded_starts: Longs  # (rows + 1,) where the excluded labels of each row start
    excluded: Ints  # excluded labels of all rows


class HitWeights(NamedTuple):
    """What a hit counts, by its label and its place; every array is read-only."""

    labels: Doubles  # (labels,) inverse propensities
    discounts: Doubles  # (largest k,) 1 / log2(place + 2)
    ideal: Doubles  # (largest k + 1,) sums of the first discounts
    ks: Longs  # rising


class Counted(NamedTuple):
    """Where hits are added up. `cells` and `tallies` hold only the places between one k and the next."""

    sums: Doubles  # (blocks, ks, SUMS)
    events: Longs  # (blocks, EVENTS)
    cells: Doubles  # (blocks, ks, SCORE_BINS, 3) predictions, their scores, their hits
    tallies: Ints  # (labels, ks, 2) predicted, found; each worker has its own


def _read(kind: types.Type, dimensions: int = 1) -> types.Type:
    """The type of an input array. A read-only type accepts writable arrays too, so one compiled form is enough. In a
    named tuple it does not: arrays there have to be read-only."""
    return types.Array(kind, dimensions, "C", readonly=True)


def _tuple_of(kind: type[tuple[Any, ...]], *fields: types.Type) -> types.Type:
    return types.NamedTuple(fields, kind)  # type: ignore[no-untyped-call]


_ROW_LABELS = _tuple_of(RowLabels, _read(int64), _read(int32), _read(int64), _read(int32))
_HIT_WEIGHTS = _tuple_of(HitWeights, _read(float64), _read(float64), _read(float64), _read(int64))
_COUNTED = _tuple_of(Counted, float64[:, :, ::1], int64[:, ::1], float64[:, :, :, ::1], int32[:, :, ::1])


@njit(void(_read(float64), _read(int32), int64, int64, float64[::1]), nogil=True, cache=True)
def _heaviest(weights: Doubles, labels: Ints, start: int, end: int, best: Doubles) -> None:
    """Fill `best` with the largest weights of labels[start:end], largest first, until it is full."""
    filled = 0
    for at in range(start, end):
        weight = weights[labels[at]]
        place = filled
        if filled == len(best):
            if best[filled - 1] >= weight:
                continue
            place = filled - 1
        else:
            filled += 1
        while place > 0 and best[place - 1] < weight:
            best[place] = best[place - 1]
            place -= 1
        best[place] = weight


@njit(
    void(
        _read(int32, 2),
        _read(float32, 2),
        boolean,
        _ROW_LABELS,
        _HIT_WEIGHTS,
        _COUNTED,
        int64,
        int64,
    ),
    nogil=True,
    cache=True,
)
def tally_rows(
    indices: Ints,
    scores: Floats,
    calibrated: bool,
    row_labels: RowLabels,
    hit_weights: HitWeights,
    counted: Counted,
    worker: int,
    workers: int,
) -> None:
    """Add up the rows of every `workers`-th block, from block `worker` on.

    The number of blocks does not depend on the workers, so the floating point sums are the same on every machine.

    Args:
        indices: (rows, places) predicted label rows, -1 for an empty place.
        scores: (rows, places).
        calibrated: whether the scores lie in [0, 1], so that `cells` are counted.
        row_labels: what is right and what is excluded.
        hit_weights: what a hit counts.
        counted: out, what was added up.
        worker: number of this worker.
        workers: number of all workers.
    """
    truth_starts, truth, excluded_starts, excluded = row_labels
    weights, discounts, ideal, ks = hit_weights
    sums, events, cells, tallies = counted
    rows, places = indices.shape
    blocks = len(sums)
    marks = np.full(len(weights), -1, dtype=np.int64)  # 3 row + state of the label in that row
    best = np.empty(len(discounts), dtype=np.float64)
    for block in range(worker, blocks, workers):
        for row in range(block * rows // blocks, (block + 1) * rows // blocks):
            start, end = truth_starts[row], truth_starts[row + 1]
            base = 3 * row
            for at in range(start, end):
                marks[truth[at]] = base + _TRUE
            for at in range(excluded_starts[row], excluded_starts[row + 1]):
                if marks[excluded[at]] == base + _TRUE:
                    events[block, LOST] += 1
                marks[excluded[at]] = base + _EXCLUDED
            relevant = end - start
            _heaviest(weights, truth, start, end, best)
            column = place = ideal_place = hits = 0
            reciprocal = discounted = gain = scaled = best_gain = best_scaled = 0.0
            for step in range(len(ks)):
                while place < ks[step] and column < places:
                    label, score = indices[row, column], scores[row, column]
                    column += 1
                    if label < 0:
                        continue
                    known = marks[label] - base  # negative: neither true, excluded nor taken in this row
                    if known == _EXCLUDED:
                        continue
                    if known == _TAKEN:
                        events[block, REPEATED] += 1
                        continue
                    marks[label] = base + _TAKEN
                    tallies[label, step, 0] += 1
                    if known == _TRUE:
                        tallies[label, step, 1] += 1
                        if hits == 0:
                            reciprocal = 1.0 / (place + 1)
                        hits += 1
                        discounted += discounts[place]
                        gain += weights[label]
                        scaled += weights[label] * discounts[place]
                    if calibrated:
                        cell = min(int(score * SCORE_BINS), SCORE_BINS - 1)
                        cells[block, step, cell, 0] += 1
                        cells[block, step, cell, 1] += score
                        cells[block, step, cell, 2] += known == _TRUE
                    place += 1
                reach = min(ks[step], relevant)
                while ideal_place < reach:
                    best_gain += best[ideal_place]
                    best_scaled += best[ideal_place] * discounts[ideal_place]
                    ideal_place += 1
                if relevant > 0:
                    sums[block, step, HITS] += hits
                    sums[block, step, RECALL] += hits / relevant
                    sums[block, step, RPRECISION] += hits / reach
                    sums[block, step, F1] += 2.0 * hits / (place + relevant)
                    sums[block, step, RECIPROCAL] += reciprocal
                    sums[block, step, NDCG] += discounted / ideal[reach]
                    sums[block, step, GAIN] += gain
                    sums[block, step, BEST_GAIN] += best_gain
                    sums[block, step, SCALED_GAIN] += scaled / ideal[reach]
                    sums[block, step, BEST_SCALED_GAIN] += best_scaled / ideal[reach]
            if place < ks[-1]:
                events[block, SHORT] += 1


@njit(
    void(_read(int32, 2), _read(float32, 2), _read(float64), int64, int64, int32[:, ::1], float32[:, ::1]),
    nogil=True,
    cache=True,
)
def heaviest_places(
    indices: Ints, scores: Floats, weights: Doubles, low: int, high: int, best: Ints, kept: Floats
) -> None:
    """Find the places with the largest score x weight of their label, ties by label row.

    Args:
        indices: (rows, places) label rows, -1 for an empty place.
        scores: (rows, places).
        weights: (labels,).
        low: first row.
        high: behind the last row.
        best: out, (rows, k) their labels; -1 before.
        kept: out, (rows, k) their scores; 0 before.
    """
    k = best.shape[1]
    products = np.empty(k, dtype=np.float64)
    for row in range(low, high):
        filled = 0
        for column in range(indices.shape[1]):
            label = indices[row, column]
            if label < 0:
                continue
            product = scores[row, column] * weights[label]
            place = filled
            if filled == k:
                place = k - 1
                last = products[place]
                if last > product or (last == product and best[row, place] < label):
                    continue
            else:
                filled += 1
            while place > 0 and (
                products[place - 1] < product or (products[place - 1] == product and best[row, place - 1] > label)
            ):
                products[place] = products[place - 1]
                best[row, place], kept[row, place] = best[row, place - 1], kept[row, place - 1]
                place -= 1
            products[place] = product
            best[row, place], kept[row, place] = label, scores[row, column]
