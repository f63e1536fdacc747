from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.arrays import Bools, Floats
from longtail.linear.solvers.score_scale import MIN_SCALE, ScoreCalibration

BEFORE = ScoreCalibration.of_share(1.0)


def drawn(scale: float, rival: float, offset: float, rows: int, seed: int) -> tuple[Floats, Floats, Bools]:
    """Scores, rivals, and hits whose log odds are scale x ln score + rival x r / (1 + r) + offset."""
    rng = np.random.default_rng(seed)
    scores, rivals = rng.uniform(0.01, 1, (2, rows)).astype(np.float32)
    odds = np.exp(scale * np.log(scores) + rival * rivals / (1 + rivals) + offset)
    return scores, rivals, rng.random(rows) < odds / (1 + odds)


def test_the_weights_that_made_the_hits_are_found() -> None:
    scale = BEFORE.fitted(*drawn(1.5, -2.0, 0.5, 100_000, seed=0))
    assert (scale.weight, scale.rival, scale.offset) == pytest.approx((1.5, -2.0, 0.5), abs=0.12)


def test_an_inflated_model_comes_back() -> None:
    honest, rivals, right = drawn(1.5, -2.0, 0.5, 40_000, seed=0)
    inflated = honest**0.25 * np.float32(3)  # the same order, all of it far too high
    first, second = BEFORE.fitted(honest, rivals, right), BEFORE.fitted(inflated, rivals, right)
    assert second.of(inflated, rivals) == pytest.approx(first.of(honest, rivals), abs=0.02)
    assert second.of(inflated, rivals).mean() == pytest.approx(right.mean(), abs=0.005)


def test_without_held_out_rows_the_odds_are_score_times_share() -> None:
    nothing = np.zeros(0, np.float32)
    scale = ScoreCalibration.of_share(0.25).fitted(nothing, nothing, nothing.astype(bool))
    assert scale == ScoreCalibration.of_share(0.25)
    assert scale.of(np.array([[0.5, 0]], np.float32), np.array([[7]], np.float32))[0] == pytest.approx([1 / 9, 0])


@given(
    st.lists(st.tuples(st.floats(2.0**-20, 2.0**20, width=32), st.floats(0, 2.0**20, width=32), st.booleans())),
    st.floats(0.01, 1),
)
def test_a_scale_never_turns_the_order_of_a_row_round(pairs: list[tuple[float, float, bool]], share: float) -> None:
    scores, rivals = (np.array([pair[part] for pair in pairs], np.float32) for part in (0, 1))
    scale = ScoreCalibration.of_share(share).fitted(scores, rivals, np.array([pair[2] for pair in pairs], bool))
    assert scale.weight >= MIN_SCALE
    for rival in (0, 1, 2.0**20):
        probabilities = scale.of(np.sort(scores)[None], np.array([[rival]], np.float32))[0]
        assert (np.diff(probabilities) >= 0).all()
        assert ((probabilities > 0) & (probabilities <= 1)).all()


def test_misleading_scores_get_the_smallest_scale_and_the_right_mean() -> None:
    scores = np.linspace(0.1, 1, 1000, dtype=np.float32)
    rivals = np.zeros_like(scores)
    scale = BEFORE.fitted(scores, rivals, scores < 0.3)
    assert scale.weight == MIN_SCALE
    assert scale.of(scores, rivals).mean() == pytest.approx((scores < 0.3).mean(), abs=0.01)
