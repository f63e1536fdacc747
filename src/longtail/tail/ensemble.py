"""A classifier for frequent labels, an encoder for rare ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Literal, cast

import numpy as np

from longtail.arrays import Bools, Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.errors import DataError, RecipeError
from longtail.linear.scale import Scale
from longtail.metrics.evaluate import evaluate
from longtail.metrics.frequency import TAIL_ROWS
from longtail.plan import Facts, Plan
from longtail.predictions import CANDIDATES, Predictions, ranked
from longtail.progress import note, stage, tell
from longtail.seams import HasRows, Learner, Scorer, State, TailMethod, Teacher

LOOKED_AT = 4000  # valid rows on which the cut is chosen
PLACES = (1, 3, 5)
AS_IT_IS = Scale(1.0, 0.0, 0.0)  # odds equal to the score: one order for both

Answers = tuple[Ints, Floats]  # labels and scores (rows, places), -1 and 0 where there are fewer


@dataclass(frozen=True, eq=False)
class EnsembleScorer:
    """Two models' answers in one ranking, each for its own labels."""

    common: Scorer
    rare: Scorer
    tail: Bools  # (labels,) which labels the second model answers for
    recipe: str  # of the second model
    scales: tuple[Scale, Scale] | None = None  # none: scores as they are
    kind: ClassVar[str] = "ensemble.v1"

    def top(self, rows: Rows, k: int) -> Answers:
        # More than k of each, so that a label does not come and go with k.
        wanted = min(max(k, CANDIDATES), len(self.tail))
        best, scores = joined(self.common.top(rows, wanted), self.rare.top(rows, wanted), self.tail, self.scales)
        return best[:, :k], scores[:, :k]

    def row_norms(self) -> Floats:
        """Of the labels that the classifier answers for."""
        norms = np.full(len(self.tail), np.nan, dtype=np.float32)
        if isinstance(self.common, HasRows):
            found = self.common.row_norms()
            norms[: len(found)] = found
        return np.where(self.tail, np.float32(np.nan), norms)

    def state(self) -> State:
        scales = None if self.scales is None else [asdict(scale) for scale in self.scales]
        return State(
            {"recipe": self.recipe, "scales": scales},
            {"tail": self.tail.astype(np.uint8)},
            {"common": self.common, "rare": self.rare},
        )

    @classmethod
    def restore(cls, state: State) -> EnsembleScorer:
        scales, tail = state.settings["scales"], state.tensors["tail"]
        if tail.ndim != 1 or tail.dtype != np.uint8 or tail.max(initial=0) > 1:
            raise ValueError("which labels are rare is not one yes or no a label")
        pair = None if scales is None else (Scale(**scales[0]), Scale(**scales[1]))
        return cls(state.parts["common"], state.parts["rare"], tail.astype(bool), state.settings["recipe"], pair)


def joined(common: Answers, rare: Answers, tail: Bools, scales: tuple[Scale, Scale] | None) -> Answers:
    """Each side's answers for its own labels, in one order by score, or by chance where there are scales."""
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
    """Let an encoder answer for rare labels, and the learner for the others; the higher score stands first.

    Each gives its best labels; those with more training rows than the cut count from the learner, the others from the
    encoder. The cut is the one with most P + PSP at 1, 3 and 5 on valid. Scores of two models are not alike, so both
    become chances of being right, learned on valid; `scaled=false` compares them as they are, as the paper does.

    Paper: the baseline in Buvanesh et al., LEVER (ICLR 2024), appendix C.3: neither is sure of labels of middling
    frequency, and they sink.
    Needs: texts of rows and labels for the encoder, which is a recipe or the folder of a saved model, no re-rankers.
    Costs: the training, the memory and the predicting of both.
    Prefer instead: `lever`, which puts what the encoder knows into the learner.
    Example: longtail compare wordnet "parabel" "parabel + ensemble(encoder='dpr(encoder=\\"bag\\", epochs=3)')"
    """

    encoder: str = "dpr(rows='labels', epochs=60)"
    cut: int | Literal["auto"] = "auto"  # training rows up to which a label is rare; -1: none is
    scaled: bool = True

    summary: ClassVar[str] = "an encoder answers for rare labels, the learner for frequent ones"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})
    scorer: ClassVar[type[Scorer]] = EnsembleScorer

    def __post_init__(self) -> None:
        if self.cut != "auto" and self.cut < -1:
            raise RecipeError(f"setting 'cut' of ensemble is a number of training rows, -1 or \"auto\", got {self.cut}")

    @property
    def teacher(self) -> str:
        return self.encoder

    def wrap_with(self, learner: Learner, teacher: Teacher) -> Learner:
        if teacher.reranks:
            raise RecipeError(
                f"the encoder of ensemble is a model without re-rankers, got {self.encoder!r}; "
                "put the re-ranker behind ensemble"
            )
        return cast(Learner, Both(learner, self, teacher))


