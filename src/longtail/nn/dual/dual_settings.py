"""The settings that all dual encoders share. Loads no torch, so recipes parse without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError, RecipeError
from longtail.nn.encoders.encoder_names import SCRATCH, check_encoder
from longtail.nn.extra import real_name, require
from longtail.plan import DataFacts, Plan

NAMED = 5  # labels named in an error
Search = Literal["auto", "exact", "approximate"]
SEARCHES: tuple[str, ...] = get_args(Search)


@dataclass(frozen=True)
class DualEncoderSettings:
    """One encoder reads documents and labels; a document's labels are the nearest by cosine."""

    encoder: str = "auto"  # minilm, bag, gru, tiny, a folder or owner/name; auto: minilm where installed, else bag
    dimension: int | None = None  # of the vectors; none: the encoder's own width
    search_dimension: int | None = None  # numbers of a vector that are searched and saved, from the first; none: all
    search: Search = "auto"  # auto: exact, unless a single text would wait too long among so many labels
    max_tokens: int = 64  # tokens of a text that are read
    anchors: Literal["documents", "labels"] = "documents"  # rows of the loss, each with one drawn positive
    batch_size: int = 1024
    epochs: int = 30
    learning_rate: float | None = None  # of AdamW; none: 2e-4, or 2e-3 if randomly initialised
    warmup: float = 0.1  # share of the steps in which the learning rate rises
    schedule: Literal["linear", "cosine", "none"] = "linear"
    temperature: float = 0.05
    frequency_weight: float = 0.0  # weight of a label's training frequency in its score; 1: as fitted on valid
    weight_decay: float = 0.01
    max_gradient_norm: float | None = 1.0
    dropout: float | None = None  # none: the encoder's own
    accumulation_steps: int = 1  # batches per step
    mini_batch_size: int | None = None  # texts whose activations are in memory at once; gradients do not change
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on a GPU
    compile: bool = False  # compile the encoder for this machine; pays on long runs
    validate_every: int = 5  # epochs between two validations
    patience: int | None = None  # validations without a better P@1 before training stops; none: never
    ids_as_text: bool = False  # read the id of a label that has no text
    seed: int = 0

    random_init_learning_rate: ClassVar[float] = 2e-3
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "label_tower"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})

    def __post_init__(self) -> None:
        lowest = {
            "max_tokens": 3, "batch_size": 2, "epochs": 1, "accumulation_steps": 1, "mini_batch_size": 1,
            "validate_every": 0, "patience": 1, "dimension": 1, "search_dimension": 1,
        }  # fmt: skip
        for name, bound in lowest.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise RecipeError(f"setting '{name}' of {self.name} is at least {bound}, got {value}")
        if self.dimension is not None and (self.search_dimension or 0) > self.dimension:
            raise RecipeError(
                f"setting 'search_dimension' of {self.name} cuts vectors of dimension {self.dimension}, "
                f"got {self.search_dimension}"
            )
        for name in ("learning_rate", "temperature", "max_gradient_norm"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RecipeError(f"setting '{name}' of {self.name} is above 0, got {value:g}")
        for name in ("warmup", "dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1), got {value:g}")
        if not 0 <= self.frequency_weight <= 1:
            raise RecipeError(
                f"setting 'frequency_weight' of {self.name} lies in [0, 1], got {self.frequency_weight:g}"
            )
        if self.seed < 0 or self.weight_decay < 0:
            raise RecipeError(f"settings 'seed' and 'weight_decay' of {self.name} are not below 0")
        if self.ids_as_text:  # then labels without texts are fine
            object.__setattr__(self, "data_needs", frozenset({"texts"}))

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def check(self, data: Dataset) -> None:
        """Refuse what training could not use: a missing extra, an unknown encoder, labels without texts.

        Args:
            data: the training rows.

        Raises:
            MissingExtra: torch or the encoder's package is not installed.
            DataError: there is no such encoder, or a label has no text.
        """
        require(self.name)
        check_encoder(self.encoder)
        self._check_label_texts(data.labels)

    def label_texts(self, labels: LabelSet) -> tuple[str, ...]:
        """What the encoder reads for each label.

        Args:
            labels: with their texts.

        Returns:
            (labels,) texts, or ids where `ids_as_text` and a label has no text.

        Raises:
            DataError: a label has no text.
        """
        self._check_label_texts(labels)
        texts = list(labels.texts_with_names)
        for row in labels.without_text:
            texts[row] = labels.ids[row]
        return tuple(texts)

    def _check_label_texts(self, labels: LabelSet) -> None:
        bare = labels.without_text
        if not bare or self.ids_as_text:
            return
        named = ", ".join(repr(labels.ids[row]) for row in bare[:NAMED]) + (", ..." if len(bare) > NAMED else "")
        raise DataError(
            f"{self.name} reads the texts of labels, and {len(bare)} of {len(labels)} labels have none ({named}): add "
            f"them to labels.jsonl, read ids instead with {self.name}(ids_as_text=true), or drop these labels"
        )

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`. From the encoder's size: weights, gradients and AdamW's two moments; six operations per
        weight and token; each step reads or writes all weights some ten times."""
        size = Size.of(self.encoder, self.dimension, facts)
        row_tokens = min(1.5 * facts.terms_per_row + 2, self.max_tokens)
        label_tokens = min(1.5 * facts.terms_per_label + 2, self.max_tokens)
        held = min(self.mini_batch_size or self.batch_size, facts.rows) * (row_tokens + label_tokens)
        activations = int(held * size.width * (4 + 70 * size.layers))
        vectors = 4 * size.width * facts.labels
        searched = min(self.search_dimension or size.width, size.width)
        fast = Path("/dev/nvidia0").exists()
        speed, memory = (5e13, 1e12) if fast else (5e10, 8e9)  # operations and bytes a second
        steps = self.epochs * -(-facts.rows // self.batch_size)
        work = 6 * size.met * self.epochs * facts.rows * (row_tokens + label_tokens)
        return Plan(
            train_bytes=int(16 * size.weights + activations + 8 * facts.rows * row_tokens + 2 * vectors + 500_000_000),
            model_bytes=int(4 * size.weights + 4 * searched * facts.labels + 60 * facts.labels),
            train_seconds=work / speed + steps * (40 * size.weights / memory + 0.01) + 10,
            predict_seconds=1000 * (2 * size.met * row_tokens + 2 * searched * facts.labels) / speed + 0.05,
            steps=(
                ("weights and optimiser", 16 * size.weights),
                ("activations", activations),
                ("label vectors", vectors),
            ),
        )


@dataclass(frozen=True)
class Size:
    """The size of an encoder, estimated from its name: a folder or a hub name counts as all-MiniLM-L6-v2."""

    weights: int  # in all
    met: int  # weights that each token is multiplied with
    width: int  # of a vector
    layers: int

    @classmethod
    def of(cls, encoder: str, dimension: int | None, facts: DataFacts) -> Size:
        """The size of an encoder by its name.

        Args:
            encoder: the setting `encoder`.
            dimension: the setting `dimension`.
            facts: of the data, whose vocabulary a randomly initialised encoder learns.

        Returns:
            The estimate.
        """
        words, encoder = min(facts.terms, 100_000), real_name(encoder)
        if encoder in ("bag", "gru"):
            width = dimension or 512
            met = width if encoder == "bag" else 3 * width**2
            return cls(words * width + met, met, width, 0 if encoder == "bag" else 1)
        layers, width, _ = SCRATCH.get(encoder, (6, 384, 12))
        met = 12 * layers * width**2
        return cls((words if encoder in SCRATCH else 31_000) * width + met, met, dimension or width, layers)
