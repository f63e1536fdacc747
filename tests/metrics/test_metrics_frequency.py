"""Propensities, frequency bins, bands and Pos-80%."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics_cases import labels_with

from longtail.errors import DataError
from longtail.metrics import BANDS, bands, equi_volume_bins, inverse_propensity, pos80

Counts = st.lists(st.integers(0, 60), min_size=1, max_size=30)


def test_inverse_propensity_by_hand() -> None:
    weights = inverse_propensity(labels_with([0, 1, 100], train_rows=1000, a=0.5, b=0.4))
    scale = (log(1000) - 1) * 1.4**0.5
    assert weights == pytest.approx([1 + scale / 0.4**0.5, 1 + scale / 1.4**0.5, 1 + scale / 100.4**0.5])
    assert weights[1] == pytest.approx(log(1000))  # a label seen once weighs ln N, whatever A and B
    assert weights.dtype == np.float64


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_too_few_rows_for_a_propensity_weigh_alike(rows: int) -> None:
    assert inverse_propensity(labels_with([0, 1, 2], train_rows=rows)).tolist() == [1, 1, 1]
    assert inverse_propensity(labels_with([], train_rows=3)).tolist() == []


def test_constants_at_their_bounds_give_finite_weights() -> None:
    assert np.isfinite(inverse_propensity(labels_with([0, 4], b=0.001))).all()


@given(Counts, st.integers(3, 10_000))
def test_rarer_labels_weigh_more(counts: list[int], rows: int) -> None:
    weights = inverse_propensity(labels_with(counts, train_rows=rows))
    assert (weights > 1).all()
    assert (np.diff(weights[np.argsort(counts)]) <= 0).all()


def test_equal_shares_by_hand() -> None:
    # 12 positives in three shares of 4; by frequency: labels 1 (4), 3 (3), 0 (2), 4 (2), 5 (1)
    labels = labels_with([2, 4, 0, 3, 2, 1])
    # first positives at 0 | 4 7 | 9 11
    assert equi_volume_bins(labels, 3).tolist() == [1, 0, -1, 1, 2, 2]


def test_ties_go_by_row_and_a_large_label_leaves_a_bin_empty() -> None:
    assert equi_volume_bins(labels_with([3, 3, 3, 3]), 4).tolist() == [0, 1, 2, 3]
    assert equi_volume_bins(labels_with([3, 3, 3, 3]), 2).tolist() == [0, 0, 1, 1]
    assert equi_volume_bins(labels_with([90, 10]), 5).tolist() == [0, 4]
    assert equi_volume_bins(labels_with([0, 0]), 5).tolist() == [-1, -1]
    with pytest.raises(DataError, match="at least 1 bin, got 0"):
        equi_volume_bins(labels_with([1]), 0)


@given(Counts, st.integers(1, 10))
def test_no_bin_is_off_by_more_than_one_label(counts: list[int], bins: int) -> None:
    labels = labels_with(counts)
    bin_of, seen = equi_volume_bins(labels, bins), np.array(counts)
    assert ((bin_of < 0) == (seen == 0)).all()
    assert bin_of.max(initial=-1) < bins
    share = seen.sum() / bins
    for number in range(bins):
        assert abs(seen[bin_of == number].sum() - share) <= max(counts)


def test_bands_by_hand() -> None:
    # 200 positives: the first half is held by 60 and 50; 10 or 20 rows are torso, 1 to 5 tail
    labels = labels_with([10, 60, 0, 5, 50, 20, 1, 20, 20, 14])
    names = [BANDS[band] for band in bands(labels)]
    assert names == ["torso", "head", "unseen", "tail", "head", "torso", "tail", "torso", "torso", "torso"]


def test_a_label_with_few_rows_is_tail_even_if_it_is_the_most_frequent() -> None:
    assert bands(labels_with([5, 1, 0])).tolist() == [BANDS.index(name) for name in ("tail", "tail", "unseen")]


@given(Counts)
def test_bands_follow_their_definition(counts: list[int]) -> None:
    labels, half = labels_with(counts), sum(counts) / 2
    order = sorted(range(len(counts)), key=lambda label: (-counts[label], label))
    passed = 0
    for label in order:
        count = counts[label]
        expected = "unseen" if count == 0 else "tail" if count <= 5 else "head" if passed < half else "torso"
        assert BANDS[bands(labels)[label]] == expected
        passed += count


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([8, 1, 1], 100 / 3),  # one of three holds exactly 80%
        ([7, 2, 1], 200 / 3),
        ([8, 1, 1, 0, 0], 20.0),  # labels never seen count in the denominator
        ([0, 0], 0.0),
        ([], 0.0),
    ],
)
def test_pos80_by_hand(counts: list[int], expected: float) -> None:
    assert pos80(labels_with(counts)) == pytest.approx(expected)
