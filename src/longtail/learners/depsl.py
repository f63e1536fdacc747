"""Dual encoder over pools of labels that the documents of a batch share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.extra import require
from longtail.nn.pool.pool_scorer import PoolScorer
from longtail.nn.pool.pool_settings import PoolSettings, check_loss, check_pool, with_heads
from longtail.papers import UNIDEC, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Depsl(DualEncoderSettings):
    """A dual encoder that learns from many positives of a document at once ("pick some labels").

    Batches are clusters of similar documents. Each document adds some of its labels and some hard negatives to the
    batch's pool. Every label of the pool that a document has is its positive, whichever document added it. Clusters
    and hard negatives are refreshed every few epochs, first by the untrained encoder. The loss goes both ways, from
    documents to labels and back.

    `loss="pickone"` takes one label of each document in every step, from the same pool (POL).

    Needs: texts of documents and labels. Soft targets weigh both the drawing and the loss.
    Costs: as `dpr`, with up to `positives` + `negatives` label texts per document, less those that documents share; and
    encoding and searching everything at each refresh.
    Prefer instead: `unidec`, which adds classifiers; `dpr` where documents have one label each and need no mining.
    Example: longtail train wordnet "depsl(encoder='bag', epochs=5)" --out model
    """

    schedule: Literal["linear", "cosine", "none"] = "cosine"
    loss: str = "decoupled"  # supcon, decoupled, infonce, pickone, bce, plainbce, or a sum
    positives: int = 3  # labels that a document adds to the pool, at most (beta)
    negatives: int = 2  # hard negatives that a document adds to the pool (eta)
    refresh_every: int = 5  # epochs between two clusterings and searches (tau); 0: random batches, nothing mined
    cluster_size: int | None = 64  # documents of a cluster; several clusters make a batch; none: one does
    symmetric: bool = True  # from labels to documents too
    head_dimension: int | None = None  # of the vectors that are compared and searched; none: the encoder's
    head_learning_rate: float | None = None  # none: twice the encoder's
    head_dropout: float = 0.1

    summary: ClassVar[str] = "dual encoder over pools of labels with many positives"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {"beta": "positives", "eta": "negatives", "tau": "refresh_every"}
    papers: ClassVar[tuple[Paper, ...]] = (UNIDEC,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "encoder": "distilbert/distilbert-base-uncased",
                "learning_rate": 1e-4,
                "head_learning_rate": 2e-4,
                "schedule": "cosine",
                "refresh_every": 5,
                "positives": 3,
                "negatives": 6,
                "cluster_size": None,
                "head_dropout": 0.1,
            },
            "thesis, section 2.4, implementation details",
            {"positives": "thesis, figure 2.2: the example there", "negatives": "thesis, section 2.4.3: typically 6"},
            differs="temperature, batch size and epochs are not printed and stay the defaults",
        )
    }
    scorer: ClassVar[type[Scorer]] = PoolScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_loss(self.name, "loss", self.loss)
        check_pool(self, self.pool, self.head_dropout, self.head_dimension)
        if self.head_learning_rate is not None and self.head_learning_rate <= 0:
            raise RecipeError(f"setting 'head_learning_rate' of depsl is above 0, got {self.head_learning_rate:g}")

    @property
    def pool(self) -> PoolSettings:
        """How the pools of batches are made."""
        return PoolSettings(
            self.positives, self.negatives, self.refresh_every, self.cluster_size, 0.5 if self.symmetric else 1.0
        )

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        return with_heads(super().plan(facts), self, self.head_dimension, facts)[0]

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PoolScorer:
        """See `Learner.fit`."""
        require("depsl")
        from longtail.nn.pool.pool_fit import PoolFit

        towers = PoolFit.begin(self, train, valid, parts)
        towers.add_heads(self.head_dropout, classifiers=False, predict_by="encoder", head_dimension=self.head_dimension)
        towers.learn_pools(self.loss, self.pool, self.head_learning_rate)
        return towers.pool_scorer()
