"""Which labels stand together in rows, and how often: the label graph, without ever holding the whole Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Doubles, Floats, Ints, Longs, Matrix
from longtail.errors import DataError
from longtail.linear import pair_kernels as kernels
from longtail.threads import in_threads, thread_count

PIECES = 32  # of the labels, with as many positives each: enough to balance threads, large enough for memory to go back
EVERY = 2**31 - 1


def cooccurrence(
    targets: Matrix,
    threshold: float = 0.1,
    most: int | None = None,
    least: float = 0,
    form: Literal["share", "count"] = "share",
) -> Matrix:
    """How likely each label is in a row that has another one: csr float32 (labels, labels), columns rising.

    Row j holds, for every other label i, G_ij / n_j where that is above the threshold and G_ij at least `least`; of
    more than `most` the largest, of equals those with the smaller number; and 1 for j itself, also where no row has
    it. G_ij sums y_i y_j over the rows and n_j sums y_j: counts where targets are 1, and never more than 1 where they
    are soft. With form "count", G_ij and n_j themselves.

    One pass over the pairs of labels in rows. G_ij is at most n_i: with the labels of a row in order of frequency, only
    the first ones can pass a common label's threshold and the others are never looked at, so that the head, which has
    most pairs, costs least. Labels with few pairs are counted in a table that stays in the cache.
    """
    if not 0 <= threshold < 1 or least < 0 or (most is not None and most < 0):
        raise DataError(
            f"a label graph takes a threshold from 0 to below 1, least and most of at least 0, got "
            f"threshold={threshold:g}, least={least:g}, most={most}"
        )
    held = Incidence.of(targets)
    settings = (float(threshold), float(least), EVERY if most is None else most, form == "share")
    labels = len(held.mass)
    common = np.flatnonzero(held.pairs >= kernels.FEW)
    head = _common_rows(held, common, settings)
    place = np.full(labels, -1, dtype=np.int32)
    place[common] = np.arange(len(common), dtype=np.int32)
    known = (place, head.indptr.astype(np.int64), head.indices, head.data)
    bounds = held.pieces(PIECES)

    def rows(piece: int) -> Any:
        span = int(bounds[piece]), int(bounds[piece + 1])
        return kernels.all_rows(*span, held.mass, held.pairs, *held.by_label, *held.by_row, *known, *settings)

    return in_pieces(rows, len(bounds) - 1, labels)


def _common_rows(held: Incidence, common: Longs, settings: tuple[float, float, int, bool]) -> Matrix:
    """The graph's rows of these labels. What it needs of its own is gone before the rows of the many others come."""
    if len(common) == 0:
        return sparse.csr_array((0, len(held.mass)), dtype=np.float32)
    ranked = held.ranked()
    bounds = np.linspace(0, len(common), min(PIECES, len(common)) + 1).astype(np.int64)

    def rows(piece: int) -> Any:
        some = common[bounds[piece] : bounds[piece + 1]]
        limits = ranked.limits(held.mass[some], *settings[:2])
        by_row = (held.row_starts, ranked.row_ranks, ranked.row_values)
        return kernels.common_rows(some, limits, ranked.order, held.mass, *held.by_label, *by_row, *settings)

    return in_pieces(rows, len(bounds) - 1, len(held.mass))


