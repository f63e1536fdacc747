"""The settings that every frugal net shares. Loads no torch, so that a recipe can be read without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import DataError, RecipeError
from longtail.nn.extra import at_home, require
from longtail.plan import Facts, Plan
from longtail.seams import Scorer

WORDS = 100_000  # most different words
ALL = 2e15  # operations that comparing every row with every label may take in auto: hours on a processor
BASE = 500_000_000  # bytes that torch holds before anything else
WAITS = 3  # looks that are no better that end a training: nets learn by fits and starts
NARROWEST = 64  # word vectors that convolutions can slide along
LEAST = {"places": 1, "channels": 1, "beam": 0, "walk": 1, "neighbours": 0, "common": 0}  # of nets that have them
FAR = 200  # steps between two looks at valid of which one may end a training


@dataclass(frozen=True)
class FrugalSettings:
    """Word vectors, a small encoder, and a classifier a label."""

    dimension: int = 512  # of the word vectors
    vectors: str | None = None  # a file of word vectors to begin at: text with a word a line (GloVe), or .npy
    longest: int = 64  # tokens of a text that are read
    batch: int = 512
    epochs: int = 20
    rate: float = 5e-3  # of Adam, for word vectors, layers and classifiers
    dropout: float = 0.5
    warmup: float = 0.05  # share of the steps in which the rate rises
    decay: Literal["linear", "cosine", "none"] = "linear"
    head_decay: float = 0.01  # of the classifiers: a step takes rate x this share
    compare: Literal["auto", "all", "pool"] = "auto"  # a row with all labels, or with a pool of hard ones
    cluster: int = 8  # labels of a cluster, where there are clusters
    random: int = 1000  # labels of a pool that are drawn at random
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # of large products; auto: bf16 where that is faster
    measure_every: int = 5  # epochs between two looks at valid
    keep: Literal["P@1", "PSP@5", "both"] = "P@1"  # what the look that is kept is best in; both: in their mean
    patience: int | None = None  # looks that are no better before it stops; none: 3, if they are far apart
    seed: int = 0

    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts"})
    scorer: ClassVar[type[Scorer]]

    def __post_init__(self) -> None:
        least = {"dimension": 1, "longest": 3, "batch": 1, "epochs": 1, "cluster": 1, "random": 0, "measure_every": 0,
                 "patience": 1, **LEAST}  # fmt: skip
        for name, bound in least.items():
            value = getattr(self, name, None)
            if value is not None and value < bound:
                raise RecipeError(f"setting '{name}' of {self.name} is at least {bound}, got {value}")
        if self.rate <= 0:
            raise RecipeError(f"setting 'rate' of {self.name} is above 0, got {self.rate:g}")
        for name in ("dropout", "warmup", "last_dropout"):
            if not 0 <= getattr(self, name, 0) < 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1), got {getattr(self, name):g}")
        for name in ("alone", "restart"):
            if not 0 <= getattr(self, name, 0) <= 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1], got {getattr(self, name):g}")
        if self.seed < 0:
            raise RecipeError(f"setting 'seed' of {self.name} is at least 0, got {self.seed}")
        if not 0 <= self.head_decay * self.rate < 1:
            raise RecipeError(
                f"a step of {self.name} takes the share head_decay x rate of a classifier, which lies in [0, 1), got "
                f"{self.head_decay:g} x {self.rate:g}"
            )
        if isinstance(self, Convolutions) and (self.dimension < NARROWEST or self.dimension % 4):
            raise RecipeError(
                f"setting 'dimension' of {self.name} is at least {NARROWEST} and a multiple of 4, as convolutions "
                f"slide along word vectors in steps of 4, got {self.dimension}"
            )
        if self.vectors is not None and not at_home(self.vectors).is_file():
            raise RecipeError(f"setting 'vectors' of {self.name}: there is no file {self.vectors!r}")

    def check(self, data: Dataset) -> None:
        """Whether it can be trained here."""
        require(self.name)

    @property
    def name(self) -> str:
        return type(self).__name__.lower().replace("xmllf", "xml-lf")  # as recipes write it

    @property
    def features(self) -> int:
        """Of the vector that the classifiers see."""
        return self.dimension

    @property
    def layers(self) -> float:
        """Products with a (features, features) matrix that a label takes in each step, besides its scores."""
        return 0.0

    def stops_after(self, rows: int) -> int | None:
        """Looks that are no better, at most. Where few steps lie between two of them, one that is no better says
        little, and a training is short anyway."""
        far = self.measure_every * -(-rows // self.batch) >= FAR
        return WAITS if self.patience is None and far else self.patience

    @property
    def reading(self) -> float:
        """Operations of the encoder on a row and back, where they count beside those of the classifiers."""
        return 0.0

    @property
    def row_bytes(self) -> int:
        """What a step holds of a row while it reads it."""
        return 24 * self.features

    def operations(self, rows: int, labels: int) -> float:
        """Of the classifiers in one epoch, when every row is compared with every label."""
        steps = -(-rows // self.batch)
        return 6.0 * labels * self.features * (rows + steps * self.layers * self.features)

    def against_all(self, rows: int, labels: int) -> bool:
        """Whether every row is compared with every label."""
        if self.compare != "auto":
            return self.compare == "all"
        return self.epochs * self.operations(rows, labels) <= ALL * (50 if _fast() else 1)

    def plan(self, facts: Facts) -> Plan:
        """Word vectors and classifiers with Adam's two means; six operations a weight and row."""
        words = min(facts.terms, WORDS)
        tokens = min(1.5 * facts.terms_per_row + 2, self.longest)
        everything = self.against_all(facts.rows, facts.labels)
        met = facts.labels if everything else min(facts.labels, 40 * self.batch + self.random)
        word_bytes, label_bytes = 12 * words * self.dimension, 12 * facts.labels * self.features
        kept = 4 * (words * self.dimension + facts.labels * self.features)  # the best so far
        texts = int(24 * facts.rows * tokens + (32 * facts.labels * facts.terms_per_label if self.layers else 0))
        # A step's own: what it reads rows by, and where labels are read by their texts, those and the words' gradients.
        step = self.batch * self.row_bytes
        if self.layers:
            step += 8 * self.dimension * (words + 2 * met)
        speed = _speed()
        steps = self.epochs * -(-facts.rows // self.batch)
        work = self.epochs * (self.operations(facts.rows, met) + facts.rows * self.reading)
        return Plan(
            train_bytes=word_bytes + label_bytes + kept + texts + step + BASE,
            model_bytes=kept + 64 * facts.labels,
            train_seconds=work / speed + steps * (0.002 if _fast() else 0.02) + 5,
            predict_seconds=1000 * 2 * self.features * facts.labels / speed + 0.05,
            steps=(
                ("word vectors and means", word_bytes),
                ("classifiers and means", label_bytes),
                ("the best", kept),
                ("a step", step),
            ),
        )

    def label_texts(self, data: Dataset) -> tuple[str, ...]:
        """What stands for each label; one without a text is read as nothing."""
        labels = data.labels
        if not labels.has_texts:
            raise DataError(
                f"{self.name} reads the texts of labels, and they have none: add them to labels.jsonl, or use astec"
            )
        return tuple(labels.texts)


@dataclass(frozen=True)
class TextNet:
    """A net that reads the texts of labels."""

    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})


