"""Dual encoder with clustered batches, then classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.settings import TowerSettings
from longtail.nn.towers import TowerScorer
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Ngame(TowerSettings):
    """A dual encoder whose batches are clusters of like rows, so that the others' labels are hard negatives; then
    classifiers on its frozen vectors.

    Module I: batches begin at random; then rows are clustered by the vectors that training itself has left, and the
    clusters grow. Module II: a classifier a label, begun at the label's vector, over the labels of each batch. At the
    end a label's text, its classifier and its frequency are weighed on valid, and fold into one vector a label.
    `classifiers=false` leaves the encoder alone.

    The softmax finds most; `triplet` is the paper's. With `rows="labels"` and `loss="logistic"`, which is calibrated,
    the encoder is the teacher that `lever` asks for.

    Paper: Dahiya et al., NGAME: negative mining-aware mini-batching for extreme classification (WSDM 2023).
    Needs: texts of rows and labels. A soft target is drawn as often as its weight says.
    Costs: as `dpr`, a clustering each few epochs, and classifiers: four vectors a label while they are trained.
    Prefer instead: `dpr` where labels come and go, since only the encoder knows new ones.
    Example: longtail train wordnet "ngame(encoder='bag', epochs=5)" --out model
    """

    loss: Literal["softmax", "triplet", "logistic"] = "softmax"
    frequency: float = 0.0  # more of it: P@1 for PSP@1
    margin: float = 0.3  # γ of triplet, Δ of logistic
    negatives: int = 10  # hardest ones of a row that triplet and logistic look at
    both: bool = True  # softmax from labels to documents too
    start: float = 0.2  # share of the epochs with random batches
    smallest: int = 4  # rows of a cluster at first
    largest: int = 256  # and at the end
    refresh: int = 5  # epochs between two clusterings
    classifiers: bool = True  # Module II
    classifier_epochs: int = 20
    classifier_rate: float = 3e-3
    classifier_dropout: float = 0.1  # on the rows' vectors
    classifier_batch: int = 1024

    summary: ClassVar[str] = "dual encoder, clustered batches, then classifiers fused with it"
    scorer: ClassVar[type[Scorer]] = TowerScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = ("negatives", "smallest", "largest", "refresh", "classifier_epochs", "classifier_batch")
        for name in counts:
            if getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of ngame is at least 1, got {getattr(self, name)}")
        if not 0 <= self.start <= 1 or not 0 <= self.classifier_dropout < 1 or self.classifier_rate <= 0:
            raise RecipeError(
                "ngame takes start in [0, 1], classifier_dropout in [0, 1) and classifier_rate above 0, got "
                f"{self.start:g}, {self.classifier_dropout:g} and {self.classifier_rate:g}"
            )
        if self.largest < self.smallest:
            raise RecipeError(
                f"the largest cluster of ngame ({self.largest}) is smaller than the first ({self.smallest})"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TowerScorer:
        require("ngame")
        from functools import partial

        from longtail.nn.batches import Curriculum
        from longtail.nn.fit import Towers
        from longtail.nn.losses import logistic, softmax, triplet

        towers = Towers.begin(self, train, valid, parts)
        curriculum = Curriculum(self.start, self.smallest, self.largest, refresh=self.refresh)
        losses = {
            "softmax": partial(softmax, temperature=self.temperature),
            "triplet": partial(triplet, margin=self.margin, negatives=self.negatives),
            "logistic": partial(logistic, margin=self.margin, negatives=self.negatives, scale=1 / self.temperature),
        }
        loss = losses[self.loss]
        towers.learn(partial(loss, both=self.both) if self.loss == "softmax" else loss, curriculum=curriculum)
        if not self.classifiers:
            return towers.scorer()
        learned = towers.learn_classifiers(
            loss,
            batch=self.classifier_batch,
            epochs=self.classifier_epochs,
            rate=self.classifier_rate,
            dropout=self.classifier_dropout,
        )
        return towers.scorer(learned)
