"""A classifier for frequent labels, an encoder for rare ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from longtail.arrays import Bools, Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.data.subsample import evenly_spaced
from longtail.errors import DataError, RecipeError, counted
from longtail.linear.fusion.known_words import knows_words
from longtail.linear.solvers.score_scale import DECLARED, ScoreCalibration
from longtail.metrics.evaluate import evaluate
from longtail.metrics.frequency import TAIL_ROWS
from longtail.papers import LEVER, Paper
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES, Predictions, ranked
from longtail.progress import emit, note, stage
from longtail.seams import (
    Array,
    Declaration,
    HasClassifierRows,
    Learner,
    Nothing,
    Scorer,
    Several,
    State,
    TailMethod,
    Teacher,
    Words,
    WrappedLearner,
)

VALIDATION_ROWS = 4000  # valid rows on which the threshold is chosen
KS = (1, 3, 5)
UNCALIBRATED = ScoreCalibration(1.0, 0.0, 0.0)  # the odds are the score: the same order for both models

Ranking = tuple[Ints, Floats]  # labels and scores (rows, places), -1 and 0 where there are fewer
Calibrations = tuple[ScoreCalibration, ScoreCalibration]  # of the learner and of the encoder


@dataclass(frozen=True, eq=False)
class EnsembleScorer:
    """Two models in one ranking, each for its own labels."""

    common: Scorer
    rare: Scorer
    tail: Bools  # (labels,) which labels are ranked by the second model
    recipe: str  # of the second model
    scales: Calibrations | None = None  # none: scores are compared as they are
    kind: ClassVar[str] = "ensemble.v2"
    declared: ClassVar[Declaration] = Declaration(
        {"tail": Array("uint8", "labels", most=1)},
        {"recipe": Words(), "scales": Nothing(Several((DECLARED, DECLARED)))},
        parts={"common": "labels", "rare": "labels"},
    )

    @property
    def probabilities(self) -> bool:
        """See `GivesProbabilities`: without scales they are the scores of two models as they are."""
        return self.scales is not None

    def top(self, rows: Rows, k: int) -> Ranking:
        """See `Scorer.top`."""
        # More than k of each, so that the first places do not depend on k.
        wanted = min(max(k, CANDIDATES), len(self.tail))
        best, scores = joined(self.common.top(rows, wanted), self.rare.top(rows, wanted), self.tail, self.scales)
        return best[:, :k], scores[:, :k]

    def knows_words(self, rows: Rows) -> Bools:
        """See `KnowsWords`: whether one of the two does."""
        known: Bools = knows_words(self.common, rows) | knows_words(self.rare, rows)
        return known

    def row_norms(self) -> Floats:
        """See `HasClassifierRows`; NaN for the labels of the encoder."""
        norms = np.full(len(self.tail), np.nan, dtype=np.float32)
        if isinstance(self.common, HasClassifierRows):
            found = self.common.row_norms()
            norms[: len(found)] = found
        return np.where(self.tail, np.float32(np.nan), norms)

    def state(self) -> State:
        """See `Scorer.state`."""
        scales = None if self.scales is None else [asdict(scale) for scale in self.scales]
        return State(
            {"recipe": self.recipe, "scales": scales},
            {"tail": self.tail.astype(np.uint8)},
            {"common": self.common, "rare": self.rare},
        )

    @classmethod
    def restore(cls, state: State) -> EnsembleScorer:
        """See `Scorer.restore`."""
        scales, tail = state.settings["scales"], state.tensors["tail"]
        pair = None if scales is None else (ScoreCalibration(**scales[0]), ScoreCalibration(**scales[1]))
        return cls(state.parts["common"], state.parts["rare"], tail.astype(bool), state.settings["recipe"], pair)


def joined(common: Ranking, rare: Ranking, tail: Bools, scales: Calibrations | None) -> Ranking:
    """Merge two rankings, each restricted to its own labels.

    Args:
        common: labels and scores (rows, places) of the model for the frequent labels.
        rare: the same of the model for the rare labels.
        tail: (labels,) which labels are rare.
        scales: turn each model's scores into probabilities; none: scores are compared as they are.

    Returns:
        Labels and scores (rows, places of both), best first.
    """
    sides = _restricted(common, rare, tail)
    if scales is not None:
        best = [scores.max(axis=1, keepdims=True, initial=0) for _, scores in sides]
        sides = [
            (labels, scale.of(scores, rival))
            for (labels, scores), scale, rival in zip(sides, scales, reversed(best), strict=True)
        ]
    labels, scores = (np.concatenate(part, axis=1) for part in zip(*sides, strict=True))
    return ranked(labels, scores)


@dataclass(frozen=True)
class Ensemble:
    """Let an encoder rank the rare labels and the learner the others; the higher score stands first.

    Labels with more than `tail_max_count` training examples come from the learner, the others from the encoder. "auto"
    takes the number with the highest P + PSP at 1, 3 and 5 on valid. Scores of two models cannot be compared, so each
    model's become probabilities of being right, learned on valid; `calibrated=false` compares them as they are, as the
    paper does.

    Published form: the baseline of LEVER's appendix C.3. Neither model is sure of labels of middling frequency, and
    they sink.
    Needs: texts of documents and labels for the encoder, which is a recipe or the folder of a saved model, no
    re-rankers.
    Costs: the training, the memory and the predicting of both.
    Prefer instead: `lever`, which puts what the encoder knows into the learner.
    Example: longtail compare wordnet "parabel" "parabel + ensemble(tail_model='dpr(encoder=\\"bag\\", epochs=3)')"
    """

    # Recipe or folder of the model that answers for rare labels.
    tail_model: str = "dpr(anchors='labels', epochs=60)"
    tail_max_count: int | Literal["auto"] = "auto"  # training examples up to which a label is rare; -1: none is
    calibrated: bool = True  # compare probabilities fitted on valid; false: compare scores as they are

    summary: ClassVar[str] = "an encoder for rare labels, the learner for frequent ones"
    papers: ClassVar[tuple[Paper, ...]] = (LEVER,)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})
    scorer: ClassVar[type[Scorer]] = EnsembleScorer

    def __post_init__(self) -> None:
        if self.tail_max_count != "auto" and self.tail_max_count < -1:
            raise RecipeError(
                "setting 'tail_max_count' of ensemble is a number of training examples, -1 or \"auto\", "
                f"got {self.tail_max_count}"
            )

    @property
    def teacher(self) -> str:
        """See `HasTeacher.teacher`."""
        return self.tail_model

    def wrap_with(self, learner: Learner, teacher: Teacher) -> Learner:
        """See `HasTeacher.wrap_with`."""
        if teacher.reranks:
            raise RecipeError(
                f"setting 'tail_model' of ensemble is a model without re-rankers, got {self.tail_model!r}; "
                "put the re-ranker behind ensemble"
            )
        return EnsembleLearner(learner, self, teacher)


@dataclass(frozen=True)
class EnsembleLearner(WrappedLearner):
    """A learner, and another model beside it."""

    method: Ensemble
    teacher: Teacher

    @property
    def scorer(self) -> type[Scorer]:
        """See `Learner.scorer`."""
        return EnsembleScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> EnsembleScorer:
        """See `Learner.fit`."""
        assert train.origins is not None
        with stage(f"training the encoder: {self.method.tail_model}"):
            tail_model = self.teacher.fit(train.take(train.origins == 0), valid)
        if tail_model.labels.ids != train.labels.ids:
            raise DataError(
                f"the encoder of ensemble ({tail_model.recipe}) knows other labels than the data; train it on this data"
            )
        common = self.learner.fit(train, valid, parts)
        with stage("choosing tail_max_count"):
            both = EnsembleScorer(common, tail_model.scorer, np.zeros(0, bool), tail_model.recipe)
            return self._with_threshold(both, valid)

    def _with_threshold(self, both: EnsembleScorer, valid: Dataset) -> EnsembleScorer:
        """The two models with the threshold and the calibrations that are best on valid."""
        counts, own = valid.labels.counts, self.method
        if len(valid) == 0 or valid.targets.nnz == 0:
            threshold = TAIL_ROWS if own.tail_max_count == "auto" else own.tail_max_count
            return replace(
                both, tail=counts <= threshold, scales=(UNCALIBRATED, UNCALIBRATED) if own.calibrated else None
            )
        sample = valid.take(evenly_spaced(len(valid), VALIDATION_ROWS))
        wanted = min(CANDIDATES, len(counts))
        common, rare = (
            _without_excluded(Predictions(sample.labels, *side.top(sample.rows, wanted)), sample)
            for side in (both.common, both.rare)
        )
        doubling = [-1, 0, *(1 << power for power in range(int(counts.max(initial=0)).bit_length() + 1))]
        tried = []
        for threshold in doubling if own.tail_max_count == "auto" else [own.tail_max_count]:
            tail = counts <= threshold
            scales = _calibrations(common, rare, tail, sample) if own.calibrated else None
            measures = evaluate(Predictions(sample.labels, *joined(common, rare, tail, scales)), sample, ks=KS)
            value = sum(measures[f"{name}@{k}"] for name in ("P", "PSP") for k in KS)
            tried.append((value, threshold, replace(both, tail=tail, scales=scales)))
        _, chosen, best = max(tried, key=lambda one: one[0])  # of equal values the lowest threshold
        if own.tail_max_count == "auto":
            note(f"ensemble: the encoder answers for labels with at most {counted(chosen, 'training example')}")
        emit(TailThreshold(chosen, {threshold: value for value, threshold, _ in tried}))
        return best

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        encoder, learner = self.teacher.plan(facts), self.learner.plan(facts)
        return Plan(
            train_bytes=max(encoder.train_bytes, encoder.model_bytes + learner.train_bytes),
            model_bytes=encoder.model_bytes + learner.model_bytes,
            train_seconds=encoder.train_seconds + learner.train_seconds,
            predict_seconds=encoder.predict_seconds + learner.predict_seconds,
            steps=(*((f"{name} of the encoder", size) for name, size in encoder.steps), *learner.steps),
        )


@dataclass(frozen=True)
class TailThreshold:
    """The `tail_max_count` that was chosen, and the P + PSP at 1, 3 and 5 on valid of all that were tried."""

    chosen: int
    values: dict[int, float]


def _restricted(common: Ranking, rare: Ranking, tail: Bools) -> list[Ranking]:
    """Each side's own labels only."""
    sides = []
    for (labels, scores), own in ((common, ~tail), (rare, tail)):
        kept = (labels >= 0) & own[labels]
        sides.append((np.where(kept, labels, np.int32(-1)), np.where(kept, scores, np.float32(0))))
    return sides


def _calibrations(common: Ranking, rare: Ranking, tail: Bools, sample: Dataset) -> Calibrations:
    """How likely each side's labels are right, given their scores and the other side's best score."""
    sides = _restricted(common, rare, tail)
    best = [scores.max(axis=1, keepdims=True, initial=0) for _, scores in sides]
    fitted = []
    for (labels, scores), rival in zip(sides, reversed(best), strict=True):
        filled = scores > 0
        hits = Predictions(sample.labels, labels, scores).hits(sample.targets)[filled]
        rivals = np.broadcast_to(rival, scores.shape)[filled]
        fitted.append(UNCALIBRATED.fitted(scores[filled], rivals, hits) if filled.any() else UNCALIBRATED)
    return fitted[0], fitted[1]


def _without_excluded(found: Predictions, sample: Dataset) -> Ranking:
    kept = found.without(sample.excluded)
    return kept.indices, kept.scores
