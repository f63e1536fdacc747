"""Training level by level, against loops over rows, clusters and labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.data.corpus import Corpus
from longtail.errors import RecipeError
from longtail.linear.features.sparse_features import unit_rows
from longtail.linear.solvers.candidate_svc import fit_candidates
from longtail.linear.solvers.dense_candidate_svc import fit_dense_candidates
from longtail.nn.label_tree.candidate_blocks import Entries
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.label_tree.resolution_fit import NAMED, ResolutionFit
from longtail.nn.label_tree.resolution_task import LevelBatch, ResolutionHead, node_counts, own_first
from longtail.recipe import Recipe
from longtail.store import load

LABELS, WIDTH = 29, 5
TINY = "encoder='bag', dimension=16, batch_size=64, epochs=1, max_leaf_labels=2, branches=2"


@pytest.fixture(scope="module")
def levels() -> LabelLevels:
    vectors = unit_rows(sparse.csr_array(np.random.default_rng(0).random((LABELS, 8)).astype(np.float32)))
    return LabelLevels.build(vectors, 3, 2, 3, seed=0)


def test_clusters_count_the_labels_of_a_row(levels: LabelLevels) -> None:
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((20, LABELS)) < 0.3, rng.uniform(0.2, 1, (20, LABELS)), 0).astype(np.float32)
    for level in range(levels.count):
        nodes = levels.node_of_label[level]
        found = node_counts(sparse.csr_array(dense), nodes, levels.nodes(level)).toarray()
        for row in range(20):
            for node in range(levels.nodes(level)):
                assert found[row, node] == pytest.approx(dense[row][nodes == node].sum(), rel=1e-5)


def test_own_clusters_stand_before_predicted_ones_and_none_is_named_twice() -> None:
    rng = np.random.default_rng(2)
    counts = sparse.csr_array((rng.random((30, 12)) < 0.25) * rng.integers(1, 4, (30, 12)))
    predicted = np.array([rng.permutation(12)[:5] for _ in range(30)], dtype=np.int32)
    found = own_first(sparse.csr_array(counts, dtype=np.float32), predicted, 5)
    dense = counts.toarray()
    for row in range(30):
        own = sorted(np.flatnonzero(dense[row]).tolist(), key=lambda node: -dense[row, node])
        rest = [node for node in predicted[row].tolist() if node not in own]
        assert len(set(found[row].tolist())) == 5
        assert set(found[row].tolist()) >= set(own[:5]) or len(own) > 5
        wanted = [dense[row, node] for node in own][:5] + [0] * max(5 - len(own), 0)
        assert [dense[row, node] for node in found[row]] == wanted
        assert [node for node in found[row].tolist() if node not in own] == rest[: max(5 - len(own), 0)]


@pytest.mark.parametrize("level", [2, 3])  # of clusters, all as wide, and of labels, where one cluster is narrower
def test_the_loss_of_a_level_is_the_mean_weighted_squared_hinge_of_each_examples_candidates(
    level: int, levels: LabelLevels
) -> None:
    rng = np.random.default_rng(3)
    weights, bias = rng.normal(size=(levels.nodes(level), WIDTH)), rng.normal(size=levels.nodes(level))
    head = ResolutionHead(levels, level, weights, bias, 0.0).eval()
    vectors = rng.normal(size=(3, WIDTH)).astype(np.float32)
    begins = levels.begins[level - 1]
    narrow = int(np.argmin(np.diff(begins)))
    assert level == 2 or (narrow not in (0, 2) and len(set(np.diff(begins).tolist())) > 1)
    parents = np.array([[0, 3], [1, 2], [3, 1]]) if level == 2 else np.array([[0, narrow], [2, narrow], [narrow, 0]])
    inside = [int(begins[0]), int(begins[2])]  # of the first example, and of the second
    right = Entries(torch.tensor([0, 1]), torch.tensor(inside), torch.tensor([2.0, 0.5]))
    found = head.loss(torch.from_numpy(vectors), LevelBatch(right, torch.from_numpy(parents)))
    means = []
    for example in range(3):
        losses = []
        for parent in parents[example]:
            for node in range(int(begins[parent]), int(begins[parent + 1])):
                score = float(weights[node] @ vectors[example] + bias[node])
                count = {(0, inside[0]): 2.0, (1, inside[1]): 0.5}.get((example, node), 0.0)
                losses.append(count * max(1 - score, 0) ** 2 if count else max(1 + score, 0) ** 2)
        means.append(np.mean(losses))
    assert found.item() == pytest.approx(np.mean(means), rel=1e-5)
    nodes = head.best(torch.from_numpy(vectors), torch.from_numpy(parents), 3)
    for example in range(3):
        children = [node for p in parents[example] for node in range(int(begins[p]), int(begins[p + 1]))]
        best = sorted(children, key=lambda node: -float(weights[node] @ vectors[example] + bias[node]))
        assert nodes[example].tolist() == best[:3]


def test_dense_classifiers_are_those_of_the_sparse_solver() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(50, WIDTH)).astype(np.float32)
    candidates = sparse.csc_array(np.where(rng.random((50, 7)) < 0.5, NAMED + rng.integers(0, 3, (50, 7)), 0))
    candidates.data = (candidates.data - NAMED).astype(np.float32)  # counts of 0 stay entries: they are negatives
    costs = {"positive_cost": 3.0, "negative_cost": 0.7, "max_iter": 4}
    weights, bias = fit_dense_candidates(vectors, candidates, **costs)
    sparse_weights, sparse_bias = fit_candidates(sparse.csr_array(vectors), candidates, **costs, threshold=0.0)
    np.testing.assert_allclose(weights, sparse_weights.toarray(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(bias, sparse_bias, rtol=1e-3, atol=1e-4)


def test_a_first_level_with_fewer_clusters_than_a_cluster_has_below_it_is_left_out() -> None:
    vectors = unit_rows(sparse.csr_array(np.random.default_rng(5).random((200, 8)).astype(np.float32)))
    levels = LabelLevels.build(vectors, 4, 8, 9, seed=0)  # 64 leaves: 8 clusters above them, and not 1 above those
    assert [levels.nodes(level) for level in range(levels.count)] == [8, 64, 200]
    levels = LabelLevels.build(vectors, 7, 8, 9, seed=0)  # 32 leaves: not the 4 above them
    assert [levels.nodes(level) for level in range(levels.count)] == [32, 200]


def test_a_level_begins_at_classifiers_that_know_the_positives_of_its_nodes(tiny: Corpus) -> None:
    fit = ResolutionFit.begin(Recipe.parse(f"xrtransformer({TINY})").learner, tiny.train, tiny.valid, ())
    assert fit.levels.count > 2
    fit.learn()
    assert fit.level == fit.levels.count - 1
    vectors = fit.vectors()
    weights, bias = fit.solved(vectors)
    scores = vectors @ weights.T + bias
    counts = fit.counts.toarray()
    mean_of = [np.mean(scores[counts > 0]), np.mean(scores[counts == 0])]
    assert mean_of[0] > mean_of[1]


def test_the_model_is_the_same_after_saving_and_the_encoder_can_be_left_alone(tiny: Corpus, tmp_path: Path) -> None:
    for more in ("", ", levels_of_training=0", ", beam=1000"):
        model = Recipe.parse(f"xrtransformer({TINY}{more})").fit(tiny.train, tiny.valid)
        again = load(model.save(tmp_path / f"model{more}"))
        texts = tiny.test.texts or ()
        one, two = model.predict(texts, k=3), again.predict(texts, k=3)
        np.testing.assert_array_equal(one.indices, two.indices)
        np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.parametrize("settings", ["branches=3", "feature_weight=1", "cost=0", "levels_of_training=-1"])
def test_settings_that_make_no_sense_are_refused(settings: str) -> None:
    with pytest.raises(RecipeError):
        Recipe.parse(f"xrtransformer({settings})")
