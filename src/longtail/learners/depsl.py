"""Dual encoder over pools of some labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.pool.scorer import PoolScorer
from longtail.nn.pool.settings import Picks, check_loss, check_pool, with_heads
from longtail.nn.settings import TowerSettings
from longtail.plan import Facts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Depsl(TowerSettings):
    """A dual encoder that learns from many positives of a row at once: pick some labels.

    Batches are clusters of like rows. Each row puts some of its labels and some labels that the encoder takes for its
    own into the batch's pool, and every label of the pool that a row has is its positive, whoever brought it. Clusters
    and mined labels are renewed each few epochs, first from the encoder as it was given. Documents look for labels and
    labels for documents.

    Paper: Kharbanda et al., UniDEC: unified dual encoder and classifier training for extreme multi-label
    classification (WWW 2025).
    Needs: texts of rows and labels. A soft target is drawn and counted as its weight says.
    Costs: as `dpr`, with `positives` + `negatives` label texts a row less what rows share, and encoding and searching
    everything at each refresh.
    Prefer instead: `unidec`, which adds classifiers; `dpr` where rows have one label each and nothing should be mined.
    Example: longtail train wordnet "depsl(encoder='bag', epochs=5)" --out model
    """

    decay: Literal["linear", "cosine", "none"] = "cosine"
    loss: str = "decoupled"  # supcon, decoupled, infonce, bce, or a sum of them
    positives: int = 3  # of a row in the pool, at most (beta)
    negatives: int = 2  # mined ones of a row in the pool (eta)
    refresh: int = 5  # epochs between two clusterings and searches (tau); 0: random batches, nothing mined
    cluster: int | None = 64  # rows of a cluster, of which several make a batch; none: as many as a batch has
    both: bool = True  # from labels to documents too
    head_dimension: int | None = None  # of the vectors that are compared and searched; none: the encoder's
    head_rate: float | None = None  # none: twice the encoder's
    head_dropout: float = 0.1

    summary: ClassVar[str] = "dual encoder, pools of some labels with many positives a row"
    scorer: ClassVar[type[Scorer]] = PoolScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_loss(self.name, "loss", self.loss)
        check_pool(self, self.picks, self.head_dropout, self.head_dimension)
        if self.head_rate is not None and self.head_rate <= 0:
            raise RecipeError(f"setting 'head_rate' of depsl is above 0, got {self.head_rate:g}")

    @property
    def picks(self) -> Picks:
        return Picks(self.positives, self.negatives, self.refresh, self.cluster, 0.5 if self.both else 1.0)

    def plan(self, facts: Facts) -> Plan:
        return with_heads(super().plan(facts), self, self.head_dimension, facts)[0]

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PoolScorer:
        require("depsl")
        from longtail.nn.pool.fit import PoolTowers

        towers = PoolTowers.begin(self, train, valid, parts)
        towers.add_heads(self.head_dropout, classifiers=False, by="encoder", numbers=self.head_dimension)
        towers.learn_pools(self.loss, self.picks, self.head_rate)
        return towers.pool_scorer()
