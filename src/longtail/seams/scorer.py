"""What a learner leaves behind when it is fitted, and what some learners leave behind besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, TypeGuard, runtime_checkable

from longtail.arrays import AnyArray, Bools, Floats, Ints, Matrix
from longtail.data.dataset import Rows
from longtail.seams.declared import Declaration


@dataclass(frozen=True)
class State:
    """A fitted part as plain data, which a model folder holds."""

    settings: dict[str, Any] = field(default_factory=dict)  # JSON values
    tensors: dict[str, AnyArray] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)  # fitted parts inside this one, by name


class Scorer(Protocol):
    """What a learner leaves behind: it finds the best labels of a row."""

    kind: ClassVar[str]  # name and version in saved models, such as "centroid.v1"; change it when the state changes
    declared: ClassVar[Declaration]  # the arrays and settings of its state: types, shapes and ranges

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """Find the k best labels of each row.

        Args:
            rows: texts, features or both.
            k: labels a row.

        Returns:
            Label rows (rows, k) int32 and their scores (rows, k) float32, best first, ties by label row. Scores are
            above 0; a row with fewer than k labels ends with label -1 and score 0.
        """

    def state(self) -> State:
        """Collect what `restore` needs.

        Returns:
            Arrays and settings as plain data.
        """

    @classmethod
    def restore(cls, state: State) -> Self:
        """Build the scorer again.

        Args:
            state: what `state` returned, or what a file says it did: it is as `declared` says, and no more is sure.

        Returns:
            A scorer that predicts the same.

        Raises:
            ValueError: the arrays do not fit together in a way that no declaration can say.
        """


@runtime_checkable
class GivesProbabilities(Protocol):
    """A scorer or re-ranker that declares whether its scores are probabilities. One that does not has other scores.

    Declare True only where scores were fitted to how often they are right on examples held out. A score between 0 and 1
    is not enough: a tree's product of forks, or a share of votes, is several times too low for rare labels.
    """

    @property
    def probabilities(self) -> bool:
        """Whether a score of 0.6 means right in 60% of cases; usually a class variable."""


def gives_probabilities(part: object) -> bool:
    """Find out whether the scores of a scorer or re-ranker are probabilities of being right.

    Args:
        part: a fitted scorer or re-ranker.

    Returns:
        What it declares; False where it declares nothing.
    """
    return isinstance(part, GivesProbabilities) and bool(part.probabilities)


@runtime_checkable
class HasClassifierRows(Protocol):
    """A scorer with one weight vector a label."""

    def row_norms(self) -> Floats:
        """Measure each label's weight vector without its bias.

        Returns:
            (labels,) norms, NaN for a label without a vector.
        """


@runtime_checkable
class HasVectors(Protocol):
    """A scorer that puts rows and labels into one space, where near means relevant: it can be a teacher."""

    @property
    def label_vectors(self) -> Floats:
        """(labels, dimension), unit-norm."""

    def row_vectors(self, rows: Rows) -> Floats:
        """Encode documents.

        Args:
            rows: texts, features or both.

        Returns:
            (rows, dimension) unit-norm vectors.
        """


@runtime_checkable
class KnowsWords(Protocol):
    """A scorer that can tell texts of which it can read nothing."""

    def knows_words(self, rows: Rows) -> Bools:
        """Find the rows of which the scorer can read something.

        Args:
            rows: texts, features or both.

        Returns:
            (rows,) bool.
        """


@runtime_checkable
class EncodesToDevice(Protocol):
    """A scorer that can leave the vectors of rows on the device that computed them."""

    def encode_to_device(self, rows: Rows) -> Any:
        """Encode documents without copying their vectors to the host.

        Args:
            rows: texts, features or both.

        Returns:
            A tensor (rows, dimension) of unit-norm vectors on the device.
        """


@runtime_checkable
class TakesLabels(Protocol):
    """A scorer that knows a label by its text, so that new labels need no training."""

    def with_labels(self, texts: Sequence[str], known: Sequence[str]) -> Scorer:
        """Return the same scorer with more labels.

        Args:
            texts: one text for each new label.
            known: the texts of the labels it has, in row order.

        Returns:
            A scorer over the known labels, then the new ones.
        """


@runtime_checkable
class TakesRows(Protocol):
    """A scorer that remembers training rows, so that new rows, and labels that only they have, need no training."""

    def with_rows(self, rows: Rows, targets: Matrix, ids: Sequence[str]) -> Scorer:
        """Return the same scorer with more training rows.

        Args:
            rows: the new rows.
            targets: csr (new rows, labels) in (0, 1]; labels that the scorer does not know stand behind those it has.
            ids: of the new rows.

        Returns:
            A scorer over as many labels as `targets` has columns.
        """


def takes_labels(part: object) -> TypeGuard[TakesLabels]:
    """Find out whether a scorer takes new labels.

    Args:
        part: a scorer; one that is made of others says by its own `takes_labels` whether any of them does.

    Returns:
        Whether it does.
    """
    return isinstance(part, TakesLabels) and bool(getattr(part, "takes_labels", True))


def takes_rows(part: object) -> TypeGuard[TakesRows]:
    """Find out whether a scorer takes new training rows.

    Args:
        part: a scorer; one that is made of others says by its own `takes_rows` whether any of them does.

    Returns:
        Whether it does.
    """
    return isinstance(part, TakesRows) and bool(getattr(part, "takes_rows", True))


@dataclass(frozen=True)
class Vote:
    """What one member of a combination said of a label."""

    member: str  # its recipe
    place: int | None  # from 1; None: the member did not name the label
    score: float  # its own score; 0 where it did not name the label


@dataclass(frozen=True)
class RememberedExample:
    """A training example that has the label and is near the text."""

    id: str
    text: str  # its beginning
    similarity: float


@dataclass(frozen=True)
class AttendedWord:
    """A word of the text that a label looked at."""

    word: str
    weight: float  # share of the label's attention


@dataclass(frozen=True)
class Explanation:
    """Why a label was predicted."""

    votes: tuple[Vote, ...] = ()
    train_rows: int | None = None  # training examples of the label
    proposed: int | None = None  # held-out examples for which a member named the label
    right: int | None = None  # how often that was right
    neighbours: tuple[RememberedExample, ...] = ()  # of members that remember training examples
    words: tuple[AttendedWord, ...] = ()  # of learners with an attention for each label, the most attended first

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as JSON values.

        Returns:
            An object without what the model does not know.
        """
        found: dict[str, Any] = {}
        if self.votes:
            found["members"] = [
                {"member": vote.member, "place": vote.place, "score": vote.score}
                if vote.place is not None
                else {"member": vote.member, "place": None}
                for vote in self.votes
            ]
        if self.train_rows is not None:
            found["training_examples"] = self.train_rows
        if self.proposed is not None:
            found["proposed"], found["right"] = self.proposed, self.right
        if self.neighbours:
            found["nearest"] = [
                {"id": one.id, "text": one.text, "similarity": round(one.similarity, 4)} for one in self.neighbours
            ]
        if self.words:
            found["words"] = [{"word": one.word, "weight": round(one.weight, 4)} for one in self.words]
        return found


@runtime_checkable
class Explains(Protocol):
    """A scorer that can say why it predicts a label."""

    def explain(self, rows: Rows, labels: Ints) -> list[list[Explanation]]:
        """Explain predictions.

        Args:
            rows: texts, features or both.
            labels: (rows, places) label rows, -1 = none.

        Returns:
            For each row an explanation of each place; an empty one where there is no label.
        """
