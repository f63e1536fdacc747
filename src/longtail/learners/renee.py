"""One-vs-all classifiers over all labels, trained end to end with an encoder.

The model of `init_from` is trained on the rows as given, without those that tail methods add, so that recipes that
differ in what they add start alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.encoders.encoder_names import RANDOM_INIT
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.extra import real_name, require
from longtail.nn.onevsall.onevsall_scorer import OneVsAllScorer
from longtail.nn.onevsall.onevsall_settings import OneVsAllSettings
from longtail.papers import ELMO, RENEE, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.seams import Learner, Scorer, TailMethod, Teacher


def _published(
    rows: int, tokens: int, dropout: float, warmup: int, encoder: float, head: float, batch: int, decay: float
) -> Preset:
    """A line of LEVER's table 19; `rows` are those of train and of label texts, in whose steps `warmup` is counted."""
    settings = {
        "encoder": "distilbert/distilbert-base-uncased",
        "epochs": 100,
        "max_tokens": tokens,
        "dropout": dropout,
        "warmup": round(warmup / (100 * -(-rows // batch)), 3),
        "learning_rate": encoder,
        "head_learning_rate": head,
        "batch_size": batch,
        "head_weight_decay": decay,
        "momentum": 0.9,
        "schedule": "cosine",
        "propensity_power": 0.0,
        "bias_init": None,
        "head_init": "random",
    }
    code = "the published code"
    elsewhere = dict.fromkeys(
        ("momentum", "schedule", "propensity_power", "bias_init", "head_init", "max_tokens"), code
    )
    return Preset(settings, "LEVER, table 19", elsewhere, "starts from `encoder`: for NGAME's add init_from, `+ rows`")


PRESETS = {
    "paper": _published(425_878, 32, 0.85, 5_000, 1e-05, 0.05, 512, 0.0001),
    "LF-AmazonTitles-131K": _published(425_878, 32, 0.85, 5_000, 1e-05, 0.05, 512, 0.0001),
    "LF-Amazon-131K": _published(425_878, 128, 0.85, 5_000, 1e-05, 0.05, 512, 0.0001),
    "LF-AOL-270K": _published(4_195_304, 32, 0.6, 20_000, 1e-06, 0.001, 1024, 0.0001),
    "LF-WikiSeeAlso-320K": _published(1_005_412, 128, 0.75, 5_000, 0.0002, 0.2, 2048, 0.0001),
    "LF-Wikipedia-500K": _published(2_314_461, 256, 0.7, 5_000, 5e-05, 0.004, 2048, 0.0001),
    "LF-WikiHierarchy-1M": _published(2_565_592, 32, 0.7, 20_000, 0.0001, 0.002, 1024, 0.01),
    "LF-AmazonTitles-1.3M": _published(3_553_884, 32, 0.7, 15_000, 1e-06, 0.01, 1024, 0.0001),
}


@dataclass(frozen=True)
class Renee(OneVsAllSettings):
    """An encoder and a classifier for every label, trained together over all labels in every step.

    No negative is sampled and no label is left out. The labels are processed in chunks: a chunk's scores become
    gradients in place and update its classifiers at once, so memory is the classifiers and one chunk. AdamW trains the
    encoder, SGD on the sum over a batch the classifiers, each with its own learning rate, and with much dropout on the
    vector. Documents without a label count too: every label is a negative for them.

    `init_from` starts from a trained encoder: that of a recipe, which is trained first on the same examples, or that of
    a saved model's folder. It helps most where texts are short.

    Needs: texts of documents. Soft targets are exact: half a target gives half the positive gradient.
    Costs: 6 x examples x labels x dimension operations an epoch; one vector a label (bf16 on a GPU), two with momentum.
    Prefer instead: `ngame` where labels come and go or most have hardly any examples; `bonsai` without a GPU.
    Example: longtail train wordnet "renee(encoder='bag', epochs=5)" --out model
    """

    init_from: str | None = None  # recipe or model folder whose encoder it starts from; none: the setting `encoder`

    summary: ClassVar[str] = "encoder and one classifier a label, over all labels at once"
    papers: ClassVar[tuple[Paper, ...]] = (
        RENEE,
        ELMO,
    )
    presets: ClassVar[Mapping[str, Preset]] = PRESETS
    offers: ClassVar[frozenset[str]] = frozenset(
        {"soft_targets", "classifier_rows", "free_classifiers", "row_penalties"}
    )
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    scorer: ClassVar[type[Scorer]] = OneVsAllScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_init == "texts":
            object.__setattr__(self, "data_needs", frozenset({"texts", "label_texts"}))

    def initialised_from(self, teacher: Teacher) -> Learner:
        """See `WarmStarts.initialised_from`."""
        return WarmStart(self, teacher)

    def same_architecture(self, scorer: Scorer) -> bool:
        """See `WarmStarts.same_architecture`. Never true of randomly initialised encoders: their vocabulary
        comes from the data."""
        require("renee")
        from longtail.nn.encoders.build import same_architecture

        name = real_name(self.encoder)
        if name in RANDOM_INIT or not isinstance(scorer, DualEncoderScorer | OneVsAllScorer):
            return False
        return same_architecture(name, self.dimension, scorer.encoder.settings, scorer.encoder.definition.tobytes())

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> OneVsAllScorer:
        """See `Learner.fit`."""
        return self.fit_from(None, train, valid, parts)

    def fit_from(
        self, encoder: TextEncoder | None, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]
    ) -> OneVsAllScorer:
        """Train, starting from a trained encoder.

        Args:
            encoder: to start from; None is the encoder of the settings.
            train: rows to train on.
            valid: rows to validate and calibrate on.
            parts: tail methods of the recipe.

        Returns:
            The trained model.
        """
        require("renee")
        from longtail.nn.onevsall.onevsall_fit import OneVsAllFit

        fit = OneVsAllFit.begin(self, train, valid, parts, encoder)
        fit.learn()
        return fit.scorer()


@dataclass(frozen=True)
class WarmStart:
    """`renee` with the model whose encoder it starts from."""

    settings: Renee
    teacher: Teacher

    summary: ClassVar[str] = Renee.summary
    offers: ClassVar[frozenset[str]] = Renee.offers
    data_needs: ClassVar[frozenset[str]] = Renee.data_needs
    scorer: ClassVar[type[Scorer]] = OneVsAllScorer

    def __post_init__(self) -> None:
        if not issubclass(self.teacher.scorer_class, DualEncoderScorer | OneVsAllScorer):
            raise RecipeError(
                f"init_from of renee starts from the encoder of another model, and {self.settings.init_from!r} has "
                "none: name a dual encoder such as 'ngame' or 'dpr', or leave init_from out"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> OneVsAllScorer:
        """See `Learner.fit`."""
        require("renee")
        from longtail.nn.training.process_group import ProcessGroup

        assert train.origins is not None
        original = np.flatnonzero(train.origins == 0)  # rows that tail methods added are for the classifiers only
        # Where a tail method replaced all original rows, the first model trains on the replacements.
        first_rows = train if len(original) in (0, len(train)) else train.take(original)

        def trained_encoder() -> TextEncoder:
            scorer = self.teacher.fit(first_rows, valid).scorer
            assert isinstance(scorer, DualEncoderScorer | OneVsAllScorer)
            return scorer.encoder

        return self.settings.fit_from(ProcessGroup.here().made_by_first(trained_encoder), train, valid, parts)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`: the model it starts from and its own training."""
        before, after = self.teacher.plan(facts), self.settings.plan(facts)
        return replace(
            after,
            train_bytes=max(before.train_bytes, after.train_bytes),
            train_seconds=before.train_seconds + after.train_seconds,
        )
