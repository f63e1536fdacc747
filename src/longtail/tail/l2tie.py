"""Classifier rows tied to the vectors of their labels' texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from longtail.arrays import Floats
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.plan import Facts, Plan

WIDTH = 384  # of the vectors, where a plan cannot know


@dataclass(frozen=True)
class L2tie:
    """Pulls each label's classifier row to the vector of its text, as the encoder saw it before training.

    The pull is the same for all labels and the data pulls frequent labels harder, so it is rare ones that stay near
    their texts. With a warm start the vectors are those of the model it begins with, which is then the teacher.

    Paper: the L2 baseline in Buvanesh et al., Enhancing tail performance in extreme classifiers by label variance
    reduction (ICLR 2024).
    Needs: a learner whose classifier rows take penalties, such as `renee`, best with `warm`; texts of labels.
    Costs: one more vector a label, and moving `some` rows a step.
    Prefer instead: `rows` or `lever`, which teach the encoder too.
    Example: longtail compare wordnet "renee(encoder='bag', epochs=5)" "renee(encoder='bag', epochs=5) + l2tie"
    """

    weight: float = 0.01  # λ: a step takes head_rate x this share of the distance, for all labels
    some: int = 4096  # labels of a step, each moved so much the more
    length: float | None = (
        None  # of the vectors; none: each as long as its row, so that rows turn and keep their length
    )

    summary: ClassVar[str] = "classifier rows tied to the vectors of their labels' texts"
    needs: ClassVar[frozenset[str]] = frozenset({"row_penalties"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if self.weight <= 0 or self.some < 1 or (self.length is not None and self.length <= 0):
            raise RecipeError(
                f"l2tie takes weight, some and length above 0, got weight={self.weight:g}, some={self.some}, "
                f"length={self.length}"
            )

    def penalty(self, train: Dataset, labels: tuple[int, int], texts: Callable[[], Floats], seed: int) -> Any:
        from longtail.nn.heads.penalties import TiePenalty

        return TiePenalty(texts(), self.weight, self.some, self.length, seed)

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        return replace(before, train_bytes=before.train_bytes + 4 * WIDTH * facts.labels)
