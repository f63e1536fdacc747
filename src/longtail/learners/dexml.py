"""Dual encoder over all labels in every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.extra import require
from longtail.nn.pool.pool_settings import PoolSettings, check_loss
from longtail.papers import DEXML, Paper
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Dexml(DualEncoderSettings):
    """A dual encoder that encodes and scores all labels in every step: no negative is missed.

    A document's positives compete with all negatives and not with each other (decoupled softmax). Gradient caching:
    label texts are encoded in mini-batches without a graph, then once more to backpropagate, so memory is one
    mini-batch, one vector per label, and the scores of a batch.

    Needs: texts of documents and labels; few enough labels to encode all of them three times per step.
    Costs: all label texts in every step, so some ten thousand labels at most on one GPU.
    Prefer instead: `depsl`, which encodes a few labels per document and is nearly as accurate.
    Example: longtail train wordnet "dexml(encoder='bag', epochs=2)" --out model
    """

    mini_batch_size: int | None = 4096  # texts whose activations are in memory at once
    loss: str = "decoupled"  # supcon, decoupled, infonce, pickone, bce, plainbce, or a sum
    symmetric: bool = False  # from labels to documents too

    summary: ClassVar[str] = "dual encoder over all labels in every step"
    papers: ClassVar[tuple[Paper, ...]] = (DEXML,)
    scorer: ClassVar[type[Scorer]] = DualEncoderScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_loss(self.name, "loss", self.loss)
        if self.anchors != "documents":
            raise RecipeError(
                "dexml takes its loss over documents, each against all labels; for anchors='labels' use dpr"
            )

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`. All label texts go through the encoder in every step: twice forward and once back."""
        plan = super().plan(facts)
        steps = -(-facts.rows // self.batch_size)
        scores = 16 * min(self.batch_size, facts.rows) * facts.labels
        more = steps * facts.labels / max(facts.rows, 1)
        return replace(
            plan,
            train_bytes=plan.train_bytes + scores,
            train_seconds=plan.train_seconds * (1 + more),
            steps=(*plan.steps, ("scores of a batch", scores)),
        )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> DualEncoderScorer:
        """See `Learner.fit`."""
        require("dexml")
        from longtail.nn.pool.pool_fit import PoolFit

        towers = PoolFit.begin(self, train, valid, parts)
        all_labels = PoolSettings(None, 0, 0, None, 0.5 if self.symmetric else 1.0, all_labels=True)
        towers.learn_pools(self.loss, all_labels)
        return towers.scorer()
