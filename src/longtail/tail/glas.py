"""Classifier rows as near to each other as their labels stand together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Floats, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.plan import Facts, Plan


@dataclass(frozen=True)
class Glas:
    """Pulls the products of classifier rows to label co-occurrence: labels of the same rows near, all others apart.

    A rare label's row is learned from a few examples; the labels that stand with it have more and pull it to where
    they are. The statistics are of the whole training set, ½ (P(i | j) + P(j | i)), sparse, from the rows as given;
    each step draws some labels, half of them at random and a partner for each. Where several processes share the
    labels, each draws among its own.

    Paper: Guo et al., Breaking the glass ceiling for embedding-based classifiers for large output spaces (NeurIPS
    2019).
    Needs: a learner whose classifier rows take penalties, such as `renee`.
    Costs: the pairs of labels that stand together, 8 bytes each, and a product of `some` rows with themselves a step.
    Prefer instead: `rows`, where labels have texts that say what they are.
    Example: longtail compare wordnet "renee(encoder='bag', epochs=5)" "renee(encoder='bag', epochs=5) + glas"
    """

    weight: float = 10.0  # λ
    some: int = 1024  # labels of a step
    cosines: bool = True  # turn the rows and leave their length; false: products, as in the paper
    threshold: float = 0.01  # chance from which a label counts as standing with another

    summary: ClassVar[str] = "classifier rows near each other where labels stand together"
    needs: ClassVar[frozenset[str]] = frozenset({"row_penalties"})
    data_needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.weight <= 0 or self.some < 2 or not 0 <= self.threshold < 1:
            raise RecipeError(
                "glas takes a weight above 0, some of 2 or more and a threshold in [0, 1), got "
                f"weight={self.weight:g}, some={self.some}, threshold={self.threshold:g}"
            )

    def penalty(self, train: Dataset, labels: tuple[int, int], texts: Callable[[], Floats], seed: int) -> Any:
        from longtail.nn.heads.penalties import GramPenalty

        return GramPenalty(self.together(train, *labels), self.weight, self.some, self.cosines, seed)

    def together(self, train: Dataset, first: int, last: int) -> Matrix:
        """½ (P(i | j) + P(j | i)) of the labels from `first` to before `last`, 1 on the diagonal."""
        from longtail.linear.cooccurrence import cooccurrence

        assert train.origins is not None
        given = sparse.csr_array(train.targets[np.flatnonzero(train.origins == 0)])
        chances = cooccurrence(given, self.threshold)[first:last, first:last]
        found = sparse.csr_array((chances + chances.T) / 2, dtype=np.float32)
        found.sort_indices()
        return found

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        pairs = facts.positives * max(facts.positives / max(facts.rows, 1) - 1, 0)
        return replace(before, train_bytes=before.train_bytes + int(16 * (pairs + facts.labels)))
