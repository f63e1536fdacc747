"""Learners that are made of other recipes, and what such a recipe leaves behind once it is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.data.labels import LabelSet
from longtail.predictions import Predictions
from longtail.seams.declared import LARGEST, Array, Contents, Declaration, Misfit, Whole, Words
from longtail.seams.learner import Learner, Teacher, TeacherModel
from longtail.seams.scorer import Explanation, Scorer, State
from longtail.seams.tail_method import Reranker

MOST_RERANKERS = 100  # of a member


class MemberModel(TeacherModel, Protocol):
    """A fitted member: what it predicts with, re-rankers included."""

    @property
    def rerankers(self) -> tuple[Reranker, ...]:
        """Applied after the scorer, in this order."""


@runtime_checkable
class MemberRecipe(Teacher, Protocol):
    """Another recipe, or a saved model, as a learner with members sees it."""

    @property
    def is_fitted(self) -> bool:
        """Whether it is a saved model, which has seen the training rows and cannot be fitted without some of them."""

    @property
    def fits(self) -> tuple[str, ...]:
        """What makes each scorer that `fit` fits, its own members' too; none where it is fitted."""

    def fit(self, train: Dataset, valid: Dataset) -> MemberModel:
        """See `Teacher.fit`."""


@runtime_checkable
class HasMembers(Protocol):
    """A learner that combines others. The recipe builds them and passes them in, so a learner imports no other."""

    @property
    def members(self) -> tuple[str, ...]:
        """Recipes, or folders of saved models; a recipe writes them first in the parentheses, without a name."""

    def made_of(self, members: tuple[MemberRecipe, ...]) -> Learner:
        """Return the learner that fits these members. Called before any data is read.

        Args:
            members: what `members` names, in the same order; not fitted yet.

        Returns:
            A learner whose `fit` fits the members and then itself.

        Raises:
            RecipeError: a member is of no use to the learner.
        """


def _declared_rerankers(settings: Mapping[str, Any]) -> Declaration:
    return Declaration(parts={f"reranker-{number}": "own labels" for number in range(settings["rerankers"])})


def _check_own_labels(stored: Contents) -> None:
    """Without `label_rows` a member knows the first labels of the combination."""
    if "label_rows" not in stored.tensors and stored.sizes["own labels"] > stored.sizes["labels"]:
        raise Misfit("labels", f"are more than the {stored.sizes['labels']} of the combination", "setting")


@dataclass(frozen=True, eq=False)
class FittedMember:
    """The scorer and the re-rankers of a member, over the labels of the combination."""

    recipe: str
    scorer: Scorer
    labels: int  # how many it knows
    rerankers: tuple[Reranker, ...] = ()
    label_rows: Ints | None = None  # its labels in the combination, -1 = not there; None: the first ones
    kind: ClassVar[str] = "member.v1"
    declared: ClassVar[Declaration] = Declaration(
        {"label_rows": Array("int32", "own labels", least=-1, below="labels", optional=True)},
        {"recipe": Words(), "labels": Whole(0, LARGEST, size="own labels"), "rerankers": Whole(0, MOST_RERANKERS)},
        parts={"scorer": "own labels"},
        then=(_declared_rerankers,),
        checks=(_check_own_labels,),
    )

    @classmethod
    def of(cls, model: MemberModel, labels: LabelSet) -> FittedMember:
        """Take a fitted model as a member.

        Args:
            model: the model; it may know labels that the combination does not know, and lack others.
            labels: of the combination.

        Returns:
            The member.
        """
        same = model.labels is labels or model.labels.ids == labels.ids
        rows = None if same else np.array([labels.row_of.get(name, -1) for name in model.labels.ids], dtype=np.int32)
        return cls(model.recipe, model.scorer, len(model.labels), model.rerankers, rows)

    def top(self, rows: Rows, k: int, labels: LabelSet) -> tuple[Ints, Floats]:
        """Find the member's best labels of each row.

        Args:
            rows: texts, features or both.
            k: labels a row.
            labels: of the combination.

        Returns:
            As `Scorer.top`, in label rows of the combination; labels that it does not know leave empty places.
        """
        found, scores = self.scorer.top(rows, min(self.asked(k), self.labels))
        if self.rerankers:
            predictions = Predictions(self._own_labels(labels), found, scores)
            for reranker in self.rerankers:
                predictions = reranker.rerank(predictions, rows)
            found, scores = predictions.indices, predictions.scores
        found, scores = found[:, :k], scores[:, :k]
        if self.label_rows is None:
            return found, scores
        known = np.where(found >= 0, self.label_rows[found], np.int32(-1))
        return known, np.where(known >= 0, scores, np.float32(0))

    def asked(self, k: int) -> int:
        """How many labels of a row the scorer is asked for, so that k come out: at least 1.

        Args:
            k: labels a row.

        Returns:
            Their number.
        """
        return max(min(max([k, *(part.candidates for part in self.rerankers)]), self.labels), 1)

    def explain(self, rows: Rows, labels: Ints) -> list[list[Explanation]]:
        """Ask the scorer why it would predict labels. It must be one that explains.

        Args:
            rows: texts, features or both.
            labels: (rows, k) in label rows of the combination, -1 = none.

        Returns:
            As `Explains.explain`; nothing is said of labels that the member does not know.
        """
        if self.label_rows is None:
            own = np.where(labels < self.labels, labels, np.int32(-1))
        else:
            known = np.flatnonzero(self.label_rows >= 0).astype(np.int32)
            size = 1 + max(int(labels.max(initial=-1)), int(self.label_rows.max(initial=-1)))
            row_of = np.full(size + 1, -1, dtype=np.int32)  # the last one, which is none, is the row of -1
            row_of[self.label_rows[known]] = known
            own = row_of[labels]
        return self.scorer.explain(rows, own)  # type: ignore[attr-defined, no-any-return]

    def _own_labels(self, labels: LabelSet) -> LabelSet:
        """The member's labels, for its re-rankers, which may read their texts."""
        if self.label_rows is None:
            return labels
        texts = tuple([labels.texts[row] if row >= 0 else "" for row in self.label_rows.tolist()])
        return LabelSet(ids=tuple(map(str, range(self.labels))), texts=texts)

    def with_scorer(self, scorer: Scorer, labels: int) -> FittedMember:
        """Return the same member with a scorer that knows more labels, or more rows.

        Args:
            scorer: the new scorer; the labels it had keep their rows.
            labels: how many it knows.

        Returns:
            The new member.
        """
        return replace(self, scorer=scorer, labels=labels)

    def state(self) -> State:
        """See `Scorer.state`."""
        rerankers = {f"reranker-{number}": part for number, part in enumerate(self.rerankers)}
        tensors = {} if self.label_rows is None else {"label_rows": self.label_rows}
        settings = {"recipe": self.recipe, "labels": self.labels, "rerankers": len(self.rerankers)}
        return State(settings, tensors, {"scorer": self.scorer, **rerankers})

    @classmethod
    def restore(cls, state: State) -> FittedMember:
        """See `Scorer.restore`."""
        rows, parts, labels = state.tensors.get("label_rows"), state.parts, state.settings["labels"]
        rerankers = tuple(parts[f"reranker-{number}"] for number in range(len(parts) - 1))
        return cls(state.settings["recipe"], parts["scorer"], labels, rerankers, rows)
