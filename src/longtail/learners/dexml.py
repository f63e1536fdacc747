"""Dual encoder over all labels in every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.pool.settings import Picks, check_loss
from longtail.nn.settings import TowerSettings
from longtail.nn.towers import TowerScorer
from longtail.plan import Facts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Dexml(TowerSettings):
    """A dual encoder whose every step looks at all labels: no negative is missed, and each is encoded anew.

    A row's positives each stand against all wrong labels and not against each other (decoupled softmax). Label texts
    are encoded in chunks without a graph, then once more chunk by chunk to take the gradient back, so memory is one
    chunk, a vector a label, and the scores of a batch.

    Paper: Gupta et al., Dual-encoders for extreme multi-label classification (ICLR 2024).
    Needs: texts of rows and labels; few enough labels that encoding all of them three times a step is bearable.
    Costs: steps x all label texts, so hardly ever more than some ten thousand labels on one GPU.
    Prefer instead: `depsl`, which encodes a few labels a row and comes near.
    Example: longtail train wordnet "dexml(encoder='bag', epochs=2)" --out model
    """

    chunk: int | None = 4096  # texts whose activations are in memory at once
    loss: str = "decoupled"  # supcon, decoupled, infonce, bce, or a sum of them
    both: bool = False  # from labels to documents too

    summary: ClassVar[str] = "dual encoder over all labels in every step, by gradient caching"
    scorer: ClassVar[type[Scorer]] = TowerScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_loss(self.name, "loss", self.loss)
        if self.rows != "documents":
            raise RecipeError("dexml takes its loss over documents, each against all labels; for rows='labels' use dpr")

    def plan(self, facts: Facts) -> Plan:
        """All label texts go through the encoder in every step: twice forward and once back."""
        plan = super().plan(facts)
        steps = -(-facts.rows // self.batch)
        scores = 16 * min(self.batch, facts.rows) * facts.labels
        more = steps * facts.labels / max(facts.rows, 1)
        return replace(
            plan,
            train_bytes=plan.train_bytes + scores,
            train_seconds=plan.train_seconds * (1 + more),
            steps=(*plan.steps, ("scores of a batch", scores)),
        )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TowerScorer:
        require("dexml")
        from longtail.nn.pool.fit import PoolTowers

        towers = PoolTowers.begin(self, train, valid, parts)
        everything = Picks(None, 0, 0, None, 0.5 if self.both else 1.0, everything=True)
        towers.learn_pools(self.loss, everything)
        return towers.scorer()