@dataclass(frozen=True)
class Both:
    """A learner, and another model beside it."""

    learner: Learner
    method: Ensemble
    teacher: Teacher

    summary: ClassVar[str] = Ensemble.summary
    scorer: ClassVar[type[Scorer]] = EnsembleScorer

    @property
    def offers(self) -> frozenset[str]:
        return self.learner.offers

    @property
    def data_needs(self) -> frozenset[str]:
        return self.learner.data_needs

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> EnsembleScorer:
        assert train.origins is not None
        with stage(f"training the encoder: {self.method.encoder}"):
            taught = self.teacher.fit(train.take(train.origins == 0), valid)
        if taught.labels.ids != train.labels.ids:
            raise DataError(
                f"the encoder of ensemble ({taught.recipe}) knows other labels than the data; train it on this data"
            )
        common = self.learner.fit(train, valid, parts)
        with stage("choosing the cut"):
            return self._cut(EnsembleScorer(common, taught.scorer, np.zeros(0, bool), taught.recipe), valid)

    def _cut(self, both: EnsembleScorer, valid: Dataset) -> EnsembleScorer:
        counts, own = valid.labels.counts, self.method
        scales = (AS_IT_IS, AS_IT_IS) if own.scaled else None
        if len(valid) == 0 or valid.targets.nnz == 0:
            cut = TAIL_ROWS if own.cut == "auto" else own.cut
            return replace(both, tail=counts <= cut, scales=scales)
        some = valid.take(np.unique(np.linspace(0, len(valid) - 1, min(len(valid), LOOKED_AT)).astype(np.int64)))
        wanted = min(CANDIDATES, len(counts))
        common, rare = (
            _allowed(Predictions(some.labels, *side.top(some.rows, wanted)), some) for side in (both.common, both.rare)
        )
        doubling = [-1, 0, *(1 << step for step in range(int(counts.max(initial=0)).bit_length() + 1))]
        found = []
        for cut in doubling if own.cut == "auto" else [own.cut]:
            tail = counts <= cut
            fitted = _scales(common, rare, tail, some) if own.scaled else None
            measures = evaluate(Predictions(some.labels, *joined(common, rare, tail, fitted)), some, ks=PLACES)
            value = sum(measures[f"{name}@{k}"] for name in ("P", "PSP") for k in PLACES)
            found.append((value, cut, replace(both, tail=tail, scales=fitted)))
        value, cut, best = max(found, key=lambda one: one[0])  # of equals the lowest
        if own.cut == "auto":
            note(f"ensemble: the encoder answers for labels with at most {cut} training rows")
        tell(Cut(cut, {each: worth for worth, each, _ in found}))
        return best

    def plan(self, facts: Facts) -> Plan:
        one, other = self.teacher.plan(facts), self.learner.plan(facts)
        return Plan(
            train_bytes=max(one.train_bytes, one.model_bytes + other.train_bytes),
            model_bytes=one.model_bytes + other.model_bytes,
            train_seconds=one.train_seconds + other.train_seconds,
            predict_seconds=one.predict_seconds + other.predict_seconds,
            steps=(*((f"{name} of the encoder", size) for name, size in one.steps), *other.steps),
        )


@dataclass(frozen=True)
class Cut:
    """The cut that was chosen, and what each would have been worth on valid: P + PSP at 1, 3 and 5."""

    chosen: int
    worth: dict[int, float]


def _restricted(common: Answers, rare: Answers, tail: Bools) -> list[Answers]:
    """Only the labels that each side answers for."""
    sides = []
    for (labels, scores), wanted in ((common, ~tail), (rare, tail)):
        kept = (labels >= 0) & wanted[labels]
        sides.append((np.where(kept, labels, np.int32(-1)), np.where(kept, scores, np.float32(0))))
    return sides


def _scales(common: Answers, rare: Answers, tail: Bools, rows: Dataset) -> tuple[Scale, Scale]:
    """How likely each side's answers are right, given its score and the other's best."""
    sides = _restricted(common, rare, tail)
    best = [scores.max(axis=1, keepdims=True, initial=0) for _, scores in sides]
    fitted = []
    for (labels, scores), rival in zip(sides, reversed(best), strict=True):
        there = scores > 0
        hits = Predictions(rows.labels, labels, scores).hits(rows.targets)[there]
        rivals = np.broadcast_to(rival, scores.shape)[there]
        fitted.append(AS_IT_IS.fitted(scores[there], rivals, hits) if there.any() else AS_IT_IS)
    return fitted[0], fitted[1]


def _allowed(found: Predictions, rows: Dataset) -> Answers:
    kept = found.without(rows.excluded)
    return kept.indices, kept.scores
