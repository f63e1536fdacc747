"""Which members are worth their time here: all of them are tried on a few examples first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from longtail.arrays import Bools, Floats, Ints, Matrix
from longtail.automatic.auto_result import worth
from longtail.automatic.schedule import FIRST_PACE
from longtail.data.corpus import hashed
from longtail.data.dataset import Dataset
from longtail.errors import LongtailError
from longtail.metrics import evaluate
from longtail.plan import Plan
from longtail.predictions import Predictions
from longtail.progress import checking, stage
from longtail.recipe import Recipe
from longtail.seams import FittedMember
from longtail.warmup import warm_up

SHARE = 0.08  # share of the time that all pilots together may take
LEAST_SECONDS = 1.5  # a pilot with less time than this is not started
ALL_FIT = 0.3  # no pilot where all members together need less than this share of the time: all are trained anyway
FEW, MANY, GROWTH = 1000, 16_000, 4  # training examples of the first pilot, of the last, and the factor between two
JUDGES = 1000  # valid examples that members are measured on
PLACES = 20  # labels that a member names for each of them
DEAR = 0.25  # a member that needs more than this share of the time does not come first
LEAST_GAIN = 0.5  # a gain of fewer points is an accident of the sample
SMALL = 0.01  # a member that needs less than this share of the time counts as if it needed it: then gains decide


@dataclass(frozen=True)
class Pilot:
    """What each member added on a few examples."""

    order: tuple[str, ...]  # the best member, then those that add the most in a second; those not tried last
    gains: Mapping[str, float]  # points of P@1 + PSP@5 that a member added to those before it
    rows: int  # training examples

    def __str__(self) -> str:
        tried = ", ".join(f"{name} {self.gains[name]:+.1f}" for name in self.order if name in self.gains)
        return f"The order of the members was found on {self.rows:,} training examples, by points added: {tried}."


def pilot(
    plans: Mapping[str, Plan], train: Dataset, valid: Dataset, within: float, clock: Callable[[], float]
) -> Pilot | None:
    """Train every member on a sample: the best comes first, then those that add the most to the others in a second.

    Args:
        plans: of the members on all of train, in the order of those that are not tried.
        train: training rows.
        valid: the rows that judge.
        within: seconds of the whole search.
        clock: tells the seconds.

    Returns:
        The order; None where there is time for all members, where members take too long on a sample, or where all
        of train is little more than a sample.
    """
    needed = sum(_seconds(one, len(valid)) for one in plans.values())
    useful = SHARE * within >= LEAST_SECONDS and needed > ALL_FIT * within
    if not useful or len(train) < 2 * FEW or not valid.targets.nnz or len(plans) < 2:
        return None
    start, judges, rows = clock(), _some(valid, JUDGES, "judge"), FEW
    recipes = {name: Recipe.parse(name) for name in sorted(plans, key=lambda name: plans[name].train_seconds)}
    warm_up(list(recipes.values()), train)
    costs = {name: max(_seconds(one, len(valid)), SMALL * within) for name, one in plans.items()}
    found: Pilot | None = None
    while rows <= min(MANY, len(train) // 2):
        began = clock()
        answers = _answers(recipes, _some(train, rows, "pilot"), judges, start + SHARE * within, clock)
        if len(answers) <= len(plans) / 2:
            break
        gains = added(answers, judges, costs, DEAR * within)
        found = Pilot((*gains, *(name for name in plans if name not in gains)), gains, rows)
        if clock() - start + GROWTH * (clock() - began) > SHARE * within:
            break
        rows *= GROWTH
    return found


def _answers(
    recipes: Mapping[str, Recipe], sample: Dataset, judges: Dataset, until: float, clock: Callable[[], float]
) -> dict[str, tuple[Ints, Floats]]:
    """What each member answers that was trained on the sample before the time is over."""
    answers: dict[str, tuple[Ints, Floats]] = {}

    def check() -> None:
        if clock() > until:
            raise LongtailError("the time of the pilot is over")

    for name, recipe in recipes.items():
        with suppress(LongtailError), stage(f"auto: {name} on a sample"), checking(check, quiet=True):
            member = FittedMember.of(recipe.fit(sample, judges), sample.labels)
            answers[name] = member.top(judges.rows, min(PLACES, len(sample.labels)), sample.labels)
    return answers


def added(
    answers: Mapping[str, tuple[Ints, Floats]], judges: Dataset, costs: Mapping[str, float], dear: float
) -> dict[str, float]:
    """Take the best member that is not dear, and after it always the one that adds the most in a second.

    Members are combined as if they were right independently of each other: a label at a place of a member is right as
    often as on the other half of the judging rows, and wrong only where all members are. Boosted trees get more out of
    a member than that, so none counts as useless.

    Args:
        answers: labels and scores of each member about the judging rows.
        judges: these rows.
        costs: seconds of each member.
        dear: seconds above which a member does not come first.

    Returns:
        Points added by each, in the order in which they were taken.
    """
    half = (hashed(judges.ids, "pilot") & np.uint64(1)).astype(np.bool_)
    doubts = {name: _doubt(Predictions(judges.labels, *found), judges, half) for name, found in answers.items()}
    gains: dict[str, float] = {}
    together: Matrix | None = None
    while len(gains) < len(doubts):
        before = sum(gains.values())
        left = {name: one if together is None else together + one for name, one in doubts.items() if name not in gains}
        reached = {name: worth(evaluate(_ranked(one, judges), judges)) - before for name, one in left.items()}
        if together is None:
            best = max(reached, key=lambda name: (costs[name] <= dear, reached[name]))
        else:
            best = max(reached, key=lambda name: max(reached[name], LEAST_GAIN) / costs[name])
        gains[best], together = reached[best], left[best]
    return gains


def _seconds(plan: Plan, asked: int) -> float:
    """To train a member and to ask it about so many rows."""
    return (plan.train_seconds + plan.predict_seconds * asked / 1000) * FIRST_PACE


def _some(data: Dataset, rows: int, salt: str) -> Dataset:
    """A sample of the rows, the same each time."""
    if rows >= len(data):
        return data
    return data.take(np.sort(np.argsort(hashed(data.ids, salt), kind="stable")[:rows]))


def _doubt(found: Predictions, judges: Dataset, half: Bools) -> Matrix:
    """ln(1 - how often a label at this place is right), for each label that is named: csr (rows, labels), below 0."""
    found = found.without(judges.excluded)
    hits, named = found.hits(judges.targets), found.indices >= 0
    values = np.zeros(found.indices.shape, dtype=np.float32)
    for side in (half, ~half):
        right = (hits[~side].sum(axis=0) + 0.1) / (named[~side].sum(axis=0) + 1)
        values[side] = np.log1p(-np.minimum(right, 0.999))
    starts = np.concatenate([[0], np.cumsum(named.sum(axis=1))])
    return sparse.csr_array(
        (values[named], found.indices[named].astype(np.int32), starts), shape=(len(judges), len(judges.labels))
    )


def _ranked(doubts: Matrix, judges: Dataset) -> Predictions:
    """The five labels of each row about which there is the least doubt."""
    width = int(np.diff(doubts.indptr).max(initial=1))
    filled = np.arange(width) < np.diff(doubts.indptr)[:, None]
    labels, scores = np.full(filled.shape, -1, dtype=np.int32), np.zeros(filled.shape, dtype=np.float32)
    labels[filled], scores[filled] = doubts.indices, -doubts.data
    return Predictions(judges.labels, labels, scores).sorted().top(5)
