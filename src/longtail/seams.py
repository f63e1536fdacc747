"""The protocols where parts meet: what a learner leaves behind, and where a tail method may act.

A learner declares what it `offers`, a tail method what it `needs` of the learner; both declare what they
need of the data. `longtail methods` prints the grid from these declarations and the tests train every cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from longtail.arrays import AnyArray, Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.data.labels import LabelSet
from longtail.errors import DataError
from longtail.plan import Facts, Plan
from longtail.predictions import Predictions

# What a part may need of the data, and how to help a user whose data lacks it.
DATA_NEEDS = {
    "label_texts": "labels with texts: add them to labels.jsonl",
    "texts": "rows with texts, not only features",
}


@dataclass(frozen=True)
class State:
    """A fitted part as plain data: what `store` writes and reads back."""

    settings: dict[str, Any] = field(default_factory=dict)  # JSON values
    tensors: dict[str, AnyArray] = field(default_factory=dict)
    parts: dict[str, Scorer] = field(default_factory=dict)  # fitted parts inside this one


class Scorer(Protocol):
    """What a learner leaves behind when it has learned: the best labels of a row."""

    kind: ClassVar[str]  # versioned name in saved models, such as "centroid.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """The k best labels of each row and their scores (rows, k), best first, ties by label row;
        scores are above 0, and -1 with score 0 fills the places of rows with fewer labels."""

    def state(self) -> State: ...

    @classmethod
    def restore(cls, state: State) -> Self: ...


@runtime_checkable
class HasRows(Protocol):
    """A scorer with classifier rows: what learners that offer them leave behind."""

    def row_norms(self) -> Floats:
        """Length of each label's weight vector, the bias not counted: (labels,); NaN where a label has none."""


@runtime_checkable
class HasVectors(Protocol):
    """A scorer that puts rows and labels into one space, where near means relevant: a teacher of soft labels."""

    @property
    def label_vectors(self) -> Floats:
        """(labels, dimension), of length 1."""

    def row_vectors(self, rows: Rows) -> Floats:
        """(rows, dimension), of length 1."""


@runtime_checkable
class HasRowsThere(Protocol):
    """A scorer whose vectors of rows need not leave the device that makes them."""

    def rows_there(self, rows: Rows) -> Any:
        """A tensor (rows, dimension), of length 1."""


@runtime_checkable
class TakesLabels(Protocol):
    """A scorer that knows a label by its text, so that new ones can join without training."""

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> Scorer:
        """The same scorer with these labels behind those it has, whose texts are `known`."""


class Learner(Protocol):
    """Frozen settings of a base method."""

    summary: ClassVar[str]
    offers: ClassVar[frozenset[str]]  # of OFFERS
    data_needs: ClassVar[frozenset[str]]  # of DATA_NEEDS
    scorer: ClassVar[type[Scorer]]

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Scorer: ...

    def plan(self, facts: Facts) -> Plan: ...


@runtime_checkable
class ChecksData(Protocol):
    """A learner whose settings ask more of the data than its class does."""

    def check(self, data: Dataset) -> None:
        """Raises a DataError where the data lacks it."""


# What a learner may offer to tail methods that act inside it.
OFFERS = {
    "soft_targets": "targets below 1 change what it learns",
    "classifier_rows": "one weight vector a label",
    "label_tower": "labels are encoded from their texts",
    "row_penalties": "terms on its classifier rows act while it learns",
}


class TailMethod(Protocol):
    """Frozen settings of one idea; it also offers one or more of the seams below."""

    summary: ClassVar[str]
    needs: ClassVar[frozenset[str]]  # of OFFERS
    data_needs: ClassVar[frozenset[str]]  # of DATA_NEEDS


@runtime_checkable
class Augments(Protocol):
    """Adds training rows, or soft entries on rows."""

    def augment(self, train: Dataset) -> Dataset: ...


@runtime_checkable
class Wraps(Protocol):
    """Fits parts of the label set apart and joins the answers; says what kind of scorer comes out."""

    scorer: ClassVar[type[Scorer]]

    def wrap(self, learner: Learner) -> Learner: ...


class Taught(Protocol):
    """What a teacher knows: its labels, and what it learned about them."""

    @property
    def labels(self) -> LabelSet: ...

    @property
    def scorer(self) -> Scorer: ...

    @property
    def recipe(self) -> str: ...


class Teacher(Protocol):
    """Another recipe, or a model that was saved, as a tail method sees it."""

    @property
    def leaves(self) -> type[Scorer]:
        """What kind of scorer it will be."""

    @property
    def reranks(self) -> bool:
        """Whether re-rankers follow the scorer."""

    def plan(self, facts: Facts) -> Plan: ...

    def fit(self, train: Dataset, valid: Dataset) -> Taught: ...


