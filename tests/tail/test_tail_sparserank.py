"""The sparse ranker, against SciPy's minimiser and the formulas."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, sparse

from lines import Lines
from longtail.data.corpus import Corpus
from longtail.data.labels import LabelSet
from longtail.errors import RecipeError
from longtail.linear.solvers import candidate_svc
from longtail.linear.solvers.candidate_svc import fit_candidates
from longtail.predictions import Predictions
from longtail.progress import listening
from longtail.recipe import Recipe
from longtail.store import load
from longtail.tail.sparserank import SparseRanker, blended, candidate_targets

COSTS = {"positive_cost": 2.0, "negative_cost": 0.7}


def problem() -> tuple[sparse.csr_array, sparse.csc_array]:
    rng = np.random.default_rng(0)
    rows = sparse.random_array((60, 9), density=0.4, rng=rng, dtype=np.float32, format="csr")
    held, targets = rng.random((60, 4)) < 0.6, np.where(rng.random((60, 4)) < 0.4, rng.uniform(0.3, 1, (60, 4)), 0)
    held[:, 3] = False  # a label without rows
    where = np.nonzero(held)
    candidates = sparse.csc_array((targets[where].astype(np.float32), where), shape=(60, 4))
    return rows, candidates


def test_each_label_has_the_minimum_of_its_own_squared_hinge_over_its_own_rows() -> None:
    rows, candidates = problem()
    weights, bias = fit_candidates(rows, candidates, **COSTS, max_iter=2000, threshold=0.0)
    dense = np.hstack([rows.toarray(), np.ones((60, 1))]).astype(np.float64)
    for label in range(3):
        own = candidates.indices[candidates.indptr[label] : candidates.indptr[label + 1]]
        target = candidates.data[candidates.indptr[label] : candidates.indptr[label + 1]]
        sign, cost = np.where(target > 0, 1, -1), np.where(target > 0, 2.0 * target, 0.7)

        def loss(w: np.ndarray, x: np.ndarray = dense[own], y: np.ndarray = sign, c: np.ndarray = cost) -> float:
            return float(w @ w / 2 + c @ np.maximum(1 - y * (x @ w), 0) ** 2)

        best = optimize.minimize(loss, np.zeros(10), tol=1e-12)
        found = np.append(weights[[label]].toarray()[0], bias[label])
        assert loss(found) == pytest.approx(best.fun, rel=1e-3)
    assert weights[[3]].nnz == 0
    assert bias[3] == 0


def test_labels_in_blocks_are_trained_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, candidates = problem()
    whole = fit_candidates(rows, candidates, **COSTS, max_iter=5, threshold=0.05)
    monkeypatch.setattr(candidate_svc, "BLOCK_ENTRIES", 1)
    parts = fit_candidates(rows, candidates, **COSTS, max_iter=5, threshold=0.05)
    np.testing.assert_array_equal(whole[0].toarray(), parts[0].toarray())
    np.testing.assert_array_equal(whole[1], parts[1])
    assert np.abs(whole[0].data).min() > 0.05


def test_a_label_learns_from_its_examples_and_from_the_learners_mistakes_alone(tiny: Corpus) -> None:
    labels = tiny.train.labels
    rng = np.random.default_rng(1)
    indices = np.array([rng.permutation(len(labels))[:3] for _ in range(len(tiny.train))], dtype=np.int32)
    indices[0, 1:] = -1
    predictions = Predictions(labels, indices, np.ones(indices.shape, np.float32))
    held = candidate_targets(predictions, tiny.train)
    found = {(row, label): value for row, label, value in zip(*held.tocoo().coords, held.tocoo().data, strict=True)}
    targets = tiny.train.targets.toarray()
    wanted = {}
    for row in range(len(tiny.train)):
        for label in range(len(labels)):
            if targets[row, label] > 0 or label in indices[row]:
                wanted[row, label] = targets[row, label]
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value)


def test_scores_are_blended_by_the_formula() -> None:
    labels = LabelSet(ids=("a", "b", "c"))
    predictions = Predictions(labels, np.array([[0, 1, -1]], np.int32), np.array([[0.8, 0.5, 0]], np.float32))
    found = blended(predictions, np.array([[-0.5, 1.4, 0.0]]), 0.3)
    slow = {0: 0.8**0.7 * math.exp(-(1.5**3)) ** 0.3, 1: 0.5**0.7}
    assert found.indices[0].tolist() == [1, 0, -1]
    assert found.scores[0, :2].tolist() == pytest.approx([slow[1], slow[0]], rel=1e-5)


def test_margins_are_products_with_the_weights(tiny: Corpus) -> None:
    model = Recipe.parse("knn(neighbours=5) + sparserank(ranker_weight=0.5)").fit(tiny.train, tiny.valid)
    (ranker,) = model.rerankers
    assert isinstance(ranker, SparseRanker)
    vectors = ranker.features.of(tiny.test.rows)
    predictions = Recipe.parse("knn(neighbours=5)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, 4)
    found = ranker.margins(vectors, predictions)
    every = (vectors @ ranker.weights.T).toarray() + ranker.bias
    for row in range(len(predictions)):
        for place, label in enumerate(predictions.indices[row]):
            assert found[row, place] == pytest.approx(every[row, label] if label >= 0 else 0.0, abs=1e-5)


def test_a_weight_of_zero_leaves_the_learner_as_it_is_and_saving_changes_nothing(tiny: Corpus, tmp_path: Path) -> None:
    plain = Recipe.parse("knn(neighbours=5)").fit(tiny.train, tiny.valid).predict(tiny.test.rows, 4)
    none = Recipe.parse("knn(neighbours=5) + sparserank(ranker_weight=0)").fit(tiny.train, tiny.valid)
    np.testing.assert_array_equal(none.predict(tiny.test.rows, 4).scores, plain.scores)
    chosen = Recipe.parse("knn(neighbours=5) + sparserank").fit(tiny.train, tiny.valid)
    again = load(chosen.save(tmp_path / "model"))
    before, after = (each.predict(tiny.test.rows, 4) for each in (chosen, again))
    np.testing.assert_array_equal(before.indices, after.indices)
    np.testing.assert_array_equal(before.scores, after.scores)


def test_a_ranker_that_valid_leaves_out_says_so(tiny: Corpus) -> None:
    notes = Lines()
    with listening(notes):
        (ranker,) = Recipe.parse("centroid + sparserank").fit(tiny.train, tiny.valid).rerankers
    assert isinstance(ranker, SparseRanker) and ranker.ranker_weight == 0  # of equals the smallest: nothing to gain
    assert [one for one in notes.lines if "sparserank" in one] == [
        "sparserank: chosen ranker_weight=0, so the learner's ranking stays as it is"
    ]


@pytest.mark.parametrize("settings", ["candidates=0", "positive_cost=0", "ranker_weight=1.5", "max_iter=0"])
def test_settings_that_make_no_sense_are_refused(settings: str) -> None:
    with pytest.raises(RecipeError):
        Recipe.parse(f"knn + sparserank({settings})")
