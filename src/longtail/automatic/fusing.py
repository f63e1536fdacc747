"""Models that are kept for the combination, and what the combination reaches on examples it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from longtail.arrays import Longs
from longtail.automatic.schedule import tree_work
from longtail.data.corpus import hashed
from longtail.data.dataset import Dataset
from longtail.grammar import literal
from longtail.linear.fusion.boosted_trees import Growing
from longtail.linear.fusion.candidates import Answers, CandidateLists
from longtail.linear.fusion.combiner import KEPT, CombinerExamples, LabelFacts, learn
from longtail.linear.fusion.fuse_scorer import best_candidates
from longtail.model import Model
from longtail.predictions import Predictions

PLACES = 40  # labels that each member names, as `fuse` has it
CHUNK = 1024  # rows whose candidates are judged at a time
SAMPLE_ROWS, SAMPLE_TREES = 1500, (4, 24)  # with which the machine's pace at growing trees is measured
FULL = Growing()  # as `fuse` has it
QUICK = replace(FULL, trees=100, learning_rate=0.12)  # nearly as good in a third of the time
ROUGH = replace(FULL, trees=50, learning_rate=0.2)  # still much better than any member


@dataclass(eq=False)
class KeptModels:
    """See `longtail.reuse.StageStore`: members stay in memory, so that combining them trains nothing again."""

    train: Dataset
    valid: Dataset
    kept: dict[str, Model] = field(default_factory=dict)
    trained: list[str] = field(default_factory=list)  # names of stages, in the order of their training

    def model(self, name: str, train: Dataset, valid: Dataset, fit: Callable[[], Model]) -> Model:
        """Return the model of a stage, fitted once.

        Args:
            name: of the stage.
            train: the training rows; others than those of the members are a fold, whose models are not kept.
            valid: the valid split.
            fit: trains it.

        Returns:
            The model.
        """
        if train is not self.train or valid is not self.valid:
            return fit()
        if name not in self.kept:
            self.kept[name] = fit()
            self.trained.append(name)
        return self.kept[name]

    def fold(self, name: str, train: Dataset, valid: Dataset, predict: Callable[[], Predictions]) -> Predictions:
        """Predict a fold; each is asked for once.

        Args:
            name: of the stage and the fold.
            train: all training rows.
            valid: the valid split.
            predict: trains on the other folds and predicts.

        Returns:
            The predictions.
        """
        return predict()


def tree_rate(answers: Answers, train: Dataset, valid: Dataset, clock: Callable[[], float]) -> float | None:
    """Measure how fast trees grow here: a few, and a few more, on some examples.

    Args:
        answers: of each member about valid.
        train: the rows that the members were fitted on.
        valid: the rows.
        clock: tells the seconds.

    Returns:
        Seconds of a piece of `tree_work`; None where there is too little to measure.
    """
    rows = np.sort(np.argsort(hashed(valid.ids, "sample"), kind="stable")[:SAMPLE_ROWS])
    facts = LabelFacts.of(train, "company" in KEPT)
    example_set = CombinerExamples(_of(answers, rows), valid.take(rows), facts)
    seconds = []
    for trees in SAMPLE_TREES:
        start = clock()
        learn([example_set], len(answers), PLACES, facts, replace(FULL, trees=trees))
        seconds.append(clock() - start)
    candidates = len(CandidateLists.joined(example_set.answers).labels)
    work = tree_work(len(answers), candidates, SAMPLE_TREES[1] - SAMPLE_TREES[0])
    return (seconds[1] - seconds[0]) / work if work and seconds[1] > seconds[0] else None


def cross_fitted(answers: Answers, train: Dataset, valid: Dataset, k: int, growing: Growing = FULL) -> Predictions:
    """Predict valid with two combiners: each learns on one half and predicts the other.

    Args:
        answers: of each member about valid, PLACES labels a row.
        train: the rows that the members were fitted on.
        valid: the rows.
        k: labels a row.
        growing: how trees are grown.

    Returns:
        Predictions for valid, none of them by a combiner that has seen the row.
    """
    facts = LabelFacts.of(train, "company" in KEPT)
    half = (hashed(valid.ids, "auto") & np.uint64(1)).astype(np.bool_)
    indices = np.full((len(valid), k), -1, dtype=np.int32)
    scores = np.zeros((len(valid), k), dtype=np.float32)
    for side in (half, ~half):
        seen, unseen = np.flatnonzero(side), np.flatnonzero(~side)
        if not len(seen) or not len(unseen):
            continue
        example_set = CombinerExamples(_of(answers, seen), valid.take(seen), facts)
        combiner = learn([example_set], len(answers), PLACES, facts, growing)
        for begin in range(0, len(unseen), CHUNK):
            rows = unseen[begin : begin + CHUNK]
            candidates = CandidateLists.joined(_of(answers, rows))
            texts = None if valid.texts is None else [valid.texts[row] for row in rows]
            found, values = best_candidates(candidates, combiner.probabilities(candidates, texts), 2 * k + PLACES)
            part = Predictions(valid.labels, found, values)
            part = part.without(None if valid.excluded is None else valid.excluded[rows]).top(k)
            indices[rows, : part.places], scores[rows, : part.places] = part.indices, part.scores
    return Predictions(valid.labels, indices, scores)


def fuse_recipe(members: Sequence[str], growing: Growing) -> str:
    """Write the recipe of a combination.

    Args:
        members: recipes.
        growing: how trees are grown.

    Returns:
        The recipe.
    """
    settings = "" if growing == FULL else f", trees={growing.trees}, learning_rate={growing.learning_rate:g}"
    return f"fuse({', '.join(map(literal, members))}{settings})"


def _of(answers: Answers, rows: Longs) -> Answers:
    return [(labels[rows], scores[rows]) for labels, scores in answers]
