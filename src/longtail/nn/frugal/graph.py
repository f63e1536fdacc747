"""The label graph of ECLARE."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.arrays import Matrix
from longtail.linear.walks import walks


def label_graph(targets: Matrix, steps: int, restart: float, most: int, common: int, seed: int) -> Matrix:
    """D_r^-1/2 G D_c^-1/2 of the visits G of random walks, the `most` visited labels of each: csr (labels, labels).

    Every label is its own neighbour. Labels with more than `common` rows have no other, since walks from everywhere
    meet them.
    """
    visits = walks(targets, steps=steps, restart=restart, most=most, head=common, visits=True, seed=seed)
    lonely = sparse.diags_array((visits.diagonal() == 0).astype(np.float32), format="csr")
    graph = sparse.csr_array(visits + lonely)
    graph.eliminate_zeros()
    down, across = (1 / np.sqrt(np.asarray(graph.sum(axis=axis)).ravel()) for axis in (1, 0))
    graph = sparse.csr_array(sparse.diags_array(down) @ graph @ sparse.diags_array(across)).astype(np.float32)
    graph.sort_indices()
    return graph
