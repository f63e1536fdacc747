"""The hierarchy of a vocabulary in the answers: broader labels implied, or left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from longtail.arrays import Longs
from longtail.data.dataset import Rows
from longtail.linear.graph.ancestors import ancestors, answers_with_ancestors
from longtail.papers import HIERARCHICAL, Paper
from longtail.predictions import CANDIDATES, Predictions
from longtail.seams import Array, Declaration, HeldOut, Reranker, State, Words

Answer = Literal["implied", "excluded"]
ANSWERS: tuple[str, ...] = get_args(Answer)


@dataclass(frozen=True, eq=False)
class AncestorReranker:
    """Raises the labels above a better one to stand behind it, or drops them."""

    starts: Longs  # (labels + 1,) where the labels above each begin
    above: Longs  # (pairs,)
    answer: str  # one of ANSWERS
    kind: ClassVar[str] = "ancestors.v1"
    declared: ClassVar[Declaration] = Declaration(
        {
            "starts": Array("int64", "labels + 1", points_to="pairs"),
            "above": Array("int64", "pairs", least=0, below="labels"),
        },
        {"answer": Words(ANSWERS)},
    )

    @property
    def candidates(self) -> int:
        """See `Reranker.candidates`."""
        return CANDIDATES

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        """See `Reranker.rerank`."""
        found = answers_with_ancestors(
            predictions.indices, predictions.scores, self.starts, self.above, self.answer == "excluded"
        )
        return Predictions(predictions.labels, *found).sorted()

    def state(self) -> State:
        """See `Scorer.state`."""
        return State({"answer": self.answer}, {"starts": self.starts, "above": self.above})

    @classmethod
    def restore(cls, state: State) -> AncestorReranker:
        """See `Scorer.restore`."""
        return cls(state.tensors["starts"], state.tensors["above"], state.settings["answer"])


@dataclass(frozen=True)
class Ancestors:
    """Make answers agree with the hierarchy: a broader label is implied by a narrower one, or left out beside it.

    implied: a label above another among the candidates stands right behind it at the latest, as where documents are
    indexed with all broader labels. excluded: it is dropped where it scores no more than the narrower one, as where
    only the most specific labels are given.

    Needs: labels with broader labels: a SKOS vocabulary, or "broader" in labels.jsonl.
    Costs: nothing to train; one look at the candidates of each document.
    Prefer instead: `broader`, which teaches the hierarchy to the learner.
    Example: longtail compare my-vocabulary "parabel" "parabel + ancestors(answer='excluded')"
    """

    answer: Answer = "implied"  # what a narrower label does to those above it: implied or excluded

    summary: ClassVar[str] = "broader labels of predicted ones are implied, or left out"
    papers: ClassVar[tuple[Paper, ...]] = (HIERARCHICAL,)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"hierarchy"})
    reranker: ClassVar[type[Reranker]] = AncestorReranker

    def fit_reranker(self, held_out: HeldOut) -> AncestorReranker:
        """See `Reranks.fit_reranker`."""
        broader = held_out.labels.broader
        assert broader is not None
        above = ancestors(broader, len(held_out.labels))
        return AncestorReranker(above.indptr.astype(np.int64), above.indices.astype(np.int64), self.answer)
