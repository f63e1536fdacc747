"""Scores that are chances: an isotonic or logistic curve for each group of label frequency, from held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from longtail.arrays import Bools, Doubles, Floats, Ints, Longs
from longtail.data.dataset import Rows
from longtail.data.labels import LabelSet
from longtail.errors import RecipeError
from longtail.linear.scale import Scale
from longtail.metrics.frequency import equi_volume_bins
from longtail.plan import Facts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import HeldOut, Reranker, State

LEAST_HITS = 50  # held-out hits of a group; with fewer it shares the curve of the next more frequent labels
LEAST = float(np.finfo(np.float32).tiny)  # chances stay above 0
MOST = 1 - 2.0**-24  # and below 1, as float32 too
TILT = 0.1  # above the last step a curve still goes this part of the way to 1
FOLDS = 3  # where there are no valid rows


@dataclass(frozen=True, eq=False)
class Steps:
    """An isotonic curve: rising from (0, 0) through the middle of each of its steps.

    Going through the middles, as centred isotonic regression does, keeps the order of scores that a plain step
    function would make equal, and keeps the mean of a step.
    """

    scores: Doubles  # (steps,) mean score of each step, rising
    chances: Doubles  # (steps,) share of right candidates, rising

    @classmethod
    def fitted(cls, scores: Floats, hits: Bools) -> Steps:
        """From candidates of held-out rows (candidates,) and whether they are right.

        A made-up candidate at either end is right as often as all of them together: no chance is 0 or 1.
        """
        values, places = np.unique(scores.astype(np.float64), return_inverse=True)
        number = np.bincount(places).astype(np.float64)
        right = np.bincount(places, weights=hits)
        mean = (hits.sum() + 1) / (len(hits) + 2)
        for end in (0, -1):
            number[end] += 1
            right[end] += mean
        found = isotonic_regression(right / number, weights=number)
        starts = found.blocks[:-1]
        weights = np.add.reduceat(number, starts)
        middles = np.add.reduceat(number * values, starts) / weights
        return cls(middles, np.add.reduceat(right, starts) / weights)

    def of(self, scores: Floats) -> Doubles:
        """The chance of each score."""
        inside: Doubles = np.interp(scores, np.append(0.0, self.scores), np.append(0.0, self.chances))
        last, top = self.scores[-1], self.chances[-1]
        above = top + TILT * (1 - top) * (1 - last / np.maximum(scores, last))
        chances: Doubles = np.where(scores > last, above, inside)
        return chances


@dataclass(frozen=True, eq=False)
class Logistic:
    """Platt's curve over the logarithm of the score: log odds = slope x ln score + offset."""

    scale: Scale

    @classmethod
    def fitted(cls, scores: Floats, hits: Bools) -> Logistic:
        return cls(Scale.of_share(1.0).fitted(scores, np.zeros_like(scores), hits))

    def of(self, scores: Floats) -> Doubles:
        return self.scale.of(scores, np.zeros_like(scores)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Chances:
    """A curve a group of labels, from the learner's score to the chance of being right."""

    groups: Ints  # (labels,) which curve
    curves: tuple[Steps | Logistic, ...]  # all of one kind
    candidates: int
    kind: ClassVar[str] = "calibrate.v1"

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        chances = np.zeros(predictions.scores.shape, dtype=np.float32)
        group = np.where(predictions.indices >= 0, self.groups[predictions.indices], -1)
        for number, curve in enumerate(self.curves):
            members = group == number
            chances[members] = np.clip(curve.of(predictions.scores[members]), LEAST, MOST)
        return Predictions(predictions.labels, predictions.indices, chances).sorted()

    def state(self) -> State:
        tensors: dict[str, Doubles | Ints | Longs] = {"groups": self.groups}
        if isinstance(self.curves[0], Steps):
            steps = [curve for curve in self.curves if isinstance(curve, Steps)]
            tensors["starts"] = np.cumsum([0, *(len(curve.scores) for curve in steps)])
            tensors["scores"] = np.concatenate([curve.scores for curve in steps])
            tensors["chances"] = np.concatenate([curve.chances for curve in steps])
            return State({"candidates": self.candidates, "curve": "isotonic"}, tensors)
        scales = [curve.scale for curve in self.curves if isinstance(curve, Logistic)]
        tensors["weights"] = np.array([(one.slope, one.offset) for one in scales])
        return State({"candidates": self.candidates, "curve": "platt"}, tensors)

    @classmethod
    def restore(cls, state: State) -> Chances:
        groups, candidates = state.tensors["groups"], state.settings["candidates"]
        curves: tuple[Steps | Logistic, ...]
        if state.settings["curve"] == "isotonic":
            scores, chances, starts = (state.tensors[name] for name in ("scores", "chances", "starts"))
            steps = [Steps(scores[low:high], chances[low:high]) for low, high in pairwise(starts.tolist())]
            if not all(_rises(curve.scores) and _rises(curve.chances) for curve in steps):
                raise ValueError("the steps of calibrate do not rise")
            curves = tuple(steps)
        else:
            weights = state.tensors["weights"]
            if not np.isfinite(weights).all():
                raise ValueError("the weights of calibrate are not finite numbers")
            curves = tuple(Logistic(Scale(slope, 0.0, offset)) for slope, offset in weights.tolist())
        if groups.ndim != 1 or not np.isin(groups, np.arange(len(curves))).all():
            raise ValueError("calibrate has labels without a curve")
        if not isinstance(candidates, int) or candidates < 1:
            raise ValueError("calibrate needs at least 1 candidate")
        return cls(groups, curves, candidates)


@dataclass(frozen=True)
class Calibrate:
    """Turn each candidate's score into the chance that it is right, by a curve for each group of label frequency.

    Labels are cut into groups of equal shares of the training positives, and those never seen in training; a group
    with fewer than 50 hits among the held-out candidates shares the curve of the next more frequent one. A curve
    never falls, so the order of labels of one group stays; between groups it may change, and does where the learner
    thinks too well of one of them. What an earlier `rerank` gave to rare labels is taken back by this: the ranking is
    by chance alone. `calibrate + rerank` first makes chances and then weighs them.

    Paper: isotonic, Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability estimates
    (KDD 2002); "platt", Platt, Probabilistic outputs for support vector machines (1999), over ln score.
    Needs: nothing of the learner; held-out rows, at best a few hundred.
    Costs: one prediction of the valid rows; nothing to speak of when predicting. `folds=n` learns from out-of-fold
    predictions of the training rows instead, for n more trainings; so does a corpus without valid rows, with 3.
    Prefer instead: nothing, where only the ranking counts and the learner's own is good.
    Example: longtail compare wordnet "parabel" "parabel + calibrate"
    """

    curve: Literal["isotonic", "platt"] = "isotonic"
    bins: int = 5  # groups of label frequency
    folds: int = 0  # 0: learn from the valid rows
    candidates: int = CANDIDATES  # places of the learner's ranking to learn from; fewer fit the first places better

    summary: ClassVar[str] = "scores become chances of being right, by a curve for each group of label frequency"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = Chances

    def __post_init__(self) -> None:
        if self.bins < 1 or self.candidates < 1:
            raise RecipeError(
                f"calibrate takes at least 1 bin and 1 candidate, got bins={self.bins}, candidates={self.candidates}"
            )
        if self.folds != 0 and self.folds < 2:
            raise RecipeError(f"setting 'folds' of calibrate is 0 (the valid rows) or at least 2, got {self.folds}")

    def fit_reranker(self, held_out: HeldOut) -> Chances:
        predictions, data = held_out.folds(self.folds) if self.folds else held_out.valid()
        if len(data) == 0:
            predictions, data = held_out.folds(FOLDS)
        with stage("learning chances"):
            predictions = predictions.top(self.candidates)
            there = predictions.indices >= 0
            labels, scores = predictions.indices[there], predictions.scores[there]
            hits = predictions.hits(data.targets)[there]
            groups = _groups(held_out.labels, self.bins, labels[hits])
            group = groups[labels]
            kind: type[Steps] | type[Logistic] = Steps if self.curve == "isotonic" else Logistic
            curves = [_fitted(kind, scores, hits, group == number) for number in range(int(groups.max(initial=0)) + 1)]
        return Chances(groups, tuple(curves), self.candidates)

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        """The candidates of the held-out rows, sorted a few times; with folds, the learner again for each."""
        rows = facts.rows if self.folds else facts.rows // 20
        learning = 60 * CANDIDATES * rows
        seconds = before.predict_seconds * rows / 1000 + 2e-7 * CANDIDATES * rows
        return replace(
            before,
            train_bytes=max(before.train_bytes, before.model_bytes + learning),
            model_bytes=before.model_bytes + 4 * facts.labels,
            train_seconds=before.train_seconds + seconds + max(self.folds - 1, 0) * before.train_seconds,
            steps=(*before.steps, ("held-out candidates", learning)),
        )


def _groups(labels: LabelSet, bins: int, hit: Ints) -> Ints:
    """The curve of each label, most frequent first: bins with enough hits, the others joined to the one before."""
    bins = min(bins, max(len(labels), 1))
    bin_of = equi_volume_bins(labels, bins)
    bin_of = np.where(bin_of < 0, bins, bin_of)  # never seen: behind the rarest
    hits = np.bincount(bin_of[hit], minlength=bins + 1)
    group_of, held = np.zeros(bins + 1, dtype=np.int32), 0
    for number in range(1, bins + 1):
        held += int(hits[number - 1])
        # A new group begins where the one before has enough and this one, with all that follows, has too.
        if held >= LEAST_HITS and hits[number:].sum() >= LEAST_HITS:
            group_of[number:] += 1
            held = 0
    return group_of[bin_of].astype(np.int32)


def _fitted(kind: type[Steps] | type[Logistic], scores: Floats, hits: Bools, members: Bools) -> Steps | Logistic:
    if not members.any():  # nobody was ever a candidate: all that is known is that this is rare
        return kind.fitted(np.ones(1, dtype=np.float32), np.zeros(1, dtype=np.bool_))
    return kind.fitted(scores[members], hits[members])


def _rises(values: Doubles) -> bool:
    return len(values) > 0 and bool(np.isfinite(values).all() and (np.diff(values) > 0).all())
