"""The settings of classifiers trained end to end with an encoder. Loads no torch, so that a recipe can be read
without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.settings import Size, check_encoder
from longtail.plan import Facts, Plan

BYTES = {"fp32": 4, "bf16": 2, "fp8": 1}


@dataclass(frozen=True)
class OvaSettings:
    """An encoder and a classifier a label, over all labels in every step."""

    encoder: str = "auto"  # minilm, bag, gru, tiny, a folder or owner/name; auto: minilm where installed, else bag
    dimension: int | None = None  # of the vectors; none: the encoder's own width
    longest: int = 64  # tokens of a text that are read
    batch: int = 512
    epochs: int | None = None  # none: by the rows given, 30 up to 50,000 of them, 13 for 285,000, 8 from 700,000 on
    rate: float | None = None  # of the encoder's AdamW; none: 6e-5, and 2e-3 for one that begins at random
    head_rate: float | None = None  # of the classifiers' SGD, on the sum over a batch's rows; none: 0.1, or by the
    # length of the vectors where the encoder begins at random
    momentum: float = 0.0  # of the classifiers; takes as much memory again
    dropout: float = 0.6  # on the vectors
    encoder_dropout: float | None = None  # inside the encoder; none: its own
    warmup: float = 0.1  # share of the steps in which the rates rise
    decay: Literal["linear", "cosine", "none"] = "linear"
    weight_decay: float = 0.01  # of the encoder
    head_decay: float = 1e-4  # of the classifiers: a step takes head_rate x this share
    clip: float | None = 1.0
    loss: Literal["bce", "hinge"] = "bce"
    positive: float = 1.0  # weight of what is right
    propensity: float = 0.15  # 1: unbiased loss, what is right counts as often as it is missing; between: a power of
    # it, which lifts rare labels and costs the frequent ones nothing that valid could see; 0: all alike
    bias: float | Literal["auto"] | None = "auto"  # where a number of each label's own begins; auto: its mean log odds
    begin: Literal["auto", "random", "texts"] = "auto"  # classifiers begin at random, or at their labels' texts; auto:
    # at the texts where the encoder can read already
    head_precision: Literal["auto", "fp32", "bf16", "fp8"] = "auto"  # auto: bf16 on a GPU
    compensated: float = 0.0  # share of the labels, most frequent first, that remember what rounding took
    chunk: int | None = None  # labels at a time; none: as suits the machine
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # of the encoder; auto: bf16 on a GPU
    compiled: bool = False  # compile the encoder for this machine; pays on long runs
    measure_every: int = 5  # epochs between two looks at valid
    patience: int | None = None  # looks without a better P@1 before it stops
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"longest": 3, "batch": 1, "epochs": 1, "chunk": 1, "measure_every": 0, "patience": 1, "dimension": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise RecipeError(f"setting '{name}' of {self.name} is at least {bound}, got {value}")
        for name in ("rate", "head_rate", "clip", "positive"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RecipeError(f"setting '{name}' of {self.name} is above 0, got {value:g}")
        for name in ("warmup", "dropout", "encoder_dropout", "momentum"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1), got {value:g}")
        for name in ("compensated", "propensity"):
            if not 0 <= getattr(self, name) <= 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1], got {getattr(self, name):g}")
        if self.seed < 0 or self.weight_decay < 0 or self.head_decay < 0:
            raise RecipeError(f"settings 'seed', 'weight_decay' and 'head_decay' of {self.name} are not below 0")
        if self.head_decay * (self.head_rate or 1.0) >= 1:
            raise RecipeError(
                f"{self.name} would take all of a classifier away in one step: head_rate x head_decay is "
                f"{self.head_decay * (self.head_rate or 1.0):g}, it has to be below 1"
            )

    def check(self, data: Dataset) -> None:
        """Whether there is something to read texts by."""
        require(self.name)
        if getattr(self, "warm", None) is None:  # else its encoder is another model's
            check_encoder(self.encoder)

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def passes(self, rows: int) -> int:
        """Epochs over so many given rows: more rows need more steps, but fewer looks at each."""
        return self.epochs or max(round(30 * min(1.0, 50_000 / max(rows, 1)) ** 0.5), 8)

    def plan(self, facts: Facts) -> Plan:
        """Encoder: weights, gradients, AdamW's two means; six operations a weight and token. Head: its weights once,
        once more with momentum, one chunk of slopes; six operations a weight and row."""
        size = Size.of(self.encoder, self.dimension, facts)
        tokens = min(1.5 * facts.terms_per_row + 2, self.longest)
        rows = min(self.batch, facts.rows)
        fast = Path("/dev/nvidia0").exists()
        speed, memory = (5e13, 1e12) if fast else (5e10, 8e9)  # operations and bytes a second
        product = 3e14 if fast else 1e11  # operations a second of the head's products
        held = BYTES.get(self.head_precision, 2 if fast else 4)
        classifiers = int(facts.labels * size.width * held * (2 if self.momentum else 1))
        slopes = min(facts.labels * rows * held, (256 << 20) if fast else (4 << 20))
        activations = int(rows * tokens * size.width * (4 + 70 * size.layers))
        copied = 4 * size.width * facts.labels  # as they are saved
        epochs = self.passes(facts.rows)
        steps = epochs * -(-facts.rows // self.batch)
        reading = 6 * size.met * epochs * facts.rows * tokens
        scoring = 6.0 * epochs * facts.rows * size.width * facts.labels
        return Plan(
            train_bytes=int(
                16 * size.weights + activations + 8 * facts.rows * tokens + classifiers + slopes + copied + 500_000_000
            ),
            model_bytes=int(4 * size.weights + copied + 64 * facts.labels),
            train_seconds=reading / speed + scoring / product + steps * (40 * size.weights / memory + 0.01) + 10,
            predict_seconds=1000 * (2 * size.met * tokens / speed + 2 * size.width * facts.labels / product) + 0.05,
            steps=(
                ("weights and optimiser", 16 * size.weights),
                ("activations", activations),
                ("classifiers", classifiers),
                ("slopes of a chunk", slopes),
            ),
        )
