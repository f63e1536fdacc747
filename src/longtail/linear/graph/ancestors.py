"""Labels above and below others in the hierarchy of a vocabulary."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Ints, Longs, Matrix
from longtail.linear.graph.ancestor_kernels import change_answers


def ancestors(broader: Matrix, depth: int, factor: float = 1.0) -> Matrix:
    """Find the labels above each label.

    Args:
        broader: (labels, labels), an entry where the column's label is one step above the row's.
        depth: steps that are followed at most.
        factor: multiplied in at each step after the first.

    Returns:
        csr float32 (labels, labels): factor^(steps - 1) by the shortest way; no label is above itself.
    """
    size = broader.shape[0]
    step = sparse.csr_array((np.ones(broader.nnz, np.float32), broader.indices, broader.indptr), shape=broader.shape)
    reached = sparse.csr_array(sparse.eye_array(size, dtype=np.float32))  # a ring leads back, and is not followed
    last, found = step, sparse.csr_array((size, size), dtype=np.float32)
    for distance in range(depth):
        new = sparse.csr_array(last > 0).astype(np.float32)
        new = sparse.csr_array(new - new.multiply(reached > 0))
        new.eliminate_zeros()
        if new.nnz == 0:
            break
        found = sparse.csr_array(found + np.float32(factor**distance) * new)
        reached = sparse.csr_array(reached + new)
        last = sparse.csr_array(new @ step)
    found.sort_indices()
    return found


def with_linked(targets: Matrix, links: Matrix) -> Matrix:
    """Add soft targets for labels that are linked to a row's own.

    Args:
        targets: csr (rows, labels) in (0, 1].
        links: csr (labels, labels) in (0, 1]: the share of a label's target that another gets.

    Returns:
        csr float32 (rows, labels): the larger of a label's own target and the largest that a link gives it.
    """
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    counts = np.diff(links.indptr)[targets.indices]
    total = int(counts.sum())
    first = np.repeat(links.indptr[targets.indices] - (np.cumsum(counts) - counts), counts)
    entries = np.arange(total) + first
    row = np.concatenate([rows, np.repeat(rows, counts)])
    label = np.concatenate([targets.indices, links.indices[entries]])
    value = np.concatenate([targets.data, np.repeat(targets.data, counts) * links.data[entries]]).astype(np.float32)
    order = np.lexsort((-value, label, row))
    row, label, value = row[order], label[order], value[order]
    largest = np.ones(len(row), dtype=np.bool_)
    largest[1:] = (row[1:] != row[:-1]) | (label[1:] != label[:-1])
    starts = np.concatenate([[0], np.cumsum(np.bincount(row[largest], minlength=targets.shape[0]))])
    return sparse.csr_array((value[largest], label[largest], starts), shape=targets.shape)


def answers_with_ancestors(
    indices: Ints, scores: Floats, starts: Longs, above: Longs, excluded: bool
) -> tuple[Ints, Floats]:
    """Raise the labels above others in a ranking, or drop them.

    Args:
        indices: (rows, places) label rows, -1 = no label.
        scores: (rows, places).
        starts: (labels + 1,) where the labels above each begin in `above`.
        above: (pairs,) labels above, in rising order for each label.
        excluded: drops a label that scores no more than one below it; otherwise it gets just less than the score of
            that one, where that is higher.

    Returns:
        New labels and scores, in the order they had.
    """
    new_indices, new_scores = np.ascontiguousarray(indices).copy(), np.ascontiguousarray(scores).copy()
    change_answers(
        np.ascontiguousarray(indices), np.ascontiguousarray(scores), starts, above, excluded, new_indices, new_scores
    )
    return new_indices, new_scores
