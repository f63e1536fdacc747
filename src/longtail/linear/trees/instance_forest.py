"""Forests of trees over examples: grown in threads, searched in prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Matrix
from longtail.linear.csr_arrays import CsrArrays, csr_arrays
from longtail.linear.features.sparse_features import matrix_from, matrix_state
from longtail.linear.features.sparse_top import sparse_top_arrays
from longtail.linear.trees.instance_tree import Growth, Tree, grow
from longtail.seams import Array, Contents, Declaration, Misfit, csr
from longtail.threads import in_threads, over_rows


def grow_forest(
    vectors: Matrix,
    targets: Matrix,
    gains: Floats,
    growth: Growth,
    number: int,
    seed: int,
    advance: Callable[[int], None],
) -> InstanceForest:
    """Grow trees over the same rows. Each has its own seed, so the result does not depend on the threads.

    Args:
        vectors: csr (rows, features).
        targets: csr (rows, labels).
        gains: what the splits count for each entry of `targets`.
        growth: settings of a tree.
        number: of trees.
        seed: of the forest.
        advance: called with 1 after each tree.

    Returns:
        The forest.
    """
    trees: dict[int, tuple[Tree, Matrix]] = {}

    def work(place: int) -> None:
        tree = grow(vectors, targets, gains, growth, seed * 1_000_003 + place)
        trees[place] = tree, leaf_means(tree, targets, growth.leaf_labels)
        advance(1)

    in_threads(work, range(number))
    return InstanceForest.of([trees[place] for place in range(number)])


@dataclass(frozen=True, eq=False)
class InstanceForest:
    """Trees with their nodes and leaves in common arrays. A row is predicted by the mean over the leaves it reaches."""

    roots: Ints  # (trees,), coded as in Tree
    children: Ints  # (nodes, 2)
    biases: Floats  # (nodes,)
    weights: Matrix  # (nodes, features)
    leaves: Matrix  # (leaves, labels)

    @classmethod
    def of(cls, trees: list[tuple[Tree, Matrix]]) -> InstanceForest:
        """The forest of trees, each with the mean targets of its leaves (leaves, labels)."""
        nodes = np.cumsum([0, *(len(tree.biases) for tree, _ in trees)])
        leaves = np.cumsum([0, *(means.shape[0] for _, means in trees)])

        def renumbered(codes: AnyArray, number: int) -> Ints:
            result: Ints = np.where(codes >= 0, codes + nodes[number], codes - leaves[number]).astype(np.int32)
            return result

        return cls(
            np.concatenate([renumbered(np.array([tree.root]), number) for number, (tree, _) in enumerate(trees)]),
            np.concatenate([renumbered(tree.children, number) for number, (tree, _) in enumerate(trees)]),
            np.concatenate([tree.biases for tree, _ in trees]),
            sparse.vstack([tree.weights for tree, _ in trees], format="csr"),
            sparse.vstack([means for _, means in trees], format="csr"),
        )

    @cached_property
    def _weight_arrays(self) -> CsrArrays:
        return csr_arrays(self.weights)

    @cached_property
    def _leaf_arrays(self) -> CsrArrays:
        return csr_arrays(self.leaves)

    def reached(self, vectors: Matrix) -> Ints:
        """The leaf of each row in each tree.

        Args:
            vectors: csr (rows, features), columns ascending.

        Returns:
            (rows, trees).
        """
        found = np.empty((vectors.shape[0], len(self.roots)), dtype=np.int32)
        rows, weights = csr_arrays(vectors), self._weight_arrays

        def work(begin: int, end: int) -> None:
            _route(begin, end, rows, vectors.shape[1], self.roots, self.children, self.biases, weights, found)

        over_rows(work, vectors.shape[0])
        return found

    def top(self, vectors: Matrix, k: int) -> tuple[Ints, Floats]:
        """The best labels of each row. A row without a single known feature gets none, because it would reach the same
        leaves as any other such row.

        Args:
            vectors: csr (rows, features), columns ascending.
            k: labels for each row.

        Returns:
            Labels and scores (rows, k), as `sparse_top`.
        """
        trees = len(self.roots)
        filled = np.diff(vectors.indptr) > 0
        near = self.reached(vectors)[filled]
        starts = np.concatenate([[0], np.cumsum(filled * trees)])
        votes = np.full(near.size, 1 / trees, dtype=np.float32)
        reached = sparse.csr_array((votes, near.ravel(), starts), (vectors.shape[0], self.leaves.shape[0]))
        return sparse_top_arrays(reached, self._leaf_arrays, self.leaves.shape[1], k)

    def state(self) -> dict[str, AnyArray]:
        """The forest as tensors."""
        tensors = {"roots": self.roots, "children": self.children, "biases": self.biases}
        return {**tensors, **matrix_state("weights", self.weights), **matrix_state("leaves", self.leaves)}

    @classmethod
    def restore(cls, tensors: dict[str, AnyArray]) -> InstanceForest:
        """The forest from the tensors of `state`; they are as `INSTANCE_FOREST` declares."""
        weights, leaves = matrix_from("weights", tensors), matrix_from("leaves", tensors)
        return cls(tensors["roots"], tensors["children"], tensors["biases"], weights, leaves)


def _one_path_to_each(stored: Contents) -> None:
    """Every node and every leaf has one way in, from an earlier node or a root: so paths end, and never meet."""
    roots, children = stored.tensors["roots"], stored.tensors["children"]
    nodes, leaves = stored.sizes["nodes"], stored.sizes["leaves"]
    earlier = (children >= 0) & (children <= np.arange(nodes, dtype=np.int32)[:, None])
    if earlier.any():
        raise Misfit("children", "has a node that leads to an earlier one")
    if not len(roots):
        raise Misfit("roots", "has no tree")
    codes = np.concatenate([roots, children.ravel()])
    if len(codes) != nodes + leaves or codes.max(initial=-1) >= nodes or codes.min(initial=0) < -leaves:
        raise Misfit("children", f"leads {len(codes)} ways to {nodes} nodes and {leaves} leaves")
    if (np.bincount(codes.astype(np.int64) + leaves, minlength=nodes + leaves) != 1).any():
        raise Misfit("children", "leads to a node or a leaf twice, and to another never")


INSTANCE_FOREST = (  # of what `InstanceForest.state` returns
    csr("weights", "nodes", "columns", ascending=True)
    + csr("leaves", "leaves", "labels", least=0)
    + Declaration(
        {
            "roots": Array("int32", "trees"),
            "children": Array("int32", "nodes, 2"),
            "biases": Array("float32", "nodes"),
        },
        checks=(_one_path_to_each,),
    )
)


def leaf_means(tree: Tree, targets: Matrix, keep: int) -> Matrix:
    """The mean targets of each leaf's rows.

    Args:
        tree: the tree.
        targets: csr (rows, labels).
        keep: how many labels of a leaf to keep, the largest means.

    Returns:
        csr (leaves, labels).
    """
    sizes = np.diff(tree.bounds)
    share = np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32)
    picks = sparse.csr_array((share, tree.members, tree.bounds), shape=(len(sizes), targets.shape[0]))
    means = (picks @ targets).tocsr()
    if np.diff(means.indptr).max(initial=0) > keep:
        rows = np.repeat(np.arange(means.shape[0]), np.diff(means.indptr))
        order = np.lexsort((means.indices, -means.data, rows))
        best = order[np.arange(len(order)) - means.indptr[rows] < keep]
        best.sort()
        starts = np.concatenate([[0], np.cumsum(np.minimum(np.diff(means.indptr), keep))])
        means = sparse.csr_array((means.data[best], means.indices[best], starts), shape=means.shape)
    means.sort_indices()
    return means


@njit(nogil=True, cache=True)
def _route(begin, end, rows, features, roots, children, biases, weights, found):  # type: ignore[no-untyped-def]
    # Safe: INSTANCE_FOREST holds nodes, leaves and columns inside their arrays, and `_one_path_to_each` makes every
    # path end; `Features` gives rows over the same columns.
    row_starts, row_columns, row_values = rows
    starts, columns, values = weights
    dense = np.zeros(features, dtype=np.float32)
    for row in range(begin, end):
        first, last = row_starts[row], row_starts[row + 1]
        for entry in range(first, last):
            dense[row_columns[entry]] = row_values[entry]
        for tree in range(len(roots)):
            node = roots[tree]
            while node >= 0:
                margin = np.float64(biases[node])
                low, high = starts[node], starts[node + 1]
                if high - low <= 16 * (last - first):
                    for spot in range(low, high):
                        margin += np.float64(values[spot]) * np.float64(dense[columns[spot]])
                else:  # many weights, few words: search the words; the same terms are added in the same order
                    for entry in range(first, last):
                        column, end_of = row_columns[entry], high
                        while low < end_of:
                            middle = (low + end_of) // 2
                            if columns[middle] < column:
                                low = middle + 1
                            else:
                                end_of = middle
                        if low < high and columns[low] == column:
                            margin += np.float64(values[low]) * np.float64(row_values[entry])
                node = children[node, 1 if margin > 0 else 0]
            found[row, tree] = ~node
        for entry in range(first, last):
            dense[row_columns[entry]] = 0
