"""Dual encoder with mined negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.settings import TowerSettings
from longtail.nn.towers import TowerScorer
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Ance(TowerSettings):
    """As `dpr`, with labels beside those of the batch that the encoder itself confuses with the row's own.

    Each few epochs every row is searched against all labels; some of its nearest wrong ones join the pool of its
    batch. The search is exact, with the encoder as it is then, and known positives are never negatives.

    Paper: Xiong et al., Approximate nearest neighbor negative contrastive learning (ICLR 2021).
    Needs: texts of rows and labels. A soft target is drawn as often as its weight says.
    Costs: as `dpr`, `negatives` more label texts a row, and encoding and searching everything at each refresh.
    Prefer instead: `ngame`, whose clustered batches hold hard negatives without searching.
    Example: longtail train wordnet "ance(encoder='bag', epochs=5)" --out model
    """

    negatives: int = 1  # mined labels a row and batch
    shortlist: int = 32  # nearest wrong labels of a row, from which they are drawn
    start: float = 0.2  # share of the epochs before the first search
    refresh: int = 5  # epochs between two searches
    both: bool = True  # from labels to documents too

    summary: ClassVar[str] = "dual encoder with negatives mined by searching all labels"
    scorer: ClassVar[type[Scorer]] = TowerScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.negatives, self.shortlist, self.refresh) < 1 or not 0 <= self.start < 1:
            raise RecipeError(
                "ance takes at least 1 of negatives, shortlist and refresh, and start in [0, 1), got "
                f"negatives={self.negatives}, shortlist={self.shortlist}, refresh={self.refresh}, start={self.start:g}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TowerScorer:
        require("ance")
        from functools import partial

        from longtail.arrays import Longs
        from longtail.nn.fit import Towers
        from longtail.nn.losses import softmax

        first = int(self.start * self.epochs)

        def miner(epoch: int) -> Longs | None:
            due = epoch >= first and (epoch - first) % self.refresh == 0
            return towers.mine(self.shortlist) if due else None

        towers = Towers.begin(self, train, valid, parts)
        loss = partial(softmax, temperature=self.temperature, both=self.both)
        towers.learn(loss, miner=miner, negatives=self.negatives)
        return towers.scorer()
