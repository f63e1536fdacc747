from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.linear.scale import LEAST_SLOPE, Scale


def drawn(slope: float, offset: float, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and hits whose log odds are slope x ln score + offset."""
    chance = np.random.default_rng(seed)
    scores = chance.uniform(0.01, 1, rows).astype(np.float32)
    odds = np.exp(slope * np.log(scores) + offset)
    return scores, chance.random(rows) < odds / (1 + odds)


def test_an_inflated_side_comes_back() -> None:
    honest, right = drawn(1.5, 0.5, 40_000, seed=0)
    _, other = drawn(1.5, 0.5, 40_000, seed=1)
    inflated = honest**0.25 * np.float32(3)  # the same order, all of it far too high
    first, second = Scale.fit(honest, right, 1.0), Scale.fit(inflated, right, 1.0)
    assert first.slope == pytest.approx(1.5, abs=0.1)
    assert first.offset == pytest.approx(0.5, abs=0.1)
    assert second.of(inflated) == pytest.approx(first.of(honest), abs=0.02)
    assert first.of(honest).mean() == pytest.approx(right.mean(), abs=0.01)
    assert Scale.fit(honest, other, 1.0).of(honest).mean() == pytest.approx(other.mean(), abs=0.01)


def test_without_held_out_rows_the_odds_are_score_times_share() -> None:
    nothing = np.zeros(0, np.float32)
    scale = Scale.fit(nothing, nothing.astype(bool), 0.25)
    assert scale.of(np.array([0.5, 0], np.float32)) == pytest.approx([0.125 / 1.125, 0])


@given(st.lists(st.tuples(st.floats(2.0**-20, 2.0**20, width=32), st.booleans()), max_size=40), st.floats(0.01, 1))
def test_a_scale_never_turns_the_order_round(pairs: list[tuple[float, bool]], share: float) -> None:
    scores = np.array([score for score, _ in pairs], np.float32)
    scale = Scale.fit(scores, np.array([hit for _, hit in pairs], bool), share)
    assert scale.slope >= LEAST_SLOPE
    chances = scale.of(np.sort(scores))
    assert (np.diff(chances) >= 0).all()
    assert ((chances > 0) & (chances <= 1)).all()


def test_scores_that_mislead_get_the_smallest_slope_and_the_right_mean() -> None:
    scores = np.linspace(0.1, 1, 1000, dtype=np.float32)
    scale = Scale.fit(scores, scores < 0.3, 1.0)
    assert scale.slope == LEAST_SLOPE
    assert scale.of(scores).mean() == pytest.approx((scores < 0.3).mean(), abs=0.01)
