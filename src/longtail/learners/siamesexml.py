"""Label-wise dual encoder with a probabilistic contrastive loss, then classifiers."""

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
class SiameseXml(TowerSettings):
    """Labels as rows, each with one of its documents; another of its documents stands in for the mean of all.

    The chance of a pair is ceiling x e^(sharpness (cosine - 1)), and its negative log likelihood is the loss, over the
    positives and the few likeliest negatives of each label. Then classifiers on the frozen vectors, begun at the
    labels', with the same loss at other constants; text, classifier and frequency are weighed on valid.

    Paper: Dahiya et al., SiameseXML: Siamese networks meet extreme classifiers with 100M labels (ICML 2021).
    Needs: texts of rows and labels.
    Costs: a pass over the labels an epoch, with two documents each; classifiers: four vectors a label while trained.
    Prefer instead: `ngame`, which is more accurate at the same cost.
    Example: longtail train wordnet "siamesexml(epochs=5)" --out model
    """

    encoder: str = "bag"
    rows: Literal["documents", "labels"] = "labels"
    epochs: int = 50
    ceiling: float = 0.9  # c
    sharpness: float = 1.5  # d
    negatives: int = 10  # likeliest ones of a row
    stand_in: float = 0.3  # part of the loss in which a document stands for the label
    classifiers: bool = True
    classifier_epochs: int = 20
    classifier_rate: float = 3e-3
    classifier_ceiling: float = 0.75
    classifier_sharpness: float = 3.0
    classifier_dropout: float = 0.1  # on the rows' vectors
    classifier_batch: int = 256

    rate_at_random: ClassVar[float] = 1e-2
    summary: ClassVar[str] = "label-wise dual encoder, probabilistic contrastive loss, then classifiers"
    scorer: ClassVar[type[Scorer]] = TowerScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("negatives", "classifier_epochs", "classifier_batch"):
            if getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of siamesexml is at least 1, got {getattr(self, name)}")
        for name in ("ceiling", "classifier_ceiling"):
            if not 0 < getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of siamesexml lies between 0 and 1, got {getattr(self, name):g}")
        for name in ("sharpness", "classifier_sharpness", "classifier_rate"):
            if getattr(self, name) <= 0:
                raise RecipeError(f"setting '{name}' of siamesexml is above 0, got {getattr(self, name):g}")
        for name in ("stand_in", "classifier_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of siamesexml lies in [0, 1), got {getattr(self, name):g}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TowerScorer:
        require("siamesexml")
        from longtail.nn.fit import Towers
        from longtail.nn.losses import probabilistic
        from longtail.nn.siamese import Loss

        def loss(ceiling: float, sharpness: float, least: float) -> Loss:
            return lambda scores, positive, chosen, weights: probabilistic(
                scores, positive, weights, ceiling=ceiling, sharpness=sharpness, negatives=self.negatives, least=least
            )

        towers = Towers.begin(self, train, valid, parts)
        towers.learn(loss(self.ceiling, self.sharpness, 0.0), stand_in=self.stand_in)
        if not self.classifiers:
            return towers.scorer()
        learned = towers.learn_classifiers(
            loss(self.classifier_ceiling, self.classifier_sharpness, 0.05),  # a negative that is this unlikely is done
            batch=self.classifier_batch,
            epochs=self.classifier_epochs,
            rate=self.classifier_rate,
            dropout=self.classifier_dropout,
        )
        return towers.scorer(learned)
