"""Which labels occur together, and how often: the label graph, without ever holding the whole Gram matrix.

The threshold is applied while counting, so what is dropped is never stored. One function serves `gandalf`, its variants
and `longtail neighbours`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from longtail.arrays import Doubles, Floats, Ints, Longs, Matrix
from longtail.errors import DataError
from longtail.linear.csr_arrays import CsrArrays, read_only
from longtail.linear.graph import cooccurrence_kernels as kernels
from longtail.linear.graph.cooccurrence_kernels import CommonRows, GraphLimits
from longtail.threads import in_threads, thread_count

PIECES = 32  # of the labels, with equal positives: enough to balance threads, large enough for memory to be returned
NO_LIMIT = 2**31 - 1


def cooccurrence(
    targets: Matrix,
    threshold: float = 0.1,
    max_labels: int | None = None,
    min_count: float = 0,
    form: Literal["share", "count"] = "share",
) -> Matrix:
    """How likely each label is in a row that has another one.

    Row j of the result has G_ij / n_j for every other label i where that is above the threshold and G_ij is at least
    `min_count`, and 1 for j itself, also where no row has j. G_ij sums y_i y_j over the rows and n_j sums y_j: counts
    where targets are 1; a share is never above 1, also where targets are soft.

    One pass over the pairs of labels in rows. G_ij is at most n_i: with the labels of a row in order of frequency, only
    the first ones can pass a common label's threshold and the others are skipped, so the head, which has most pairs,
    costs least. Labels with few pairs are counted in a hash table that stays in the cache.

    Args:
        targets: csr (rows, labels).
        threshold: smallest share, exclusive, from 0 to below 1.
        max_labels: keep the largest so many of a row, of equals those with the smaller number; None keeps all.
        min_count: smallest G_ij.
        form: "share", or "count" for G_ij and n_j themselves.

    Returns:
        csr float32 (labels, labels), columns ascending.

    Raises:
        DataError: a setting is out of range.
    """
    if not 0 <= threshold < 1 or min_count < 0 or (max_labels is not None and max_labels < 0):
        raise DataError(
            "a label graph takes a threshold from 0 to below 1, min_count and max_labels of at least 0, got "
            f"threshold={threshold:g}, min_count={min_count:g}, max_labels={max_labels}"
        )
    incidence = Incidence.of(targets)
    settings = GraphLimits(
        float(threshold), float(min_count), NO_LIMIT if max_labels is None else max_labels, form == "share"
    )
    labels = len(incidence.mass)
    common = np.flatnonzero(incidence.pairs >= kernels.FEW)
    head = _common_rows(incidence, common, settings)
    number = np.full(labels, -1, dtype=np.int32)
    number[common] = np.arange(len(common), dtype=np.int32)
    known = CommonRows(number, head.indptr.astype(np.int64), head.indices, head.data)
    bounds = incidence.pieces(PIECES)

    def rows(piece: int) -> Any:
        begin, end = int(bounds[piece]), int(bounds[piece + 1])
        by_label, by_row = incidence.by_label, incidence.by_row
        return kernels.all_rows(begin, end, incidence.mass, incidence.pairs, by_label, by_row, known, settings)

    return in_pieces(rows, len(bounds) - 1, labels)


def _common_rows(incidence: Incidence, common: Longs, settings: GraphLimits) -> Matrix:
    """The graph's rows of common labels. Its own memory is free again before the rows of the many others are made."""
    if len(common) == 0:
        return sparse.csr_array((0, len(incidence.mass)), dtype=np.float32)
    ranked = incidence.ranked()
    by_rank = CsrArrays(incidence.row_starts, ranked.row_ranks, ranked.row_values)
    bounds = np.linspace(0, len(common), min(PIECES, len(common)) + 1).astype(np.int64)

    def rows(piece: int) -> Any:
        labels = common[bounds[piece] : bounds[piece + 1]]
        limits = ranked.limits(incidence.mass[labels], settings.threshold, settings.min_count)
        mass, by_label = incidence.mass, incidence.by_label
        return kernels.common_rows(labels, limits, ranked.order, mass, by_label, by_rank, settings)

    return in_pieces(rows, len(bounds) - 1, len(incidence.mass))


