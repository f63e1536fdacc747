"""Norms of the labels' classifiers."""

from __future__ import annotations

import numpy as np

from longtail.arrays import Floats, Matrix
from longtail.linear.trees.beam_search import LabelForest


def leaf_norms(forest: LabelForest) -> Floats:
    """Norm of each label's own classifier, without the bias, mean over the trees.

    A label that is alone in its leaf has no classifier there.

    Args:
        forest: the trees.

    Returns:
        (labels,), NaN where a label has no classifier in any tree.
    """
    norms, trees = np.zeros(forest.labels), np.zeros(forest.labels)
    for node in np.flatnonzero(forest.node_leaf):
        chunks = range(forest.node_chunks[node], forest.node_chunks[node + 1])
        if forest.chunk_children[chunks.stop] - forest.chunk_children[chunks.start] < 2:
            continue
        for chunk in chunks:
            first, last = forest.chunk_children[chunk], forest.chunk_children[chunk + 1]
            begin, end = forest.starts[forest.chunk_features[chunk]]
            weights = forest.weights[begin:end].astype(np.float64) * forest.scales[chunk]
            squares = np.zeros(last - first)  # no weight at all would make whole numbers of them
            squares += np.bincount(forest.which[begin:end], weights**2, minlength=last - first)
            if forest.chunk_dense[chunk] >= 0:
                table = forest.dense[forest.chunk_dense[chunk] :][: forest.dense_columns * (last - first)]
                dense = table.reshape(-1, last - first).astype(np.float64) * forest.scales[chunk]
                squares += (dense**2).sum(axis=0)
            norms[forest.child[first:last]] += np.sqrt(squares)
            trees[forest.child[first:last]] += 1
    return np.divide(norms, trees, out=np.full_like(norms, np.nan), where=trees > 0).astype(np.float32)


def column_norms(index: Matrix) -> Floats:
    """Norm of each label's column of an index.

    Args:
        index: csr (words, labels).

    Returns:
        (labels,), NaN where the column is empty.
    """
    squares = np.bincount(index.indices, index.data.astype(np.float64) ** 2, minlength=index.shape[1])
    return np.where(squares > 0, np.sqrt(squares), np.nan).astype(np.float32)
