"""Trees over examples: the split against a slow reference, and what must hold for every tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from longtail.linear.trees.instance_forest import INSTANCE_FOREST, InstanceForest, grow_forest, leaf_means
from longtail.linear.trees.instance_tree import Growth, Tree, grow, ideal_gains, split
from longtail.seams import Misfit
from longtail.seams.conforms import conforms


def toy(seed: int, rows: int = 60, labels: int = 12, features: int = 20) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Unit-norm rows whose words depend on their labels; some targets are soft."""
    rng = np.random.default_rng(seed)
    targets = np.where(rng.random((rows, labels)) < 0.2, rng.choice([0.5, 1.0], (rows, labels)), 0)
    words = targets @ rng.random((labels, features)) * (rng.random((rows, features)) < 0.5)
    words[:, 0] += 0.1
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    return sparse.csr_array(words.astype(np.float32)), sparse.csr_array(targets.astype(np.float32))


def slow_split(targets: NDArray[np.float64], sides: list[int]) -> tuple[list[int], float]:
    """Step by step: rank labels on each side, move every row, until the mean gain stops growing."""
    rows, labels = targets.shape
    last = -1.0
    while True:
        discounts = {}
        for side in (-1, 1):
            sums = [sum(targets[row, label] for row in range(rows) if sides[row] == side) for label in range(labels)]
            ranking = sorted(range(labels), key=lambda label, sums=sums: (-sums[label], label))  # type: ignore[misc]
            discounts[side] = {label: 1 / np.log2(place + 2) for place, label in enumerate(ranking)}
        gain = {
            side: [sum(targets[row, label] * discounts[side][label] for label in range(labels)) for row in range(rows)]
            for side in (-1, 1)
        }
        for row in range(rows):
            if gain[1][row] > gain[-1][row]:
                sides[row] = 1
            elif gain[-1][row] > gain[1][row]:
                sides[row] = -1
        total = sum(max(gain[-1][row], gain[1][row]) for row in range(rows)) / rows
        if total - last < 1e-6:
            return sides, total
        last = total


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 25), st.integers(1, 9))
def test_split_does_what_the_slow_one_does(seed: int, rows: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    # Quarters add up exactly in any order, so equal sums are equal in both.
    targets = np.where(rng.random((rows, labels)) < 0.4, rng.choice([0.25, 0.5, 1.0], (rows, labels)), 0)
    start = rng.choice([-1, 1], rows)
    gains = sparse.csr_array(targets.astype(np.float32))
    sides = start.astype(np.float64)
    discounts = 1 / np.log2(np.arange(labels) + 2)
    total = split(gains.indptr.astype(np.int64), gains.indices.astype(np.int32), gains.data, labels, sides, discounts)
    expected, expected_total = slow_split(targets, start.tolist())
    assert total == pytest.approx(expected_total, rel=1e-9)
    assert sides.tolist() == expected


def test_split_by_hand() -> None:
    """Two kinds of rows, one of each on the wrong side: they change over, and every row then sees its label first."""
    targets = sparse.csr_array(np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]], np.float32))
    sides = np.array([1.0, 1, -1, -1, -1, 1])
    discounts = 1 / np.log2(np.arange(2) + 2)
    total = split(targets.indptr.astype(np.int64), targets.indices.astype(np.int32), targets.data, 2, sides, discounts)
    assert sides.tolist() == [1, 1, 1, -1, -1, -1]
    assert total == pytest.approx(1.0)


def test_ideal_gains_reach_one_at_best() -> None:
    dense = np.array([[1, 0, 1], [0.5, 1, 0.25], [0, 0, 1], [0, 0, 0]], np.float32)
    targets = sparse.csr_array(dense)
    gains = ideal_gains(targets)
    assert gains[:2] == pytest.approx(1 / (1 + 1 / np.log2(3)))
    best = 1 + 0.5 / np.log2(3) + 0.25 / 2
    assert gains[2:5] == pytest.approx(np.array([0.5, 1, 0.25]) / best)
    assert gains[5] == pytest.approx(1)


