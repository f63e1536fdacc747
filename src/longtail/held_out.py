"""Predictions on rows that their model has not trained on: what re-rankers are fitted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from longtail.arrays import Longs
from longtail.data.corpus import hashed
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError, counted
from longtail.fold_jobs import answers_by_jobs, folds_run_as_jobs
from longtail.model import Model
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.reuse import fold_predictions


@dataclass(frozen=True)
class HeldOutPredictions:
    """What `Recipe.fit` passes to re-rankers; see `longtail.seams.HeldOut`."""

    model: Model
    train: Dataset  # as given, before any tail method added rows or entries
    rows: Dataset  # the valid split
    fit_fold: Callable[[Dataset], Model]
    name: str = ""  # of the model so far, see `longtail.reuse`
    recipe: str = ""  # that jobs train; "": its own training is cut into jobs
    methods: int = 0  # tail methods of the recipe that the model so far has

    @property
    def labels(self) -> LabelSet:
        """See `HeldOut.labels`."""
        return self.model.labels

    def valid(self) -> tuple[Predictions, Dataset]:
        """See `HeldOut.valid`."""
        return self.model.predict(self.rows.rows, CANDIDATES, self.rows.excluded), self.rows

    def fitted(self, k: int) -> Predictions:
        """See `HeldOut.fitted`."""
        with stage("predicting the training examples"):
            return self.model.predict(self.train.rows, k, self.train.excluded)

    def folds(self, number: int, max_rows: int | None = None, seed: int = 0) -> tuple[Predictions, Dataset]:
        """See `HeldOut.folds`."""
        given = np.flatnonzero(self.train.origins == 0)
        if len(given) < 2:
            raise DataError(f"out-of-fold predictions need at least 2 training examples, and train has {len(given)}")
        if not 2 <= number <= len(given):
            raise DataError(
                f"{counted(len(given), 'training example')} cannot be cut into {number} folds; give 2 to {len(given)}"
            )
        hashes = hashed([self.train.ids[row] for row in given.tolist()], seed)
        shuffled = given[np.argsort(hashes, kind="stable")]  # every number-th row from the first is a fold: equal sizes
        wanted = shuffled[:max_rows]
        folds = [fold for fold in range(number) if len(wanted[fold::number])]
        every = np.arange(len(self.train))
        cuts = {fold: (np.setdiff1d(every, shuffled[fold::number]), wanted[fold::number]) for fold in folds}
        elsewhere: dict[int, Predictions] = {}
        if self.recipe and folds_run_as_jobs(self.train, self.rows):
            how = {"recipe": self.recipe, "methods": self.methods}
            found = answers_by_jobs(how, self.train, self.rows, list(cuts.values()))
            elsewhere = {fold: Predictions(self.labels, *one[0]) for fold, one in zip(folds, found, strict=True)}
        indices = np.full((len(wanted), CANDIDATES), -1, dtype=np.int32)
        scores = np.zeros((len(wanted), CANDIDATES), dtype=np.float32)
        with stage("predicting out of fold", total=number) as advance:
            for fold, (others, asked) in cuts.items():
                answers = elsewhere.get(fold)
                if answers is None:
                    name = f"{self.name} | fold {fold} of {number}, seed {seed}, at most {max_rows} rows"
                    predict = partial(self._predict_fold, others, self.train.take(asked))
                    answers = fold_predictions(name, self.train, self.rows, predict)
                indices[fold::number, : answers.places] = answers.indices
                scores[fold::number, : answers.places] = answers.scores
                advance(1)
        order = np.argsort(wanted)  # back in the order of the training rows
        return Predictions(self.labels, indices[order], scores[order]), self.train.take(wanted[order])

    def _predict_fold(self, others: Longs, unseen: Dataset) -> Predictions:
        return self.fit_fold(self.train.take(others)).predict(unseen.rows, CANDIDATES, unseen.excluded)
