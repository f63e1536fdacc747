"""Two examples made into one."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.data.dataset import Rows
from longtail.linear.features.mixed_examples import mixed, mixed_matrix, mixed_texts, thinned


def test_word_counts_are_mixed_on_average() -> None:
    """Over many draws a word of the first text is kept with probability lambda, one of the second with 1 - lambda."""
    rng = np.random.default_rng(0)
    times, words = 4000, 20
    first, second = " ".join(f"a{word}" for word in range(words)), " ".join(f"b{word}" for word in range(words))
    made = mixed_texts([first] * times, [second] * times, np.full(times, 0.3), rng)
    from_first = np.mean([sum(word[0] == "a" for word in text.split()) for text in made])
    from_second = np.mean([sum(word[0] == "b" for word in text.split()) for text in made])
    assert abs(from_first - 0.3 * words) < 0.15 and abs(from_second - 0.7 * words) < 0.15


def test_words_keep_their_order_and_one_stays() -> None:
    rng = np.random.default_rng(0)
    assert thinned(["one two three", "", "  ", "x"], np.zeros(4), rng)[1:] == ["", "", "x"]
    for text in thinned(["1 2 3 4 5 6 7 8"] * 200, np.full(200, 0.5), rng):
        assert text and text.split() == sorted(text.split())
    assert thinned(["a, b!"], np.ones(1), rng) == ["a, b!"]
    assert thinned([], np.zeros(0), rng) == [] and thinned(["", ""], np.zeros(2), rng) == ["", ""]


def test_features_are_the_weighted_mean() -> None:
    first = sparse.csr_array(np.array([[1, 0, 2], [0, 0, 4]], dtype=np.float32))
    second = sparse.csr_array(np.array([[0, 8, 2], [1, 0, 0]], dtype=np.float32))
    parts = np.array([0.25, 0.5])
    expected = parts[:, None] * first.toarray() + (1 - parts[:, None]) * second.toarray()
    assert np.allclose(mixed_matrix(first, second, parts).toarray(), expected)
    assert mixed_matrix(first, second, parts).dtype == np.float32
    both = mixed(
        Rows(texts=("a", "b"), features=first), Rows(texts=("c", "d"), features=second), parts, np.random.default_rng(0)
    )
    assert both.texts == ("a c", "b d") and np.allclose(both.features.toarray(), expected)


def test_parts_too_small_for_a_number_leave_no_entry() -> None:
    one = sparse.csr_array(np.ones((1, 2), dtype=np.float32))
    none = sparse.csr_array((1, 2), dtype=np.float32)
    assert mixed_matrix(one, none, np.array([1e-60])).nnz == 0
    full = mixed_matrix(one, one, np.array([0.1])).data
    assert (full == 1).all()  # never a little more than 1
