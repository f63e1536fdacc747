"""Classifier rows tied to the vectors of their labels' texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from longtail.arrays import Floats
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.papers import LEVER, Paper
from longtail.plan import DataFacts, Plan

WIDTH = 384  # assumed dimension of the vectors, which a plan does not know


@dataclass(frozen=True)
class L2tie:
    """Draws each label's classifier towards the vector of its text, as the encoder gives it before training.

    The penalty is the same for all labels, and the data has more weight for frequent ones, so it is the rare labels
    that stay near their texts. With `init_from` the vectors are those of that model, which then acts as the teacher.

    Published form: the L2 baseline of LEVER.
    Needs: a learner whose classifier rows take penalties, such as `renee`, best with `init_from`; texts of labels.
    Costs: one more vector a label, and an update of `labels_per_step` rows a step.
    Prefer instead: `rows` or `lever`, which teach the encoder too.
    Example: longtail compare wordnet "renee(encoder='bag', epochs=5)" "renee(encoder='bag', epochs=5) + l2tie"
    """

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

    def penalty(self, train: Dataset, labels: tuple[int, int], texts: Callable[[], Floats], seed: int) -> Any:
        """See `PenalisesRows.penalty`."""
        from longtail.nn.onevsall.penalties import TiePenalty

        return TiePenalty(texts(), self.weight, self.labels_per_step, self.target_norm, seed)

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        return replace(before, train_bytes=before.train_bytes + 4 * WIDTH * facts.labels)
