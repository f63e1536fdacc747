"""Trees over rows put together: grown in threads, walked in prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Matrix
from longtail.linear.instance_tree import Growth, Tree, grow, plain
from longtail.linear.text import matrix_from, matrix_state
from longtail.linear.top import Plain, held_top, hold
from longtail.threads import in_threads, over_rows


def grow_forest(
    vectors: Matrix,
    targets: Matrix,
    gains: Floats,
    growth: Growth,
    number: int,
    seed: int,
    advance: Callable[[int], None],
) -> Forest:
    """This many trees over the same rows. Each has its own random start, so threads do not change what grows."""
    trees: dict[int, tuple[Tree, Matrix]] = {}

    def work(place: int) -> None:
        tree = grow(vectors, targets, gains, growth, seed * 1_000_003 + place)
        trees[place] = tree, leaf_means(tree, targets, growth.leaf_labels)
        advance(1)

    in_threads(work, range(number))
    return Forest.of([trees[place] for place in range(number)])


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees side by side, their nodes and leaves in one row. A row's answer is the mean over the leaves it reaches."""

    roots: Ints  # (trees,), coded as in Tree
    children: Ints  # (nodes, 2)
    biases: Floats  # (nodes,)
    weights: Matrix  # (nodes, features)
    leaves: Matrix  # (leaves, labels)

    @classmethod
    def of(cls, trees: list[tuple[Tree, Matrix]]) -> Forest:
        """Trees, each with the mean targets of its leaves (leaves, labels)."""
        nodes = np.cumsum([0, *(len(tree.biases) for tree, _ in trees)])
        leaves = np.cumsum([0, *(means.shape[0] for _, means in trees)])

        def moved(codes: AnyArray, number: int) -> Ints:
            result: Ints = np.where(codes >= 0, codes + nodes[number], codes - leaves[number]).astype(np.int32)
            return result

        return cls(
            np.concatenate([moved(np.array([tree.root]), number) for number, (tree, _) in enumerate(trees)]),
            np.concatenate([moved(tree.children, number) for number, (tree, _) in enumerate(trees)]),
            np.concatenate([tree.biases for tree, _ in trees]),
            sparse.vstack([tree.weights for tree, _ in trees], format="csr"),
            sparse.vstack([means for _, means in trees], format="csr"),
        )

    @cached_property
    def _held(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        return plain(self.weights.indptr, self.weights.indices, self.weights.data)

    @cached_property
    def _answers(self) -> Plain:
        return hold(self.leaves)

    def reached(self, vectors: Matrix) -> Ints:
        """The leaf of each row in each tree: (rows, trees). The columns of a row rise, as those of the weights do."""
        found = np.empty((vectors.shape[0], len(self.roots)), dtype=np.int32)
        asked = plain(vectors.indptr, vectors.indices, vectors.data)

        def work(begin: int, end: int) -> None:
            _route(begin, end, *asked, vectors.shape[1], self.roots, self.children, self.biases, *self._held, found)

        over_rows(work, vectors.shape[0])
        return found

    def top(self, vectors: Matrix, k: int) -> tuple[Ints, Floats]:
        """The k best labels of each row. A row without a single known feature gets none: it says nothing."""
        trees = len(self.roots)
        told = np.diff(vectors.indptr) > 0
        near = self.reached(vectors)[told]
        starts = np.concatenate([[0], np.cumsum(told * trees)])
        votes = np.full(near.size, 1 / trees, dtype=np.float32)
        reached = sparse.csr_array((votes, near.ravel(), starts), (vectors.shape[0], self.leaves.shape[0]))
        return held_top(reached, self._answers, self.leaves.shape[1], k)

    def state(self) -> dict[str, AnyArray]:
        tensors = {"roots": self.roots, "children": self.children, "biases": self.biases}
        return {**tensors, **matrix_state("weights", self.weights), **matrix_state("leaves", self.leaves)}

    @classmethod
    def restore(cls, tensors: dict[str, AnyArray]) -> Forest:
        """The forest of `state`; one whose nodes lead in circles or nowhere is refused, because kernels trust it."""
        weights, leaves = matrix_from("weights", tensors), matrix_from("leaves", tensors)
        roots, children, biases = tensors["roots"], tensors["children"], tensors["biases"]
        nodes = len(biases)
        if children.shape != (nodes, 2) or weights.shape[0] != nodes:
            raise ValueError(f"a forest of {nodes} nodes has {children.shape} children")
        codes = np.concatenate([roots, children.ravel()])
        onward = (children < 0) | (children > np.arange(nodes)[:, None])
        if codes.max(initial=-1) >= nodes or codes.min(initial=0) < -leaves.shape[0] or not onward.all():
            raise ValueError("a forest with a node that leads nowhere")
        return cls(roots, children, biases, weights, leaves)


def leaf_means(tree: Tree, targets: Matrix, keep: int) -> Matrix:
    """The mean targets of each leaf's rows, only the `keep` largest: csr (leaves, labels)."""
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
def _route(  # type: ignore[no-untyped-def]
    begin, end, x_starts, x_columns, x_values, features, roots, children, biases, starts, columns, values, found
):  # fmt: skip
    dense = np.zeros(features, dtype=np.float32)
    for row in range(begin, end):
        first, last = x_starts[row], x_starts[row + 1]
        for entry in range(first, last):
            dense[x_columns[entry]] = x_values[entry]
        for tree in range(len(roots)):
            node = roots[tree]
            while node >= 0:
                margin = np.float64(biases[node])
                low, high = starts[node], starts[node + 1]
                if high - low <= 16 * (last - first):
                    for spot in range(low, high):
                        margin += np.float64(values[spot]) * np.float64(dense[columns[spot]])
                else:  # many weights, few words: look the words up; the sum runs over the same terms in the same order
                    for entry in range(first, last):
                        column, end_of = x_columns[entry], high
                        while low < end_of:
                            middle = (low + end_of) // 2
                            if columns[middle] < column:
                                low = middle + 1
                            else:
                                end_of = middle
                        if low < high and columns[low] == column:
                            margin += np.float64(values[low]) * np.float64(x_values[entry])
                node = children[node, 1 if margin > 0 else 0]
            found[row, tree] = ~node
        for entry in range(first, last):
            dense[x_columns[entry]] = 0
