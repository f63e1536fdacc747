"""The settings that nets over a label tree share. Loads no torch, so that a recipe can be parsed without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.dual.dual_settings import Size
from longtail.nn.encoders.encoder_names import check_encoder
from longtail.nn.extra import require
from longtail.plan import DataFacts, Plan


@dataclass(frozen=True)
class TreeNetSettings:
    """An encoder, and classifiers of the clusters and labels of a tree."""

    encoder: str = "auto"  # minilm, bag, gru, tiny, a folder or owner/name; auto: minilm where installed, else bag
    dimension: int | None = None  # of the vectors of bag and gru; none: the encoder's own width
    max_tokens: int = 64  # tokens of a text; the rest is cut off
    batch_size: int = 64
    epochs: int = 15
    learning_rate: float | None = None  # of the encoder's AdamW; none: 1e-4, and 2e-3 with random initial weights
    head_learning_rate: float | None = None  # of the classifiers' AdamW; none: by that of the encoder
    dropout: float = 0.5  # on the vectors that the labels' classifiers see
    encoder_dropout: float | None = None  # inside the encoder; none: its own
    warmup: float = 0.1  # share of the steps in which the learning rates rise
    schedule: Literal["linear", "cosine", "none"] = "cosine"
    weight_decay: float = 0.01  # of the encoder
    head_weight_decay: float = 0.0  # of the classifiers
    max_gradient_norm: float | None = 1.0
    beam: int = 64  # clusters of each level whose children are scored
    max_leaf_labels: int = 100  # labels of a cluster
    bias_init: float | Literal["auto"] = "auto"  # initial bias of a node; auto: the log odds of a candidate
    average_from: int | None = None  # epochs after which weights are averaged (SWA), from then on; none: never
    average_every: int = 100  # steps between two weights of the average
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # of the encoder; auto: bf16 on a GPU
    validate_every: int = 5  # epochs between validations
    patience: int | None = None  # validations without a better P@1 before training stops
    seed: int = 0

    branches = 2  # clusters below a cluster; a setting where there are several levels of clusters
    head_factor: ClassVar[float] = 10.0  # of the classifiers' learning rate, where it is not set
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})

    def __post_init__(self) -> None:
        minima = {
            "max_tokens": 3, "batch_size": 1, "epochs": 1, "validate_every": 0, "patience": 1, "dimension": 1,
            "beam": 1, "max_leaf_labels": 2, "average_from": 0, "average_every": 1, "seed": 0, "weight_decay": 0,
            "head_weight_decay": 0,
        }  # fmt: skip
        for name, bound in minima.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise RecipeError(f"setting '{name}' of {self.name} is at least {bound}, got {value}")
        for name in ("learning_rate", "head_learning_rate", "max_gradient_norm"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RecipeError(f"setting '{name}' of {self.name} is above 0, got {value:g}")
        for name in ("warmup", "dropout", "encoder_dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1), got {value:g}")
        if self.average_from is not None and self.average_from >= self.epochs:
            raise RecipeError(
                f"setting 'average_from' of {self.name} is below epochs={self.epochs}, got {self.average_from}"
            )

    @property
    def name(self) -> str:
        """The learner's name in a recipe."""
        return type(self).__name__.lower()

    def need_texts(self, head_init: str) -> None:
        """Declare that the data need label texts, where classifiers start from them.

        Args:
            head_init: the setting of a learner that has it.
        """
        if head_init == "texts":
            object.__setattr__(self, "data_needs", self.data_needs | {"label_texts"})

    @property
    def cluster_levels(self) -> int:
        """Levels of clusters, at most."""
        return 1

    def check(self, data: Dataset) -> None:
        """See `ChecksData.check`: raises where torch or the encoder is missing."""
        require(self.name)
        check_encoder(self.encoder)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`. Weights, gradients and AdamW's two moments of encoder and classifiers; a batch's
        candidates and the weights that score them; six operations a weight and token, or candidate."""
        size = Size.of(self.encoder, self.dimension, facts)
        rows, width = min(self.batch_size, facts.rows), size.width
        tokens = min(1.5 * facts.terms_per_row + 2, self.max_tokens)
        fast = Path("/dev/nvidia0").exists()
        speed, memory = (5e13, 1e12) if fast else (5e10, 8e9)  # operations and bytes a second
        clusters = max(facts.labels // max(self.max_leaf_labels // 2, 1), 1)
        beam = min(self.beam, clusters)
        candidates = min(beam * self.max_leaf_labels, 2 * facts.labels) + clusters
        classifiers = 4 * width * (facts.labels + 2 * clusters)
        activations = int(rows * tokens * width * (4 + 70 * size.layers))
        blocks = 4 * rows * candidates * 6 + 2 * 4 * width * min(rows * beam * self.max_leaf_labels, 2 * facts.labels)
        steps = self.epochs * -(-facts.rows // self.batch_size)
        work = 6 * self.epochs * facts.rows * (size.met * tokens + width * candidates)
        return Plan(
            train_bytes=int(16 * size.weights + 4 * classifiers + activations + blocks + 8 * facts.rows * tokens)
            + 500_000_000,
            model_bytes=int(4 * size.weights + classifiers + 64 * facts.labels),
            train_seconds=work / speed + steps * (40 * (size.weights + classifiers / 4) / memory + 0.01) + 10,
            predict_seconds=1000 * (2 * size.met * tokens + 2 * width * candidates) / speed + 0.05,
            steps=(
                ("weights and optimiser", 16 * size.weights),
                ("activations", activations),
                ("classifiers and optimiser", 4 * classifiers),
                ("candidates of a batch", blocks),
            ),
        )
