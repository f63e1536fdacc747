"""The most frequent labels, whatever the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Dataset, Rows
from longtail.papers import Paper
from longtail.plan import DataFacts, Plan
from longtail.seams import Array, Declaration, Scorer, State, TailMethod


@dataclass(frozen=True, eq=False)
class PopularScorer:
    """Label frequencies."""

    shares: Floats  # (labels,): part of the examples that have the label

    kind: ClassVar[str] = "toy-popular.v1"
    declared: ClassVar[Declaration] = Declaration({"shares": Array("float32", "labels", least=0)})

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        order = np.argsort(-self.shares, kind="stable")[:k].astype(np.int32)
        indices = np.where(self.shares[order] > 0, order, -1).astype(np.int32)
        return np.tile(indices, (len(rows), 1)), np.tile(self.shares[order], (len(rows), 1))

    def state(self) -> State:
        return State(tensors={"shares": self.shares})

    @classmethod
    def restore(cls, state: State) -> Self:
        return cls(state.tensors["shares"])


@dataclass(frozen=True)
class Popular:
    """Answer with the most frequent labels.

    Needs: nothing.
    Costs: one pass over the targets.
    Prefer instead: anything.
    Example: longtail compare wordnet "popular"
    """

    smoothing: float = 1.0  # added to each label's count

    summary: ClassVar[str] = "the most frequent labels, whatever the text"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = PopularScorer
    papers: ClassVar[tuple[Paper, ...]] = (
        Paper("@misc{doe2026popular,\n  author = {Doe, Jane},\n  title = {Popular Labels},\n  year = {2026}\n}"),
    )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PopularScorer:
        sums = np.asarray(train.targets.sum(axis=0)).ravel() + self.smoothing
        return PopularScorer((sums / (len(train) + self.smoothing)).astype(np.float32))

    def plan(self, facts: DataFacts) -> Plan:
        return Plan(8 * facts.labels, 4 * facts.labels, 1e-9 * facts.positives, 1e-6)
