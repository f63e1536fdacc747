"""Classifier rows tied to the vectors of their labels' texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from longtail.arrays import Floats
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.papers import LEVER, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage
from longtail.seams import HasVectors, Learner, Scorer, TailMethod, Teacher, WrappedLearner

WIDTH = 384  # assumed dimension of the vectors, which a plan does not know


@dataclass(frozen=True)
class L2tie:
    """Draws each label's classifier towards the vector of its text: a teacher's, or that of the encoder as it is before
    training.

    The penalty is the same for all labels, and the data has more weight for frequent ones, so it is the rare labels
    that stay near their texts. With `init_from` and no teacher the vectors are those of that model.

    Published form: the L2 baseline of LEVER, which ties to the vectors of its tail expert: set `teacher`.
    Needs: a learner whose classifier rows take penalties, such as `renee`; texts of labels; a teacher with vectors of
    the encoder's dimension.
    Costs: one more vector a label, and an update of `labels_per_step` rows a step.
    Prefer instead: `rows` or `lever`, which teach the encoder too.
    Example: longtail compare wordnet "renee(encoder='bag', epochs=5)" "renee(encoder='bag', epochs=5) + l2tie"
    """

    # Recipe or folder of the model whose label vectors classifiers are tied to; none: the learner's own encoder.
    teacher: str | None = None
    weight: float = 0.01  # λ: a step covers head_learning_rate x this share of the distance
    labels_per_step: int = 4096  # labels sampled in a step; fewer labels get larger updates
    target_norm: float | None = None  # of the text vectors; none: the norm of each row, which it then keeps

    summary: ClassVar[str] = "classifier rows tied to the vectors of their labels' texts"
    papers: ClassVar[tuple[Paper, ...]] = (LEVER,)
    needs: ClassVar[frozenset[str]] = frozenset({"row_penalties"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if self.weight <= 0 or self.labels_per_step < 1 or (self.target_norm is not None and self.target_norm <= 0):
            raise RecipeError(
                "l2tie needs weight, labels_per_step and target_norm above 0, got "
                f"weight={self.weight:g}, labels_per_step={self.labels_per_step}, target_norm={self.target_norm}"
            )

    def wrap_with(self, learner: Learner, teacher: Teacher) -> Learner:
        """See `HasTeacher.wrap_with`."""
        if not hasattr(teacher.scorer_class, "label_vectors"):
            raise RecipeError(
                f"the teacher of l2tie must have vectors of labels, and {self.teacher!r} has none; take one with an "
                "encoder, such as dpr or ngame"
            )
        return TiedLearner(learner, self, teacher)

    def penalty(self, train: Dataset, labels: tuple[int, int], texts: Callable[[], Floats], seed: int) -> Any:
        """See `PenalisesRows.penalty`."""
        from longtail.nn.onevsall.penalties import TiePenalty

        return TiePenalty(texts(), self.weight, self.labels_per_step, self.target_norm, seed)

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        return replace(before, train_bytes=before.train_bytes + 4 * WIDTH * facts.labels)


@dataclass(frozen=True, eq=False)
class TiedToTeacher:
    """`l2tie` with the vectors of its teacher, as the learner sees it."""

    method: L2tie
    vectors: Floats  # (labels, dimension) unit-norm

    summary: ClassVar[str] = L2tie.summary
    needs: ClassVar[frozenset[str]] = L2tie.needs
    data_needs: ClassVar[frozenset[str]] = L2tie.data_needs

    def penalty(self, train: Dataset, labels: tuple[int, int], texts: Callable[[], Floats], seed: int) -> Any:
        """See `PenalisesRows.penalty`."""
        own = texts().shape[1]
        if self.vectors.shape[1] != own:
            raise RecipeError(
                f"the teacher of l2tie has vectors of {self.vectors.shape[1]} numbers, and the classifiers have {own}: "
                "take a teacher with the same encoder or `dimension`"
            )
        return self.method.penalty(train, labels, lambda: self.vectors[labels[0] : labels[1]], seed)


@dataclass(frozen=True)
class TiedLearner(WrappedLearner):
    """A learner whose classifiers are tied to the label vectors of another model, which is trained first."""

    method: L2tie
    teacher: Teacher

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        """See `Learner.fit`."""
        assert train.origins is not None
        with stage(f"training the teacher: {self.method.teacher}"):
            model = self.teacher.fit(train.take(np.flatnonzero(train.origins == 0)), valid)
        assert isinstance(model.scorer, HasVectors)
        vectors = model.scorer.label_vectors
        if model.labels.ids != train.labels.ids:
            vectors = vectors[model.labels.rows(train.labels.ids)]
        tied = TiedToTeacher(self.method, np.ascontiguousarray(vectors, dtype=np.float32))
        return self.learner.fit(train, valid, tuple(tied if part is self.method else part for part in parts))

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`: the teacher, then the learner."""
        before, after = self.teacher.plan(facts), self.learner.plan(facts)
        return replace(
            after,
            train_bytes=max(before.train_bytes, after.train_bytes),
            train_seconds=before.train_seconds + after.train_seconds,
        )
