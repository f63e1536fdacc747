from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus
from longtail.learners.dismec import Dismec
from longtail.learners.parabel import Parabel
from longtail.linear.trees.beam_search import ForestMaker, LabelForest
from longtail.linear.trees.classifier_norms import column_norms, leaf_norms
from longtail.linear.trees.train_tree import Chunk


def chunk(level: int, parent: int, first: int, weights: list[list[float]]) -> Chunk:
    """`weights` by feature: a list over the children for each."""
    held = sparse.csr_array(np.array(weights, dtype=np.float32))
    return Chunk(
        level=level,
        parent=parent,
        first=first,
        bias=np.full(held.shape[1], 9.0, dtype=np.float32),
        features=np.arange(held.shape[0], dtype=np.int32),
        starts=held.indptr.astype(np.int64),
        children=held.indices.astype(np.uint8),
        weights=held.data,
    )


def forest_of(*trees: tuple[list[Chunk], list[np.ndarray], np.ndarray]) -> LabelForest:
    maker = ForestMaker()
    for chunks, levels, order in trees:
        maker.begin_tree(order, levels)
        for one in chunks:
            maker.keep(one)
    return maker.finish()


def test_hand_worked_trees() -> None:
    # Tree 1: root over {label 2, label 0} and {label 1 alone}. Tree 2: the root has all three labels.
    root = chunk(0, 0, 0, [[50.0, 60.0], [0.0, 70.0]])
    pair = chunk(1, 0, 0, [[3.0, 0.0], [4.0, 0.0], [0.0, -2.0]])
    alone = chunk(1, 1, 2, [[8.0]])
    flat = chunk(0, 0, 0, [[0.0, 6.0, 1.0], [0.0, 8.0, 2.0], [0.0, 0.0, 2.0]])
    first = ([root, pair, alone], [np.array([0, 3]), np.array([0, 2, 3])], np.array([2, 0, 1], dtype=np.int32))
    second = ([flat], [np.array([0, 3])], np.array([0, 1, 2], dtype=np.int32))
    # label 0: 2 and 0; label 1: only in the second tree, 10; label 2: 5 and 3
    assert leaf_norms(forest_of(first, second)) == pytest.approx([1.0, 10.0, 4.0], rel=1e-4)
    lone = leaf_norms(forest_of(first))
    assert lone[[0, 2]] == pytest.approx([2.0, 5.0], rel=1e-4) and np.isnan(lone[1])


def slow_norms(forest: LabelForest) -> list[float]:
    """One weight after another."""
    squares: dict[tuple[int, int], float] = {}  # of a label in a leaf
    for node in range(len(forest.node_leaf)):
        for number in range(forest.node_chunks[node], forest.node_chunks[node + 1]):
            first = forest.chunk_children[number]
            for place in range(*forest.chunk_features[number]):
                for spot in range(forest.starts[place], forest.starts[place + 1]):
                    if forest.node_leaf[node]:
                        key = (int(forest.child[first + forest.which[spot]]), node)
                        squares[key] = (
                            squares.get(key, 0.0) + (float(forest.weights[spot]) * float(forest.scales[number])) ** 2
                        )
    trees = len(forest.roots)
    return [sum(value**0.5 for (mine, _), value in squares.items() if mine == label) / trees for label in range(10)]


def test_norms_of_trained_trees(tiny: Corpus) -> None:
    for learner in (Dismec(), Parabel(max_leaf_labels=5, branches=2)):
        scorer = learner.fit(tiny.train, tiny.valid, ())
        np.testing.assert_allclose(scorer.row_norms(), slow_norms(scorer.forest), rtol=1e-5)
        assert scorer.row_norms().min() > 0


def test_columns_of_an_index() -> None:
    index = sparse.csr_array(np.array([[3.0, 0.0, 0.5], [-4.0, 0.0, 0.0]], dtype=np.float32))
    norms = column_norms(index)
    assert norms[[0, 2]].tolist() == [5.0, 0.5] and np.isnan(norms[1])