@dataclass(frozen=True)
class GraphNet:
    """A net with a graph of labels: which ones random walks over rows and labels reach from each."""

    walk: int = 400  # steps from each label
    restart: float = 0.8  # chance to be back at the label before the next step
    neighbours: int = 10  # labels that are kept for each
    common: int = 500  # labels of more rows are left out of the walks


@dataclass(frozen=True)
class Convolutions:
    """A net that slides convolutions along word vectors."""

    dimension: int = 300  # of the word vectors, a multiple of 4
    places: int = 32  # words of a text that are read
    channels: int = 32  # of each convolution
    dropout: float = 0.25  # inside the net
    last_dropout: float = 0.5  # on the features
    meta: bool = True  # classifiers of clusters beside those of labels
    alone: float = 0.2  # share of the epochs in which the encoder learns from clusters alone
    beam: int = 100  # clusters of a row whose labels stand in the pool

    @property
    def body(self) -> dict[str, Any]:
        return {
            "kind": "inception", "vectors": self.dimension, "places": self.places, "channels": self.channels,
            "dropout": self.dropout, "last": self.last_dropout,
        }  # fmt: skip

    @property
    def features(self) -> int:
        """Two strides of 4 along a word vector, with as many channels."""
        return self.channels * ((self.dimension // 4 - 16) // 4 + 1)

    @property
    def reading(self) -> float:
        """Attention over the dimensions of a word, the windows, and the layer over the features."""
        return 6.0 * (
            1.25 * self.places * self.dimension**2 + 12 * self.dimension * self.channels**2 + self.features**2
        )

    @property
    def row_bytes(self) -> int:
        """Some twenty arrays of all its places."""
        return 80 * self.places * self.dimension


def _fast() -> bool:
    return Path("/dev/nvidia0").exists()


@cache
def _speed() -> float:
    """Operations of matrix products in a second: of a GPU, of a processor that multiplies bf16, of another one."""
    if _fast():
        return 3e13
    try:
        return 2e11 if "avx512_bf16" in Path("/proc/cpuinfo").read_text() else 6e10
    except OSError:
        return 6e10
