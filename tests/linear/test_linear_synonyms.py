"""Words that may replace each other."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.data import Dataset, LabelSet
from longtail.linear.features.word_synonyms import Synonyms, own_words, word_vectors


def test_word_vectors_are_those_of_the_singular_value_decomposition() -> None:
    """Cosines of words as by NumPy's decomposition of the whole, cut at the same dimension."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((60, 5)) @ rng.standard_normal((5, 30)) * 3
    dense = np.maximum(hidden + 0.05 * rng.standard_normal((60, 30)), 0).astype(np.float32)
    vectors = word_vectors(sparse.csr_array(dense), 6)
    _, values, turn = np.linalg.svd(dense, full_matrices=False)
    exact = turn[:6].T * values[:6]
    assert vectors.shape == (30, 6)
    assert np.allclose(vectors @ vectors.T, exact @ exact.T, rtol=0.02, atol=0.02 * values[0])


def test_own_words_are_in_two_rows_at_least() -> None:
    texts = ("red car", "red bus", "blue bus", "rare")
    data = Dataset(
        labels=LabelSet(ids=("a",)), targets=sparse.csr_array((4, 1), dtype=np.float32), ids=tuple("wxyz"), texts=texts
    )
    words, rows = own_words(data, 10)
    assert sorted(words) == ["bus", "red"] and rows.shape == (4, 2)
    assert len(own_words(data, 1)[0]) == 1


def test_nearest_others_above_the_floor() -> None:
    found = np.array([[0, 1, 2], [2, 1, 0], [2, 1, 0]], dtype=np.int32)
    cosines = np.array([[1, 0.9, 0.4], [0.95, 0.95, 0.9], [1, 0.95, 0.4]], dtype=np.float32)
    synonyms = Synonyms.of(["a", "b", "c"], found, cosines, 2, 0.5)
    assert synonyms.near.tolist() == [[1, -1], [2, 0], [1, -1]]
    assert Synonyms.of(["a", "b", "c"], found, cosines, 1, 0.5).near.tolist() == [[1], [2], [1]]


def test_words_are_swapped_where_they_stand() -> None:
    synonyms = Synonyms(("car", "auto", "red"), np.array([[1], [0], [-1]], dtype=np.int32))
    rng = np.random.default_rng(0)
    made = synonyms.swapped(["A red Car, and a (auto)!", "red", "", "no known word"], 1.0, rng)
    assert made == ["A red auto, and a (car)!", None, None, None]
    once = synonyms.swapped(["car auto car auto"] * 50, 0.0, rng)  # at least one word
    assert all(
        sum(a != b for a, b in zip(text.split(), ["car", "auto", "car", "auto"], strict=True)) == 1 for text in once
    )


def test_choices_are_drawn_among_all_near_words() -> None:
    synonyms = Synonyms(("a", "b", "c"), np.array([[1, 2], [0, -1], [0, -1]], dtype=np.int32))
    made = synonyms.swapped(["a"] * 400, 1.0, np.random.default_rng(0))
    assert 120 < made.count("b") < 280 and made.count("b") + made.count("c") == 400
