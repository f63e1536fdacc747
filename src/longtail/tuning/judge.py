"""Trains a recipe and judges it on valid or by folds of train, never on test.

The examples that judge are never seen in training: a recipe that calibrates or stops early on `valid` would otherwise
be judged on what it was fitted to. On valid, `fit` gets some of train in the place of valid; with folds it gets valid.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from longtail.data.corpus import Corpus, hashed, held_out
from longtail.data.dataset import Dataset
from longtail.errors import DataError, LongtailError, counted
from longtail.metrics import evaluate
from longtail.progress import Measured, calling, stage
from longtail.recipe import Recipe
from longtail.tuning.objective import Objective

INNER_VALID = 0.05  # of train, for `fit` to choose and calibrate on
FOLD_STEP = 1_000_000  # validations of a learner are steps below it; step 2 x this one is the mean after two folds

Report: TypeAlias = Callable[[int, float], bool]  # a step and the value so far; True stops the trial


class Pruned(LongtailError):
    """The trial is worse than the others were at the same step."""


class TimeUp(LongtailError):
    """The time of the search is over; the trial starts again when the search is resumed."""


@dataclass(frozen=True)
class Split:
    """What is learned from, what `fit` may choose on, and what judges."""

    train: Dataset
    valid: Dataset
    judging: Dataset


@dataclass(frozen=True)
class Judge:
    """The data of a search, its measures and its deadline."""

    splits: tuple[Split, ...]
    objectives: tuple[Objective, ...]
    deadline: float | None = None  # of time.time(): all processes share that clock

    @classmethod
    def of(cls, corpus: Corpus, objectives: tuple[Objective, ...], folds: int | None, seed: int) -> Judge:
        """Split the data.

        Args:
            corpus: train and valid are used, test never.
            objectives: what is measured.
            folds: of train; None: judge on valid.
            seed: of the splits.

        Returns:
            The judge, without a deadline.

        Raises:
            DataError: there are no valid examples, or too few for the folds.
        """
        train, valid = corpus.train, corpus.valid
        if folds is None:
            if len(valid) == 0:
                raise DataError(
                    f"{corpus.name} has no valid examples to judge on; use folds of train (--folds 3), or add a valid "
                    "split"
                )
            learned, inner = _without(train, seed)
            return cls((Split(learned, inner, valid),), objectives)
        if not 2 <= folds <= len(train):
            raise DataError(
                f"{counted(len(train), 'training example')} can be cut into 2 to {len(train)} folds, not {folds}"
            )
        order = np.argsort(hashed(train.ids, f"folds:{seed}"), kind="stable")
        splits = []
        for fold in range(folds):
            judging = np.sort(order[fold::folds])
            rest = train.take(np.setdiff1d(np.arange(len(train)), judging))
            learned, inner = (rest, valid) if len(valid) else _without(rest, seed)
            splits.append(Split(learned, inner, train.take(judging)))
        return cls(tuple(splits), objectives)

    def measures(self, text: str, report: Report) -> dict[str, float]:
        """Train a recipe on every split, and average its measures.

        Args:
            text: the recipe.
            report: called with a step and the value of the first objective so far, in validations of a learner and
                after each fold but the last.

        Returns:
            Measures in percent by name, with `seconds`.

        Raises:
            Pruned: `report` returned True.
            TimeUp: the deadline is over.
        """
        recipe, begin = Recipe.parse(text), time.perf_counter()
        ks = sorted({1, 3, 5, *(k for objective in self.objectives for k in objective.ks)})
        found: list[dict[str, float]] = []
        for fold, split in enumerate(self.splits):
            with stage(text, timed=False), calling(_Validations(self, report, first=fold == 0)):
                model = recipe.fit(split.train, split.valid)
            predictions = model.predict(split.judging.rows, ks[-1], split.judging.excluded)
            found.append(dict(evaluate(predictions, split.judging, ks=ks)))
            if fold + 1 < len(self.splits):
                self.in_time()
                if report((fold + 1) * FOLD_STEP, self.objectives[0].of(_mean(found))):
                    raise Pruned(f"stopped after {fold + 1} of {len(self.splits)} folds")
        return {**_mean(found), "seconds": time.perf_counter() - begin}

    def in_time(self) -> None:
        """Check the clock.

        Raises:
            TimeUp: the deadline is over.
        """
        if self.deadline is not None and time.time() > self.deadline:
            raise TimeUp("the time of the search is over")


@dataclass
class _Validations:
    """A callback: the learner's own validations decide whether the trial goes on."""

    judge: Judge
    report: Report
    first: bool  # in other folds only the mean after the fold is reported
    number: int = 0

    def __call__(self, what: Measured) -> None:
        if what.epoch == 0:
            return
        self.judge.in_time()
        value = self.judge.objectives[0].near(what.measures) if self.first else None
        if value is None:
            return
        self.number += 1
        if self.report(self.number, value):
            raise Pruned(f"stopped in {what.stage} after epoch {what.epoch}")


def _without(train: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Train without the part that `fit` chooses and calibrates on, and that part."""
    out = held_out(train.ids, INNER_VALID, f"tune:{seed}")
    return train.take(~out), train.take(out)


def _mean(found: list[dict[str, float]]) -> dict[str, float]:
    """The mean of every measure that all folds have."""
    names = [name for name in found[0] if all(name in one for one in found)]
    return {name: float(np.mean([one[name] for one in found])) for name in names}
