"""A learned combination of other recipes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from longtail.arrays import Longs
from longtail.data.corpus import hashed
from longtail.data.dataset import Dataset
from longtail.errors import DataError, RecipeError, counted
from longtail.fold_jobs import answers_by_jobs, folds_run_as_jobs
from longtail.linear.fusion.boosted_trees import Growing, require_lightgbm
from longtail.linear.fusion.candidates import Answers
from longtail.linear.fusion.combiner import CHUNK, KEPT, MAX_WRONG, CombinerExamples, LabelFacts, learn
from longtail.linear.fusion.fuse_scorer import FuseScorer
from longtail.papers import LIGHTGBM, STACKING, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import note, stage
from longtail.seams import FittedMember, Learner, MemberRecipe, Scorer, TailMethod, sharing_fits

DEFAULT = ("parabel", "knn", "bm25", "centroid(probabilities=false)")
FOLDS = 2  # of train, where there is no valid row
MOST = 32  # members


@dataclass(frozen=True)
class Fuse:
    """Ask several recipes, and learn how likely each of their candidates is right: head and tail in one model.

    The members' best labels of an example are its candidates. Boosted trees learn the probability that a candidate is
    right from every member's score and place, the label's frequency, how reliable it was before, and what the text
    says of it. They learn on examples that the members did not train on: valid, or, with `folds`, out-of-fold answers
    over train, which costs as many more trainings of every member.

    Members are recipes, folders of saved models or `predictions(...)` of other tools; equal ones are trained once.

    Needs: LightGBM to train, not to predict; valid examples, else two folds of train.
    Costs: the members' training and predicting, and seconds for the trees.
    Prefer instead: one of its members, where a model must be small or answer at once.
    Example: longtail compare wordnet "parabel" 'fuse("parabel", "knn", "bm25", "centroid")'
    """

    members: tuple[str, ...] = DEFAULT  # recipes or model folders, first in the parentheses and without a name
    candidates: int = 40  # best labels of each member
    folds: int = 0  # 0: learn on valid; n: on out-of-fold answers over train
    trees: int = 300  # at most; a held-out fifth of the examples decides
    leaves: int = 31  # of a tree, which is at most 6 levels deep
    learning_rate: float = 0.05
    min_leaf: int = 100  # candidates of a leaf; fewer where there are few candidates
    seed: int = 0

    summary: ClassVar[str] = "learns from its members' answers which are right"
    papers: ClassVar[tuple[Paper, ...]] = (STACKING, LIGHTGBM)
    offers: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = FuseScorer
    member: ClassVar[type[FittedMember]] = FittedMember

    def __post_init__(self) -> None:
        if not 1 <= len(self.members) <= MOST:
            raise RecipeError(f"fuse takes 1 to {MOST} members, got {len(self.members)}")
        for name in ("candidates", "trees", "min_leaf"):
            if getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of fuse is at least 1, got {getattr(self, name)}")
        if self.folds != 0 and not 2 <= self.folds <= 100:
            raise RecipeError(f"setting 'folds' of fuse is 0 (the valid examples) or 2 to 100, got {self.folds}")
        if not 2 <= self.leaves <= 4096:
            raise RecipeError(f"setting 'leaves' of fuse is between 2 and 4096, got {self.leaves}")
        if not 0 < self.learning_rate <= 1:
            raise RecipeError(f"setting 'learning_rate' of fuse lies in (0, 1], got {self.learning_rate:g}")

    def made_of(self, members: tuple[MemberRecipe, ...]) -> Learner:
        """See `HasMembers.made_of`."""
        saved = [text for text, member in zip(self.members, members, strict=True) if member.is_fitted]
        if saved and self.folds:
            raise RecipeError(
                f"fuse with folds={self.folds} trains every member anew, and {saved[0]!r} is a saved model, which has "
                "seen the training examples; use folds=0, or name its recipe"
            )
        return FuseLearner(self, members)

    def growing(self) -> Growing:
        """Return how the trees are grown."""
        return Growing(
            trees=self.trees,
            leaves=self.leaves,
            learning_rate=self.learning_rate,
            min_leaf=self.min_leaf,
            seed=self.seed,
        )

    def check(self, data: Dataset) -> None:
        """See `ChecksData.check`: LightGBM is there."""
        require_lightgbm()

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        """See `Learner.fit`; a recipe fits what `made_of` returns."""
        raise RecipeError("fuse is fitted by a recipe, which knows its members: Recipe.of(fuse).fit(train, valid)")

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`; a recipe plans what `made_of` returns."""
        raise RecipeError("fuse is planned by a recipe, which knows its members: Recipe.of(fuse).plan(facts)")


