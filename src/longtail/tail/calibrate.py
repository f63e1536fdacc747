"""Scores as probabilities: an isotonic or logistic curve for each group of label frequency, from held-out examples.

The isotonic curve goes through the middles of its steps. A step function would make candidates equal that the learner
ranked differently, and ties break by label row. The curve takes the score and the label's frequency, not the rank, so
the probability of a candidate does not depend on the other candidates of its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from longtail.arrays import Bools, Doubles, Floats, Ints, Longs
from longtail.data.dataset import Rows
from longtail.data.labels import LabelSet
from longtail.errors import RecipeError
from longtail.linear.solvers.score_scale import ScoreCalibration
from longtail.metrics.frequency import equi_volume_bins
from longtail.papers import ISOTONIC, PLATT, Paper
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import Array, Contents, Declaration, HeldOut, Misfit, Reranker, State, Whole, Words

MIN_HITS = 50  # held-out hits of a group; with fewer it shares the curve of the next more frequent labels
MIN_PROBABILITY = float(np.finfo(np.float32).tiny)  # above 0
MAX_PROBABILITY = 1 - 2.0**-24  # below 1, as float32 too
RISE_ABOVE = 0.1  # above its last step a curve still rises by this part of the way to 1
FOLDS = 3  # where there are no valid rows


@dataclass(frozen=True, eq=False)
class IsotonicCurve:
    """An isotonic curve: it rises from (0, 0) through the middle of each of its steps.

    A plain step function would make scores of one step equal. A curve through the middles, as in centred isotonic
    regression, keeps their order, and keeps the mean of a step.
    """

    scores: Doubles  # (steps,) mean score of each step, rising
    probabilities: Doubles  # (steps,) share of right candidates, rising

    @classmethod
    def fitted(cls, scores: Floats, hits: Bools) -> IsotonicCurve:
        """Fit the curve to candidates of held-out rows.

        One more candidate at either end, right as often as all of them together, keeps probabilities from 0 and 1.

        Args:
            scores: (candidates,) above 0.
            hits: (candidates,) whether each is right.

        Returns:
            The curve.
        """
        values, value_of = np.unique(scores.astype(np.float64), return_inverse=True)
        number = np.bincount(value_of).astype(np.float64)
        right = np.bincount(value_of, weights=hits)
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
        """Return the probability of each score, in the shape of `scores`."""
        inside: Doubles = np.interp(scores, np.append(0.0, self.scores), np.append(0.0, self.probabilities))
        last, top = self.scores[-1], self.probabilities[-1]
        above = top + RISE_ABOVE * (1 - top) * (1 - last / np.maximum(scores, last))
        probabilities: Doubles = np.where(scores > last, above, inside)
        return probabilities


@dataclass(frozen=True, eq=False)
class PlattCurve:
    """Platt scaling of the logarithm of the score: log odds = weight x ln score + offset."""

    scale: ScoreCalibration

    @classmethod
    def fitted(cls, scores: Floats, hits: Bools) -> PlattCurve:
        """See `IsotonicCurve.fitted`."""
        return cls(ScoreCalibration.of_share(1.0).fitted(scores, np.zeros_like(scores), hits))

    def of(self, scores: Floats) -> Doubles:
        """See `IsotonicCurve.of`."""
        return self.scale.of(scores, np.zeros_like(scores)).astype(np.float64)


def _declared_curves(settings: Mapping[str, Any]) -> Declaration:
    """The arrays of the curves, which are of one kind."""
    if settings["curve"] == "platt":
        return Declaration({"weights": Array("float64", "curves, 2")})
    steps = {
        "scores": Array("float64", "steps", least=0),
        "probabilities": Array("float64", "steps", least=0, most=1),
        "starts": Array("int64", "curves + 1", points_to="steps", rising=True),
    }
    return Declaration(steps, checks=(_check_steps,))


def _check_steps(stored: Contents) -> None:
    """Scores and probabilities rise within each curve."""
    for name in ("scores", "probabilities"):
        falls = 1 + np.flatnonzero(np.diff(stored.tensors[name]) <= 0)
        if not np.isin(falls, stored.tensors["starts"]).all():
            raise Misfit(name, "has a curve that does not rise")


@dataclass(frozen=True, eq=False)
class CalibratedScores:
    """A curve for each group of labels, from the learner's score to the probability of being right."""

    groups: Ints  # (labels,) the curve of each label
    curves: tuple[IsotonicCurve | PlattCurve, ...]  # all of one kind
    candidates: int
    kind: ClassVar[str] = "calibrate.v2"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = Declaration(
        {"groups": Array("int32", "labels", least=0, below="curves")},
        {"candidates": Whole(1), "curve": Words(("isotonic", "platt"))},
        then=(_declared_curves,),
    )

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        """See `Reranker.rerank`."""
        probabilities = np.zeros(predictions.scores.shape, dtype=np.float32)
        # `declared` holds a group for each label and a curve for each group, `Predictions` the labels among them.
        group = np.where(predictions.indices >= 0, self.groups[predictions.indices], -1)
        for number, curve in enumerate(self.curves):
            members = group == number
            probabilities[members] = np.clip(curve.of(predictions.scores[members]), MIN_PROBABILITY, MAX_PROBABILITY)
        return Predictions(predictions.labels, predictions.indices, probabilities).sorted()

    def state(self) -> State:
        """See `Scorer.state`."""
        tensors: dict[str, Doubles | Ints | Longs] = {"groups": self.groups}
        if isinstance(self.curves[0], IsotonicCurve):
            isotonic = [curve for curve in self.curves if isinstance(curve, IsotonicCurve)]
            tensors["starts"] = np.cumsum([0, *(len(curve.scores) for curve in isotonic)])
            tensors["scores"] = np.concatenate([curve.scores for curve in isotonic])
            tensors["probabilities"] = np.concatenate([curve.probabilities for curve in isotonic])
            return State({"candidates": self.candidates, "curve": "isotonic"}, tensors)
        scales = [astuple(curve.scale) for curve in self.curves if isinstance(curve, PlattCurve)]
        tensors["weights"] = np.array([(weight, offset) for weight, _, offset in scales])  # there is no rival
        return State({"candidates": self.candidates, "curve": "platt"}, tensors)

    @classmethod
    def restore(cls, state: State) -> CalibratedScores:
        """See `Scorer.restore`."""
        groups, candidates = state.tensors["groups"], state.settings["candidates"]
        curves: tuple[IsotonicCurve | PlattCurve, ...]
        if state.settings["curve"] == "isotonic":
            scores, probabilities, starts = (state.tensors[name] for name in ("scores", "probabilities", "starts"))
            curves = tuple(IsotonicCurve(scores[a:b], probabilities[a:b]) for a, b in pairwise(starts.tolist()))
        else:
            weights = state.tensors["weights"].tolist()
            curves = tuple(PlattCurve(ScoreCalibration(weight, 0.0, offset)) for weight, offset in weights)
        return cls(groups, curves, candidates)


