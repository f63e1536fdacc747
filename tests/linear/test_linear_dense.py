"""Classifiers whose weights for an encoder's vector are stored whole, beside the sparse ones of words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.linear.csr_arrays import csr_arrays
from longtail.linear.trees.beam_search import NO_COLUMNS, ForestMaker, LabelForest, search
from longtail.linear.trees.classifier_norms import leaf_norms
from longtail.linear.trees.dense_kernels import DenseColumns, split
from longtail.linear.trees.label_clusters import balanced_halves, label_vectors
from longtail.linear.trees.label_forest import ForestScorer, dense_columns_of
from longtail.linear.trees.train_tree import Training, fit_tree
from longtail.recipe import Recipe
from longtail.seams import Misfit
from longtail.store import load
from stored import check

WORDS = 90


def rows_of(number: int, width: int, seed: int = 3) -> sparse.csr_array:
    """Words and a vector side by side; every tenth row has no vector, and some values are 0."""
    rng = np.random.default_rng(seed)
    words = sparse.random_array((number, WORDS), density=0.1, rng=rng, dtype=np.float32)
    vectors = rng.normal(size=(number, width)).astype(np.float32) / np.sqrt(width)
    vectors[rng.random(vectors.shape) < 0.05] = 0
    vectors[::10] = 0
    return sparse.csr_array(sparse.hstack([words, sparse.csr_array(vectors)], format="csr"), dtype=np.float32)


def forests(width: int, log_loss: bool, *kept: DenseColumns, threshold: float = 0.01) -> list[LabelForest]:
    """The same classifiers, stored in each of several ways."""
    rows = rows_of(300, width)
    targets = sparse.csr_array((np.random.default_rng(1).random((300, 37)) < 0.08).astype(np.float32))
    makers = [ForestMaker(log_loss, dense) for dense in kept]
    for seed in range(2):
        order, levels = balanced_halves(label_vectors(targets, rows), max_leaf_labels=6, seed=seed)
        chunks = []
        training = Training(log_loss=log_loss, weight_threshold=threshold, seed=seed)
        fit_tree(rows, targets, order, levels, training, chunks.append)
        for maker in makers:
            maker.begin_tree(order, levels)
            for chunk in chunks:
                maker.keep(chunk)
    return [maker.finish() for maker in makers]


@pytest.mark.parametrize("log_loss", [False, True])
@pytest.mark.parametrize("width", [1, 6, 16])
def test_answers_are_the_same_however_the_weights_are_stored(log_loss: bool, width: int) -> None:
    rows = rows_of(200, width, seed=7)
    one, two = forests(width, log_loss, NO_COLUMNS, DenseColumns(WORDS, width))
    assert len(one.dense) == 0 and len(two.dense) == width * len(two.bias)
    assert len(two.weights) < len(one.weights)
    for number in (1, 5, 200):
        labels, scores = search(one, rows[:number], 10, 4)
        again, others = search(two, rows[:number], 10, 4)
        np.testing.assert_allclose(others, scores, atol=1e-6, rtol=1e-5)
        assert (labels == again).mean() > 0.99  # equal scores may change places
    np.testing.assert_allclose(leaf_norms(two), leaf_norms(one), rtol=1e-6)


def test_norms_where_no_weight_is_sparse() -> None:
    """As where all words are below the threshold."""
    one, two = forests(6, False, NO_COLUMNS, DenseColumns(0, WORDS + 6))
    assert len(two.weights) == 0 < len(one.weights)
    np.testing.assert_allclose(leaf_norms(two), leaf_norms(one), rtol=1e-6)


@pytest.mark.parametrize("log_loss", [False, True])
@pytest.mark.parametrize("width", [1, 6, 16])
def test_a_row_gets_the_same_bits_alone_and_in_company(
    log_loss: bool, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(203, width, seed=7)
    (forest,) = forests(width, log_loss, DenseColumns(WORDS, width))
    labels, scores = search(forest, rows, 7, 4)
    monkeypatch.setenv("LONGTAIL_THREADS", "3")
    for found, values in (search(forest, rows, 7, 4), search(replace(forest), rows, 7, 4)):
        np.testing.assert_array_equal(found, labels)
        np.testing.assert_array_equal(values, scores)
    for first, last in ((0, 1), (1, 2), (10, 13), (100, 109), (202, 203)):
        found, values = search(forest, rows[first:last], 7, 4)
        np.testing.assert_array_equal(found, labels[first:last])
        np.testing.assert_array_equal(values, scores[first:last])


def test_rows_are_parted_into_words_and_vectors() -> None:
    rows = rows_of(11, 6)
    words, vectors = split(csr_arrays(rows), DenseColumns(WORDS, 6))
    whole = rows.toarray()
    np.testing.assert_array_equal(vectors.reshape(11, 8)[:, :6], whole[:, WORDS:])
    assert not vectors.reshape(11, 8)[:, 6:].any()
    found = sparse.csr_array((words.values, words.columns, words.starts), shape=(11, WORDS))
    np.testing.assert_array_equal(found.toarray(), whole[:, :WORDS])
    later, _ = split(csr_arrays(rows)._replace(starts=csr_arrays(rows).starts[5:]), DenseColumns(WORDS, 6))
    np.testing.assert_array_equal(later.values, words.values[words.starts[5] :])


def with_vectors(data: Dataset, width: int = 12) -> Dataset:
    """Every example with a vector that says something of its labels."""
    places = np.random.default_rng(5).normal(size=(len(data.labels), width)).astype(np.float32)
    return replace(data, features=sparse.csr_array(data.targets @ places, dtype=np.float32))


def test_weights_of_words_are_dropped_where_small_and_those_of_the_vector_kept(tiny: Corpus, tmp_path: Path) -> None:
    train, test = with_vectors(tiny.train), with_vectors(tiny.test)
    model = Recipe.parse("parabel(feature_weight=0.5, weight_threshold=0.3, max_leaf_labels=4)").fit(train, train)
    scorer = model.scorer
    assert isinstance(scorer, ForestScorer)
    forest, words = scorer.forest, scorer.features.columns - 12
    assert forest.dense_columns == 12 and forest.features.max() < words
    for chunk, (first, last) in enumerate(forest.chunk_features):
        weights = np.abs(forest.weights[forest.starts[first] : forest.starts[last]]) * forest.scales[chunk]
        assert weights.min(initial=1.0) > 0.299
        children = forest.chunk_children[chunk + 1] - forest.chunk_children[chunk]
        table = np.abs(forest.dense[forest.chunk_dense[chunk] :][: 12 * children]) * forest.scales[chunk]
        assert (table > 0).mean() > 0.9 and (table < 0.3).any()
    again = load(model.save(tmp_path / "model"))
    one, two = model.predict(test.rows, 5), again.predict(test.rows, 5)
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.scores, two.scores)


def test_labels_without_examples_have_no_table(tiny: Corpus) -> None:
    train = with_vectors(tiny.train)
    with_eight = train.targets.toarray()
    with_eight[:, 8:] = 0
    few = replace(train, targets=sparse.csr_array(with_eight))
    scorer = Recipe.parse("dismec(feature_weight=0.5)").fit(few, few).scorer
    assert isinstance(scorer, ForestScorer)
    assert len(scorer.forest.dense) == 12 * 10  # one chunk: a table for all
    none = forests(6, False, DenseColumns(WORDS, 6), threshold=10.0)[0]
    assert len(none.dense) == 0 and (none.chunk_dense == -1).all()


@pytest.mark.parametrize(("share", "width"), [(0.0, 12), (0.5, 12), (0.5, 9000)])
def test_only_columns_that_are_dense_get_tables(share: float, width: int, tiny: Corpus) -> None:
    rng = np.random.default_rng(0)
    for density in (0.4, 1.0):
        features = sparse.random_array((len(tiny.train), width), density=density, rng=rng, dtype=np.float32)
        train = replace(tiny.train, features=sparse.csr_array(features))
        learner = Recipe.parse(f"parabel(feature_weight={share})").learner
        read, rows = learner.read(train)  # type: ignore[attr-defined]
        wanted = share > 0 and density == 1 and width == 12
        assert dense_columns_of(read, rows) == ((read.columns - width, width) if wanted else NO_COLUMNS)


@pytest.mark.parametrize(
    ("name", "place", "value"), [("chunk_dense", 0, 10**6), ("chunk_dense", -1, -1), ("chunk_dense", 1, 0)]
)
def test_tables_that_lead_outside_are_refused(name: str, place: int, value: int, tiny: Corpus) -> None:
    train = with_vectors(tiny.train)
    scorer = Recipe.parse("parabel(feature_weight=0.5, max_leaf_labels=4)").fit(train, train).scorer
    assert isinstance(scorer, ForestScorer)
    assert check(ForestScorer, scorer.state()).beam == 10
    bent = getattr(scorer.forest, name).copy()
    bent[place] = value
    with pytest.raises(Misfit, match=r"array 'forest\.chunk_dense'"):
        check(ForestScorer, replace(scorer, forest=replace(scorer.forest, **{name: bent})).state())
    for columns, what in ((13, "forest"), (11, "forest"), (10**6, "dense_columns")):
        with pytest.raises(Misfit, match=what):
            check(ForestScorer, replace(scorer, forest=replace(scorer.forest, dense_columns=columns)).state())
    short = replace(scorer.forest, dense=scorer.forest.dense[:-1])
    with pytest.raises(Misfit, match=r"array 'forest\.chunk_dense'"):
        check(ForestScorer, replace(scorer, forest=short).state())
