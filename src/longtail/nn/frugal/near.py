"""The labels that are hard to tell from a row's own: near its vector, or on rows like it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints, Matrix
from longtail.linear.cooccurrence import strongest
from longtail.nn.towers import unit
from longtail.search.exact import top_k

LIKE = 20  # training rows that vote


def shortlists(vectors: Floats, targets: Matrix, some: int, votes: float, device: str = "cpu") -> Ints:
    """At most `some` labels for each training row (rows, some), best first, -1 where there are fewer: by
    (1 - votes) x cosine to the mean of a label's rows + votes x the weighted count of the label on like rows, the
    largest of a row being 1. What a row has itself may be among them."""
    rows, means = unit(vectors), unit(targets.T.tocsr() @ vectors)
    near, cosines = top_k(rows, means, min(some, len(means)), device=device)
    scores = _matrix(near, np.maximum(cosines, 1e-6) * np.float32(1 - votes), len(means))
    if votes > 0:
        like, weights = top_k(rows, rows, min(LIKE + 1, len(rows)), device=device)
        others = like != np.arange(len(rows))[:, None]
        weights = np.where(others, np.maximum(weights, 0), 0).astype(np.float32)
        counted = (_matrix(like, weights, len(rows)) @ targets).tocsr()
        largest = np.maximum(counted.max(axis=1).toarray().ravel(), 1e-9)
        shares = np.float32(votes) / np.repeat(largest, np.diff(counted.indptr))
        scores = (
            scores + sparse.csr_array((counted.data * shares, counted.indices, counted.indptr), counted.shape)
        ).tocsr()
    kept = strongest(scores, some)
    sizes = np.diff(kept.indptr)
    held = np.arange(some) < sizes[:, None]
    found = np.full(held.shape, -1, dtype=np.int32)
    found[held] = kept.indices
    return found


def _matrix(columns: Ints, values: Floats, width: int) -> Matrix:
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    found = sparse.csr_array((values.flatten(), columns.flatten(), starts), shape=(len(columns), width))
    found.sort_indices()
    return found