@dataclass(frozen=True, eq=False)
class Incidence:
    """Which labels a row has and which rows a label."""

    mass: Doubles  # n_j of each label: the sum of its targets
    pairs: Longs  # labels in all rows of each label
    label_starts: Longs  # (labels + 1,)
    label_rows: Ints  # rising within a label
    label_values: Floats  # empty where all targets are 1
    row_starts: Longs  # (rows + 1,)
    row_labels: Ints  # rising within a row
    row_values: Floats

    @classmethod
    def of(cls, targets: Matrix) -> Incidence:
        """targets: csr (rows, labels). Takes 4 bytes an entry beside them, 8 where targets are soft."""
        labels = int(targets.shape[1])
        hard = bool((targets.data == 1).all())
        row_starts = targets.indptr.astype(np.int64)
        row_labels = _read_only(targets.indices.astype(np.int32, copy=False))
        row_values = _read_only(targets.data.astype(np.float32, copy=False)[: 0 if hard else None])
        bounds = _even(row_starts, thread_count())
        parts = range(len(bounds) - 1)
        counts, pairs = np.zeros((2, len(parts), labels), dtype=np.int64)
        by_row = (row_starts, row_labels)

        def count(part: int) -> None:
            kernels.count(bounds[part], bounds[part + 1], *by_row, counts[part], pairs[part])

        in_threads(count, parts)
        label_starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))]).astype(np.int64)
        places = label_starts[:-1] + np.cumsum(counts, axis=0) - counts  # where each thread writes its rows of a label
        label_rows, label_values = np.empty(targets.nnz, np.int32), np.empty(len(row_values), np.float32)

        def turn(part: int) -> None:
            span = bounds[part], bounds[part + 1]
            kernels.turn(*span, *by_row, row_values, places[part], label_rows, label_values)

        in_threads(turn, parts)
        mass = np.diff(label_starts).astype(np.float64)
        if not hard:
            mass = np.bincount(row_labels, row_values, minlength=labels).astype(np.float64)
        by_label = (label_starts, label_rows, label_values)
        return cls(mass, pairs.sum(axis=0), *by_label, row_starts, row_labels, row_values)

    @property
    def by_label(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        return self.label_starts, self.label_rows, self.label_values

    @property
    def by_row(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        return self.row_starts, self.row_labels, self.row_values

    def pieces(self, number: int) -> Longs:
        """Bounds of ranges of labels with about as many positives each."""
        return _even(self.label_starts, number)

    def ranked(self) -> Ranked:
        """The labels of each row by rank; 4 bytes an entry, 8 where targets are soft."""
        order = np.argsort(-self.mass, kind="stable").astype(np.int32)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        row_ranks, values = np.empty(len(self.row_labels), np.int32), np.empty(len(self.row_values), np.float32)
        bounds = _even(self.row_starts, thread_count())

        def work(part: int) -> None:
            kernels.rank_rows(bounds[part], bounds[part + 1], *self.by_row, rank, row_ranks, values)

        in_threads(work, range(len(bounds) - 1))
        return Ranked(order, -self.mass[order], row_ranks, values)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Labels by frequency, the most frequent first, of equals the first."""

    order: Ints  # label of each rank
    falling: Doubles  # minus n_j of each rank
    row_ranks: Ints  # rising within a row
    row_values: Floats

    def limits(self, mass: Doubles, threshold: float, least: float) -> Ints:
        """For labels of this mass, the first rank that is too rare to pass."""
        needed = np.maximum(threshold * mass, least)
        # At the bar itself a label stays in: the kernel decides there, and rounding cannot lose a pair.
        return np.searchsorted(self.falling, -needed * (1 - 1e-12), side="right").astype(np.int32)


def in_pieces(rows: Callable[[int], Any], pieces: int, columns: int) -> Matrix:
    """A csr matrix from rows made piece by piece in threads: sizes, columns, values with room left, and how many.

    Pieces are copied as they are joined and go back one by one: they and the whole never stand side by side.
    """
    found: dict[int, tuple[Longs, Ints, Floats]] = {}

    def work(piece: int) -> None:
        sizes, held, values, size = rows(piece)
        found[piece] = sizes, held[:size], values[:size]

    in_threads(work, range(pieces))
    starts = np.concatenate([[0], *(found[piece][0] for piece in range(pieces))]).cumsum()
    if starts[-1] < 2**31:
        starts = starts.astype(np.int32)  # SciPy would widen the columns to the type of the starts
    joined, weights = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    place = 0
    for piece in range(pieces):
        _, held, values = found.pop(piece)
        joined[place : place + len(held)], weights[place : place + len(held)] = held, values
        place += len(held)
    graph = sparse.csr_array((weights, joined, starts), shape=(len(starts) - 1, columns))
    graph.has_canonical_format = True
    return graph


def _even(starts: Longs, number: int) -> Longs:
    """Bounds of up to so many ranges of rows with about as many entries each."""
    inner = np.searchsorted(starts[1:], np.arange(1, number) * (starts[-1] / number))
    return np.unique(np.concatenate([[0], inner, [len(starts) - 1]])).astype(np.int64)


def _read_only(array: AnyArray) -> AnyArray:
    """One set of types for the kernels, as the data is, so that they compile once."""
    view = array.view()
    view.setflags(write=False)
    return view


def symmetric(targets: Matrix, threshold: float = 0.1, most: int | None = None, least: float = 0) -> Matrix:
    """The graph of GLaS: S_ij = (G_ij / n_j + G_ij / n_i) / 2 where above the threshold; 1 for a label itself.

    A pair that passes has one side of at least the threshold, so both sides come from the pairs that `cooccurrence`
    keeps. Keeps up to twice as many pairs as that before `most` is applied.
    """
    graph = cooccurrence(targets, threshold, None, least, "count")
    mass = np.maximum(np.bincount(targets.indices, targets.data, minlength=targets.shape[1]), 1e-300)
    rows = np.repeat(np.arange(graph.shape[0], dtype=np.int32), np.diff(graph.indptr))
    both = graph.data.astype(np.float64)
    means = 0.5 * (both / mass[rows] + both / mass[graph.indices])
    kept = (means > threshold) & (rows != graph.indices)
    half = sparse.csr_array((means[kept].astype(np.float32), (rows[kept], graph.indices[kept])), shape=graph.shape)
    whole = strongest(half.maximum(half.T).tocsr(), most)
    return sparse.csr_array(whole + sparse.eye_array(graph.shape[0], dtype=np.float32, format="csr"))


def strongest(graph: Matrix, most: int | None) -> Matrix:
    """The largest `most` entries of each row, of equals those with the smaller column."""
    if most is None or np.diff(graph.indptr).max(initial=0) <= most:
        return graph
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    by_value = np.lexsort((graph.indices, -graph.data, rows))
    place = np.arange(len(rows)) - graph.indptr[rows]  # rows are in order before and after
    kept = by_value[place < most]
    chosen = sparse.csr_array((graph.data[kept], (rows[kept], graph.indices[kept])), shape=graph.shape)
    chosen.sort_indices()
    return chosen
