"""Label trees: groups, targets of nodes, and the search against one that looks at everything."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus
from longtail.linear.beam import Forest, ForestMaker, search
from longtail.linear.cluster import companions, halve, label_vectors, merged, spread
from longtail.linear.forest import ForestScorer
from longtail.linear.text import Features, unit_rows
from longtail.linear.tree import HANDFULS, Chunk, Training, _handfuls, _raised, fit_tree


def clouds(groups: int, each: int, seed: int = 0) -> sparse.csr_array:
    """Vectors in groups that share features with their own group only."""
    chance = np.random.default_rng(seed)
    dense = np.zeros((groups * each, groups * 5), dtype=np.float32)
    for row in range(groups * each):
        group = row % groups
        dense[row, group * 5 : group * 5 + 5] = chance.random(5) + 0.1
    return unit_rows(sparse.csr_array(dense))


@pytest.mark.parametrize("labels", [1, 2, 3, 5, 8, 33, 100])
def test_halves_are_balanced_and_keep_every_label(labels: int) -> None:
    order, levels = halve(clouds(4, 25)[:labels], leaf=3, seed=1)
    assert sorted(order.tolist()) == list(range(labels))
    for bounds in levels:
        sizes = np.diff(bounds)
        assert bounds[0] == 0 and bounds[-1] == labels
        assert sizes.max() - sizes.min() <= 1
    assert np.diff(levels[-1]).max() <= 3
    for upper, lower in pairwise(levels):
        assert set(upper.tolist()) <= set(lower.tolist())


def test_halves_keep_alike_labels_together() -> None:
    order, levels = halve(clouds(2, 16), leaf=16, seed=0)
    assert len(levels) == 2
    assert len({label % 2 for label in order[:16].tolist()}) == 1


def test_merged_levels_reach_further() -> None:
    _, levels = halve(clouds(4, 25), leaf=3, seed=0)
    assert [len(bounds) - 1 for bounds in levels] == [1, 2, 4, 8, 16, 32, 64]
    assert [len(bounds) - 1 for bounds in merged(levels, 2)] == [1, 2, 4, 8, 16, 32, 64]
    assert [len(bounds) - 1 for bounds in merged(levels, 8)] == [1, 8, 64]
    assert [len(bounds) - 1 for bounds in merged(levels, 16)] == [1, 4, 64]


@pytest.mark.parametrize("depth", [1, 2])
def test_clusters_keep_every_label_and_find_the_groups(depth: int) -> None:
    order, levels = spread(clouds(4, 25), branches=8, depth=depth, seed=0)
    assert sorted(order.tolist()) == list(range(100))
    assert len(levels) == depth + 1
    for begin, end in pairwise(levels[1]):
        assert len({label % 4 for label in order[begin:end].tolist()}) == 1  # no cluster mixes two groups


def test_companions_leave_the_label_itself_out() -> None:
    targets = sparse.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=np.float32))
    found = companions(targets).toarray()
    assert (np.diag(found) == 0).all()
    assert found[1] == pytest.approx(np.array([2, 0, 1]) / np.sqrt(5))


def test_a_node_has_the_largest_target_of_its_labels() -> None:
    dense = np.array([[1, 0.2, 0, 0], [0, 0.3, 0.7, 0.1], [0, 0, 0, 0]], dtype=np.float32)
    nodes = _raised(sparse.csr_array(dense), np.array([0, 2, 3, 4])).toarray()
    assert nodes == pytest.approx(np.array([[1, 0, 0], [0.3, 0.7, 0.1], [0, 0, 0]]))


def trained(
    tiny: Corpus, chances: bool
) -> tuple[Features, sparse.csr_array, list[Chunk], list[np.ndarray], np.ndarray]:
    features, rows = Features.learn(tiny.train)
    order, levels = halve(label_vectors(tiny.train.targets, rows), leaf=3, seed=0)
    chunks: list[Chunk] = []
    fit_tree(rows, tiny.train.targets, order, levels, Training(cut=0.0, chances=chances), chunks.append)
    return features, rows, chunks, levels, order


def made(chunks: list[Chunk], levels: list[np.ndarray], order: np.ndarray, chances: bool = False) -> Forest:
    maker = ForestMaker(chances)
    maker.tree(order, levels)
    for chunk in chunks:
        maker.keep(chunk)
    return maker.made()


@pytest.mark.parametrize("chances", [False, True])
def test_a_wide_beam_finds_what_a_look_at_everything_finds(tiny: Corpus, chances: bool) -> None:
    features, _, chunks, levels, order = trained(tiny, chances)
    test = features.of(tiny.test.rows)
    forest = made(chunks, levels, order, chances)
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
                log = -np.logaddexp(0, -score) if chances else -(np.maximum(0, 1 - score) ** 2)
                span = slice(chunk.first, chunk.first + len(chunk.bias))
                below[:, span] = logs[-1][:, [chunk.parent]] + log
        logs.append(below)
    assert not np.isnan(logs[-1]).any()
    expected = np.empty((len(dense), 10))
    expected[:, order] = np.exp(logs[-1])
    found = np.take_along_axis(expected, labels, axis=1)
    assert scores == pytest.approx(found, rel=1e-3, abs=1e-7)  # weights are kept in 16 bits
    assert scores == pytest.approx(np.sort(expected, axis=1)[:, ::-1], rel=1e-3, abs=1e-7)


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
    bounds = _handfuls(costs)
    assert bounds[0] == 0 and bounds[-1] == len(costs)
    assert bounds == sorted(set(bounds))
    pieces = [costs[first:last] for first, last in pairwise(bounds)]
    assert len(pieces) <= 2 * HANDFULS + 1
    fair = sum(costs) / (2 * HANDFULS - 1)
    assert all(len(piece) == 1 or sum(piece[:-1]) <= fair for piece in pieces)
    assert all(len(piece) == 1 for piece in pieces if piece[0] > fair)


@pytest.mark.parametrize("chances", [False, True])
def test_nodes_without_rows_keep_their_children_and_know_nothing(chances: bool) -> None:
    chance = np.random.default_rng(0)
    rows = unit_rows(sparse.csr_array((chance.random((30, 12)) * (chance.random((30, 12)) < 0.4)).astype(np.float32)))
    told = np.zeros((30, 40), dtype=np.float32)
    told[np.arange(30), chance.integers(0, 10, 30)] = 1
    levels = [np.array([0, 40]), np.array([0, 10, 20, 30, 40])]
    kept: list[Chunk] = []
    order = np.arange(40, dtype=np.int32)
    fit_tree(rows, sparse.csr_array(told), order, levels, Training(chances=chances), kept.append)
    below = {chunk.parent: chunk for chunk in kept if chunk.level == 1}
    assert sorted(below) == [0, 1, 2, 3]
    assert all(len(chunk.bias) == 10 and chunk.first == 10 * parent for parent, chunk in below.items())
    assert len(below[0].weights) and not any(
        len(below[parent].weights) or below[parent].bias.any() for parent in (1, 2, 3)
    )


def test_training_does_not_depend_on_threads(tiny: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("LONGTAIL_THREADS", threads)
        _, _, chunks, levels, order = trained(tiny, False)
        found.append(made(chunks, levels, order))
    for field in fields(Forest):
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
    assert ForestScorer.restore(scorer.state()).beam == 10
    bent = getattr(scorer.forest, name).copy()
    bent[place] = value
    with pytest.raises(ValueError, match="do not fit"):
        ForestScorer.restore(replace(scorer, forest=replace(scorer.forest, **{name: bent})).state())


@pytest.mark.parametrize("chances", [False, True])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_a_row_gets_the_same_answer_alone_and_in_company(chances: bool, k: int) -> None:
    draw = np.random.default_rng(3)
    rows = sparse.random_array((300, 90), density=0.1, rng=draw, dtype=np.float32).tocsr()
    targets = sparse.csr_array((draw.random((300, 37)) < 0.08).astype(np.float32))
    maker = ForestMaker(chances)
    for seed in range(3):
        order, levels = halve(label_vectors(targets, rows), leaf=6, seed=seed)
        maker.tree(order, levels)
        fit_tree(rows, targets, order, levels, Training(chances=chances, cut=0.01, seed=seed), maker.keep)
    forest = maker.made()
    labels, scores = search(forest, rows, k, beam=4)  # nodes with many rows: unpacked
    for row in (0, 1, 150, 299):
        alone = search(forest, rows[[row]], k, beam=4)  # packed
        assert np.array_equal(alone[0][0], labels[row])
        assert np.array_equal(alone[1][0], scores[row])
    # The means over trees, by looking at one tree at a time with room for every label it reaches.
    sums = np.zeros((300, 37))
    for root in range(3):
        single = replace(forest, roots=forest.roots[root : root + 1])
        found, worth = search(single, rows, 37, beam=4)
        sums += np.array([np.bincount(f[f >= 0], w[f >= 0], minlength=37) for f, w in zip(found, worth, strict=True)])
    expected = -np.sort(-sums / 3, axis=1)[:, : min(k, 37)]
    assert scores[:, :37] == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_no_rows_and_rows_without_words_are_answered(tiny: Corpus) -> None:
    _, rows, chunks, levels, order = trained(tiny, False)
    forest = made(chunks, levels, order)
    assert search(forest, rows[:0], 3, beam=5)[0].shape == (0, 3)
    labels, scores = search(forest, sparse.csr_array((20, rows.shape[1]), dtype=np.float32), 3, beam=5)
    assert (labels >= 0).all()
    assert (scores > 0).all()
