"""The order of members and what is skipped: numbers alone, no clock."""

from __future__ import annotations

import math

import pytest

from longtail.automatic.schedule import (
    FIRST_PACE,
    FIRST_SHARE,
    LEAST_PACE,
    MARGIN,
    MOST_LEARNED,
    OVERHEAD,
    PlannedMember,
    candidates_of,
    check_within,
    combining_seconds,
    first_of_all,
    first_that_fits,
    pace_of,
    tree_work,
)
from longtail.errors import DataError


def member(name: str, seconds: float) -> PlannedMember:
    return PlannedMember(name, seconds, 0.0)


def trained(
    members: list[PlannedMember], within: float, real: float, combining: float = 0.0
) -> tuple[list[str], float]:
    """Walk through a schedule by a clock that only the members move: each takes `real` times its plan."""
    waiting, done, now, names = list(members), [], 0.0, []
    while True:
        place = first_that_fits(waiting, within - now, pace_of(done), lambda one: combining if names else 0.0)
        if place is None:
            return names, now
        one = waiting.pop(place)
        took = (one.seconds + OVERHEAD) * real
        now += took
        done.append((one.seconds, took))
        names.append(one.recipe)


def test_all_are_trained_in_their_order_where_there_is_time() -> None:
    order = [member("a", 3), member("b", 1), member("c", 5)]
    assert trained(order, within=100, real=1.0)[0] == ["a", "b", "c"]


def test_what_does_not_fit_is_skipped_and_what_follows_is_trained() -> None:
    order = [member("a", 1), member("large", 500), member("c", 2)]
    assert trained(order, within=60, real=1.0)[0] == ["a", "c"]


def test_the_first_member_is_sure_to_end() -> None:
    """It is the first in order that is quick beside the time, or else the quickest."""
    order = [member("best", 20), member("good", 1), member("poor", 0.1)]
    assert [order[first_of_all(order, left)].recipe for left in (1000, 60, 5)] == ["best", "good", "poor"]
    assert order[1].on(FIRST_PACE) <= FIRST_SHARE * 60 < 10 * order[1].on(FIRST_PACE)


def test_one_that_takes_most_of_the_time_waits_for_the_quick_ones() -> None:
    order = [member("long", 30), member("b", 1), member("c", 2)]
    assert trained(order, within=60, real=1.0)[0] == ["b", "c", "long"]


@pytest.mark.parametrize("real", [0.5, 1.0, 2.0, 3.0])
def test_a_slow_machine_trains_fewer_and_ends_in_time(real: float) -> None:
    order = [member(str(number), 4) for number in range(30)]
    names, took = trained(order, within=60, real=real, combining=10)
    assert took + 10 <= 60
    assert len(names) >= 0.7 * 50 / (4.3 * real) - 1


def test_the_reserve_is_kept_for_the_combination() -> None:
    order = [member("a", 1), member("b", 1)]
    assert trained(order, within=20, real=1.0, combining=19)[0] == ["a"]


def test_the_pace_is_real_over_planned() -> None:
    assert pace_of([]) == FIRST_PACE
    assert pace_of([(1.0, 2 * (1.0 + OVERHEAD)), (3.0, 2 * (3.0 + OVERHEAD))]) == pytest.approx(2.0)
    assert pace_of([(100.0, 0.1)]) == LEAST_PACE
    assert member("a", 2).on(3.0) == pytest.approx((2 + OVERHEAD) * 3 * MARGIN)


def test_a_combination_costs_more_with_more_of_everything() -> None:
    def seconds(members: int = 3, rows: int = 1000, trees: int = 300, rate: float = 1e-8) -> float:
        return combining_seconds(members, rows, 10_000, 40, trees, rate)

    assert seconds(members=1) == 0
    assert seconds() < min(seconds(members=4), seconds(rows=2000), seconds(trees=400), seconds(rate=2e-8))
    assert candidates_of(3, 10, labels=5, places=40) == 50  # no more than there are labels
    assert tree_work(2, 10 * MOST_LEARNED, 100) == tree_work(2, MOST_LEARNED, 100)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "10m", None, True])
def test_a_time_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(DataError, match="within is a number of seconds above 0"):
        check_within(wrong)  # type: ignore[arg-type]
