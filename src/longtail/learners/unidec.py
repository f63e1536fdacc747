"""Dual encoder and classifiers in one training over pools of some labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.pool.scorer import PoolScorer
from longtail.nn.pool.settings import Picks, TableSettings, check_loss, check_pool, with_heads
from longtail.nn.settings import TowerSettings
from longtail.plan import Facts, Plan
from longtail.seams import Scorer, TailMethod

if TYPE_CHECKING:
    from longtail.nn.pool.fit import PoolTowers


@dataclass(frozen=True)
class Unidec(TowerSettings):
    """`depsl` with a classifier a label, trained in the same step over the same pool.

    One encoder ends in two heads: one is compared with the labels' texts, one with their classifiers. A step moves the
    classifiers of its pool and no others, so it costs the same for any number of labels. A label is found by both
    cosines, weighed by `share`, as one vector of twice the length; `by` takes one of them alone. A frequent label's
    classifier grows long, and its cosine counts so much more; `lengths` below 1 takes that back, for the tail.

    Paper: Kharbanda et al., UniDEC: unified dual encoder and classifier training for extreme multi-label
    classification (WWW 2025).
    Needs: texts of rows and labels. A soft target is drawn and counted as its weight says.
    Costs: as `depsl`, and three vectors a label while training, in the host's memory where `classifiers_on_host`.
    Prefer instead: `depsl` where labels come and go; `renee` where the GPU has little memory, up to a million labels.
    Example: longtail train wordnet "unidec(encoder='bag', epochs=5)" --out model
    """

    decay: Literal["linear", "cosine", "none"] = "cosine"
    loss: str = "decoupled"  # of the dual encoder: supcon, decoupled, infonce, bce, or a sum of them
    classifier_loss: str = "decoupled"  # likewise; the paper adds bce
    by: Literal["both", "encoder", "classifiers"] = "both"  # what labels are found by
    lengths: float = 1.0  # of classifiers when searched: 1 all, for the head; 0 none, as in the paper, for the tail
    share: float = 0.7  # of the score, by both, that is the classifiers'; 0.5 in the paper
    weight: float = 0.5  # of the dual encoder's loss (lambda); the rest is the classifiers'
    positives: int = 3  # of a row in the pool, at most (beta)
    negatives: int = 2  # mined ones of a row in the pool (eta)
    refresh: int = 5  # epochs between two clusterings and searches (tau); 0: random batches, nothing mined
    cluster: int | None = 64  # rows of a cluster, of which several make a batch; none: as many as a batch has
    both: bool = True  # from labels to documents too
    head_dimension: int | None = None  # of each head and classifier; none: the encoder's, both together twice that
    head_rate: float | None = None  # none: twice the encoder's
    head_dropout: float = 0.1
    classifier_rate: float = 3e-3
    classifier_scale: float = 20.0  # of their scores, which are no cosines: it says how they begin
    classifier_lengths: bool = True  # their scores are products while they are trained; else cosines x scale
    classifier_precision: Literal["fp32", "bf16"] = "fp32"  # bf16 is rounded by chance
    classifiers_on_host: bool = False  # in the host's memory, where the GPU's is too small
    unseen: Literal["mapped", "zero"] = "mapped"  # what stands for the classifier of a label that joins later

    summary: ClassVar[str] = "dual encoder and classifiers in one training over pools of some labels"
    scorer: ClassVar[type[Scorer]] = PoolScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_loss(self.name, "loss", self.loss)
        check_loss(self.name, "classifier_loss", self.classifier_loss)
        check_pool(self, self.picks, self.head_dropout, self.head_dimension)
        for name in ("head_rate", "classifier_rate", "classifier_scale"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RecipeError(f"setting '{name}' of unidec is above 0, got {value:g}")
        if not 0 <= self.lengths <= 1:
            raise RecipeError(f"setting 'lengths' of unidec lies in [0, 1], got {self.lengths:g}")
        for name in ("weight", "share"):
            if not 0 < getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of unidec lies between 0 and 1, got {getattr(self, name):g}")

    @property
    def picks(self) -> Picks:
        return Picks(self.positives, self.negatives, self.refresh, self.cluster, 0.5 if self.both else 1.0)

    def plan(self, facts: Facts) -> Plan:
        plan, vector = with_heads(super().plan(facts), self, self.head_dimension, facts)
        table = 3 * vector * (2 if self.classifier_precision == "bf16" else 4) + 4 * vector  # and the best so far
        return replace(
            plan,
            train_bytes=plan.train_bytes + table,
            model_bytes=plan.model_bytes + (4 * vector if self.by == "both" else 0),
            steps=(*plan.steps, ("classifiers and their means", table)),
        )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PoolScorer:
        return self.learned(train, valid, parts).pool_scorer(self.unseen)

    def learned(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...] = ()) -> PoolTowers:
        """The trained encoder with its heads and classifiers."""
        require("unidec")
        from longtail.nn.pool.fit import PoolTowers

        towers = PoolTowers.begin(self, train, valid, parts)
        towers.add_heads(self.head_dropout, True, self.by, self.lengths, self.head_dimension, self.share)
        table = TableSettings(
            self.classifier_loss,
            self.classifier_scale,
            self.classifier_rate,
            self.weight,
            self.classifier_precision,
            self.classifiers_on_host,
            self.classifier_lengths,
        )
        towers.learn_pools(self.loss, self.picks, self.head_rate, table)
        return towers
