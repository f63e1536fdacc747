"""Dual encoder with clustered batches, then classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.extra import require
from longtail.papers import NGAME, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod

WIDTH = 384  # of vectors, where a plan cannot know it

_PUBLISHED = Preset(
    {
        "encoder": "sentence-transformers/msmarco-distilbert-base-v4",
        "max_tokens": 32,
        "loss": "triplet",
        "margin": 0.3,
        "negatives": 10,
        "batch_size": 1600,
        "epochs": 300,
        "learning_rate": 2e-4,
        "warmup": 0.0018,
        "weight_decay": 0.0,
        "max_gradient_norm": None,
        "mining_start": 0.033,
        "min_cluster_size": 2,
        "max_cluster_size": 512,
        "refresh_every": 5,
        "classifier_loss": "hardest",
        "classifier_margin": 0.2,
        "classifier_positives": 3,
        "classifier_negatives": 5,
        "classifier_batches": "clustered",
        "classifier_epochs": 100,
        "classifier_learning_rate": 1e-3,
        "classifier_dropout": 0.5,
        "classifier_batch_size": 2048,
    },
    "the published configuration of LF-AmazonTitles-131K",
    {"warmup": "there: 100 steps"},
    differs="its fusion is a decision tree fitted on training examples; here weights fitted on valid",
)
PRESETS = {"paper": _PUBLISHED, "LF-AmazonTitles-131K": _PUBLISHED}


@dataclass(frozen=True)
class Ngame(DualEncoderSettings):
    """A dual encoder whose batches are clusters of similar documents, so that their labels are hard negatives of each
    other; then classifiers on its frozen vectors.

    Module I: the first batches are random; then documents are clustered by the vectors of their last training step, and
    the clusters grow. Module II: one classifier per label, initialised with the label's vector, trained over the labels
    of each batch. Finally text, classifier and frequency get weights that are fitted on valid, and fold into one vector
    per label. `classifiers=false` trains the encoder alone.

    `classifier_shortlist` adds to a pool the wrong labels whose documents' mean is nearest to each document, from which
    Slice draws its negatives. After Module II, `joint_epochs` trains encoder and classifiers together.

    Of the losses the softmax finds most; `triplet` is the paper's, with `classifier_loss="hardest"` and
    `classifier_batches="clustered"` in Module II (`ngame:paper`). With `anchors="labels"` and `loss="logistic"`,
    which is calibrated with `margin=0`, the encoder is the teacher that `lever` needs.

    Needs: texts of documents and labels. Positives are drawn in proportion to their soft targets.
    Costs: as `dpr`, a clustering every few epochs, and classifiers: four vectors per label while they are trained.
    Prefer instead: `dpr` where labels come and go, since new labels have no classifiers.
    Example: longtail train wordnet "ngame(encoder='bag', epochs=5)" --out model
    """

    loss: Literal["softmax", "triplet", "logistic"] = "softmax"  # of the encoder
    frequency_weight: float = 0.0  # of a label's frequency in its score; raises P@1, lowers PSP@1
    margin: float = 0.3  # γ of triplet, Δ of logistic
    negatives: int = 10  # hardest ones of a document that count in triplet and logistic
    symmetric: bool = True  # softmax from labels to documents too
    mining_start: float = 0.2  # share of the epochs with random batches
    min_cluster_size: int = 4  # documents of the first clusters
    max_cluster_size: int = 256  # documents of the last clusters
    refresh_every: int = 5  # epochs between two clusterings
    classifiers: bool = True  # Module II
    # Of Module II: as the encoder's, or another; hardest: the paper's, of hardest positives and negatives.
    classifier_loss: Literal["same", "softmax", "triplet", "logistic", "hardest"] = "same"
    classifier_margin: float = 0.2  # γ of hardest
    classifier_positives: int = 3  # lowest-scoring ones of a document that count in hardest
    classifier_negatives: int = 5  # highest-scoring ones of a document that count in hardest
    classifier_batches: Literal["random", "clustered"] = "random"  # clustered: like those of Module I
    classifier_shortlist: int = 0  # wrong labels near a document that join its pool in Module II
    classifier_epochs: int = 20  # of Module II
    classifier_learning_rate: float = 3e-3
    classifier_dropout: float = 0.1  # on the documents' vectors
    classifier_batch_size: int = 1024  # of Module II
    joint_epochs: int = 0  # of encoder and classifiers together, after Module II
    joint_learning_rate: float | None = None  # none: a tenth of the encoder's

    summary: ClassVar[str] = "dual encoder, clustered batches, then classifiers"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {"gamma": "margin"}
    papers: ClassVar[tuple[Paper, ...]] = (NGAME,)
    presets: ClassVar[Mapping[str, Preset]] = PRESETS
    offers: ClassVar[frozenset[str]] = DualEncoderSettings.offers | {"free_classifiers"}
    scorer: ClassVar[type[Scorer]] = DualEncoderScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.classifiers:
            object.__setattr__(self, "offers", DualEncoderSettings.offers)
        counts = (
            "negatives", "min_cluster_size", "max_cluster_size", "refresh_every", "classifier_epochs",
            "classifier_batch_size", "classifier_positives", "classifier_negatives",
        )  # fmt: skip
        for name in counts:
            if getattr(self, name) < 1:
                raise RecipeError(f"setting '{name}' of ngame is at least 1, got {getattr(self, name)}")
        for name in ("classifier_shortlist", "joint_epochs"):
            if getattr(self, name) < 0:
                raise RecipeError(f"setting '{name}' of ngame is at least 0, got {getattr(self, name)}")
            if getattr(self, name) and not self.classifiers:
                raise RecipeError(f"setting '{name}' of ngame is of classifiers: leave out classifiers=false")
        if self.joint_epochs and self.search_dimension is not None:
            raise RecipeError(
                "ngame trains encoder and classifiers together on whole vectors: leave out "
                "search_dimension or joint_epochs"
            )
        if self.joint_learning_rate is not None and self.joint_learning_rate <= 0:
            raise RecipeError(f"setting 'joint_learning_rate' of ngame is above 0, got {self.joint_learning_rate:g}")
        if not 0 <= self.mining_start <= 1:
            raise RecipeError(f"setting 'mining_start' of ngame lies in [0, 1], got {self.mining_start:g}")
        if not 0 <= self.classifier_dropout < 1:
            raise RecipeError(f"setting 'classifier_dropout' of ngame lies in [0, 1), got {self.classifier_dropout:g}")
        if self.classifier_learning_rate <= 0:
            raise RecipeError(
                f"setting 'classifier_learning_rate' of ngame is above 0, got {self.classifier_learning_rate:g}"
            )
        if self.max_cluster_size < self.min_cluster_size:
            raise RecipeError(
                f"setting 'max_cluster_size' of ngame ({self.max_cluster_size}) is smaller than 'min_cluster_size' "
                f"({self.min_cluster_size}): raise it, or lower the other"
            )

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`: the encoder first, then the classifiers on frozen vectors."""
        encoder = super().plan(facts)
        if not self.classifiers:
            return encoder
        width = min(self.search_dimension or WIDTH, self.dimension or WIDTH)
        table, vectors = 16 * width * facts.labels, 4 * width * facts.rows  # weights, gradients, two moments
        speed = 1e12 if Path("/dev/nvidia0").exists() else 8e9  # bytes a second
        steps = self.classifier_epochs * -(-facts.rows // self.classifier_batch_size)
        joint = self.joint_epochs / self.epochs  # each epoch costs what one of the encoder alone does
        together = 12 * width * facts.labels if self.joint_epochs else 0  # free vectors and moments
        return replace(
            encoder,
            train_bytes=max(encoder.train_bytes + together, encoder.model_bytes + table + vectors),
            train_seconds=(1 + joint) * encoder.train_seconds + steps * (2.5 * table / speed + 0.005),
            steps=(*encoder.steps, ("classifiers and their moments", table), ("vectors of documents", vectors)),
        )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> DualEncoderScorer:
        """See `Learner.fit`."""
        require("ngame")
        from functools import partial

        from longtail.nn.dual.classifier_fit import learn_classifiers, learn_together
        from longtail.nn.dual.contrastive_losses import hardest_pairs, logistic, softmax, triplet
        from longtail.nn.dual.dual_fit import DualEncoderFit
        from longtail.nn.dual.pair_batches import Curriculum

        towers = DualEncoderFit.begin(self, train, valid, parts)
        curriculum = Curriculum(
            self.mining_start, self.min_cluster_size, self.max_cluster_size, refresh_every=self.refresh_every
        )
        losses = {
            "softmax": partial(softmax, temperature=self.temperature),
            "triplet": partial(triplet, margin=self.margin, negatives=self.negatives),
            "logistic": partial(logistic, margin=self.margin, negatives=self.negatives, scale=1 / self.temperature),
        }
        loss = losses[self.loss]
        of_encoder = partial(loss, both=self.symmetric) if self.loss == "softmax" else loss
        towers.learn(of_encoder, curriculum=curriculum)
        if not self.classifiers:
            return towers.scorer()
        # Documents' vectors are frozen, so there are clusters from the first epoch after random ones on.
        clustered = (
            replace(curriculum, start=min(curriculum.start, 0.1)) if self.classifier_batches != "random" else None
        )
        last = replace(curriculum, start=0.0, min_cluster_size=self.max_cluster_size)
        losses |= {
            "same": loss,
            "hardest": partial(
                hardest_pairs,
                margin=self.classifier_margin,
                positives=self.classifier_positives,
                negatives=self.classifier_negatives,
            ),
        }
        learned = learn_classifiers(
            towers,
            losses[self.classifier_loss],
            batch_size=self.classifier_batch_size,
            epochs=self.classifier_epochs,
            learning_rate=self.classifier_learning_rate,
            dropout=self.classifier_dropout,
            curriculum=clustered,
            shortlist=self.classifier_shortlist,
        )
        if self.joint_epochs:
            rate = self.joint_learning_rate or towers.learning_rate / 10
            learned = learn_together(towers, of_encoder, learned, self.joint_epochs, rate, curriculum=last)
        return towers.scorer(learned)
