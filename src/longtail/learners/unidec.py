"""Dual encoder and classifiers in one training over pools of labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.extra import require
from longtail.nn.pool.pool_scorer import PoolScorer
from longtail.nn.pool.pool_settings import PoolSettings, TableSettings, check_loss, check_pool, with_heads
from longtail.papers import UNIDEC, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod

if TYPE_CHECKING:
    from longtail.nn.pool.pool_fit import PoolFit


@dataclass(frozen=True)
class Unidec(DualEncoderSettings):
    """`depsl` with one classifier per label, trained in the same step over the same pool.

    One encoder ends in two heads: one is compared with the labels' texts, one with their classifiers. A step updates
    only the classifiers of its pool, so it costs the same for any number of labels. A label is found by the mean of
    both cosines, weighted by `classifier_share`, as one vector of twice the dimension; `predict_by` takes one of them
    alone. The classifier of a frequent label grows a large norm, which raises its score; `norm_power` below 1 takes
    part of that back, in favour of the tail.

    Needs: texts of documents and labels. Soft targets weigh both the drawing and the loss.
    Costs: as `depsl`, and three vectors per label while training, in the host's memory with `classifiers_on_host`.
    Prefer instead: `depsl` where labels come and go; `renee` where the GPU has little memory, up to a million labels.
    Example: longtail train wordnet "unidec(encoder='bag', epochs=5)" --out model
    """

    schedule: Literal["linear", "cosine", "none"] = "cosine"
    # Of the dual encoder: supcon, decoupled, infonce, pickone, bce, plainbce, or a sum of them.
    loss: str = "decoupled"
    classifier_loss: str = "decoupled"  # of the classifiers, likewise; the paper adds bce
    predict_by: Literal["both", "encoder", "classifiers"] = "both"  # what labels are found by
    norm_power: float = 1.0  # of classifiers' norms in scores: 1 favours the head; 0, as in the paper, the tail
    classifier_share: float = 0.7  # weight of the classifiers in the score, by both; 0.5 in the paper
    encoder_loss_weight: float = 0.5  # of the dual encoder's loss (lambda); the classifiers' has the rest of 1
    positives: int = 3  # labels that a document adds to the pool, at most (beta)
    negatives: int = 2  # hard negatives that a document adds to the pool (eta)
    refresh_every: int = 5  # epochs between two clusterings and searches (tau); 0: random batches, nothing mined
    cluster_size: int | None = 64  # documents of a cluster; several clusters make a batch; none: one does
    symmetric: bool = True  # from labels to documents too
    head_dimension: int | None = None  # of each head and classifier; none: the encoder's
    head_learning_rate: float | None = None  # none: twice the encoder's
    head_dropout: float = 0.1
    classifier_learning_rate: float = 3e-3
    classifier_scale: float = 20.0  # of the classifiers' scores in training
    classifier_norms: bool = True  # classifiers' scores are products in training; false: cosines
    classifier_precision: Literal["fp32", "bf16"] = "fp32"  # bf16 is rounded stochastically
    classifiers_on_host: bool = False  # in the host's memory, where the GPU's is too small
    unseen: Literal["mapped", "zero"] = "mapped"  # classifier of a label that joins later: from its text, or none

    summary: ClassVar[str] = "dual encoder and classifiers trained together over pools"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {
        "beta": "positives",
        "eta": "negatives",
        "tau": "refresh_every",
        "lambda": "encoder_loss_weight",
    }
    papers: ClassVar[tuple[Paper, ...]] = (UNIDEC,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "encoder": "distilbert/distilbert-base-uncased",
                "learning_rate": 1e-4,
                "head_learning_rate": 2e-4,
                "classifier_learning_rate": 1e-3,
                "schedule": "cosine",
                "refresh_every": 5,
                "positives": 3,
                "negatives": 6,
                "cluster_size": None,
                "head_dropout": 0.1,
                "classifier_loss": "decoupled+plainbce",
                "classifier_share": 0.5,
                "norm_power": 0.0,
            },
            "thesis, section 2.4, implementation details",
            {
                "positives": "thesis, figure 2.2: the example there",
                "negatives": "thesis, section 2.4.3: typically 6",
                "classifier_loss": "thesis, table 2.4: the best P@k",
                "classifier_share": "thesis, section 2.3.4",
                "norm_power": "thesis, section 2.3.4",
            },
            differs="temperature, batch size and epochs are not printed and stay the defaults",
        )
    }
    offers: ClassVar[frozenset[str]] = DualEncoderSettings.offers | {"free_classifiers"}
    scorer: ClassVar[type[Scorer]] = PoolScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.predict_by == "encoder":  # classifiers would be trained, and not asked
            object.__setattr__(self, "offers", DualEncoderSettings.offers)
        check_loss(self.name, "loss", self.loss)
        check_loss(self.name, "classifier_loss", self.classifier_loss)
        check_pool(self, self.pool, self.head_dropout, self.head_dimension)
        for name in ("head_learning_rate", "classifier_learning_rate", "classifier_scale"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RecipeError(f"setting '{name}' of unidec is above 0, got {value:g}")
        if not 0 <= self.norm_power <= 1:
            raise RecipeError(f"setting 'norm_power' of unidec lies in [0, 1], got {self.norm_power:g}")
        for name in ("encoder_loss_weight", "classifier_share"):
            if not 0 < getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of unidec lies between 0 and 1, got {getattr(self, name):g}")

    @property
    def pool(self) -> PoolSettings:
        """How the pools of batches are made."""
        return PoolSettings(
            self.positives, self.negatives, self.refresh_every, self.cluster_size, 0.5 if self.symmetric else 1.0
        )

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        plan, vector = with_heads(super().plan(facts), self, self.head_dimension, facts)
        table = 3 * vector * (2 if self.classifier_precision == "bf16" else 4) + 4 * vector  # and a copy of the best
        return replace(
            plan,
            train_bytes=plan.train_bytes + table,
            model_bytes=plan.model_bytes + (4 * vector if self.predict_by == "both" else 0),
            steps=(*plan.steps, ("classifiers and their moments", table)),
        )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> PoolScorer:
        """See `Learner.fit`."""
        return self.learned(train, valid, parts).pool_scorer(self.unseen)

    def learned(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...] = ()) -> PoolFit:
        """Train the encoder with its heads and classifiers.

        Args:
            train: rows to train on.
            valid: rows to validate on.
            parts: tail methods of the recipe.

        Returns:
            The trained fit, whose `pool_scorer` is the model.
        """
        require("unidec")
        from longtail.nn.pool.pool_fit import PoolFit

        towers = PoolFit.begin(self, train, valid, parts)
        towers.add_heads(
            self.head_dropout, True, self.predict_by, self.norm_power, self.head_dimension, self.classifier_share
        )
        table = TableSettings(
            self.classifier_loss,
            self.classifier_scale,
            self.classifier_learning_rate,
            self.encoder_loss_weight,
            self.classifier_precision,
            self.classifiers_on_host,
            self.classifier_norms,
        )
        towers.learn_pools(self.loss, self.pool, self.head_learning_rate, table)
        return towers
