"""The settings that all shallow nets share. Loads no torch, so that a recipe can be parsed without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import DataError, RecipeError
from longtail.nn.encoders.encoder_names import MIN_CONVOLUTION_DIMENSION
from longtail.nn.extra import expand_home, require
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer

WORDS = 100_000  # size of the vocabulary
ALL = 2e15  # operations up to which `auto` compares every row with every label: hours on a CPU
BASE = 500_000_000  # bytes that torch takes at the start
DEFAULT_PATIENCE = 3  # validations without improvement; the nets' measures rise unevenly
MINIMA = {
    "max_words": 1,
    "channels": 1,
    "beam": 0,
    "walk_steps": 1,
    "neighbours": 0,
    "walk_max_count": 0,
}  # of settings that only some nets have
FAR_APART = 200  # steps between validations from which early stopping is on by default


@dataclass(frozen=True)
class ShallowSettings:
    """Word vectors, a small encoder, and one classifier per label."""

    dimension: int = 512  # of the word vectors
    word_vectors: str | None = None  # a file of pretrained word vectors: text with one word per line (GloVe), or .npy
    max_tokens: int = 64  # tokens of a text; the rest is cut off
    batch_size: int = 512
    epochs: int = 20
    learning_rate: float = 5e-3  # of Adam, for word vectors, layers and classifiers
    dropout: float = 0.5
    # α of a Beta distribution: a step mixes the vectors of two documents each, and their targets; 0: it does not.
    mixup_alpha: float = 0.0
    warmup: float = 0.05  # share of the steps in which the learning rate rises
    schedule: Literal["linear", "cosine", "none"] = "linear"
    head_weight_decay: float = 0.01  # of the classifiers: a step shrinks them by learning_rate x this
    loss_over: Literal["auto", "all", "pool"] = "auto"  # all labels, or a pool of hard and random ones
    label_cluster_size: int = 8  # labels of a cluster, where there are clusters
    random_negatives: int = 1000  # labels of a pool that are drawn at random
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # of large products; auto: bf16 where that is faster
    validate_every: int = 5  # epochs between validations
    monitor: Literal["P@1", "PSP@5", "both"] = "P@1"  # the weights that are best in this are kept; both: in the mean
    patience: int | None = None  # validations without improvement before training stops; none: 3, if they are far apart
    seed: int = 0

    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    scorer: ClassVar[type[Scorer]]

    def __post_init__(self) -> None:
        minima = {
            "dimension": 1, "max_tokens": 3, "batch_size": 1, "epochs": 1, "label_cluster_size": 1,
            "random_negatives": 0, "validate_every": 0, "patience": 1, **MINIMA,
        }  # fmt: skip
        for name, bound in minima.items():
            value = getattr(self, name, None)
            if value is not None and value < bound:
                raise RecipeError(f"setting '{name}' of {self.name} is at least {bound}, got {value}")
        if self.learning_rate <= 0:
            raise RecipeError(f"setting 'learning_rate' of {self.name} is above 0, got {self.learning_rate:g}")
        for name in ("dropout", "warmup", "feature_dropout"):
            if not 0 <= getattr(self, name, 0) < 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1), got {getattr(self, name):g}")
        for name in ("meta_only_share", "restart"):
            if not 0 <= getattr(self, name, 0) <= 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1], got {getattr(self, name):g}")
        if self.mixup_alpha < 0:
            raise RecipeError(f"setting 'mixup_alpha' of {self.name} is at least 0, got {self.mixup_alpha:g}")
        if self.seed < 0:
            raise RecipeError(f"setting 'seed' of {self.name} is at least 0, got {self.seed}")
        if not 0 <= self.head_weight_decay * self.learning_rate < 1:
            raise RecipeError(
                f"a step of {self.name} shrinks classifiers by head_weight_decay x learning_rate, which lies in "
                f"[0, 1), got {self.head_weight_decay:g} x {self.learning_rate:g}; lower one of them"
            )
        if isinstance(self, Convolutions) and (self.dimension < MIN_CONVOLUTION_DIMENSION or self.dimension % 4):
            raise RecipeError(
                f"setting 'dimension' of {self.name} is at least {MIN_CONVOLUTION_DIMENSION} and a multiple of 4, as "
                f"convolutions slide along word vectors in steps of 4, got {self.dimension}"
            )
        if self.word_vectors is not None and not expand_home(self.word_vectors).is_file():
            raise RecipeError(f"setting 'word_vectors' of {self.name}: there is no file {self.word_vectors!r}")

    def check(self, data: Dataset) -> None:
        """See `ChecksData.check`: raises where torch is missing."""
        require(self.name)

    @property
    def name(self) -> str:
        """The learner's name in a recipe."""
        return type(self).__name__.lower().replace("xmllf", "xml-lf")

    @property
    def features(self) -> int:
        """Dimension of the vector that the classifiers take."""
        return self.dimension

    @property
    def layers(self) -> float:
        """Products with a (features, features) matrix for each label in a step, besides its scores."""
        return 0.0

    def stops_after(self, rows: int) -> int | None:
        """Resolve the patience. Where few steps lie between validations, one without improvement means little, and the
        training is short anyway.

        Args:
            rows: of the training set.

        Returns:
            Validations without improvement before training stops; None: it does not stop early.
        """
        far = self.validate_every * -(-rows // self.batch_size) >= FAR_APART
        return DEFAULT_PATIENCE if self.patience is None and far else self.patience

    @property
    def encoder_operations(self) -> float:
        """Operations of the encoder's forward and backward pass on a row; 0 where the classifiers' outweigh them."""
        return 0.0

    @property
    def row_bytes(self) -> int:
        """Memory of a row in the encoder's forward and backward pass."""
        return 24 * self.features

    def operations(self, rows: int, labels: int) -> float:
        """Count the operations of the classifiers in one epoch.

        Args:
            rows: of the training set.
            labels: that each row is compared with.

        Returns:
            Their number.
        """
        steps = -(-rows // self.batch_size)
        return 6.0 * labels * self.features * (rows + steps * self.layers * self.features)

    def against_all(self, rows: int, labels: int) -> bool:
        """Resolve `loss_over`.

        Args:
            rows: of the training set.
            labels: of the label set.

        Returns:
            Whether every row is compared with every label.
        """
        if self.loss_over != "auto":
            return self.loss_over == "all"
        return self.epochs * self.operations(rows, labels) <= ALL * (50 if _fast() else 1)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`. Word vectors and classifiers with Adam's two moments; six operations a weight and row."""
        words = min(facts.terms, WORDS)
        tokens = min(1.5 * facts.terms_per_row + 2, self.max_tokens)
        everything = self.against_all(facts.rows, facts.labels)
        compared = facts.labels if everything else min(facts.labels, 40 * self.batch_size + self.random_negatives)
        word_bytes, label_bytes = 12 * words * self.dimension, 12 * facts.labels * self.features
        kept = 4 * (words * self.dimension + facts.labels * self.features)  # a copy of the best weights
        texts = int(24 * facts.rows * tokens + (32 * facts.labels * facts.terms_per_label if self.layers else 0))
        # A step holds the rows in the encoder; nets with label texts also the labels' bags and the words' gradients.
        step = self.batch_size * self.row_bytes
        if self.layers:
            step += 8 * self.dimension * (words + 2 * compared)
        speed = _speed()
        steps = self.epochs * -(-facts.rows // self.batch_size)
        work = self.epochs * (self.operations(facts.rows, compared) + facts.rows * self.encoder_operations)
        return Plan(
            train_bytes=word_bytes + label_bytes + kept + texts + step + BASE,
            model_bytes=kept + 64 * facts.labels,
            train_seconds=work / speed + steps * (0.002 if _fast() else 0.02) + 5,
            predict_seconds=1000 * 2 * self.features * facts.labels / speed + 0.05,
            steps=(
                ("word vectors and moments", word_bytes),
                ("classifiers and moments", label_bytes),
                ("best weights", kept),
                ("a step", step),
            ),
        )

    def label_texts(self, data: Dataset) -> tuple[str, ...]:
        """Read the texts of the labels.

        Args:
            data: with the label set.

        Returns:
            One text for each label; a label without one has the empty text.

        Raises:
            DataError: no label has a text.
        """
        labels = data.labels
        if not labels.has_texts:
            raise DataError(
                f"{self.name} reads the texts of labels, and they have none: add them to labels.jsonl, or use astec"
            )
        return labels.texts_with_names


@dataclass(frozen=True)
class TextNet:
    """Mixin of nets that read the texts of labels."""

    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})


@dataclass(frozen=True)
class GraphNet:
    """Mixin of nets with a label graph: the labels that random walks over documents reach from each label."""

    walk_steps: int = 400  # steps from each label
    restart: float = 0.8  # probability to return to the label before the next step
    neighbours: int = 10  # labels that are kept for each label
    walk_max_count: int = 500  # labels with more documents are left out of the walks


@dataclass(frozen=True)
class Convolutions:
    """Mixin of nets that slide convolutions along word vectors."""

    dimension: int = 300  # of the word vectors, a multiple of 4
    max_words: int = 32  # words of a text; the rest is cut off
    channels: int = 32  # of each convolution
    dropout: float = 0.25  # inside the net
    feature_dropout: float = 0.5  # on the features
    meta_labels: bool = True  # train classifiers of label clusters beside those of labels
    meta_only_share: float = 0.2  # share of the epochs in which the encoder learns from clusters alone
    beam: int = 100  # clusters of a document whose labels are in the pool

    @property
    def body(self) -> dict[str, Any]:
        """Settings of the encoder for `build_encoder`, without the vocabulary."""
        return {
            "kind": "inception", "vectors": self.dimension, "places": self.max_words, "channels": self.channels,
            "dropout": self.dropout, "last": self.feature_dropout,
        }  # fmt: skip

    @property
    def features(self) -> int:
        """Dimension of the vector that the classifiers take: two strides of 4 along a word vector, times channels."""
        return self.channels * ((self.dimension // 4 - 16) // 4 + 1)

    @property
    def encoder_operations(self) -> float:
        """As in `ShallowSettings`: attention over the dimensions, the convolutions, and the layer over the features."""
        return 6.0 * (
            1.25 * self.max_words * self.dimension**2 + 12 * self.dimension * self.channels**2 + self.features**2
        )

    @property
    def row_bytes(self) -> int:
        """As in `ShallowSettings`: about twenty arrays of (words, dimension)."""
        return 80 * self.max_words * self.dimension


def _fast() -> bool:
    return Path("/dev/nvidia0").exists()


@cache
def _speed() -> float:
    """Operations of matrix products in a second: on a GPU, on a CPU with bf16 products, on another CPU."""
    if _fast():
        return 3e13
    try:
        return 2e11 if "avx512_bf16" in Path("/proc/cpuinfo").read_text() else 6e10
    except OSError:
        return 6e10
