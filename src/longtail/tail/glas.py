"""GLaS: the similarity of classifier rows follows the co-occurrence of their labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.papers import GLAS, Paper
from longtail.plan import DataFacts, Plan


@dataclass(frozen=True)
class Glas:
    """Draws the products of classifier rows towards label co-occurrence: labels that co-occur near, all others apart.

    The classifier of a rare label learns from few examples. The labels that co-occur with it have more, and draw it
    near. The co-occurrence ½ (P(i | j) + P(j | i)) is sparse, over the whole training set, without the examples that
    tail methods added. Each step samples labels, half of them at random, and a co-occurring label for each. With
    several processes, each samples among its own labels.

    Needs: a learner that trains one vector a label by steps: `renee`, `astec`, `inceptionxml`, `cascadexml`,
    `lightxml`, `elias`, and `ngame`, `siamesexml` and `unidec` with classifiers. Nets that make a classifier of its
    label's text have no such vector, nor those whose labels' vectors ask for words, nor trees solved at once.
    Costs: the pairs of labels that co-occur, 8 bytes each, and a product of `labels_per_step` rows with themselves a
    step.
    Prefer instead: `rows`, where labels have meaningful texts.
    Example: longtail compare wordnet "renee(encoder='bag', epochs=5)" "renee(encoder='bag', epochs=5) + glas"
    """

    weight: float = 10.0  # λ
    labels_per_step: int = 1024  # labels sampled in a step
    normalised: bool = True  # cosines, which keep the norms of the rows; false: products, as in the paper
    threshold: float = 0.01  # P(i | j) below which labels count as not co-occurring

    summary: ClassVar[str] = "classifier rows near each other where labels co-occur"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {"lambda": "weight"}
    papers: ClassVar[tuple[Paper, ...]] = (GLAS,)
    needs: ClassVar[frozenset[str]] = frozenset({"free_classifiers"})
    data_needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.weight <= 0 or self.labels_per_step < 2 or not 0 <= self.threshold < 1:
            raise RecipeError(
                "glas needs a weight above 0, labels_per_step of 2 or more and a threshold in [0, 1), got "
                f"weight={self.weight:g}, labels_per_step={self.labels_per_step}, threshold={self.threshold:g}"
            )

    def penalty(self, train: Dataset, labels: tuple[int, int], texts: Callable[[], Floats], seed: int) -> Any:
        """See `PenalisesRows.penalty`."""
        from longtail.nn.onevsall.penalties import GramPenalty

        matrix = self.symmetric_cooccurrence(train, *labels)
        return GramPenalty(matrix, self.weight, self.labels_per_step, self.normalised, seed)

    def symmetric_cooccurrence(self, train: Dataset, first: int, last: int) -> Matrix:
        """Compute ½ (P(i | j) + P(j | i)) for a range of labels.

        Args:
            train: the training set; rows that tail methods added do not count.
            first: first label.
            last: one past the last label.

        Returns:
            csr (labels, labels) float32, 1 on the diagonal.
        """
        from longtail.linear.graph.cooccurrence import cooccurrence

        assert train.origins is not None
        original = sparse.csr_array(train.targets[np.flatnonzero(train.origins == 0)])
        probabilities = cooccurrence(original, self.threshold)[first:last, first:last]
        found = sparse.csr_array((probabilities + probabilities.T) / 2, dtype=np.float32)
        found.sort_indices()
        return found

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        pairs = facts.positives * max(facts.positives / max(facts.rows, 1) - 1, 0)
        return replace(before, train_bytes=before.train_bytes + int(16 * (pairs + facts.labels)))
