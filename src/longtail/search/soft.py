"""Soft targets from neighbours: each label gets its nearest labels, and a rare label its nearest documents.

Neighbours are found once, as rows and cosines. Targets are cut from them for any number, floor and map to
probabilities, so that several settings can be tried.
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

ToProbability = Callable[[Floats, Ints], Floats]  # cosines and labels of pairs -> their probabilities


class Neighbours(NamedTuple):
    """The nearest neighbours of each query, best first."""

    rows: Ints  # (queries, places); -1 where there are fewer
    cosines: Floats  # (queries, places)


def index_of(
    vectors: Any,
    queries: int,
    search: Literal["auto", "exact", "approximate"] = "auto",
    device: str = "cpu",
    precision: Precision | None = None,
) -> Exact | Approximate:
    """Build an exact index, or an approximate one where that is asked for or faster.

    Args:
        vectors: (rows, dimension), an array, or a tensor on the device.
        queries: number of queries to come.
        search: `exact`, `approximate`, or `auto` for the one that costs less.
        device: of exact search.
        precision: of exact search; None is fp32 on the CPU and bf16 on a GPU.

    Returns:
        The index.
    """
    approximate = search == "approximate" or (
        search == "auto" and choose(len(vectors), vectors.shape[1], queries, device).kind == "hnsw"
    )
    if approximate:
        return build(vectors, "hnsw")
    return Exact(vectors, precision or ("fp32" if device == "cpu" else "bf16"), device)


def other_labels(index: Exact | Approximate, vectors: Floats, number: int) -> Neighbours:
    """Find the nearest labels of each label besides itself.

    Args:
        index: over the label vectors.
        vectors: (labels, dimension) unit-norm.
        number: neighbours of each label.

    Returns:
        Neighbours (labels, number), fewer places where there are fewer labels.
    """
    if number < 1 or len(vectors) < 2:
        return Neighbours(np.zeros((len(vectors), 0), np.int32), np.zeros((len(vectors), 0), np.float32))
    rows, cosines = index.top(vectors, min(number + 1, len(vectors)))
    own = rows == np.arange(len(vectors), dtype=np.int32)[:, None]
    # Labels with the same text have the same vector. Where more of them than places come before the label itself, it is
    # not found, and the last neighbour is dropped instead.
    own[:, -1] |= ~own.any(axis=1)
    shape = len(rows), rows.shape[1] - 1
    return Neighbours(rows[~own].reshape(shape), cosines[~own].reshape(shape))


def missing_rows(targets: Matrix, positives: int) -> Longs:
    """Count the documents that each label lacks. Its own text counts as one positive.

    Args:
        targets: (rows, labels).
        positives: positives that each label should have.

    Returns:
        (labels,) int64.
    """
    counts = np.bincount(targets.indices, minlength=targets.shape[1])
    return np.maximum(positives - 1 - counts, 0).astype(np.int64)


def new_documents(
    index: Exact | Approximate, vectors: Floats, targets: Matrix, excluded: Matrix | None, positives: int
) -> Neighbours:
    """Find, for each label with too few positives, the nearest documents that fill the gap.

    Args:
        index: over the document vectors.
        vectors: (labels, dimension) unit-norm.
        targets: (rows, labels); documents that have the label already are left out.
        excluded: (rows, labels); so are documents that must not have it.
        positives: positives that each label should have.

    Returns:
        Neighbours (labels, places).
    """
    missing = missing_rows(targets, positives)
    rare = np.flatnonzero(missing)
    places = min(positives, targets.shape[0])
    if not len(rare) or positives < 2:
        return Neighbours(np.zeros((len(vectors), 0), np.int32), np.zeros((len(vectors), 0), np.float32))
    found, similarity = index.top(vectors[rare], places)
    kept = (found >= 0) & ~_has_entry(targets, found, rare)
    if excluded is not None:
        kept &= ~_has_entry(excluded, found, rare)
    kept &= np.cumsum(kept, axis=1) <= missing[rare][:, None]
    rows = np.full((len(vectors), found.shape[1]), -1, dtype=np.int32)
    cosines = np.zeros(rows.shape, dtype=np.float32)
    rows[rare], cosines[rare] = np.where(kept, found, -1), similarity
    return Neighbours(rows, cosines)


def label_targets(near: Neighbours, number: int, floor: float, probability: ToProbability, share: float) -> Matrix:
    """Make targets for rows that hold the labels' texts: 1 for the label itself, share x probability for its nearest.

    Args:
        near: the nearest other labels of each label.
        number: labels of a row, itself included.
        floor: similarity (1 + cosine) / 2 below which neighbours are dropped.
        probability: map of cosines to probabilities.
        share: factor on the probabilities.

    Returns:
        Targets (labels, labels) float32.
    """
    labels = len(near.rows)
    near = Neighbours(near.rows[:, : number - 1], near.cosines[:, : number - 1])
    soft = _entries(near, near.rows, floor, probability, share, labels)
    own = sparse.csr_array(
        (np.ones(labels, np.float32), np.arange(labels, dtype=np.int32), np.arange(labels + 1)), shape=(labels, labels)
    )
    return own + soft  # a label is not its own neighbour, so no two entries meet


def twin_targets(targets: Matrix, excluded: Matrix | None) -> Matrix:
    """Make targets for rows that hold the labels' texts, from documents that are the label itself.

    In data sets where documents are labels too, the pair of a document and itself is excluded; that is how it is found.
    The labels of such a document hold for the label's text as well. A label gets each of them with the share of its
    documents that have it.

    Args:
        targets: (rows, labels).
        excluded: (rows, labels) pairs, or None.

    Returns:
        Targets (labels, labels) float32; empty without excluded pairs.
    """
    labels = targets.shape[1]
    if excluded is None:
        return sparse.csr_array((labels, labels), dtype=np.float32)
    own = sparse.csr_array(excluded.T, dtype=np.float32)
    own.data /= np.repeat(np.diff(own.indptr), np.diff(own.indptr))
    found = sparse.csr_array(own @ targets, dtype=np.float32)
    np.minimum(found.data, 1, out=found.data)  # rounding can put a sum of shares above 1
    return found


def document_targets(
    near: Neighbours, documents: int, floor: float, probability: ToProbability, share: float
) -> Matrix:
    """Make soft targets for the documents that `new_documents` found.

    Args:
        near: the documents of each label.
        documents: number of all documents.
        floor: similarity (1 + cosine) / 2 below which neighbours are dropped.
        probability: map of cosines to probabilities.
        share: factor on the probabilities.

    Returns:
        Targets (documents, labels) float32.
    """
    labels = np.broadcast_to(np.arange(len(near.rows), dtype=np.int32)[:, None], near.rows.shape)
    return sparse.csr_array(_entries(near, labels, floor, probability, share, documents).T)


def _entries(
    near: Neighbours, labels: Ints, floor: float, probability: ToProbability, share: float, width: int
) -> Matrix:
    kept = (near.rows >= 0) & (near.cosines >= np.float32(2 * floor - 1))
    rows = np.nonzero(kept)[0]
    values = (np.float32(share) * probability(near.cosines[kept], labels[kept])).astype(np.float32)
    real = values > 0
    pairs = rows[real], near.rows[kept][real]
    return sparse.csr_array((values[real], pairs), shape=(len(near.rows), width))


def _has_entry(matrix: Matrix, rows: Ints, columns: AnyArray) -> Bools:
    """Which of the pairs (rows[i, j], columns[i]) have an entry, by binary search: data sets keep the columns of a row
    sorted."""
    if matrix.nnz == 0:
        return np.zeros(rows.shape, dtype=np.bool_)
    width = np.int64(matrix.shape[1])
    known = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr)) * width + matrix.indices
    pairs = rows.astype(np.int64) * width + columns[:, None]
    places = np.searchsorted(known, pairs.ravel()).reshape(pairs.shape)
    found: Bools = known[np.minimum(places, len(known) - 1)] == pairs
    return found
