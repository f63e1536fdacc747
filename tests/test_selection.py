"""A place of an order, beside sorting."""

from __future__ import annotations

import time

import numpy as np
import pytest

from longtail.selection import at_place


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.int16])
@pytest.mark.parametrize("seed", range(3))
def test_a_place_among_values_is_found_without_sorting_them(seed: int, kind: type) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-4, 5, 50).astype(kind)  # many alike
    for place in range(50):
        assert at_place(values.copy(), place) == np.sort(values)[place]


@pytest.mark.parametrize("values", [[3.0], [1.0, 1.0], list(range(40)), list(range(40, 0, -1))])
def test_ordered_values_are_no_trap(values: list[float]) -> None:
    for place in range(len(values)):
        assert at_place(np.array(values, dtype=np.float32), place) == sorted(values)[place]


def test_no_pattern_takes_much_longer_than_chance() -> None:
    number = 200_000
    rising = np.arange(number, dtype=np.float32)
    taken = []
    for values in (np.random.default_rng(0).permutation(rising), np.minimum(rising, rising[::-1]), rising, rising % 7):
        wanted = np.sort(values)[number // 3]
        begin = time.process_time()
        assert at_place(values.copy(), number // 3) == wanted
        taken.append(time.process_time() - begin)
    assert max(taken) < 100 * max(taken[0], 1e-3)  # the square of the number would be a thousand times
