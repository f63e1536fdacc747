"""Label trees: clusters, targets of nodes, and beam search against an exhaustive search."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus
from longtail.linear.features.sparse_features import Features, unit_rows
from longtail.linear.trees.beam_search import ForestMaker, LabelForest, search
from longtail.linear.trees.label_clusters import (
    balanced_halves,
    cooccurrence_vectors,
    kmeans_tree,
    label_vectors,
    merge_levels,
)
from longtail.linear.trees.label_forest import ForestScorer
from longtail.linear.trees.train_tree import (
    PIECES,
    Chunk,
    Training,
    _node_targets,
    _piece_bounds,
    chunk_of,
    fit_tree,
)
from longtail.seams import Misfit
from stored import check


def clouds(groups: int, each: int, seed: int = 0) -> sparse.csr_array:
    """Vectors in groups that share features with their own group only."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((groups * each, groups * 5), dtype=np.float32)
    for row in range(groups * each):
        group = row % groups
        dense[row, group * 5 : group * 5 + 5] = rng.random(5) + 0.1
    return unit_rows(sparse.csr_array(dense))


@pytest.mark.parametrize("labels", [1, 2, 3, 5, 8, 33, 100])
def test_halves_are_balanced_and_keep_every_label(labels: int) -> None:
    order, levels = balanced_halves(clouds(4, 25)[:labels], max_leaf_labels=3, seed=1)
    assert sorted(order.tolist()) == list(range(labels))
    for bounds in levels:
        sizes = np.diff(bounds)
        assert bounds[0] == 0 and bounds[-1] == labels
        assert sizes.max() - sizes.min() <= 1
    assert np.diff(levels[-1]).max() <= 3
    for upper, lower in pairwise(levels):
        assert set(upper.tolist()) <= set(lower.tolist())


def test_halves_keep_alike_labels_together() -> None:
    order, levels = balanced_halves(clouds(2, 16), max_leaf_labels=16, seed=0)
    assert len(levels) == 2
    assert len({label % 2 for label in order[:16].tolist()}) == 1


def test_merged_levels_reach_further() -> None:
    _, levels = balanced_halves(clouds(4, 25), max_leaf_labels=3, seed=0)
    assert [len(bounds) - 1 for bounds in levels] == [1, 2, 4, 8, 16, 32, 64]
    assert [len(bounds) - 1 for bounds in merge_levels(levels, 2)] == [1, 2, 4, 8, 16, 32, 64]
    assert [len(bounds) - 1 for bounds in merge_levels(levels, 8)] == [1, 8, 64]
    assert [len(bounds) - 1 for bounds in merge_levels(levels, 16)] == [1, 4, 64]


@pytest.mark.parametrize("depth", [1, 2])
def test_clusters_keep_every_label_and_find_the_groups(depth: int) -> None:
    order, levels = kmeans_tree(clouds(4, 25), branches=8, depth=depth, seed=0)
    assert sorted(order.tolist()) == list(range(100))
    assert len(levels) == depth + 1
    for begin, end in pairwise(levels[1]):
        assert len({label % 4 for label in order[begin:end].tolist()}) == 1  # no cluster mixes two groups


def test_companions_leave_the_label_itself_out() -> None:
    targets = sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=np.float32))
    found = cooccurrence_vectors(targets).toarray()
    assert (np.diag(found) == 0).all()
    assert found[1] == pytest.approx(np.array([2, 0, 1]) / np.sqrt(5))


def test_a_node_has_the_largest_target_of_its_labels() -> None:
    dense = np.array([[1, 0.2, 0, 0], [0, 0.3, 0.7, 0.1], [0, 0, 0, 0]], dtype=np.float32)
    nodes = _node_targets(sparse.csr_array(dense), np.array([0, 2, 3, 4])).toarray()
    assert nodes == pytest.approx(np.array([[1, 0, 0], [0.3, 0.7, 0.1], [0, 0, 0]]))


def trained(
    tiny: Corpus, log_loss: bool
) -> tuple[Features, sparse.csr_array, list[Chunk], list[np.ndarray], np.ndarray]:
    features, rows = Features.learn(tiny.train)
    order, levels = balanced_halves(label_vectors(tiny.train.targets, rows), max_leaf_labels=3, seed=0)
    chunks: list[Chunk] = []
    fit_tree(rows, tiny.train.targets, order, levels, Training(weight_threshold=0.0, log_loss=log_loss), chunks.append)
    return features, rows, chunks, levels, order