@dataclass(frozen=True)
class Calibrate:
    """Turn each candidate's score into the probability that it is right, by a curve for each group of label frequency.

    Labels are cut into groups of equal shares of the training positives, and those never seen in training. A group with
    fewer than 50 hits among the held-out candidates shares the curve of the next more frequent group. A curve never
    falls, so the order of labels within a group stays; between groups it may change, and does where the learner scores
    one of them too high. This also undoes an earlier `rerank`: the ranking is by probability alone. `calibrate +
    rerank` first computes probabilities and then weighs them.

    Published form: isotonic regression, or Platt scaling over ln score with `curve="platt"`.
    Needs: nothing of the learner; held-out examples, at best a few hundred.
    Costs: one prediction of the valid examples; next to nothing when predicting. `folds=n` learns from out-of-fold
    predictions of the training examples instead, for n more trainings; so does a corpus without valid examples, with 3.
    Prefer instead: nothing, where only the ranking counts and the learner's own is good.
    Example: longtail compare wordnet "parabel" "parabel + calibrate"
    """

    curve: Literal["isotonic", "platt"] = "isotonic"  # isotonic regression, or Platt scaling
    bins: int = 5  # groups of label frequency
    folds: int = 0  # 0: learn from the valid examples
    candidates: int = CANDIDATES  # labels of an example to learn from; fewer fit the first places better

    summary: ClassVar[str] = "scores become probabilities, by groups of label frequency"
    papers: ClassVar[tuple[Paper, ...]] = (ISOTONIC, PLATT)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = CalibratedScores

    @classmethod
    def cites(cls, settings: dict[str, Any]) -> tuple[Paper, ...]:
        """The paper of the curve that a recipe asks for."""
        return (PLATT,) if settings.get("curve") == "platt" else (ISOTONIC,)

    def __post_init__(self) -> None:
        if self.bins < 1 or self.candidates < 1:
            raise RecipeError(
                f"calibrate takes at least 1 bin and 1 candidate, got bins={self.bins}, candidates={self.candidates}"
            )
        if self.folds != 0 and self.folds < 2:
            raise RecipeError(f"setting 'folds' of calibrate is 0 (the valid examples) or at least 2, got {self.folds}")

    def fit_reranker(self, held_out: HeldOut) -> CalibratedScores:
        """See `Reranks.fit_reranker`."""
        predictions, data = held_out.folds(self.folds) if self.folds else held_out.valid()
        if len(data) == 0:
            predictions, data = held_out.folds(FOLDS)
        with stage("calibrating scores"):
            predictions = predictions.top(self.candidates)
            filled = predictions.indices >= 0
            labels, scores = predictions.indices[filled], predictions.scores[filled]
            hits = predictions.hits(data.targets)[filled]
            groups = _groups(held_out.labels, self.bins, labels[hits])
            group = groups[labels]
            kind: type[IsotonicCurve] | type[PlattCurve] = IsotonicCurve if self.curve == "isotonic" else PlattCurve
            curves = [_fitted(kind, scores, hits, group == number) for number in range(int(groups.max(initial=0)) + 1)]
        return CalibratedScores(groups, tuple(curves), self.candidates)

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`: the held-out candidates, sorted a few times; with folds, a training for each."""
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
    """The group of each label, the most frequent labels first: bins without enough hits join the bin before."""
    bins = min(bins, max(len(labels), 1))
    bin_of = equi_volume_bins(labels, bins)
    bin_of = np.where(bin_of < 0, bins, bin_of)  # never seen in training: after the rarest
    hits = np.bincount(bin_of[hit], minlength=bins + 1)
    group_of, hits_of_group = np.zeros(bins + 1, dtype=np.int32), 0
    for number in range(1, bins + 1):
        hits_of_group += int(hits[number - 1])
        # A new group starts where the group so far has enough hits, and so have all bins that are left together.
        if hits_of_group >= MIN_HITS and hits[number:].sum() >= MIN_HITS:
            group_of[number:] += 1
            hits_of_group = 0
    return group_of[bin_of].astype(np.int32)


def _fitted(
    kind: type[IsotonicCurve] | type[PlattCurve], scores: Floats, hits: Bools, members: Bools
) -> IsotonicCurve | PlattCurve:
    if not members.any():  # no label of the group was ever a candidate: one wrong candidate stands for all
        return kind.fitted(np.ones(1, dtype=np.float32), np.zeros(1, dtype=np.bool_))
    return kind.fitted(scores[members], hits[members])
