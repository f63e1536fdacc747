"""Evenly spaced row numbers: how many, which, and in which order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longtail.data.subsample import evenly_spaced


def test_few_rows_are_all_taken() -> None:
    assert evenly_spaced(0, 5).tolist() == []
    assert evenly_spaced(1, 5).tolist() == [0]
    assert evenly_spaced(5, 5).tolist() == [0, 1, 2, 3, 4]
    assert evenly_spaced(3, 2000).tolist() == [0, 1, 2]


def test_many_rows_are_taken_from_the_first_to_the_last() -> None:
    assert evenly_spaced(9, 5).tolist() == [0, 2, 4, 6, 8]
    assert evenly_spaced(10, 4).tolist() == [0, 3, 6, 9]
    assert evenly_spaced(100, 1).tolist() == [0]


@given(st.integers(1, 20_000), st.integers(2, 5_000))
def test_the_steps_are_as_even_as_whole_numbers_can_be(rows: int, most: int) -> None:
    taken = evenly_spaced(rows, most)
    assert taken.dtype == np.int64
    assert len(taken) == min(rows, most)
    assert taken[0] == 0 and taken[-1] == rows - 1
    steps = np.diff(taken)
    assert len(steps) == 0 or (steps.min() >= 1 and steps.max() - steps.min() <= 1)
