"""The six seams where a tail method may act. It has the method of at least one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from longtail.arrays import Floats
from longtail.data.dataset import Dataset, Rows
from longtail.data.labels import LabelSet
from longtail.plan import DataFacts, Plan
from longtail.predictions import Predictions
from longtail.seams.declared import Declaration
from longtail.seams.learner import Learner, Teacher
from longtail.seams.scorer import State


@runtime_checkable
class Augments(Protocol):
    """Seam "augment": adds training rows, or soft targets to rows."""

    def augment(self, train: Dataset) -> Dataset:
        """Change the training data; called once, before the learner is fitted.

        Args:
            train: the rows given, and those that tail methods further left added. `train.origins` (rows,) is 0 for the
                rows given.

        Returns:
            A new dataset over the same label set: `train.with_rows(...)` adds rows, `train.with_entries(...)` adds
            targets in (0, 1]. Label counts stay those of the rows given.
        """


@runtime_checkable
class ChoosesOnValid(Protocol):
    """An augmentation that may choose a setting by fitting the learner and measuring it on valid."""

    def chosen_on_valid(self, learner: Learner) -> Learner:
        """Return a learner that tries the settings, or the given one where there is nothing to choose.

        Args:
            learner: the recipe's learner, inside the methods further left that wrap it.

        Returns:
            A learner that adds the rows of each try itself; `augment` then adds none.
        """


@runtime_checkable
class Wraps(Protocol):
    """Seam "wrap": puts a learner around the learner, such as one that fits parts of the label set apart.

    A method whose learner leaves a scorer of its own behind names its class in `scorer`, so that saved models find it.
    """

    def wrap(self, learner: Learner) -> Learner:
        """Return the learner to fit instead, usually a `WrappedLearner`.

        Args:
            learner: the recipe's learner, inside the methods further left that wrap it too.

        Returns:
            A learner whose `fit` fits the given one as often as it wants. It receives the augmented training rows.
        """


@runtime_checkable
class HasTeacher(Protocol):
    """Seam "teacher": fits the learner with the help of another model. The recipe builds that model and passes it in,
    so a tail method imports no learner."""

    @property
    def teacher(self) -> str | None:
        """A recipe, or the folder of a saved model; usually a setting of the method. None: it does without."""

    def wrap_with(self, learner: Learner, teacher: Teacher) -> Learner:
        """Return the learner to fit instead, usually a `WrappedLearner`. Called before any data is read.

        Args:
            learner: the recipe's learner, inside the methods further left that wrap it too.
            teacher: the model that `teacher` names; not fitted yet.

        Returns:
            A learner whose `fit` fits the teacher and then the given learner.

        Raises:
            RecipeError: the teacher is of no use to the method, by its `scorer_class` or `reranks`.
        """


@runtime_checkable
class MovesLabels(Protocol):
    """Seam "label tower": adds trained parameters to the vectors that stand for labels. Needs "label_tower"."""

    def label_tower(self, labels: LabelSet, texts: Floats, means: Callable[[], Floats], seed: int) -> Any:
        """Make the tower; called once, before the encoder is trained.

        Args:
            labels: the label set, with training counts.
            texts: (labels, dimension) float32, unit-norm vectors of the labels' texts before training.
            means: returns (labels, dimension) float32, the unit-norm means of the labels' rows before training; it
                encodes all rows, so call it only where needed.
            seed: of the learner.

        Returns:
            A `longtail.nn.dual.dual_task.LabelTower`, which is a torch module. After training its vectors are added to
            the labels' and the model does without it.
        """


@runtime_checkable
class PenalisesRows(Protocol):
    """Seam "head penalty": puts a term on the classifier rows of a head over all labels. Needs "row_penalties"."""

    def penalty(self, train: Dataset, labels: tuple[int, int], texts: Callable[[], Floats], seed: int) -> Any:
        """Make the penalty; called once, before training. Where processes share the labels, once in each.

        Args:
            train: the training rows, with those that tail methods added.
            labels: first label and end: the penalty acts on labels first, ..., end - 1.
            texts: returns (end - first, dimension) float32, unit-norm vectors of these labels' texts before training.
            seed: of the learner.

        Returns:
            A `longtail.nn.onevsall.onevsall_task.Penalty`, whose `step` updates the rows after each step of the head.
        """


class Reranker(Protocol):
    """What a re-ranking tail method leaves behind; part of the model."""

    kind: ClassVar[str]  # name and version in saved models, such as "rerank.v1"; change it when the state changes
    declared: ClassVar[Declaration]  # the arrays and settings of its state: types, shapes and ranges

    @property
    def candidates(self) -> int:
        """How many candidates a row it is given at least, where there are as many."""

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        """Re-order the candidates.

        Args:
            predictions: the candidates, best first; excluded pairs are gone.
            rows: the same rows, as they are read.

        Returns:
            The candidates in their new order (`Predictions.sorted`), with new scores above 0. Labels may be dropped,
            none may be added.
        """

    def state(self) -> State:
        """See `Scorer.state`."""

    @classmethod
    def restore(cls, state: State) -> Self:
        """See `Scorer.restore`."""


class HeldOut(Protocol):
    """Predictions on rows that their model has not trained on, computed only when a re-ranker asks for them."""

    @property
    def labels(self) -> LabelSet:
        """The labels of the model."""

    @property
    def train(self) -> Dataset:
        """The training rows given, before any tail method added rows or targets."""

    def valid(self) -> tuple[Predictions, Dataset]:
        """Predict the valid split by the model itself; the learner may have chosen or calibrated on it.

        Returns:
            Up to CANDIDATES labels a row, and the rows; there may be none.
        """

    def fitted(self, k: int) -> Predictions:
        """Predict the training rows by the model itself, which has learned from them.

        Args:
            k: labels of a row.

        Returns:
            Up to k labels of each row of `train`.
        """

    def folds(self, number: int, max_rows: int | None = None, seed: int = 0) -> tuple[Predictions, Dataset]:
        """Predict training rows out of fold: each by a model that was fitted on the rows of the other folds.

        Args:
            number: of folds, at least 2; costs as many trainings of the learner.
            max_rows: how many rows are predicted at most; the models still learn from all others.
            seed: decides which rows share a fold.

        Returns:
            Up to CANDIDATES labels a row, and the rows.
        """


@runtime_checkable
class Reranks(Protocol):
    """Seam "rerank": changes the order of the candidates after prediction."""

    reranker: ClassVar[type[Reranker]]  # the class of what `fit_reranker` returns

    def fit_reranker(self, held_out: HeldOut) -> Reranker:
        """Learn to re-order; called after the learner is fitted.

        Args:
            held_out: predictions of the model so far, earlier re-rankers included, on rows it has not trained on.

        Returns:
            The fitted re-ranker.
        """


@runtime_checkable
class AddsCost(Protocol):
    """A tail method that takes memory or time of its own."""

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """Return the plan of the recipe with this method.

        Args:
            before: what the recipe needs without it.
            facts: sizes of the data.

        Returns:
            What the recipe needs with it.
        """


def goes_on(method: Any, learner: Any) -> bool:
    """Find out whether a tail method can change what a learner learns or answers.

    Args:
        method: a tail method, or its class.
        learner: a learner, or its class.

    Returns:
        Whether the learner offers what the method needs, and learns from rows where the method only adds rows.
    """
    return bool(method.needs <= learner.offers) and not acts_in_vain(method, learner)


def acts_in_vain(method: Any, learner: Any) -> bool:
    """Find out whether a tail method only changes training rows, and the learner does not learn from any.

    Args:
        method: a tail method, or its class.
        learner: a learner, or its class.

    Returns:
        Whether the model would be the same without the method.
    """
    kind = method if isinstance(method, type) else type(method)
    only_rows = seams_of(kind) == ("augment",) or getattr(method, "only_changes_rows", False)
    return only_rows and not getattr(learner, "learns_from_rows", True)


def seams_of(part: type) -> tuple[str, ...]:
    """List the seams of a tail method, read from the methods it has.

    Args:
        part: the class of a tail method.

    Returns:
        Names of seams, in the order in which a recipe uses them.
    """
    method_of = {"augment": "augment", "wrap": "wrap", "teacher": "wrap_with", "label tower": "label_tower"}
    method_of |= {"head penalty": "penalty", "rerank": "fit_reranker"}
    return tuple(seam for seam, method in method_of.items() if hasattr(part, method))
