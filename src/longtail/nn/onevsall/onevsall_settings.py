"""The settings of classifiers that are trained end to end with an encoder. Loads no torch, so that a recipe can be
parsed without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_settings import Size
from longtail.nn.encoders.encoder_names import check_encoder
from longtail.nn.extra import require
from longtail.plan import DataFacts, Plan

BYTES = {"fp32": 4, "bf16": 2, "fp8": 1}


@dataclass(frozen=True)
class OneVsAllSettings:
    """An encoder and one classifier per label, trained over all labels in every step."""

    encoder: str = "auto"  # minilm, bag, gru, tiny, a folder or owner/name; auto: minilm where installed, else bag
    dimension: int | None = None  # of the vectors; none: the encoder's own width
    max_tokens: int = 64  # tokens of a text; the rest is cut off
    batch_size: int = 512
    epochs: int | None = None  # none: by the number of examples, 30 up to 50,000, 13 for 285,000, 8 from 700,000
    learning_rate: float | None = None  # of the encoder's AdamW; none: 6e-5, and 2e-3 with random initial weights
    # of the classifiers' SGD on the sum over a batch; none: 0.1, or by the norm of the vectors of a random encoder
    head_learning_rate: float | None = None
    momentum: float = 0.0  # of the classifiers; doubles their memory
    dropout: float = 0.6  # on the vectors
    encoder_dropout: float | None = None  # inside the encoder; none: its own
    warmup: float = 0.1  # share of the steps in which the learning rates rise
    schedule: Literal["linear", "cosine", "none"] = "linear"
    weight_decay: float = 0.01  # of the encoder
    head_weight_decay: float = 1e-4  # of the classifiers: a step shrinks them by head_learning_rate x this
    max_gradient_norm: float | None = 1.0
    loss: Literal["bce", "hinge"] = "bce"
    positive_weight: float = 1.0  # weight of positives in the loss
    # power of the inverse propensity that weighs positives; 1: unbiased loss; 0: no weights; between: lifts rare
    # labels, without a loss on frequent ones that showed on valid
    propensity_power: float = 0.15
    bias_init: float | Literal["auto"] | None = (
        "auto"  # initial bias of a label; auto: its mean log odds; none: no bias
    )
    # initial classifiers: random, or the vectors of label texts; auto: texts where the encoder is pretrained
    head_init: Literal["auto", "random", "texts"] = "auto"
    head_precision: Literal["auto", "fp32", "bf16", "fp8"] = "auto"  # auto: bf16 on a GPU
    kahan_share: float = 0.0  # share of the labels, most frequent first, with Kahan-compensated updates
    label_chunk: int | None = None  # labels computed at once; none: by the memory of one chunk
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # of the encoder; auto: bf16 on a GPU
    compile: bool = False  # compile the encoder with torch.compile; pays on long runs
    validate_every: int = 5  # epochs between validations
    patience: int | None = None  # validations without a better P@1 before training stops
    seed: int = 0

    def __post_init__(self) -> None:
        minima = {
            "max_tokens": 3,
            "batch_size": 1,
            "epochs": 1,
            "label_chunk": 1,
            "validate_every": 0,
            "patience": 1,
            "dimension": 1,
        }
        for name, bound in minima.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise RecipeError(f"setting '{name}' of {self.name} is at least {bound}, got {value}")
        for name in ("learning_rate", "head_learning_rate", "max_gradient_norm", "positive_weight"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RecipeError(f"setting '{name}' of {self.name} is above 0, got {value:g}")
        for name in ("warmup", "dropout", "encoder_dropout", "momentum"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1), got {value:g}")
        for name in ("kahan_share", "propensity_power"):
            if not 0 <= getattr(self, name) <= 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1], got {getattr(self, name):g}")
        for name in ("seed", "weight_decay", "head_weight_decay"):
            if getattr(self, name) < 0:
                raise RecipeError(f"setting '{name}' of {self.name} is at least 0, got {getattr(self, name):g}")
        shrink = self.head_weight_decay * (self.head_learning_rate or 1.0)
        if shrink >= 1:
            raise RecipeError(
                f"{self.name} would erase the classifiers in one step: head_learning_rate x head_weight_decay must be "
                f"below 1, got {shrink:g}; lower one of them"
            )

    def check(self, data: Dataset) -> None:
        """See `ChecksData.check`: raises where torch or the encoder is missing."""
        require(self.name)
        if getattr(self, "init_from", None) is None:  # else the encoder comes from another model
            check_encoder(self.encoder)

    @property
    def name(self) -> str:
        """The learner's name in a recipe."""
        return type(self).__name__.lower()

    def passes(self, rows: int) -> int:
        """Choose the number of epochs: more rows need more steps, but fewer epochs.

        Args:
            rows: training rows, without those that tail methods added.

        Returns:
            The setting, or a number between 8 and 30.
        """
        return self.epochs or max(round(30 * min(1.0, 50_000 / max(rows, 1)) ** 0.5), 8)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`. Encoder: weights, gradients, AdamW's two moments; six operations a weight and token.
        Head: its weights, as much again with momentum, the gradients of one chunk; six operations a weight and row."""
        size = Size.of(self.encoder, self.dimension, facts)
        tokens = min(1.5 * facts.terms_per_row + 2, self.max_tokens)
        rows = min(self.batch_size, facts.rows)
        fast = Path("/dev/nvidia0").exists()
        speed, memory = (5e13, 1e12) if fast else (5e10, 8e9)  # operations and bytes a second
        product = 3e14 if fast else 1e11  # operations a second of the head's products
        each = BYTES.get(self.head_precision, 2 if fast else 4)
        classifiers = int(facts.labels * size.width * each * (2 if self.momentum else 1))
        gradients = min(facts.labels * rows * each, (256 << 20) if fast else (4 << 20))
        activations = int(rows * tokens * size.width * (4 + 70 * size.layers))
        copied = 4 * size.width * facts.labels  # as saved
        epochs = self.passes(facts.rows)
        steps = epochs * -(-facts.rows // self.batch_size)
        reading = 6 * size.met * epochs * facts.rows * tokens
        scoring = 6.0 * epochs * facts.rows * size.width * facts.labels
        return Plan(
            train_bytes=int(
                16 * size.weights
                + activations
                + 8 * facts.rows * tokens
                + classifiers
                + gradients
                + copied
                + 500_000_000
            ),
            model_bytes=int(4 * size.weights + copied + 64 * facts.labels),
            train_seconds=reading / speed + scoring / product + steps * (40 * size.weights / memory + 0.01) + 10,
            predict_seconds=1000 * (2 * size.met * tokens / speed + 2 * size.width * facts.labels / product) + 0.05,
            steps=(
                ("weights and optimiser", 16 * size.weights),
                ("activations", activations),
                ("classifiers", classifiers),
                ("gradients of one chunk", gradients),
            ),
        )