def made(chunks: list[Chunk], levels: list[np.ndarray], order: np.ndarray, log_loss: bool = False) -> LabelForest:
    maker = ForestMaker(log_loss)
    maker.begin_tree(order, levels)
    for chunk in chunks:
        maker.keep(chunk)
    return maker.finish()


@pytest.mark.parametrize("log_loss", [False, True])
def test_a_wide_beam_finds_what_an_exhaustive_search_finds(tiny: Corpus, log_loss: bool) -> None:
    features, _, chunks, levels, order = trained(tiny, log_loss)
    test = features.of(tiny.test.rows)
    forest = made(chunks, levels, order, log_loss)
    labels, scores = search(forest, test, k=10, beam=50)
    # Every path, one node at a time, in float64.
    dense = test.toarray().astype(np.float64)
    bounds = [*levels, np.arange(11)]
    logs = [np.zeros((len(dense), 1))]
    for level in range(len(levels)):
        below = np.full((len(dense), len(bounds[level + 1]) - 1), np.nan)
        for chunk in chunks:
            if chunk.level == level:
                weights = np.zeros((dense.shape[1], len(chunk.bias)))
                for place, feature in enumerate(chunk.features):
                    for entry in range(chunk.starts[place], chunk.starts[place + 1]):
                        weights[feature, chunk.children[entry]] = chunk.weights[entry]
                score = dense @ weights + chunk.bias
                log = -np.logaddexp(0, -score) if log_loss else -(np.maximum(0, 1 - score) ** 2)
                span = slice(chunk.first, chunk.first + len(chunk.bias))
                below[:, span] = logs[-1][:, [chunk.parent]] + log
        logs.append(below)
    assert not np.isnan(logs[-1]).any()
    expected = np.empty((len(dense), 10))
    expected[:, order] = np.exp(logs[-1])
    found = np.take_along_axis(expected, labels, axis=1)
    assert scores == pytest.approx(found, rel=1e-3, abs=1e-7)  # weights are kept in 16 bits
    assert scores == pytest.approx(np.sort(expected, axis=1)[:, ::-1], rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("beam", [1, 2, 3, 5, 6, 50])
def test_the_beam_keeps_as_many_nodes_as_it_is_wide(beam: int) -> None:
    """Six nodes of two labels each. Only biases differ, so the probability of each node is known."""
    order = np.array([7, 2, 10, 0, 5, 11, 1, 8, 3, 6, 9, 4], dtype=np.int32)
    levels = [np.array([0, 12]), np.arange(0, 13, 2)]
    nodes = np.array([0.1, 0.7, -0.5, 0.4, 0.9, -0.2], dtype=np.float32)
    pair = np.array([[0, 0], [0.5, 0.3]], dtype=np.float32)
    chunks = [chunk_of(0, 0, 0, np.stack([np.zeros_like(nodes), nodes]))]
    chunks += [chunk_of(1, parent, 2 * parent, pair) for parent in range(6)]
    labels, scores = search(made(chunks, levels, order), sparse.csr_array((3, 1), dtype=np.float32), k=12, beam=beam)
    best = np.argsort(-nodes)[:beam]
    path, own = np.exp(-((1 - nodes[best]) ** 2)), np.exp(-((1 - np.array([0.5, 0.3])) ** 2))
    expected = dict(zip(order.reshape(6, 2)[best].ravel().tolist(), np.outer(path, own).ravel(), strict=True))
    for row in range(3):
        found = dict(zip(labels[row].tolist(), scores[row].tolist(), strict=True))
        found.pop(-1, None)
        assert found == pytest.approx(expected, rel=1e-5)


def test_a_weight_is_kept_to_half_a_step_of_its_chunk(tiny: Corpus) -> None:
    _, _, chunks, levels, order = trained(tiny, False)
    forest = made(chunks, levels, order)
    assert len(forest.scales) == len(chunks)
    for number, (first, last) in enumerate(forest.chunk_features):
        begin, end = forest.starts[[first, last]]
        biases = forest.bias[forest.chunk_children[number] : forest.chunk_children[number + 1]]
        chunk = next(one for one in chunks if np.array_equal(one.bias, biases))
        kept = forest.weights[begin:end] * forest.scales[number].astype(np.float64)
        largest = np.abs(chunk.weights).max(initial=0)
        assert np.abs(kept - chunk.weights).max(initial=0) <= 0.501 * largest / 32767


@pytest.mark.parametrize("costs", [[], [0, 0], [9], [1000, 500, *[1] * 3000, 0, 0], [7] * 5])
def test_long_tasks_are_handed_out_alone_and_short_ones_together(
    costs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGTAIL_THREADS", "2")
    bounds = _piece_bounds(costs)
    assert bounds[0] == 0 and bounds[-1] == len(costs)
    assert bounds == sorted(set(bounds))
    pieces = [costs[first:last] for first, last in pairwise(bounds)]
    assert len(pieces) <= 2 * PIECES + 1
    fair = sum(costs) / (2 * PIECES - 1)
    assert all(len(piece) == 1 or sum(piece[:-1]) <= fair for piece in pieces)
    assert all(len(piece) == 1 for piece in pieces if piece[0] > fair)


@pytest.mark.parametrize("log_loss", [False, True])
def test_nodes_without_rows_keep_their_children_and_know_nothing(log_loss: bool) -> None:
    rng = np.random.default_rng(0)
    rows = unit_rows(sparse.csr_array((rng.random((30, 12)) * (rng.random((30, 12)) < 0.4)).astype(np.float32)))
    targets = np.zeros((30, 40), dtype=np.float32)
    targets[np.arange(30), rng.integers(0, 10, 30)] = 1
    levels = [np.array([0, 40]), np.array([0, 10, 20, 30, 40])]
    kept: list[Chunk] = []
    order = np.arange(40, dtype=np.int32)
    fit_tree(rows, sparse.csr_array(targets), order, levels, Training(log_loss=log_loss), kept.append)
    below = {chunk.parent: chunk for chunk in kept if chunk.level == 1}
    assert sorted(below) == [0, 1, 2, 3]
    assert all(len(chunk.bias) == 10 and chunk.first == 10 * parent for parent, chunk in below.items())
    assert len(below[0].weights) and not any(
        len(below[parent].weights) or below[parent].bias.any() for parent in (1, 2, 3)
    )


@pytest.mark.parametrize("log_loss", [False, True])
def test_an_only_child_is_as_likely_as_its_parent(log_loss: bool) -> None:
    rng = np.random.default_rng(1)
    rows = unit_rows(sparse.csr_array(rng.random((30, 8)).astype(np.float32)))
    targets = sparse.csr_array(np.eye(3, dtype=np.float32)[rng.integers(0, 3, 30)])
    levels, order = [np.array([0, 3]), np.array([0, 1, 3])], np.arange(3, dtype=np.int32)  # the first node has one
    kept: list[Chunk] = []
    fit_tree(rows, targets, order, levels, Training(weight_threshold=0.0, log_loss=log_loss), kept.append)
    (root,) = (chunk for chunk in kept if chunk.level == 0)
    weights = np.zeros((8, 2))
    weights[np.repeat(root.features, np.diff(root.starts)), root.children] = root.weights
    score = (rows.toarray().astype(np.float64) @ weights + root.bias)[:, 0]
    parent = 1 / (1 + np.exp(-score)) if log_loss else np.exp(-(np.maximum(0, 1 - score) ** 2))
    labels, scores = search(made(kept, levels, order, log_loss), rows, k=3, beam=2)
    assert scores[labels == 0] == pytest.approx(parent, rel=1e-3)
    assert (parent < 0.9).any()


def test_a_relative_threshold_is_a_share_of_each_classifiers_largest_weight() -> None:
    rng = np.random.default_rng(2)
    rows = unit_rows(sparse.csr_array(rng.random((60, 20)).astype(np.float32)))
    targets = np.zeros((60, 4), dtype=np.float32)
    targets[np.arange(60), np.minimum(rng.geometric(0.5, 60) - 1, 3)] = 1  # frequent labels get larger weights

    def weights(training: Training) -> np.ndarray:
        chunks: list[Chunk] = []
        order, levels = np.arange(4, dtype=np.int32), [np.array([0, 4])]
        fit_tree(rows, sparse.csr_array(targets), order, levels, training, chunks.append)
        dense = np.zeros((20, 4), dtype=np.float32)
        dense[np.repeat(chunks[0].features, np.diff(chunks[0].starts)), chunks[0].children] = chunks[0].weights
        return dense

    whole, share = weights(Training(weight_threshold=0.0)), np.float32(0.4)
    largest = np.abs(whole).max(axis=0)
    kept = weights(Training(weight_threshold=float(share), relative_threshold=True))
    assert np.array_equal(kept, np.where(np.abs(whole) >= share * largest, whole, 0))
    assert largest.min() < 0.8 * largest.max() and 0 < np.count_nonzero(kept) < np.count_nonzero(whole)


def test_training_does_not_depend_on_threads(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        _, _, chunks, levels, order = trained(tiny, False)
        found.append(made(chunks, levels, order))
    for field in fields(LabelForest):
        assert np.array_equal(getattr(found[0], field.name), getattr(found[1], field.name))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("child", 0, 99),
        ("child", -1, -1),
        ("features", 0, 10**6),
        ("which", 0, 50),
        ("starts", 1, 10**6),
        ("roots", 0, 9999),
    ],
)
def test_trees_whose_arrays_lead_outside_are_refused(tiny: Corpus, name: str, place: int, value: int) -> None:
    features, _, chunks, levels, order = trained(tiny, False)
    scorer = ForestScorer(features, made(chunks, levels, order), 10)
    assert check(ForestScorer, scorer.state()).beam == 10
    bent = getattr(scorer.forest, name).copy()
    bent[place] = value
    with pytest.raises(Misfit, match=f"array 'forest.{name}'"):
        check(ForestScorer, replace(scorer, forest=replace(scorer.forest, **{name: bent})).state())


@pytest.mark.parametrize("log_loss", [False, True])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_a_row_gets_the_same_answer_alone_and_in_company(log_loss: bool, k: int) -> None:
    rng = np.random.default_rng(3)
    rows = sparse.random_array((300, 90), density=0.1, rng=rng, dtype=np.float32).tocsr()
    targets = sparse.csr_array((rng.random((300, 37)) < 0.08).astype(np.float32))
    maker = ForestMaker(log_loss)
    for seed in range(3):
        order, levels = balanced_halves(label_vectors(targets, rows), max_leaf_labels=6, seed=seed)
        maker.begin_tree(order, levels)
        fit_tree(
            rows, targets, order, levels, Training(log_loss=log_loss, weight_threshold=0.01, seed=seed), maker.keep
        )
    forest = maker.finish()
    labels, scores = search(forest, rows, k, beam=4)  # nodes with many rows: unpacked
    for row in (0, 1, 150, 299):
        alone = search(forest, rows[[row]], k, beam=4)  # packed
        assert np.array_equal(alone[0][0], labels[row])
        assert np.array_equal(alone[1][0], scores[row])
    # The means over trees, from one tree at a time with room for every label that it reaches.
    sums = np.zeros((300, 37))
    for root in range(3):
        single = replace(forest, roots=forest.roots[root : root + 1])
        found, worth = search(single, rows, 37, beam=4)
        sums += np.array([np.bincount(f[f >= 0], w[f >= 0], minlength=37) for f, w in zip(found, worth, strict=True)])
    expected = -np.sort(-sums / 3, axis=1)[:, : min(k, 37)]
    assert scores[:, :37] == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(("name", "value"), [("PAIR_BYTES", 1), ("UNPACKED", 0), ("UNPACKED", 200)])
def test_less_memory_gives_the_same_answers(name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row at a time, and chunks too large to be unpacked, or some of them."""
    rng = np.random.default_rng(4)
    rows = sparse.random_array((60, 90), density=0.1, rng=rng, dtype=np.float32).tocsr()
    targets = sparse.csr_array((rng.random((60, 37)) < 0.1).astype(np.float32))
    maker = ForestMaker()
    order, levels = balanced_halves(label_vectors(targets, rows), max_leaf_labels=6, seed=0)
    maker.begin_tree(order, levels)
    fit_tree(rows, targets, order, levels, Training(weight_threshold=0.01), maker.keep)
    forest = maker.finish()
    assert forest.widest == int(forest.node_leaf.sum())
    expected = [search(forest, rows, 5, beam) for beam in (3, 10**9)]
    monkeypatch.setattr(f"longtail.linear.trees.beam_search.{name}", value)
    for before, after in zip(expected, [search(forest, rows, 5, beam) for beam in (3, 10**9)], strict=True):
        assert np.array_equal(before[0], after[0])
        assert np.array_equal(before[1], after[1])


def test_no_rows_and_rows_without_words_are_answered(tiny: Corpus) -> None:
    _, rows, chunks, levels, order = trained(tiny, False)
    forest = made(chunks, levels, order)
    assert search(forest, rows[:0], 3, beam=5)[0].shape == (0, 3)
    labels, scores = search(forest, sparse.csr_array((20, rows.shape[1]), dtype=np.float32), 3, beam=5)
    assert (labels >= 0).all()
    assert (scores > 0).all()
