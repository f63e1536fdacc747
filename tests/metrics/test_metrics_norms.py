"""Norms of classifier rows in bins of label frequency."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.metrics.norms import norm_bins


def test_hand_worked_bins() -> None:
    counts = np.array([1, 1, 2, 3, 4, 5, 8, 9, 0, 7])
    norms = np.array([1, 3, 2, 4, 6, 1, 3, 7, 99, np.nan], dtype=np.float32)
    found = norm_bins(norms, counts)
    assert [(one.low, one.high, one.labels, one.mean) for one in found] == [
        (1, 1, 2, 2.0),
        (2, 2, 1, 2.0),
        (3, 4, 2, 5.0),
        (5, 8, 2, 2.0),
        (9, 9, 1, 7.0),
    ]
    assert found[2].middle == pytest.approx(12**0.5)
    assert (found[0].lowest, found[0].highest) == (pytest.approx(1.2), pytest.approx(2.8))


def test_powers_of_two_end_their_bins() -> None:
    counts = 2 ** np.arange(40, dtype=np.int64)
    norms = np.ones(40, dtype=np.float32)
    assert [(one.low, one.high) for one in norm_bins(norms, counts)] == [(count, count) for count in counts.tolist()]


def test_nothing_to_show() -> None:
    assert norm_bins(np.array([np.nan, 1.0], dtype=np.float32), np.array([5, 0])) == ()


@given(st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 100, width=32)), min_size=1, max_size=60))
def test_bins_hold_every_label_once_and_double(labels: list[tuple[int, float]]) -> None:
    counts = np.array([count for count, _ in labels])
    found = norm_bins(np.array([norm for _, norm in labels], dtype=np.float32), counts)
    assert sum(one.labels for one in found) == (counts > 0).sum()
    assert all(one.low <= one.middle * (1 + 1e-9) and one.middle <= one.high * (1 + 1e-9) for one in found)
    assert all(one.high < 2 * one.low for one in found)
    assert all(before.high < after.low for before, after in pairwise(found))
    assert all(one.lowest <= one.highest for one in found)
