"""`auto`: inspects the data, trains members while there is time, combines them, and returns the best."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from longtail.arrays import Floats, Ints
from longtail.automatic.auto_result import FAILED, LEFT_OUT, SKIPPED, STOPPED, TRAINED, AutoResult, Tried, worth
from longtail.automatic.fusing import FULL, PLACES, QUICK, ROUGH, KeptModels, cross_fitted, fuse_recipe, tree_rate
from longtail.automatic.member_order import (
    FURTHER,
    DataProfile,
    members_in_order,
    planned_members,
    plans_of,
    with_valid,
)
from longtail.automatic.pilot import pilot
from longtail.automatic.reranking import best_strength, reranked
from longtail.automatic.schedule import (
    BEST_RESERVE,
    CLOSING,
    FIRST_PACE,
    MARGIN,
    TREE_RATE,
    PlannedMember,
    candidates_of,
    check_within,
    combining_seconds,
    first_of_all,
    first_that_fits,
    pace_of,
    tree_work,
)
from longtail.data.corpus import Corpus
from longtail.errors import DataError, LongtailError
from longtail.linear.fusion.boosted_trees import Growing
from longtail.memory import available_bytes
from longtail.metrics import evaluate
from longtail.metrics.measures import Measures
from longtail.model import Model
from longtail.plan import Plan, readable_seconds
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import checking, note, stage
from longtail.recipe import Recipe
from longtail.reuse import reusing
from longtail.seams import FittedMember
from longtail.warmup import warm_up

FOLDS = (4, 3, 2)  # numbers of folds for a combination that learns on out-of-fold answers, best first
LEAST_JUDGING = 0.7  # of the seconds of a combination: judging it does not ask the members again
WRITING = 1.5e8  # bytes of a model that are written in a second
TRIED_SHARE = 0.4  # of the time left, for a second member that does not seem to fit
FULL_SHARE = 0.3  # of the time left: a combination that takes more grows fewer trees, in favour of more members


class OutOfTime(LongtailError):
    """A training was stopped, because its time is over."""


def auto(corpus: Corpus, within: float, clock: Callable[[], float] = time.perf_counter) -> AutoResult:
    """Train the best model that fits in a time, without a recipe.

    Members are trained one after the other, the most promising first, as long as their plans fit; then they are
    combined by `fuse`. Everything is judged on valid; test is never read.

    Args:
        corpus: the data.
        within: seconds from now.
        clock: tells the seconds; `time.process_time` counts those of the processor, on a machine that does other work.

    Returns:
        The model, the recipe that repeats it, and what was tried.

    Raises:
        DataError: the time is no number above 0, or nothing can be trained on the data.
    """
    return _TimedSearch(check_within(within), with_valid(corpus), clock).result()


@dataclass(eq=False)
class _TimedSearch:
    """One search: what is fitted so far and how much time is left."""

    within: float
    corpus: Corpus
    clock: Callable[[], float]
    tried: list[Tried] = field(default_factory=list)
    answers: dict[str, tuple[Ints, Floats]] = field(default_factory=dict)  # of each recipe for valid, to combine
    candidates: dict[str, Predictions] = field(default_factory=dict)  # of each recipe for valid, longer lists
    members: list[PlannedMember] = field(default_factory=list)  # those that were trained
    paces: list[tuple[float, float]] = field(default_factory=list)  # planned and real seconds of each training
    plans: dict[str, Plan] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tree_rate: float | None = None  # see `combining_seconds`; measured once there are two members

    def __post_init__(self) -> None:
        self.began = self.clock()

    def result(self) -> AutoResult:
        train, valid = self.corpus.train, self.corpus.valid
        with stage("looking at the data"):
            profile = DataProfile.at(train, valid)
            self.plans, left_out = plans_of(members_in_order(profile), profile, train)
            further, left_out_too = plans_of(FURTHER, profile, train)
        note(f"auto: {profile}")
        if (first := pilot(self.plans, train, valid, self.within, self.clock)) is not None:
            self.plans = {name: self.plans[name] for name in first.order}
            self.notes.append(str(first))
            note(f"auto: {first}")
        if not self.plans:
            why = "; ".join(f"{recipe}: {reason}" for recipe, reason in left_out.items())
            raise DataError(f"nothing can be trained on {self.corpus.name}: {why}")
        self.kept = KeptModels(train, valid)
        with reusing(self.kept):
            waiting = planned_members(self.plans, len(valid))
            self._train_members(waiting, profile)
            if profile.cannot_fuse:
                self.notes.append(f"Nothing was combined: {profile.cannot_fuse}.")
                note(f"note: {self.notes[-1]}")
            else:
                self._combine_in_time(waiting, profile)
            if not waiting:  # all are trained, and combined on folds where time allows
                self.plans |= further
                waiting = planned_members(further, len(valid))
                trained_before = len(self.members)
                self._train_members(waiting, profile)
                if len(self.members) > trained_before and not profile.cannot_fuse:
                    self._combine_in_time(waiting, profile)
            self._train_alone(waiting)
            self._rerank()
            self._skip(waiting)
            trained = [one for one in self.tried if one.state == TRAINED]
            if not trained:
                why = "; ".join(f"{one.recipe}: {one.why}" for one in self.tried if one.why)
                raise DataError(f"nothing could be trained on {self.corpus.name}: {why}")
            # A combination for whose judging no time was left; one on folds was judged, and is as good as more members.
            unjudged = [one for one in trained if one.why and not any("folds=" in other.recipe for other in trained)]
            best = unjudged[-1] if unjudged else max(trained, key=lambda one: one.worth)
            model = self._model(best)
        self.tried.sort(key=lambda one: one.state != TRAINED)
        self.tried += [Tried(recipe, LEFT_OUT, why=why) for recipe, why in (left_out | left_out_too).items()]
        return AutoResult(
            model=replace(
                model,
                text_field=self.corpus.text_field,
                id_field=self.corpus.id_field,
                language_field=self.corpus.language_field,
                table=self.corpus.table,
            ),
            chosen=best,
            tried=tuple(self.tried),
            looked_at=str(profile),
            within=self.within,
            seconds=self.clock() - self.began,
            train_rows=len(train),
            valid_rows=len(valid),
            notes=tuple(self.notes),
        )

    def _left(self) -> float:
        """Seconds until the model must be chosen."""
        size = sum(self.plans[one.recipe].model_bytes for one in self.members)
        return self.within * (1 - CLOSING) - size / WRITING - (self.clock() - self.began)

    def _reserve(self, profile: DataProfile) -> Callable[[PlannedMember], float]:
        return lambda one: 0.0 if profile.cannot_fuse else self._combining([*self.members, one])

    def _train_members(self, waiting: list[PlannedMember], profile: DataProfile) -> None:
        """Train those that fit, and take them out of the list."""
        while waiting:
            found = self._next(waiting, profile) if self.members else self._first(waiting)
            if found is None:
                return
            one, reserve = found
            waiting.remove(one)
            self._train(one, reserve)
            if len(self.members) == 2 and self.tree_rate is None and not profile.cannot_fuse:
                with suppress(OutOfTime):
                    self._measure_trees()

    def _first(self, waiting: list[PlannedMember]) -> tuple[PlannedMember, float | None]:
        """The first member and when it is stopped: in time for the quickest one, which never is: else there is no
        model."""
        quickest, left = min(waiting, key=lambda one: one.seconds), self._left()
        if quickest.on(FIRST_PACE) > left:
            given, name = readable_seconds(self.within), quickest.recipe
            self.notes.append(f"No member fits in {given}; `{name}`, the quickest, was trained all the same.")
            note(f"note: {self.notes[-1]}")
        one = waiting[first_of_all(waiting, left)]
        return one, None if one is quickest else 2 * quickest.on(FIRST_PACE)

    def _next(self, waiting: list[PlannedMember], profile: DataProfile) -> tuple[PlannedMember, float] | None:
        """The next member and the seconds that must be left after it; none where no time is left for another."""
        left, pace, reserve = self._left(), pace_of(self.paces), self._reserve(profile)
        best = waiting[0]
        if best.recipe == next(iter(self.plans)) and best.on(pace) <= left:  # better than any combination of poor ones
            return best, BEST_RESERVE * left
        place = first_that_fits(waiting, left, pace, reserve)
        if place is not None:
            return waiting[place], reserve(waiting[place])
        quickest = min(waiting, key=lambda one: one.seconds)
        if len(self.members) == 1 and not profile.cannot_fuse and quickest.on(pace) <= TRIED_SHARE * left:
            # Even a rough combination is much better than its members; and if time ends before it, nothing is lost.
            return quickest, (1 - TRIED_SHARE) * left
        return None

    def _train_alone(self, waiting: list[PlannedMember]) -> None:
        """Where no time is left to combine another member, it may still be better than all that was combined."""
        while fitting := [one for one in waiting if one.on(pace_of(self.paces)) <= self._left()]:
            waiting.remove(fitting[0])
            self._train(fitting[0], 0.0)

    def _skip(self, waiting: list[PlannedMember]) -> None:
        """Name the members for which no time was left."""
        pace, left = pace_of(self.paces), max(self._left(), 0.0)
        for one in waiting:
            why = f"needs about {readable_seconds(one.on(pace))}, and {readable_seconds(left)} were left"
            self.tried.append(Tried(one.recipe, SKIPPED, one.seconds, why=why))

    def _growing(self, share: float = FULL_SHARE) -> Growing:
        """Fewer trees, where all of them would take more than a share of the time that is left."""
        left = self._left()
        if self._combining(self.members, FULL) <= share * left:
            return FULL
        return QUICK if self._combining(self.members, QUICK, judged=False) <= left else ROUGH

    def _tree_seconds(self, members: int, growing: Growing) -> float:
        pace = pace_of(self.paces)
        rate = TREE_RATE * pace if self.tree_rate is None else self.tree_rate
        sizes = len(self.corpus.valid), len(self.corpus.labels)
        return combining_seconds(members, *sizes, PLACES, growing.trees, rate, pace)

    def _combining(self, members: list[PlannedMember], growing: Growing = QUICK, judged: bool = True) -> float:
        """Seconds to ask members about valid again, to combine them, and to judge the combination."""
        if len(members) < 2:
            return 0.0
        asking = sum(one.answer_seconds for one in members) * pace_of(self.paces)
        return (asking + (1 + judged) * self._tree_seconds(len(members), growing)) * MARGIN

    def _measure_trees(self) -> None:
        """Learn how fast trees grow here: on a busy machine they slow down more than training does."""
        names = [one.recipe for one in self.members]
        self._stop_at(0.0)()
        warm_up([Recipe.parse(fuse_recipe(names, FULL)[:-1] + ", trees=1)")], self.corpus.train)
        with stage("auto: measuring the combiner"), checking(self._stop_at(0.0), quiet=True):
            answers = [self.answers[name] for name in names]
            self.tree_rate = tree_rate(answers, self.corpus.train, self.corpus.valid, self.clock) or TREE_RATE

    def _train(self, one: PlannedMember, reserve: float | None) -> None:
        """Train a member and judge it on valid; it is stopped when only the reserve is left, or never."""
        recipe, train, valid = Recipe.parse(one.recipe), self.corpus.train, self.corpus.valid
        check = _never if reserve is None else self._stop_at(reserve)
        warm_up([recipe], train)  # kernels are compiled once a machine; that says nothing about its pace
        start = self.clock()
        try:
            with stage(f"auto: {one.recipe}"), checking(check):
                model = recipe.fit(train, valid)
                found = FittedMember.of(model, train.labels).top(
                    valid.rows, min(CANDIDATES, len(train.labels)), train.labels
                )
        except OutOfTime:
            self._stopped(one.recipe, start, one.seconds)
            return
        except LongtailError as error:
            note(f"auto: {one.recipe} failed: {error}")
            self.tried.append(Tried(one.recipe, FAILED, one.seconds, self.clock() - start, why=str(error)))
            return
        taken = self.clock() - start
        self.members.append(one)
        self.paces.append((one.seconds, taken))
        self.answers[one.recipe] = found[0][:, :PLACES], found[1][:, :PLACES]
        self._judged(one.recipe, Predictions(train.labels, *found).without(valid.excluded), taken, one.seconds)

    def _judged(self, recipe: str, predictions: Predictions, seconds: float, planned: float | None = None) -> None:
        valid = self.corpus.valid
        self.candidates[recipe] = predictions
        measures: Measures | None = None
        if len(valid) and valid.targets.nnz:
            measures = evaluate(predictions.top(5), valid)
        figures = "" if measures is None else f"P@1 {measures['P@1']:.1f}, PSP@5 {measures['PSP@5']:.1f} on valid, "
        note(f"auto: {recipe}: {figures}{readable_seconds(seconds)}")
        self.tried.append(Tried(recipe, TRAINED, planned, seconds, measures))

    def _combine_in_time(self, waiting: list[PlannedMember], profile: DataProfile) -> None:
        """Combine the members. The first combination shows what one takes here; there may be time for more members."""
        combined, growing = 1, FULL
        while len(self.members) > combined:
            combined, growing = len(self.members), self._growing()
            if not self._combine(growing):
                return
            self._train_members(waiting, profile)
        if growing != FULL and self._growing(1.0) == FULL:
            growing = FULL
            if not self._combine(growing):
                return
        names = [one.recipe for one in self.members]
        folds = self._affordable_folds(names, growing) if combined > 1 else None
        if folds:
            self._with_folds(f"{fuse_recipe(names, growing)[:-1]}, folds={folds})")

    def _combine(self, growing: Growing) -> bool:
        """Combine the members and judge that; False where no time is left to judge it."""
        names, train, valid = [one.recipe for one in self.members], self.corpus.train, self.corpus.valid
        start = self.clock()
        recipe, answers = fuse_recipe(names, growing), [self.answers[name] for name in names]
        try:
            with stage("auto: combining"), checking(self._stop_at(0.0)):
                Recipe.parse(recipe).fit(train, valid)  # kept: the best so far
        except OutOfTime:
            self._stopped(recipe, start)
            return False
        seconds = self.clock() - start
        start = self.clock()
        try:
            if seconds * LEAST_JUDGING > self._left():
                raise OutOfTime("no time to judge it")
            with stage("auto: judging the combination"), checking(self._stop_at(0.0), quiet=True):
                predictions = cross_fitted(answers, train, valid, CANDIDATES, growing)
        except OutOfTime:
            self.notes.append(
                "No time was left to judge the combination. It was chosen all the same, since a combination is nearly "
                "always better than its members."
            )
            self.tried.append(Tried(recipe, TRAINED, None, seconds, why="not judged, no time left"))
            note(f"auto: {recipe}: not judged, no time left, {readable_seconds(seconds)}")
            return False
        candidates = candidates_of(len(names), len(valid), len(train.labels), PLACES)
        self.tree_rate = (self.clock() - start) / tree_work(len(names), candidates, growing.trees)
        self._judged(recipe, predictions, seconds)
        return True

    def _affordable_folds(self, names: list[str], growing: Growing) -> int | None:
        """The most folds that fit in time and memory. Members are trained once more a fold, on less."""
        assert self.tree_rate is not None
        rows, labels, pace = len(self.corpus.train), len(self.corpus.labels), pace_of(self.paces)
        members = sum(real for _, real in self.paces)
        asking = sum(self.plans[name].predict_seconds for name in names) * rows / 1000 * pace
        trees = combining_seconds(len(names), rows, labels, PLACES, growing.trees, self.tree_rate, pace)
        room = candidates_of(len(names), rows, labels, PLACES) * (20 * len(names) + 76) < available_bytes()
        for folds in FOLDS if room and rows >= max(FOLDS) else ():
            if (members * folds + asking + trees) * MARGIN <= self._left():
                return folds
        return None

    def _with_folds(self, recipe: str) -> None:
        """The combination that learns on out-of-fold answers over train: valid judges it as it stands."""
        start, valid = self.clock(), self.corpus.valid
        try:
            with stage(f"auto: {recipe}"), checking(self._stop_at(0.0)):
                model = Recipe.parse(recipe).fit(self.corpus.train, valid)
                predictions = model.predict(valid.rows, CANDIDATES, valid.excluded)
        except OutOfTime:
            self._stopped(recipe, start)
            return
        self._judged(recipe, predictions, self.clock() - start)

    def _rerank(self) -> None:
        """Re-rank the answers that are there, which trains nothing, and keep the best that this gives."""
        done = sorted((one for one in self.tried if one.state == TRAINED), key=lambda one: -one.worth)
        best, start = 0.0, self.clock()
        found: tuple[str, Predictions] | None = None
        for number, one in enumerate(done if all(one.measures is not None for one in done) else []):
            if number and self._left() <= 0:
                break
            strength, order = best_strength(self.candidates[one.recipe], self.corpus.valid)
            reached = worth(evaluate(order.top(5), self.corpus.valid))
            if reached > best:
                best, found = reached, (reranked(one.recipe, strength), order) if strength else None
        if found is not None:
            self._judged(found[0], found[1], self.clock() - start)

    def _stopped(self, recipe: str, start: float, planned: float | None = None) -> None:
        taken = self.clock() - start
        note(f"auto: {recipe} was stopped after {readable_seconds(taken)}, as time was over")
        self.tried.append(Tried(recipe, STOPPED, planned, taken, why="its time was over"))

    def _stop_at(self, reserve: float) -> Callable[[], None]:
        """A check that stops a training once only the reserve is left."""

        def check() -> None:
            if self._left() < reserve:
                raise OutOfTime("the time is over")

        return check

    def _model(self, best: Tried) -> Model:
        """The model of a recipe that was trained; nothing is trained here."""
        return Recipe.parse(best.recipe).fit(self.corpus.train, self.corpus.valid)


def _never() -> None:
    """Stops nothing."""