@dataclass(frozen=True)
class FuseLearner:
    """Fuse with its members."""

    settings: Fuse
    members: tuple[MemberRecipe, ...]

    summary: ClassVar[str] = Fuse.summary
    offers: ClassVar[frozenset[str]] = Fuse.offers
    data_needs: ClassVar[frozenset[str]] = Fuse.data_needs
    scorer: ClassVar[type[Scorer]] = FuseScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> FuseScorer:
        """See `Learner.fit`."""
        require_lightgbm()
        own, company = self.settings, "company" in KEPT
        folds = own.folds or (0 if len(valid) and valid.targets.nnz else FOLDS)
        if folds and not own.folds:
            self._check_folds(train)
            note(f"fuse: there is no valid example with a label, so it learns on {folds} folds of train")
        examples = list(self._folds(train, valid, folds, company)) if folds else []
        members: list[FittedMember] = []
        answers: Answers = []
        places = min(own.candidates, len(train.labels))
        with sharing_fits(train, valid, self._fits()):
            for member, text in zip(self.members, own.members, strict=True):
                with stage(f"member {text}"):
                    members.append(FittedMember.of(member.fit(train, valid), train.labels))
                    if not folds:
                        answers = [*answers, members[-1].top(valid.rows, places, train.labels)]
        facts = LabelFacts.of(train, company)
        self._check_answers(answers)
        examples = examples or [CombinerExamples(answers, valid, facts)]
        combiner = learn(examples, len(members), own.candidates, facts, own.growing())
        return FuseScorer(tuple(members), combiner, train.labels)

    def _fits(self) -> list[str]:
        return [one for member in self.members for one in member.fits]

    def _check_folds(self, train: Dataset) -> None:
        if any(member.is_fitted for member in self.members):
            raise DataError(
                "fuse with a saved model as a member learns on valid examples, and there are none; add some"
            )

    def _check_answers(self, answers: Answers) -> None:
        for text, (labels, _) in zip(self.settings.members, answers, strict=False):
            if len(labels) and not (labels >= 0).any():
                note(f"fuse: the member {text} names no label for any valid example")

    def _folds(self, train: Dataset, valid: Dataset, number: int, company: bool) -> Iterator[CombinerExamples]:
        """Answers over train, each row's by members that were fitted on the other folds."""
        cuts = fold_rows(train, number, self.settings.seed)
        places = min(self.settings.candidates, len(train.labels))
        elsewhere: Iterator[Answers] | None = None
        if folds_run_as_jobs(train, valid) and not any(getattr(one, "runs_in_jobs", False) for one in self.members):
            how = {"fuse": {**asdict(self.settings), "members": list(self.settings.members)}}
            elsewhere = iter(answers_by_jobs(how, train, valid, cuts))
        with stage("out-of-fold answers", total=number) as advance:
            for fitted_on, unseen in cuts:
                seen, held_out = train.take(fitted_on), train.take(unseen)
                answers = next(elsewhere) if elsewhere else self.fold_answers(seen, valid, held_out, places)
                yield CombinerExamples(answers, held_out, LabelFacts.of(seen, company))
                advance(1)

    def fold_answers(self, seen: Dataset, valid: Dataset, held_out: Dataset, places: int) -> Answers:
        """Fit the members without a fold, and answer it.

        Args:
            seen: the other folds.
            valid: what members are validated on.
            held_out: the fold.
            places: labels of a member.

        Returns:
            The answers of each member.
        """
        answers: Answers = []
        with sharing_fits(seen, valid, self._fits()):
            for member in self.members:
                fitted = FittedMember.of(member.fit(seen, valid), seen.labels)
                answers = [*answers, fitted.top(held_out.rows, places, seen.labels)]
        return answers

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`: the members one after the other, each once, then the trees."""
        plans = list(
            {member.fits or (number,): member.plan(facts) for number, member in enumerate(self.members)}.values()
        )
        own = self.settings
        valid_rows = facts.rows // 20 if facts.valid_rows is None else facts.valid_rows
        folds = own.folds or (0 if valid_rows else FOLDS)
        rows = facts.rows if folds else valid_rows
        named, width = (
            own.candidates * len(self.members) ** SHARED,
            3 * len(self.members) + 9,
        )  # labels of a row; columns
        each = min(named, facts.labels)
        number, learned = rows * each, min(rows * each, 1.1 * MAX_WRONG)
        lists = number * (8 * len(self.members) + 20) + rows * 8 * own.candidates * len(self.members)
        at_a_time = 8 * width * min(number, CHUNK * each)  # the numbers of a chunk, all and those kept
        growing = learned * (9 * width + 40) + 12 * width * min(learned, SAMPLED)
        learning = int(max(lists + 4 * width * learned + at_a_time, growing))
        held, peak = 0, 0
        for plan in plans:
            peak = max(peak, held + plan.train_bytes)
            held += plan.model_bytes
        seconds = sum(plan.train_seconds for plan in plans)
        asking = sum(plan.predict_seconds for plan in plans)
        name = f"candidates of {folds} folds of train" if folds else "candidates of valid"
        return Plan(
            train_bytes=max(peak, held + learning),
            model_bytes=held + 40 * facts.labels + 12 * facts.positives,
            train_seconds=seconds * (1 + max(folds - 1, 0))
            + asking * rows / 1000
            + JUDGING * number
            + TREES * learned
            + 1.0,
            predict_seconds=asking + 1000 * JUDGING * each,
            steps=(*(step for plan in plans for step in plan.steps), (name, learning)),
        )


SHARED = 0.75  # power of the members that their candidates grow by: they name many of the same labels
SAMPLED = 200_000  # candidates by which LightGBM cuts the numbers into bins
TREES = 2.5e-5  # seconds to learn from a candidate
JUDGING = 1.2e-6  # seconds to compute the numbers of a candidate and walk the trees


def fold_rows(train: Dataset, number: int, seed: int) -> list[tuple[Longs, Longs]]:
    """Cut the training rows into folds of equal size; rows that tail methods added are in no fold.

    Args:
        train: the rows.
        number: of folds.
        seed: decides which rows share a fold.

    Returns:
        For each fold the rows to fit on, and those left out.

    Raises:
        DataError: there are fewer rows than folds.
    """
    assert train.origins is not None
    given = np.flatnonzero(train.origins == 0)
    if len(given) < 2:
        raise DataError(
            f"out-of-fold answers need at least 2 training examples, and train has {len(given)}; add some, or valid "
            "examples, which fuse learns on with folds=0"
        )
    if not 2 <= number <= len(given):
        raise DataError(
            f"{counted(len(given), 'training example')} cannot be cut into {number} folds; give 2 to {len(given)}"
        )
    shuffled = given[np.argsort(hashed([train.ids[row] for row in given.tolist()], seed), kind="stable")]
    every = np.arange(len(train))
    return [(np.setdiff1d(every, shuffled[fold::number]), shuffled[fold::number]) for fold in range(number)]
