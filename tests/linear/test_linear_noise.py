from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from longtail.linear.features.noise import noisy_features, noisy_texts

texts = st.lists(st.lists(st.sampled_from(["a", "b", "c,", "d"]), max_size=8).map(" ".join), max_size=6)
swaps = st.sampled_from([0.0, 0.1, 0.5, 1.0])


@given(texts, st.sampled_from([1e-6, 0.3, 0.9, 1.0]), swaps, st.integers(0, 9))
def test_copies_have_only_words_of_their_row_and_at_least_one(
    rows: list[str], keep: float, swap: float, seed: int
) -> None:
    copies = noisy_texts(rows, keep, swap, np.random.default_rng(seed))
    assert len(copies) == len(rows)
    for row, copy in zip(rows, copies, strict=True):
        assert Counter(copy.split()) <= Counter(row.split())
        assert bool(copy) == bool(row)
        if keep == 1:
            assert Counter(copy.split()) == Counter(row.split())
        if keep == 1 and swap == 0:
            assert copy == row


@given(st.integers(0, 10_000), st.sampled_from([1e-6, 0.5, 1.0]), swaps)
def test_feature_copies_keep_columns_and_values(seed: int, keep: float, swap: float) -> None:
    rng = np.random.default_rng(seed)
    features = sparse.random_array((5, 7), density=0.5, rng=rng, dtype=np.float32, format="csr")
    copy = noisy_features(features, keep, swap, rng)
    for row in range(5):
        old, new = features[[row]], copy[[row]]
        assert set(new.indices) <= set(old.indices)
        assert (new.nnz > 0) == (old.nnz > 0)
        assert Counter(new.data.tolist()) <= Counter(old.data.tolist())
        if keep == 1:
            assert sorted(new.data) == sorted(old.data)
            assert new.indices.tolist() == old.indices.tolist()


def test_features_trade_their_values_and_stay_where_they_are() -> None:
    features = sparse.csr_array(np.array([[1, 0, 2], [0, 3, 0]], np.float32))
    copy = noisy_features(features, 1, 0.1, np.random.default_rng(0))
    assert copy.todense().tolist() == [[2, 0, 1], [0, 3, 0]]


def test_at_least_one_pair_is_swapped_and_about_the_share_is_kept() -> None:
    rng = np.random.default_rng(0)
    assert noisy_texts(["a b"] * 20, 1, 1e-9, rng) == ["b a"] * 20
    assert noisy_texts(["alone", ""], 0.5, 1, rng) == ["alone", ""]
    long = " ".join(map(str, range(10_000)))
    (dropped,) = noisy_texts([long], 0.7, 0, rng)
    assert len(dropped.split()) == pytest.approx(7000, abs=200)
    assert [int(word) for word in dropped.split()] == sorted(map(int, dropped.split()))  # dropping moves nothing
    (swapped,) = noisy_texts([long], 1, 0.2, rng)
    moved = sum(int(word) != place for place, word in enumerate(swapped.split()))
    assert moved == pytest.approx(2000 * 0.9, abs=100)  # some places are drawn twice


def test_blocks_of_texts_make_no_difference() -> None:
    """More texts than a block has: every copy is still of its own text."""
    rows = [f"row{number} of many" for number in range(3000)]
    copies = noisy_texts(rows, 0.9, 0.5, np.random.default_rng(1))
    assert all(set(copy.split()) <= set(row.split()) for row, copy in zip(rows, copies, strict=True))
