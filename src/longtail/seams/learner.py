"""Learners: what they declare, what they are asked, and the models that help to fit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError
from longtail.plan import DataFacts, Plan
from longtail.seams.scorer import Scorer

# What a part may need of the data, and what to do where the data lacks it.
DATA_NEEDS = {
    "hierarchy": 'labels with broader labels: give a SKOS --vocabulary, or "broader" in labels.jsonl',
    "label_texts": "labels with texts: add them to labels.jsonl",
    "texts": "documents with texts, not only features",
}
# What a learner may offer to tail methods that act inside it.
OFFERS = {
    "soft_targets": "targets below 1 change what it learns",
    "classifier_rows": "one weight vector a label",
    "label_tower": "labels are encoded from their texts",
    "free_classifiers": "one vector a label is trained, step by step",
    "row_penalties": "terms on its classifier rows act while it learns",
}


class TailMethod(Protocol):
    """Frozen settings of one idea. It also has the method of one of the seams below, or of several."""

    summary: ClassVar[str]  # one line for `longtail methods`
    needs: ClassVar[frozenset[str]]  # keys of OFFERS that the learner must offer
    data_needs: ClassVar[frozenset[str]]  # keys of DATA_NEEDS


class TeacherModel(Protocol):
    """A fitted teacher: its labels, and what it learned about them."""

    @property
    def labels(self) -> LabelSet:
        """May hold other labels than the data, or the same ones in another order."""

    @property
    def scorer(self) -> Scorer:
        """What it predicts with, before any re-ranker."""

    @property
    def recipe(self) -> str:
        """The recipe it was trained by."""


class Teacher(Protocol):
    """Another recipe, or a saved model, as a tail method or a learner sees it."""

    @property
    def scorer_class(self) -> type[Scorer]:
        """The class of its scorer, known before it is fitted."""

    @property
    def reranks(self) -> bool:
        """Whether re-rankers follow the scorer."""

    def plan(self, facts: DataFacts) -> Plan:
        """Estimate the memory and time that `fit` needs.

        Args:
            facts: sizes of the data.

        Returns:
            The plan.
        """

    def fit(self, train: Dataset, valid: Dataset) -> TeacherModel:
        """Train it; a saved model is returned as it is.

        Args:
            train: examples to learn from.
            valid: examples to choose and calibrate on; there may be none.

        Returns:
            The fitted model.
        """


@dataclass(frozen=True)
class FittedTeacher:
    """A teacher that needs no training: a saved model, or one that was trained for another part."""

    model: TeacherModel
    reranks: bool = False
    is_fitted: ClassVar[bool] = True
    fits: ClassVar[tuple[str, ...]] = ()  # nothing is fitted any more

    @property
    def scorer_class(self) -> type[Scorer]:
        """See `Teacher.scorer_class`."""
        return type(self.model.scorer)

    def check(self, data: Dataset) -> None:
        """Check that the teacher knows all labels of the data. It may know others besides.

        Args:
            data: what the student trains on.

        Raises:
            DataError: it lacks a label.
        """
        missing = [label for label in data.labels.ids if label not in self.model.labels.row_of]
        if missing:
            raise DataError(
                f"the saved teacher ({self.model.recipe}) does not know {len(missing)} of {len(data.labels)} labels, "
                f"such as {missing[0]!r}: train it on this data, or name its recipe instead of its folder"
            )

    def plan(self, facts: DataFacts) -> Plan:
        """See `Teacher.plan`."""
        return Plan(0, 0, 0.0, 0.0)

    def fit(self, train: Dataset, valid: Dataset) -> TeacherModel:
        """See `Teacher.fit`."""
        return self.model


class Learner(Protocol):
    """Frozen settings of a base method. The four declarations are class variables of the dataclass."""

    @property
    def summary(self) -> str:
        """One line for `longtail methods`."""

    @property
    def offers(self) -> frozenset[str]:
        """Keys of OFFERS."""

    @property
    def data_needs(self) -> frozenset[str]:
        """Keys of DATA_NEEDS."""

    @property
    def scorer(self) -> type[Scorer]:
        """The class of the scorer that `fit` returns."""

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer:
        """Learn.

        Args:
            train: rows to learn from, with those that tail methods added.
            valid: rows to choose and calibrate on; there may be none.
            parts: the tail methods of the recipe, for those that act inside the learner.

        Returns:
            The fitted scorer.
        """

    def plan(self, facts: DataFacts) -> Plan:
        """Estimate the memory and time that `fit` needs.

        Args:
            facts: sizes of the data.

        Returns:
            The plan.
        """


@runtime_checkable
class ChecksData(Protocol):
    """A learner whose settings may need more of the data than its class declares."""

    def check(self, data: Dataset) -> None:
        """Check that the data has what these settings need.

        Args:
            data: the training examples.

        Raises:
            DataError: the data lacks something.
        """


@runtime_checkable
class WarmStarts(Protocol):
    """A learner whose encoder can start from the encoder of another model. The recipe builds that model."""

    @property
    def init_from(self) -> str | None:
        """A recipe, or the folder of a saved model; none: the learner starts from its own encoder."""

    def initialised_from(self, teacher: Teacher) -> Learner:
        """Let training start from the encoder of another model.

        Args:
            teacher: that model.

        Returns:
            The same learner, which starts from its encoder.
        """

    def same_architecture(self, scorer: Scorer) -> bool:
        """Compare a scorer's encoder with the learner's own.

        Args:
            scorer: a fitted scorer.

        Returns:
            Whether tokenizer and sizes are the same.
        """


@dataclass(frozen=True)
class WrappedLearner:
    """Base of learners that fit another learner inside: what they declare is what the inner learner declares.

    A subclass adds `fit` and `plan`, and its own `scorer` where it leaves another kind behind.
    """

    learner: Learner

    @property
    def summary(self) -> str:
        """See `Learner.summary`."""
        return self.learner.summary

    @property
    def offers(self) -> frozenset[str]:
        """See `Learner.offers`."""
        return self.learner.offers

    @property
    def data_needs(self) -> frozenset[str]:
        """See `Learner.data_needs`."""
        return self.learner.data_needs

    @property
    def scorer(self) -> type[Scorer]:
        """See `Learner.scorer`."""
        return self.learner.scorer
