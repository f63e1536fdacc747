"""Soft targets from nearness: to each label its nearest labels, and to labels with few rows their nearest documents.

Neighbours are found once, as rows and cosines; targets are cut from them for any number, floor and map to chances, so
that several can be tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Bools, Floats, Ints, Longs, Matrix
from longtail.search.approximate import Approximate, build
from longtail.search.choose import choose
from longtail.search.exact import Exact, Precision

Chances = Callable[[Floats, Ints], Floats]  # of pairs, by cosine and label


class Near(NamedTuple):
    """The nearest of each query, best first, and their cosines: (queries, places); -1 where there are fewer."""

    rows: Ints
    cosines: Floats


def index_of(
    vectors: Any,
    queries: int,
    search: Literal["auto", "exact", "approximate"] = "auto",
    device: str = "cpu",
    precision: Precision | None = None,
) -> Exact | Approximate:
    """Exact search, or a graph where it is asked for or where exact search would take longer. On a GPU the shortlists
    are found in half precision, unless something else is said, and `vectors` may be a tensor that lies there."""
    quick = search == "approximate" or (
        search == "auto" and choose(len(vectors), vectors.shape[1], queries, device).kind == "hnsw"
    )
    if quick:
        return build(vectors, "hnsw")
    return Exact(vectors, precision or ("fp32" if device == "cpu" else "bf16"), device)


def other_labels(index: Exact | Approximate, vectors: Floats, number: int) -> Near:
    """The `number` nearest labels of each label besides itself. Where texts are the same, so are vectors, and the label
    itself need not be the first that is found."""
    if number < 1 or len(vectors) < 2:
        return Near(np.zeros((len(vectors), 0), np.int32), np.zeros((len(vectors), 0), np.float32))
    rows, cosines = index.top(vectors, min(number + 1, len(vectors)))
    own = rows == np.arange(len(vectors), dtype=np.int32)[:, None]
    own[:, -1] |= ~own.any(axis=1)  # more twins than places: the last leaves instead
    shape = len(rows), rows.shape[1] - 1
    return Near(rows[~own].reshape(shape), cosines[~own].reshape(shape))


def missing_rows(targets: Matrix, wanted: int) -> Longs:
    """How many documents each label lacks to have `wanted` positives, its own text counted as one: (labels,)."""
    counts = np.bincount(targets.indices, minlength=targets.shape[1])
    return np.maximum(wanted - 1 - counts, 0).astype(np.int64)


def new_documents(
    index: Exact | Approximate, vectors: Floats, targets: Matrix, excluded: Matrix | None, wanted: int
) -> Near:
    """For each label (labels, places) the nearest documents that make up what it lacks, none of which has it already
    or must not have it."""
    lacking = missing_rows(targets, wanted)
    asked = np.flatnonzero(lacking)
    places = min(wanted, targets.shape[0])
    if not len(asked) or wanted < 2:
        return Near(np.zeros((len(vectors), 0), np.int32), np.zeros((len(vectors), 0), np.float32))
    found, nearness = index.top(vectors[asked], places)
    kept = (found >= 0) & ~_stands(targets, found, asked)
    if excluded is not None:
        kept &= ~_stands(excluded, found, asked)
    kept &= np.cumsum(kept, axis=1) <= lacking[asked][:, None]
    rows = np.full((len(vectors), found.shape[1]), -1, dtype=np.int32)
    cosines = np.zeros(rows.shape, dtype=np.float32)
    rows[asked], cosines[asked] = np.where(kept, found, -1), nearness
    return Near(rows, cosines)


def label_targets(near: Near, number: int, floor: float, chances: Chances, share: float) -> Matrix:
    """Targets (labels, labels) of rows that hold the labels' texts: 1 for the label itself, share x chance for the
    nearest others, until the row has `number` labels or similarity (1 + cosine) / 2 falls below the floor."""
    labels = len(near.rows)
    near = Near(near.rows[:, : number - 1], near.cosines[:, : number - 1])
    soft = _entries(near, near.rows, floor, chances, share, labels)
    own = sparse.csr_array(
        (np.ones(labels, np.float32), np.arange(labels, dtype=np.int32), np.arange(labels + 1)), shape=(labels, labels)
    )
    return own + soft  # a label is not among its own others, so no two entries meet


def twin_targets(targets: Matrix, excluded: Matrix | None) -> Matrix:
    """Targets (labels, labels) of rows that hold the labels' texts, from rows that are about the label itself.

    Such a row must not have the label, which is how it is known (excluded pairs). What it has instead is true of the
    label's text as well: each label gets, as the share of its own rows that have them, their labels.
    """
    labels = targets.shape[1]
    if excluded is None:
        return sparse.csr_array((labels, labels), dtype=np.float32)
    own = sparse.csr_array(excluded.T, dtype=np.float32)
    own.data /= np.repeat(np.diff(own.indptr), np.diff(own.indptr))
    found = sparse.csr_array(own @ targets, dtype=np.float32)
    np.minimum(found.data, 1, out=found.data)  # shares add up to 1 but for rounding
    return found


def document_targets(near: Near, documents: int, floor: float, chances: Chances, share: float) -> Matrix:
    """Soft entries (documents, labels) for the documents that labels were given."""
    labels = np.broadcast_to(np.arange(len(near.rows), dtype=np.int32)[:, None], near.rows.shape)
    return sparse.csr_array(_entries(near, labels, floor, chances, share, documents).T)


def _entries(near: Near, labels: Ints, floor: float, chances: Chances, share: float, width: int) -> Matrix:
    kept = (near.rows >= 0) & (near.cosines >= np.float32(2 * floor - 1))
    rows = np.nonzero(kept)[0]
    values = (np.float32(share) * chances(near.cosines[kept], labels[kept])).astype(np.float32)
    real = values > 0
    pairs = rows[real], near.rows[kept][real]
    return sparse.csr_array((values[real], pairs), shape=(len(near.rows), width))


def _stands(matrix: Matrix, rows: Ints, columns: AnyArray) -> Bools:
    """Which of the pairs (rows[i, j], columns[i]) have an entry. The columns of a row stand in order, as data sets keep
    them, so pairs are looked up and not sorted."""
    if matrix.nnz == 0:
        return np.zeros(rows.shape, dtype=np.bool_)
    width = np.int64(matrix.shape[1])
    known = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr)) * width + matrix.indices
    pairs = rows.astype(np.int64) * width + columns[:, None]
    places = np.searchsorted(known, pairs.ravel()).reshape(pairs.shape)
    found: Bools = known[np.minimum(places, len(known) - 1)] == pairs
    return found