def leaf_of(tree: Tree) -> dict[int, int]:
    """The leaf of each training row, as training left it."""
    return {
        int(row): leaf
        for leaf in range(len(tree.bounds) - 1)
        for row in tree.members[tree.bounds[leaf] : tree.bounds[leaf + 1]]
    }


def walk(tree: Tree, words: NDArray[np.float64]) -> int:
    """One row down the tree, in plain NumPy."""
    node = tree.root
    while node >= 0:
        margin = tree.biases[node] + tree.weights[[node]].toarray()[0] @ words
        node = int(tree.children[node, 1 if margin > 0 else 0])
    return ~node


@pytest.mark.parametrize("seed", range(8))
def test_every_row_is_in_the_one_leaf_that_the_separators_lead_to(seed: int) -> None:
    vectors, targets = toy(seed)
    tree = grow(vectors, targets, ideal_gains(targets), Growth(leaf_rows=4, cost=5.0), seed)
    labelled = np.flatnonzero(np.diff(targets.indptr))
    assert sorted(tree.members.tolist()) == labelled.tolist()
    assert len(tree.biases) > 2 and len(tree.bounds) == len(tree.biases) + 2  # a binary tree
    assert (np.diff(tree.bounds) > 0).all()
    reached = InstanceForest.of([(tree, leaf_means(tree, targets, 100))]).reached(vectors)[:, 0]
    for row, leaf in leaf_of(tree).items():
        assert walk(tree, vectors[[row]].toarray()[0].astype(np.float64)) == leaf == reached[row]
    # Every node and every leaf but the root hangs on exactly one parent.
    hung = np.sort(np.append(tree.children.ravel(), tree.root))
    assert hung.tolist() == list(range(-(len(tree.bounds) - 1), len(tree.biases)))


def test_a_row_of_few_words_is_routed_like_any_other() -> None:
    """Where a node has many weights, the row's words are searched in them; the margin is the same."""
    rng = np.random.default_rng(0)
    weights = np.where(rng.random((1, 400)) < 0.5, rng.normal(size=(1, 400)), 0).astype(np.float32)
    bias = np.array([0.01], np.float32)
    leaves = sparse.csr_array(np.eye(2, dtype=np.float32))
    node = np.zeros(1, np.int32)
    forest = InstanceForest(node, np.array([[-1, -2]], np.int32), bias, sparse.csr_array(weights), leaves)
    rows = np.zeros((200, 400), np.float32)
    for row in range(200):
        rows[row, rng.choice(400, 1 + row % 30, replace=False)] = rng.normal(size=1 + row % 30)
    reached = forest.reached(sparse.csr_array(rows))[:, 0]
    margins = rows.astype(np.float64) @ weights[0].astype(np.float64) + bias[0]
    assert np.array_equal(reached, margins > 0)
    assert 0.2 < reached.mean() < 0.8


def test_rows_follow_the_separator_and_not_the_split() -> None:
    """Rows 0 to 5 are of label a and 6 to 11 of label b, but row 5 has the words of b's rows: it goes with them."""
    words = np.zeros((12, 2), np.float32)
    words[:5, 0], words[5:, 1] = 1, 1
    labels = np.zeros((12, 2), np.float32)
    labels[:6, 0], labels[6:, 1] = 1, 1
    vectors, targets = sparse.csr_array(words), sparse.csr_array(labels)
    cut = 0
    for seed in range(10):
        leaves = leaf_of(grow(vectors, targets, ideal_gains(targets), Growth(leaf_rows=7), seed))
        if len(set(leaves.values())) == 1:
            continue  # both sides began with the same favourite label, so the split had nothing to gain
        cut += 1
        assert {leaves[row] for row in range(5)} == {leaves[0]}
        assert {leaves[row] for row in range(5, 12)} == {leaves[5]} != {leaves[0]}
    assert cut > 3


def test_a_side_without_rows_makes_a_leaf() -> None:
    """Equal rows cannot be separated, whatever their labels: one leaf, however many rows."""
    vectors = sparse.csr_array(np.ones((30, 1), np.float32))
    targets = sparse.csr_array(np.eye(30, 5, dtype=np.float32) + np.eye(30, 5, -5, dtype=np.float32))
    tree = grow(vectors, targets, ideal_gains(targets), Growth(leaf_rows=2), 0)
    assert tree.root == -1 and len(tree.biases) == 0
    assert tree.bounds.tolist() == [0, 10]  # rows without labels are left out


