"""What every fit that trains an encoder shares: checks, tokens, checkpoint identity, validation, calibration.

A fit leads from the texts of a data set to the scorer that a model keeps. `EncoderFit` holds what does not depend on
the task; a subclass builds the task, trains it, and makes the scorer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
import torch

from longtail.arrays import AnyArray, Bools, Floats, Ints
from longtail.data.dataset import Dataset
from longtail.data.subsample import evenly_spaced
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.metrics.evaluate import evaluate
from longtail.nn.encoders.build import Encoder
from longtail.nn.encoders.encode import encode
from longtail.nn.encoders.encoder_names import RANDOM_INIT
from longtail.nn.encoders.text_encoder import normalised
from longtail.nn.encoders.tokenizers import TextTokenizer
from longtail.nn.encoders.tokens import Tokens, tokenise
from longtail.nn.training.checkpoint import checkpoint_folder, training_identity
from longtail.nn.training.loop import TrainingConfig
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import PenalisesRows, TailMethod

VALIDATION_ROWS = 4000  # valid rows that each validation scores: P@1 within a point
CALIBRATION_ROWS = 2000  # valid rows that Platt scaling is fitted on
MAX_SPARE = 50  # candidates asked for beyond k, to make up for excluded pairs


class EncoderSettings(Protocol):
    """The settings that all learners with an encoder have."""

    @property
    def name(self) -> str:
        """Of the learner."""

    @property
    def max_tokens(self) -> int:
        """Tokens of a text; the rest is cut off."""

    @property
    def warmup(self) -> float:
        """Share of the steps in which the learning rates rise from 0."""

    @property
    def schedule(self) -> Literal["linear", "cosine", "none"]:
        """How the learning rates fall afterwards."""

    @property
    def validate_every(self) -> int:
        """Epochs between two validations."""

    @property
    def patience(self) -> int | None:
        """Validations without a gain before training stops; None: it does not."""

    @property
    def seed(self) -> int:
        """Of all random numbers."""


class CalibratedScorer(Protocol):
    """A scorer, as a dataclass, that turns products into probabilities by Platt scaling."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def calibration(self) -> PlattScaling:
        """From products to probabilities."""

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """Find the labels nearest to vectors.

        Args:
            vectors: (rows, dimension).
            k: labels of a vector.

        Returns:
            Labels (rows, k), best first, and their scores before calibration.
        """


ScorerType = TypeVar("ScorerType", bound=CalibratedScorer)


@dataclass(eq=False)
class EncoderFit(ABC):
    """An encoder in training, its tokenizer, and the data it is trained and validated on.

    A subclass adds the tokens and modules of its task, and two hooks: `token_arrays`, which identify the data in a
    checkpoint, and `validate`.
    """

    settings: EncoderSettings  # a dataclass
    train: Dataset
    valid: Dataset
    parts: tuple[TailMethod, ...]
    encoder: Encoder
    tokenizer: TextTokenizer
    device: torch.device

    @abstractmethod
    def token_arrays(self) -> tuple[AnyArray, ...]:
        """The token ids and offsets of all texts that are trained on."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Measures on the held-out rows, in percent, with the weights as they are now."""

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are read."""
        return max_tokens_of(self.settings, self.encoder)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint of this training belongs to: recipe, settings, tokenizer and data."""
        own = self.settings
        return training_identity(
            own.name, own, self.parts, self.tokenizer.hash, self.token_arrays(), self.train.targets
        )

    def row_penalties(self) -> tuple[Any, ...]:
        """The penalties that tail methods put on free classifiers: one `Penalty` each."""

        def no_texts() -> Floats:
            raise AssertionError("a penalty that needs label texts asks for row_penalties")

        makers = [part for part in self.parts if isinstance(part, PenalisesRows)]
        labels = (0, len(self.train.labels))
        return tuple(part.penalty(self.train, labels, no_texts, self.settings.seed) for part in makers)

    def training_config(self, epochs: int, **changes: Any) -> TrainingConfig:
        """The training loop's configuration, from the settings that all learners share.

        Args:
            epochs: passes over the training rows.
            **changes: fields of `TrainingConfig` that differ from the shared settings or their defaults.

        Returns:
            The configuration.
        """
        own = self.settings
        shared = TrainingConfig(
            epochs=epochs,
            warmup=own.warmup,
            schedule=own.schedule,
            validate_every=own.validate_every,
            patience=own.patience,
            seed=own.seed,
        )
        return replace(shared, **changes)

    def encode_tokens(self, tokens: Tokens, what: str) -> Floats:
        """Vectors of texts by the encoder as it is now.

        Args:
            tokens: of the texts.
            what: what the texts are, for the progress line.

        Returns:
            (texts, dimension) float32, not normalised.
        """
        return encode(self.encoder, tokens, longest=self.max_tokens, what=what)

    @cached_property
    def held_out(self) -> tuple[Dataset, Tokens]:
        """The valid rows that validations score, and their tokens."""
        rows = self.valid.take(evenly_spaced(len(self.valid), VALIDATION_ROWS))
        return rows, tokenise(rows.texts or (), self.tokenizer, self.max_tokens, what="valid texts")

    def text_vectors(self) -> Floats:
        """Unit vectors of the labels' texts by the encoder as it is now.

        Returns:
            (labels, dimension).

        Raises:
            DataError: the labels have no texts.
        """
        labels = self.train.labels
        if not labels.has_texts:
            raise DataError(
                f"{self.settings.name} starts or regularises classifiers by the texts of labels, and they have none: "
                "add them to labels.jsonl, or use a recipe that does not read them"
            )
        texts = [text or name for text, name in zip(labels.texts_with_names, labels.ids, strict=True)]
        tokens = tokenise(texts, self.tokenizer, self.max_tokens, what="labels")
        return normalised(self.encode_tokens(tokens, "labels"))

    def held_out_vectors(self) -> Floats:
        """(held-out rows, dimension): the held-out rows by the encoder as it is now, not normalised."""
        return self.encode_tokens(self.held_out[1], "valid texts")

    @property
    def evaluation(self) -> Callable[[], dict[str, float]] | None:
        """`validate`, for a task to call; None where there are no valid rows."""
        return self.validate if len(self.valid) else None

    def measure(
        self, find: Callable[[int], tuple[Ints, Floats]], names: Sequence[str] = ("P@1", "PSP@1")
    ) -> dict[str, float]:
        """Measures of predictions for the held-out rows. Excluded pairs do not count.

        Args:
            find: given k, the k best labels of each held-out row (rows, k) and their scores.
            names: of the measures, such as "PSP@5".

        Returns:
            Each measure in percent.
        """
        rows, _ = self.held_out
        ks = tuple(sorted({int(name.partition("@")[2]) for name in names}))
        excluded = 0 if rows.excluded is None else int(np.diff(rows.excluded.indptr).max(initial=0))
        found = Predictions(rows.labels, *find(max(ks) + min(excluded, MAX_SPARE)))
        figures = evaluate(found, rows, ks=ks)
        return {name: figures[name] for name in names}

    def calibrated(
        self,
        scorer: ScorerType,
        queries: Callable[[Sequence[str], str], Floats],
        fuse: Callable[[ScorerType, Dataset, Floats], ScorerType] | None = None,
    ) -> ScorerType:
        """The scorer with Platt scaling fitted on valid rows; unchanged where there are none.

        Args:
            scorer: with the calibration to use where valid has too few hits.
            queries: given texts and what they are, the vectors that `scorer.nearest` takes.
            fuse: learns other parts of the scorer from the same valid rows and their vectors, before the calibration.

        Returns:
            The scorer with probabilities as scores.
        """
        return calibrated_on(self.valid, scorer, queries, fuse)