@dataclass(frozen=True)
class Ready:
    """A teacher that is there already: a model that was saved, or one that has taught before."""

    taught: Taught
    reranks: bool = False

    @property
    def leaves(self) -> type[Scorer]:
        return type(self.taught.scorer)

    def check(self, data: Dataset) -> None:
        """Whether it knows every label of the data: what it knows beside them does no harm."""
        missing = [label for label in data.labels.ids if label not in self.taught.labels.row_of]
        if missing:
            raise DataError(
                f"the saved teacher ({self.taught.recipe}) does not know {len(missing)} of {len(data.labels)} labels, "
                f"such as {missing[0]!r}: train it on this data, or name its recipe instead of its folder"
            )

    def plan(self, facts: Facts) -> Plan:
        return Plan(0, 0, 0.0, 0.0)

    def fit(self, train: Dataset, valid: Dataset) -> Taught:
        return self.taught


@runtime_checkable
class HasTeacher(Protocol):
    """Fits the learner with the help of another model. The recipe builds that model and hands it in: a tail method
    knows no learner by name."""

    @property
    def teacher(self) -> str:
        """A recipe, or the folder of a saved model."""

    def wrap_with(self, learner: Learner, teacher: Teacher) -> Learner: ...


@runtime_checkable
class WarmStarts(Protocol):
    """A learner that can begin where another model ended. The recipe builds that model and hands it in."""

    @property
    def warm(self) -> str | None:
        """A recipe, or the folder of a saved model; none: it begins cold."""

    def begun_from(self, teacher: Teacher) -> Learner: ...

    def reads_like(self, scorer: Scorer) -> bool:
        """Whether that model's encoder is of the make of the one it would begin with: the same tokenizer and sizes."""


@runtime_checkable
class PenalisesRows(Protocol):
    """Puts a term on the classifier rows of a head that learns over all labels."""

    def penalty(self, train: Dataset, labels: tuple[int, int], texts: Callable[[], Floats], seed: int) -> Any:
        """A `longtail.nn.heads.task.Penalty` on the labels from the first number to before the second. `texts` gives
        unit vectors (labels, dimension) of their texts as they are before training."""


@runtime_checkable
class MovesLabels(Protocol):
    """Puts a label tower beside the encoder: what stands for a label in training, besides its text."""

    def label_tower(self, labels: LabelSet, texts: Floats, means: Callable[[], Floats], seed: int) -> Any:
        """A `longtail.nn.siamese.LabelTower`, given unit vectors (labels, dimension) as they are before training: of
        the labels' texts and, when asked, the means of their rows'."""


class Reranker(Protocol):
    """What a re-ranking tail method leaves behind."""

    kind: ClassVar[str]

    @property
    def candidates(self) -> int:
        """The least number of candidates it is given, where there are as many."""

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        """The candidates of these rows in a new order, with new scores; labels may leave, none may join."""

    def state(self) -> State: ...

    @classmethod
    def restore(cls, state: State) -> Self: ...


class HeldOut(Protocol):
    """Predictions on rows the learner has not trained on, made only when a re-ranker asks."""

    @property
    def labels(self) -> LabelSet: ...

    @property
    def train(self) -> Dataset:
        """The training rows as given, before any tail method added rows or entries."""

    def valid(self) -> tuple[Predictions, Dataset]:
        """The model's own predictions for the valid split. The learner may have chosen or calibrated on it."""

    def folds(self, number: int, most: int | None = None, seed: int = 0) -> tuple[Predictions, Dataset]:
        """Predictions for the training rows as given, each by a model fitted on the rows of the other folds.

        Costs `number` trainings. `most` caps how many rows are predicted; the models still learn from all others.
        """


@runtime_checkable
class Reranks(Protocol):
    """Changes the order of the candidates after prediction."""

    reranker: ClassVar[type[Reranker]]

    def fit_reranker(self, held_out: HeldOut) -> Reranker: ...


@runtime_checkable
class AddsCost(Protocol):
    """Takes memory or time of its own, beside the recipe that stands before it."""

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        """What the recipe takes with this method, given what it takes without."""


def seams_of(part: type) -> tuple[str, ...]:
    """The seams a tail method acts on, read from the methods it has."""
    entrance = {"augment": "augment", "wrap": "wrap", "teacher": "wrap_with", "label tower": "label_tower"}
    entrance |= {"head penalty": "penalty", "rerank": "fit_reranker"}
    return tuple(seam for seam, method in entrance.items() if hasattr(part, method))
