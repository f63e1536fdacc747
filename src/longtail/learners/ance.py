"""Dual encoder with mined negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.extra import require
from longtail.papers import ANCE, Paper
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Ance(DualEncoderSettings):
    """`dpr` with hard negatives: beside the labels of the batch, wrong labels that the encoder finds near a document.

    Every few epochs each document is searched against all labels, and some of its nearest wrong labels join the pool of
    its batch. The search is exact, by the encoder as it is then. Known positives are never negatives.

    Needs: texts of documents and labels. Positives are drawn in proportion to their soft targets.
    Costs: as `dpr`, `negatives` more label texts per document, and encoding and searching everything at each refresh.
    Prefer instead: `ngame`, whose clustered batches hold hard negatives without a search.
    Example: longtail train wordnet "ance(encoder='bag', epochs=5)" --out model
    """

    negatives: int = 1  # mined labels per document and batch
    shortlist: int = 32  # nearest wrong labels of a document, from which they are drawn
    mining_start: float = 0.2  # share of the epochs before the first search
    refresh_every: int = 5  # epochs between two searches
    symmetric: bool = True  # from labels to documents too

    summary: ClassVar[str] = "dual encoder with negatives mined by searching all labels"
    papers: ClassVar[tuple[Paper, ...]] = (ANCE,)
    scorer: ClassVar[type[Scorer]] = DualEncoderScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("negatives", "shortlist", "refresh_every"):
            if getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of ance is at least 1, got {getattr(self, name)}")
        if not 0 <= self.mining_start < 1:
            raise RecipeError(f"setting 'mining_start' of ance lies in [0, 1), got {self.mining_start:g}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> DualEncoderScorer:
        """See `Learner.fit`."""
        require("ance")
        from functools import partial

        from longtail.arrays import Longs
        from longtail.nn.dual.contrastive_losses import softmax
        from longtail.nn.dual.dual_fit import DualEncoderFit

        first = int(self.mining_start * self.epochs)

        def miner(epoch: int) -> Longs | None:
            due = epoch >= first and (epoch - first) % self.refresh_every == 0
            return towers.mine(self.shortlist) if due else None

        towers = DualEncoderFit.begin(self, train, valid, parts)
        loss = partial(softmax, temperature=self.temperature, both=self.symmetric)
        towers.learn(loss, miner=miner, negatives=self.negatives)
        return towers.scorer()