@dataclass(frozen=True, eq=False)
class Incidence:
    """Which labels each row has, and which rows each label."""

    mass: Doubles  # n_j of each label: the sum of its targets
    pairs: Longs  # labels in all rows of each label
    label_starts: Longs  # (labels + 1,)
    label_rows: Ints  # ascending within a label
    label_values: Floats  # empty where all targets are 1
    row_starts: Longs  # (rows + 1,)
    row_labels: Ints  # ascending within a row
    row_values: Floats

    @classmethod
    def of(cls, targets: Matrix) -> Incidence:
        """The incidence of targets. Takes 4 bytes an entry beside them, 8 where targets are soft.

        Args:
            targets: csr (rows, labels).

        Returns:
            Rows by label and labels by row.
        """
        labels = int(targets.shape[1])
        hard = bool((targets.data == 1).all())
        row_starts = targets.indptr.astype(np.int64)
        row_labels = read_only(targets.indices.astype(np.int32, copy=False))
        row_values = read_only(targets.data.astype(np.float32, copy=False)[: 0 if hard else None])
        bounds = _even(row_starts, thread_count())
        parts = range(len(bounds) - 1)
        counts, pairs = np.zeros((2, len(parts), labels), dtype=np.int64)
        by_row = CsrArrays(row_starts, row_labels, row_values)

        def count(part: int) -> None:
            kernels.count(bounds[part], bounds[part + 1], row_starts, row_labels, counts[part], pairs[part])

        in_threads(count, parts)
        label_starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))]).astype(np.int64)
        places = label_starts[:-1] + np.cumsum(counts, axis=0) - counts  # where each thread writes its rows of a label
        label_rows, label_values = np.empty(targets.nnz, np.int32), np.empty(len(row_values), np.float32)

        def transpose(part: int) -> None:
            kernels.transpose(bounds[part], bounds[part + 1], by_row, places[part], label_rows, label_values)

        in_threads(transpose, parts)
        mass = np.diff(label_starts).astype(np.float64)
        if not hard:
            mass = np.bincount(row_labels, row_values, minlength=labels).astype(np.float64)
        return cls(mass, pairs.sum(axis=0), label_starts, label_rows, label_values, *by_row)

    @property
    def by_label(self) -> CsrArrays:
        """The rows of each label."""
        return CsrArrays(self.label_starts, self.label_rows, self.label_values)

    @property
    def by_row(self) -> CsrArrays:
        """The labels of each row."""
        return CsrArrays(self.row_starts, self.row_labels, self.row_values)

    def pieces(self, number: int) -> Longs:
        """Bounds of up to `number` ranges of labels with about as many positives each."""
        return _even(self.label_starts, number)

    def ranked(self) -> RankedLabels:
        """The labels of each row by rank; 4 bytes an entry, 8 where targets are soft."""
        order = np.argsort(-self.mass, kind="stable").astype(np.int32)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        row_ranks, values = np.empty(len(self.row_labels), np.int32), np.empty(len(self.row_values), np.float32)
        bounds = _even(self.row_starts, thread_count())

        def work(part: int) -> None:
            kernels.rank_rows(bounds[part], bounds[part + 1], self.by_row, rank, row_ranks, values)

        in_threads(work, range(len(bounds) - 1))
        return RankedLabels(order, -self.mass[order], row_ranks, values)


@dataclass(frozen=True, eq=False)
class RankedLabels:
    """Labels by frequency, the most frequent first, of equals the first."""

    order: Ints  # label of each rank
    falling: Doubles  # minus n_j of each rank
    row_ranks: Ints  # ascending within a row
    row_values: Floats

    def limits(self, mass: Doubles, threshold: float, min_count: float) -> Ints:
        """For labels of this mass, the first rank that is too rare to pass the threshold.

        Args:
            mass: sums of the labels' targets (labels,).
            threshold: smallest share.
            min_count: smallest count.

        Returns:
            (labels,).
        """
        needed = np.maximum(threshold * mass, min_count)
        # At the bound itself a label stays in: the kernel decides there, and rounding cannot lose a pair.
        return np.searchsorted(self.falling, -needed * (1 - 1e-12), side="right").astype(np.int32)


def in_pieces(rows: Callable[[int], Any], pieces: int, columns: int) -> Matrix:
    """A csr matrix whose rows are made piece by piece, in threads.

    Each piece is freed once it is copied: the pieces and the whole are never in memory together.

    Args:
        rows: from the number of a piece to sizes of its rows, columns and values with room to spare, and their number.
        pieces: number of pieces.
        columns: number of columns.

    Returns:
        csr float32 (rows, columns).
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
    """Bounds of up to `number` ranges of rows with about as many entries each."""
    inner = np.searchsorted(starts[1:], np.arange(1, number) * (starts[-1] / number))
    return np.unique(np.concatenate([[0], inner, [len(starts) - 1]])).astype(np.int64)


def symmetric(targets: Matrix, threshold: float = 0.1, max_labels: int | None = None, min_count: float = 0) -> Matrix:
    """The graph of GLaS: S_ij = (G_ij / n_j + G_ij / n_i) / 2 where above the threshold; 1 for a label itself.

    In a pair that passes, one of the two shares is at least the threshold, so both come from the pairs that
    `cooccurrence` keeps. Holds up to twice as many pairs as that before `max_labels` is applied.

    Args:
        targets: csr (rows, labels).
        threshold: smallest S_ij, exclusive.
        max_labels: keep the largest so many of a row; None keeps all.
        min_count: smallest G_ij.

    Returns:
        csr float32 (labels, labels).

    Raises:
        DataError: as `cooccurrence`.
    """
    graph = cooccurrence(targets, threshold, None, min_count, "count")
    mass = np.maximum(np.bincount(targets.indices, targets.data, minlength=targets.shape[1]), 1e-300)
    rows = np.repeat(np.arange(graph.shape[0], dtype=np.int32), np.diff(graph.indptr))
    both = graph.data.astype(np.float64)
    means = 0.5 * (both / mass[rows] + both / mass[graph.indices])
    kept = (means > threshold) & (rows != graph.indices)
    half = sparse.csr_array((means[kept].astype(np.float32), (rows[kept], graph.indices[kept])), shape=graph.shape)
    whole = strongest(half.maximum(half.T).tocsr(), max_labels)
    return sparse.csr_array(whole + sparse.eye_array(graph.shape[0], dtype=np.float32, format="csr"))


def strongest(graph: Matrix, max_entries: int | None) -> Matrix:
    """The largest entries of each row.

    Args:
        graph: csr (rows, columns).
        max_entries: how many of a row to keep, of equals those with the smaller column; None keeps all.

    Returns:
        csr (rows, columns).
    """
    if max_entries is None or np.diff(graph.indptr).max(initial=0) <= max_entries:
        return graph
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    by_value = np.lexsort((graph.indices, -graph.data, rows))
    place = np.arange(len(rows)) - graph.indptr[rows]  # rows are in order before and after
    kept = by_value[place < max_entries]
    chosen = sparse.csr_array((graph.data[kept], (rows[kept], graph.indices[kept])), shape=graph.shape)
    chosen.sort_indices()
    return chosen
