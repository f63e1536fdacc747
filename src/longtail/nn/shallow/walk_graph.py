"""The label graph of ECLARE, from random walks."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.arrays import Matrix
from longtail.linear.graph.random_walks import walks


def label_graph(targets: Matrix, steps: int, restart: float, neighbours: int, max_count: int, seed: int) -> Matrix:
    """Build the normalised graph D_r^-1/2 G D_c^-1/2 of the visit counts G of random walks over rows and labels.

    Every label is its own neighbour. Labels with more than `max_count` rows have no other neighbour, since walks from
    everywhere reach them.

    Args:
        targets: (rows, labels).
        steps: of the walk from each label.
        restart: probability to return to the label before the next step.
        neighbours: most visited labels that are kept for each label.
        max_count: rows above which a label is left out of the walks.
        seed: of the walks.

    Returns:
        csr (labels, labels) float32.
    """
    visits = walks(targets, steps=steps, restart=restart, most=neighbours, head=max_count, visits=True, seed=seed)
    self_loops = sparse.diags_array((visits.diagonal() == 0).astype(np.float32), format="csr")
    graph = sparse.csr_array(visits + self_loops)
    graph.eliminate_zeros()
    left, right = (1 / np.sqrt(np.asarray(graph.sum(axis=axis)).ravel()) for axis in (1, 0))
    graph = sparse.csr_array(sparse.diags_array(left) @ graph @ sparse.diags_array(right)).astype(np.float32)
    graph.sort_indices()
    return graph
