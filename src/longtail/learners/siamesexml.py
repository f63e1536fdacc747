"""Label-wise dual encoder with a probabilistic contrastive loss, then classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.extra import require
from longtail.papers import SIAMESEXML, Paper
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class SiameseXml(DualEncoderSettings):
    """A dual encoder whose batches are labels, each with one of its documents; in part of the loss another of its
    documents takes the label's place.

    The probability of a pair is ceiling x e^(sharpness (cosine - 1)). The loss is its negative log likelihood, over the
    positives and the most probable negatives of each label. Then classifiers are trained on the frozen vectors,
    initialised with the labels' vectors, by the same loss with other constants. Text, classifier and frequency get
    weights that are fitted on valid.

    Needs: texts of documents and labels.
    Costs: per epoch one pass over the labels, with two documents each; classifiers: four vectors per label while they
    are trained.
    Prefer instead: `ngame`, which is more accurate at the same cost.
    Example: longtail train wordnet "siamesexml(epochs=5)" --out model
    """

    encoder: str = "bag"
    anchors: Literal["documents", "labels"] = "labels"
    epochs: int = 50
    ceiling: float = 0.9  # c
    sharpness: float = 1.5  # d
    negatives: int = 10  # most probable ones of a label that count
    surrogate_weight: float = 0.3  # share of the loss in which a document takes its label's place
    classifiers: bool = True  # train classifiers on the frozen encoder afterwards
    classifier_epochs: int = 20
    classifier_learning_rate: float = 3e-3
    classifier_ceiling: float = 0.75  # c of their loss
    classifier_sharpness: float = 3.0  # d of their loss
    classifier_dropout: float = 0.1  # on the documents' vectors
    classifier_batch_size: int = 256

    random_init_learning_rate: ClassVar[float] = 1e-2
    summary: ClassVar[str] = "label-wise dual encoder, then classifiers"
    papers: ClassVar[tuple[Paper, ...]] = (SIAMESEXML,)
    offers: ClassVar[frozenset[str]] = DualEncoderSettings.offers | {"free_classifiers"}
    scorer: ClassVar[type[Scorer]] = DualEncoderScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.classifiers:
            object.__setattr__(self, "offers", DualEncoderSettings.offers)
        for name in ("negatives", "classifier_epochs", "classifier_batch_size"):
            if getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of siamesexml is at least 1, got {getattr(self, name)}")
        for name in ("ceiling", "classifier_ceiling"):
            if not 0 < getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of siamesexml lies between 0 and 1, got {getattr(self, name):g}")
        for name in ("sharpness", "classifier_sharpness", "classifier_learning_rate"):
            if getattr(self, name) <= 0:
                raise RecipeError(f"setting '{name}' of siamesexml is above 0, got {getattr(self, name):g}")
        for name in ("surrogate_weight", "classifier_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of siamesexml lies in [0, 1), got {getattr(self, name):g}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> DualEncoderScorer:
        """See `Learner.fit`."""
        require("siamesexml")
        from longtail.nn.dual.classifier_fit import learn_classifiers
        from longtail.nn.dual.contrastive_losses import probabilistic
        from longtail.nn.dual.dual_fit import DualEncoderFit
        from longtail.nn.dual.dual_task import Loss

        def loss(ceiling: float, sharpness: float, min_loss: float) -> Loss:
            constants = {"ceiling": ceiling, "sharpness": sharpness, "min_loss": min_loss}
            return lambda scores, positive, chosen, weights: probabilistic(
                scores, positive, weights, negatives=self.negatives, **constants
            )

        towers = DualEncoderFit.begin(self, train, valid, parts)
        towers.learn(loss(self.ceiling, self.sharpness, 0.0), surrogate_weight=self.surrogate_weight)
        if not self.classifiers:
            return towers.scorer()
        learned = learn_classifiers(
            towers,
            loss(self.classifier_ceiling, self.classifier_sharpness, 0.05),  # negatives of low probability are done
            batch_size=self.classifier_batch_size,
            epochs=self.classifier_epochs,
            learning_rate=self.classifier_learning_rate,
            dropout=self.classifier_dropout,
        )
        return towers.scorer(learned)