def calibrated_on(
    valid: Dataset,
    scorer: ScorerType,
    queries: Callable[[Sequence[str], str], Floats],
    fuse: Callable[[ScorerType, Dataset, Floats], ScorerType] | None = None,
) -> ScorerType:
    """Fit Platt scaling.

    Args:
        valid: held-out rows; there may be none.
        scorer: see `EncoderFit.calibrated`, as the next two.
        queries: makes the vectors of texts.
        fuse: learns other parts of the scorer.

    Returns:
        The scorer with probabilities as scores; unchanged where there are no rows.
    """
    if len(valid) == 0:
        return scorer
    with stage("calibrating scores"):
        rows = valid.take(evenly_spaced(len(valid), CALIBRATION_ROWS))
        vectors = queries(rows.texts or (), "valid texts")
        if fuse is not None:
            scorer = fuse(scorer, rows, vectors)
        near, hits, counted = judge_candidates(scorer, vectors, rows)
        return replace(scorer, calibration=scorer.calibration.fitted(near.scores[counted], hits))


def judge_candidates(scorer: CalibratedScorer, vectors: Floats, rows: Dataset) -> tuple[Predictions, Bools, Bools]:
    """The best candidates of some rows, and which of them are right.

    Args:
        scorer: finds the candidates.
        vectors: (rows, dimension) of these rows.
        rows: with targets; their excluded pairs do not count.

    Returns:
        The candidates with their scores, whether each counted candidate is right (counted,), and which candidates
        are counted (rows, candidates of a row).
    """
    near = Predictions(rows.labels, *scorer.nearest(vectors, min(CANDIDATES, len(rows.labels))))
    counted = near.indices >= 0
    if rows.excluded is not None:
        counted &= ~near.hits(rows.excluded)
    return near, near.hits(rows.targets)[counted], counted


def max_tokens_of(settings: EncoderSettings, encoder: Encoder) -> int:
    """Tokens of a text that are read.

    Args:
        settings: with the limit that was asked for.
        encoder: which may have a lower limit of its own.

    Returns:
        The lower of the two limits.
    """
    return min(settings.max_tokens, encoder.max_tokens or settings.max_tokens)


def is_randomly_initialised(encoder: Encoder, name: str) -> bool:
    """Whether an encoder starts from random weights, and not from pretrained ones.

    Args:
        encoder: as it was built.
        name: the setting it was built from.

    Returns:
        True for a bag of words, which "auto" may mean, and for all names in `RANDOM_INIT`.
    """
    return encoder.settings["kind"] == "bag" or name in RANDOM_INIT


def training_texts(name: str, train: Dataset) -> Sequence[str]:
    """The texts to train on.

    Args:
        name: of the learner, for errors.
        train: the training rows.

    Returns:
        (rows,) texts.

    Raises:
        DataError: the rows have no texts, or none of them has a label.
    """
    if train.texts is None:
        raise DataError(f"{name} reads texts; the training examples have only features")
    if train.targets.nnz == 0:
        raise DataError(f"no example of train has a label, so {name} has nothing to learn from")
    return train.texts


def token_cache() -> Path | None:
    """Where the tokens of training texts are kept for the next run.

    Returns:
        A folder beside the checkpoints; None where no checkpoints are kept.
    """
    folder = checkpoint_folder()
    return None if folder is None else folder / "tokens"
