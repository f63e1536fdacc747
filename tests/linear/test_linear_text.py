from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from longtail.data import Corpus, Dataset, LabelSet, Rows
from longtail.errors import DataError
from longtail.linear.chance import Chance
from longtail.linear.text import Features, Vocabulary, unit_rows


def test_words_are_counted() -> None:
    vocabulary, counts = Vocabulary.learn(["The cat, the CAT; a dog", "", "dog-cat 42"])
    assert vocabulary.words == ("the", "cat", "a", "dog", "42")
    assert counts.toarray().tolist() == [[2, 2, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 1, 1]]
    other = vocabulary.count(["unknown words", "a a a bird", "Écho the"])
    assert other.toarray().tolist() == [[0, 0, 0, 0, 0], [0, 0, 3, 0, 0], [1, 0, 0, 0, 0]]


def test_tf_idf_by_hand() -> None:
    """Two rows; "cat" stands in both, "dog" twice in the second."""
    labels = LabelSet(ids=("l",))
    data = Dataset(
        labels=labels, targets=sparse.csr_array(np.ones((2, 1))), ids=("0", "1"), texts=("cat", "cat dog dog")
    )
    features, vectors = Features.learn(data)
    cat = math.log(3 / 3) + 1
    dog = (1 + math.log(2)) * (math.log(3 / 2) + 1)
    length = math.hypot(cat, dog)
    assert vectors.toarray() == pytest.approx(np.array([[1, 0], [cat / length, dog / length]]), abs=1e-6)
    assert features.of(data.rows).toarray() == pytest.approx(vectors.toarray())


def test_unit_rows_with_empty_rows() -> None:
    matrix = sparse.csr_array(np.array([[0, 0, 0], [3, 0, 4], [0, 0, 0], [0, 5, 0], [0, 0, 0]], dtype=np.float32))
    expected = [[0, 0, 0], [0.6, 0, 0.8], [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert unit_rows(matrix).toarray() == pytest.approx(np.array(expected))
    assert unit_rows(sparse.csr_array((3, 2), dtype=np.float32)).nnz == 0


def test_features_of_another_width_are_refused(numbers: Corpus, tiny: Corpus) -> None:
    features, _ = Features.learn(numbers.train)
    with pytest.raises(DataError, match="rows have 3 features, the model was trained on 15"):
        features.of(Rows(features=sparse.csr_array((2, 3), dtype=np.float32)))
    words, _ = Features.learn(tiny.train)
    with pytest.raises(DataError, match="trained on texts"):
        words.of(numbers.test.rows)


def test_chances_are_calibrated_and_follow_a_known_truth() -> None:
    """Candidates whose chance is known: the fit must find it from cosine and frequency."""
    chance = np.random.default_rng(1)
    counts = np.array([1, 3, 10, 100, 1000])
    indices = chance.integers(0, 5, (20000, 6)).astype(np.int32)
    scores = chance.random((20000, 6)).astype(np.float32)
    truth = 1 / (1 + np.exp(-(4 * scores + 0.5 * np.log1p(counts)[indices] - 5)))
    hits = chance.random(truth.shape) < truth
    fitted = Chance.fit(indices, scores, hits, counts)
    assert fitted is not None
    assert np.abs(fitted.of(indices, scores) - truth).mean() < 0.01
    # At the optimum the slope of the penalised loss is zero: a reference in plain float64.
    near = scores.astype(np.float64)
    log_counts = np.log1p(counts).astype(np.float32).astype(np.float64)[indices]
    inputs = [near, near / near.max(axis=1, keepdims=True), log_counts, near * log_counts, np.ones_like(near)]
    design = np.stack(inputs, axis=-1).reshape(-1, 5)
    guess = 1 / (1 + np.exp(-design @ fitted.weights))
    slope = design.T @ (guess - hits.ravel()) + fitted.weights
    assert np.abs(slope).max() < 1e-4


def test_chances_need_hits_to_learn_from() -> None:
    indices = np.zeros((10, 2), np.int32)
    scores = np.ones((10, 2), np.float32)
    assert Chance.fit(indices, scores, np.zeros((10, 2), bool), np.array([5])) is None
    assert Chance.fit(indices, scores, np.ones((10, 2), bool), np.array([5])) is None
