from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet
from longtail.errors import DataError, RecipeError
from longtail.linear.features.label_means import LabelMeans
from longtail.linear.features.sparse_features import Features
from longtail.recipe import Recipe


@pytest.mark.parametrize("learner", ["knn(neighbours=5)", "bm25"])
def test_scores_are_blended_by_formula(learner: str, tiny: Corpus) -> None:
    weight, gamma = 0.3, 10.0
    plain = Recipe.parse(learner).fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=10)
    model = Recipe.parse(f"{learner} + centroid(centroid_weight={weight}, gamma={gamma})").fit(tiny.train, tiny.valid)
    found = model.predict(tiny.test.rows, k=10)
    features, vectors = Features.learn(tiny.train)
    targets = tiny.train.targets.toarray().astype(np.float64)
    means = targets.T @ vectors.toarray() / targets.sum(axis=0)[:, None]
    queries = features.of(tiny.test.rows).toarray().astype(np.float64)
    for row in range(len(tiny.test)):
        expected = {}
        for label, score in zip(plain.indices[row].tolist(), plain.scores[row].tolist(), strict=True):
            if label >= 0:
                near = 1 / (1 + np.exp(gamma * (means[label] @ means[label] + 1 - 2 * means[label] @ queries[row])))
                expected[label] = score ** (1 - weight) * near**weight
        shown = dict(zip(found.indices[row].tolist(), found.scores[row].tolist(), strict=True))
        shown.pop(-1, None)
        assert shown == pytest.approx(expected, rel=1e-4)


def test_weight_zero_changes_nothing(tiny: Corpus) -> None:
    plain = Recipe.parse("knn").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5)
    same = Recipe.parse("knn + centroid(centroid_weight=0)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=5)
    assert np.array_equal(plain.indices, same.indices)


def test_soft_targets_weigh_rows_in_the_mean() -> None:
    vectors = sparse.csr_array(np.eye(3, dtype=np.float32))
    targets = sparse.csr_array(np.array([[1, 0, 0], [0.5, 0, 0], [0, 1, 0]], np.float32))
    means = LabelMeans.learn(vectors, targets).means.toarray()
    assert means == pytest.approx(np.array([[2 / 3, 1 / 3, 0], [0, 0, 1], [0, 0, 0]]))


def test_a_common_label_is_looked_up_as_exactly_as_a_rare_one() -> None:
    """A long mean is searched with the row's words, a short one is walked; both give the same product."""
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((40, 500)) < 0.3, rng.random((40, 500)), 0).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    targets = sparse.csr_array(np.concatenate([np.ones((40, 1)), np.eye(40, 3)], axis=1).astype(np.float32))
    means = LabelMeans.learn(sparse.csr_array(dense), targets)
    queries = np.zeros((2, 500), np.float32)
    queries[0, [3, 7]], queries[1, 10:60] = np.sqrt(0.5), np.sqrt(1 / 50)  # 2 words, and 50
    found = means.distances(sparse.csr_array(queries), np.array([[0, 1, 2, -1]] * 2, np.int32))
    flat = means.means.toarray().astype(np.float64)
    expected = (flat**2).sum(axis=1) + 1 - 2 * queries @ flat.T
    assert found[:, :3] == pytest.approx(expected[:, :3], abs=1e-6)


def test_scores_stay_above_zero_where_nearness_vanishes(tiny: Corpus) -> None:
    found = (
        Recipe.parse("knn + centroid(centroid_weight=1, gamma=1000)")
        .fit(tiny.train, tiny.valid)
        .predict(tiny.test.rows, k=10)
    )
    assert (found.scores[found.indices >= 0] > 0).all()


def test_only_the_candidates_move(tiny: Corpus) -> None:
    """With one candidate there is nothing to move; the setting is what the learner is asked for."""
    plain = Recipe.parse("knn").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=1)
    one = Recipe.parse("knn + centroid(candidates=1)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, k=1)
    assert np.array_equal(plain.indices, one.indices)


def test_the_rare_label_near_the_row_rises() -> None:
    """Both labels get the learner's vote; the row is the rare label's own, while the common one is a cloud of words."""
    texts = ["rare gem stone", *(f"rare word{row} other{row} third{row}" for row in range(20))]
    targets = np.zeros((21, 2), np.float32)
    targets[0, 1], targets[1:, 0] = 1, 1
    labels = LabelSet(ids=("common", "rare"))
    data = Dataset(labels=labels, targets=sparse.csr_array(targets), ids=tuple(map(str, range(21))), texts=tuple(texts))
    train = data.over(labels.counted(data.targets))
    query = ["rare gem"]
    plain = Recipe.parse("knn(neighbours=21)").fit(train, train.take([])).predict(query, k=2)
    risen = Recipe.parse("knn(neighbours=21) + centroid").fit(train, train.take([])).predict(query, k=2)
    assert plain.indices[0].tolist() == [0, 1]
    assert risen.indices[0].tolist() == [1, 0]


def test_a_model_of_features_refuses_texts(numbers: Corpus) -> None:
    model = Recipe.parse("knn + centroid").fit(numbers.train, numbers.valid)
    assert model.predict(numbers.test.rows, k=2).hits(numbers.test.targets)[:, 0].mean() > 0.9
    with pytest.raises(DataError, match="trained on features and cannot read plain texts"):
        model.predict(["a text"])


def test_a_learner_and_a_tail_method_may_share_a_name(tiny: Corpus) -> None:
    from longtail.learners.centroid import Centroid
    from longtail.tail.centroid import CentroidTail

    recipe = Recipe.of(Centroid(), CentroidTail(centroid_weight=0.5))
    assert str(recipe) == "centroid + centroid(centroid_weight=0.5)"
    assert Recipe.parse(str(recipe)).tail == (CentroidTail(centroid_weight=0.5),)


@pytest.mark.parametrize("settings", ["centroid_weight=1.1", "centroid_weight=-0.1", "gamma=-3", "candidates=0"])
def test_settings_that_cannot_be_are_refused(settings: str) -> None:
    with pytest.raises(RecipeError, match=settings):
        Recipe.parse(f"knn + centroid({settings})")
