"""Hard negatives of each training row: labels near its vector, and labels of similar rows."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints, Matrix
from longtail.linear.graph.cooccurrence import strongest
from longtail.nn.encoders.text_encoder import normalised
from longtail.search.exact import top_k

VOTERS = 20  # similar training rows that vote


def shortlists(vectors: Floats, targets: Matrix, size: int, vote_weight: float, device: str = "cpu") -> Ints:
    """Find the labels that are hardest to tell from each training row's own.

    The score of a label is (1 - vote_weight) x cosine to the mean of its rows + vote_weight x its weighted count on
    similar rows, scaled to a maximum of 1 in each row. A row's own labels may be among them.

    Args:
        vectors: (rows, dimension) of the training rows.
        targets: (rows, labels).
        size: labels of a shortlist.
        vote_weight: of the labels of similar rows, in [0, 1].
        device: of the search.

    Returns:
        Labels (rows, size) int32, best first, -1 where there are fewer.
    """
    rows, means = normalised(vectors), normalised(targets.T.tocsr() @ vectors)
    near, cosines = top_k(rows, means, min(size, len(means)), device=device)
    scores = _matrix(near, np.maximum(cosines, 1e-6) * np.float32(1 - vote_weight), len(means))
    if vote_weight > 0:
        similar, weights = top_k(rows, rows, min(VOTERS + 1, len(rows)), device=device)
        others = similar != np.arange(len(rows))[:, None]
        weights = np.where(others, np.maximum(weights, 0), 0).astype(np.float32)
        votes = (_matrix(similar, weights, len(rows)) @ targets).tocsr()
        largest = np.maximum(votes.max(axis=1).toarray().ravel(), 1e-9)
        shares = np.float32(vote_weight) / np.repeat(largest, np.diff(votes.indptr))
        scores = (scores + sparse.csr_array((votes.data * shares, votes.indices, votes.indptr), votes.shape)).tocsr()
    kept = strongest(scores, size)
    filled = np.arange(size) < np.diff(kept.indptr)[:, None]
    found = np.full(filled.shape, -1, dtype=np.int32)
    found[filled] = kept.indices
    return found


def _matrix(columns: Ints, values: Floats, width: int) -> Matrix:
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    found = sparse.csr_array((values.flatten(), columns.flatten(), starts), shape=(len(columns), width))
    found.sort_indices()
    return found