def test_leaves_hold_the_mean_of_their_rows_and_only_the_largest() -> None:
    vectors, targets = toy(3)
    tree = grow(vectors, targets, ideal_gains(targets), Growth(leaf_rows=6, cost=5.0), 1)
    dense = targets.toarray()
    whole, cut = leaf_means(tree, targets, 100).toarray(), leaf_means(tree, targets, 2)
    for leaf in range(len(whole)):
        expected = dense[tree.members[tree.bounds[leaf] : tree.bounds[leaf + 1]]].mean(axis=0)
        assert whole[leaf] == pytest.approx(expected, abs=1e-6)
        order = sorted(np.flatnonzero(whole[leaf]).tolist(), key=lambda label: (-whole[leaf][label], label))
        kept = cut[[leaf]].toarray()[0]
        assert np.flatnonzero(kept).tolist() == sorted(order[:2])
        assert kept[order[:2]] == pytest.approx(whole[leaf][order[:2]])


def test_a_forest_predicts_the_mean_over_its_trees() -> None:
    vectors, targets = toy(5)
    growth, gains = Growth(leaf_rows=5, cost=5.0), ideal_gains(targets)
    forest = grow_forest(vectors, targets, gains, growth, 4, 9, lambda amount: None)
    trees = [grow(vectors, targets, gains, growth, 9 * 1_000_003 + place) for place in range(4)]
    assert len({tree.bounds.tobytes() + tree.members.tobytes() for tree in trees}) == 4  # no two alike
    means = [leaf_means(tree, targets, 100).toarray() for tree in trees]
    labels, scores = forest.top(vectors, 12)
    for row in range(10):
        words = vectors[[row]].toarray()[0].astype(np.float64)
        expected = np.mean([mean[walk(tree, words)] for tree, mean in zip(trees, means, strict=True)], axis=0)
        found = dict(zip(labels[row].tolist(), scores[row].tolist(), strict=True))
        found.pop(-1, None)
        assert found == pytest.approx({label: expected[label] for label in np.flatnonzero(expected)}, abs=1e-6)


def test_threads_do_not_change_what_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, targets = toy(6, rows=300)

    def state(threads: str) -> dict[str, bytes]:
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        forest = grow_forest(vectors, targets, ideal_gains(targets), Growth(), 7, 0, lambda amount: None)
        return {name: value.tobytes() for name, value in forest.state().items()}

    assert state("1") == state("3")


def test_a_row_without_features_gets_no_label() -> None:
    vectors, targets = toy(7)
    forest = grow_forest(vectors, targets, ideal_gains(targets), Growth(), 3, 0, lambda amount: None)
    labels, scores = forest.top(sparse.vstack([sparse.csr_array((1, 20), dtype=np.float32), vectors], format="csr"), 5)
    assert (labels[0] == -1).all() and not scores[0].any()
    assert (labels[1:, 0] >= 0).all()


def test_a_damaged_forest_is_refused() -> None:
    vectors, targets = toy(8)
    forest = grow_forest(
        vectors, targets, ideal_gains(targets), Growth(leaf_rows=4, cost=5.0), 2, 0, lambda amount: None
    )
    for wrong in (0, len(forest.biases), -len(forest.leaves.indptr) - 1):  # a circle, no such node, no such leaf
        tensors = dict(forest.state())
        tensors["children"] = tensors["children"].copy()
        tensors["children"][0, 1] = wrong
        with pytest.raises(Misfit, match="array 'children'"):
            conforms(INSTANCE_FOREST, {}, tensors, {}, forest.leaves.shape[1])
    tensors = dict(forest.state())
    tensors["biases"] = tensors["biases"][:-1]
    with pytest.raises(Misfit, match="nodes"):
        conforms(INSTANCE_FOREST, {}, tensors, {}, forest.leaves.shape[1])
