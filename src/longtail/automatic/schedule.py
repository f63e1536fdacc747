"""Which member is trained next. Numbers in, numbers out: no clock and no data here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longtail.errors import DataError

OVERHEAD = 0.3  # seconds of a member that no plan counts
FIRST_PACE = 1.5  # assumed before anything is measured: this machine may be slower than the one plans were made on
LEAST_PACE = 0.25
MARGIN = 1.2  # plans of two learners err differently
FIRST_SHARE = 0.05  # of the time: the first member ends even on a machine that is ten times slower, and shows its pace
BEST_RESERVE = 0.1  # share of the time left at which the best of the cheap members is stopped, if it still trains
QUICK_SHARE = 0.4  # a member is quick if it needs at most this share of the time that is left
CLOSING = 0.03  # share of the time for choosing and writing the model
TREE_RATE = 4e-9  # seconds of a tree for one number of one candidate, before it was measured
NUMBER_SECONDS = 3e-6  # seconds to compute the numbers of a candidate
MOST_LEARNED = 1_600_000  # candidates that trees learn from; of more, a share is drawn
COMBINING = 0.5  # seconds of a combination that do not depend on its size
NAMED_TWICE = 0.6  # share of candidates that is left when labels that several members name count once


@dataclass(frozen=True)
class PlannedMember:
    """A member and the seconds that its plan says."""

    recipe: str
    seconds: float  # to train it and to ask it about the valid examples
    answer_seconds: float  # the part of `seconds` for asking it about the valid examples

    def on(self, pace: float) -> float:
        """Return the seconds that it may take on this machine."""
        return (self.seconds + OVERHEAD) * pace * MARGIN


def check_within(within: float) -> float:
    """Check a time that was given.

    Args:
        within: seconds.

    Returns:
        The same.

    Raises:
        DataError: it is no number above 0.
    """
    number = isinstance(within, int | float) and not isinstance(within, bool)
    if not number or not math.isfinite(within) or within <= 0:
        raise DataError(f"within is a number of seconds above 0, such as 600, got {within!r}")
    return float(within)


def pace_of(done: Sequence[tuple[float, float]]) -> float:
    """Tell how much longer than planned members take on this machine, now.

    Args:
        done: planned and real seconds of each member that was trained.

    Returns:
        The ratio of the sums; FIRST_PACE where nothing was trained.
    """
    if not done:
        return FIRST_PACE
    return max(sum(real for _, real in done) / sum(planned + OVERHEAD for planned, _ in done), LEAST_PACE)


def first_of_all(waiting: Sequence[PlannedMember], left: float) -> int:
    """Choose the first member, before the pace of the machine is known.

    Args:
        waiting: members in order of expected gain.
        left: seconds.

    Returns:
        The place of the first that is sure to end, or else that of the quickest.
    """
    sure = (place for place, one in enumerate(waiting) if one.on(FIRST_PACE) <= FIRST_SHARE * left)
    return next(sure, min(range(len(waiting)), key=lambda place: waiting[place].seconds))


def first_that_fits(
    waiting: Sequence[PlannedMember], left: float, pace: float, reserve: Callable[[PlannedMember], float]
) -> int | None:
    """Choose the next member. One that takes most of the time waits until the quick ones are trained.

    Args:
        waiting: members in order of expected gain.
        left: seconds.
        pace: see `pace_of`.
        reserve: seconds that are needed after a member, to combine it with those before.

    Returns:
        The place of the first that fits in QUICK_SHARE of the time, or else in the time; None where none fits.
    """
    for share in (QUICK_SHARE, 1.0):
        for place, one in enumerate(waiting):
            if one.on(pace) <= share * (left - reserve(one)):
                return place
    return None


def candidates_of(members: int, rows: int, labels: int, places: int) -> float:
    """Estimate how many candidates members name.

    Args:
        members: how many.
        rows: examples that they are asked about.
        labels: of the data.
        places: labels that each names.

    Returns:
        Candidates of all rows.
    """
    return rows * min(places * members * NAMED_TWICE, labels)


def tree_work(members: int, candidates: float, trees: int) -> float:
    """Count what trees look at: numbers of candidates, in each tree.

    Args:
        members: how many; each brings three numbers a candidate, and nine are there anyway.
        candidates: to learn from.
        trees: to grow at most.

    Returns:
        The product; seconds are this times the seconds of one.
    """
    return min(candidates, MOST_LEARNED) * (3 * members + 9) * trees


def combining_seconds(
    members: int, rows: int, labels: int, places: int, trees: int, rate: float, pace: float = 1.0
) -> float:
    """Plan how long the trees of a combination take, without asking its members.

    Args:
        members: how many.
        rows: examples to learn from.
        labels: of the data.
        places: labels that each member names.
        trees: to grow at most.
        rate: seconds of a piece of `tree_work` on this machine.
        pace: see `pace_of`.

    Returns:
        Seconds; 0 for fewer than two members, which are not combined.
    """
    if members < 2:
        return 0.0
    candidates = candidates_of(members, rows, labels, places)
    return (COMBINING + NUMBER_SECONDS * candidates) * pace + rate * tree_work(members, candidates, trees)
