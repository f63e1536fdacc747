"""From texts to an encoder and the classifiers of a label tree: what such learners do around the task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from longtail.arrays import AnyArray, Floats, Ints, Longs
from longtail.data.dataset import Dataset
from longtail.errors import DataError
from longtail.linear.features.sparse_features import Features
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.linear.trees.label_clusters import label_vectors
from longtail.nn.encoder_fit import EncoderFit, is_randomly_initialised, max_tokens_of, token_cache, training_texts
from longtail.nn.encoders.build import Encoder, load_encoder, with_taps
from longtail.nn.encoders.device_tokens import DeviceTokens
from longtail.nn.encoders.tokens import Tokens, tokenise
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.label_tree.tree_settings import TreeNetSettings
from longtail.nn.label_tree.tree_task import TreeTask
from longtail.nn.onevsall.onevsall_task import TextReading
from longtail.nn.training.history import History
from longtail.nn.training.loop import train
from longtail.nn.training.precision import best_device
from longtail.progress import stage
from longtail.seams import TailMethod

# Of AdamW. Losses are means over all candidates of a batch, so the gradients of a label that is rarely right are below
# 1e-7; with 1e-6 here such a label would hardly move.
EPSILON = 1e-10
BATCH_BYTES = 1 << 28  # that a search may take for a batch


@dataclass(eq=False)
class TreeFit(EncoderFit):
    """An encoder and the classifiers of a tree in training. A subclass makes the classifiers and the scorer."""

    settings: TreeNetSettings
    documents: Tokens
    levels: LabelLevels
    heads: Any = None  # once `learn` has made them
    history: History | None = None

    @classmethod
    def begin(cls, settings: TreeNetSettings, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> Self:
        """Tree, tokens and encoder before training.

        Args:
            settings: of the learner.
            train: rows to train on.
            valid: rows to validate and calibrate on; may be empty.
            parts: tail methods of the recipe.

        Returns:
            A fit to train with `learn`.

        Raises:
            DataError: the rows have no texts or no labels, or an encoder cannot have this dimension.
        """
        texts = training_texts(settings.name, train)
        levels = cls.make_levels(settings, train)
        with stage("loading the encoder"):
            encoder, tokenizer = load_encoder(
                settings.encoder,
                settings.dimension,
                texts=(*texts, *filter(None, train.labels.texts_with_names)),
                dropout=settings.encoder_dropout,
                seed=settings.seed,
            )
            taps = cls.taps(settings, layers_of(encoder), levels)
            if taps:
                if encoder.projection is not None:
                    raise DataError(
                        f"{settings.name} reads several layers of a transformer at their own width: leave "
                        f"dimension={settings.dimension} out"
                    )
                encoder = with_taps(encoder, taps)
        device = best_device()
        documents = tokenise(texts, tokenizer, max_tokens_of(settings, encoder), token_cache(), what="documents")
        return cls(
            settings=settings,
            train=train,
            valid=valid,
            parts=parts,
            encoder=encoder.to(device),
            tokenizer=tokenizer,
            device=device,
            documents=documents,
            levels=levels,
        )

    @classmethod
    def make_levels(cls, settings: TreeNetSettings, train: Dataset) -> LabelLevels:
        """The tree.

        Args:
            settings: of the learner.
            train: rows to train on.

        Returns:
            Its levels.
        """
        return label_levels(settings, train)

    @classmethod
    def taps(cls, settings: TreeNetSettings, layers: int, levels: LabelLevels) -> tuple[int, ...]:
        """The layers of the encoder that are read, from 1; none: the last alone.

        Args:
            settings: of the learner.
            layers: of the encoder; 1 where it has only one vector.
            levels: the tree.

        Returns:
            The layers.
        """
        return ()

    @abstractmethod
    def make_heads(self) -> nn.Module:
        """The classifiers before training, on the CPU."""

    def reading(self, texts: DeviceTokens) -> Callable[[Longs], Any]:
        """How rows become what the classifiers see: vectors with a gradient.

        Args:
            texts: tokens of the training rows.

        Returns:
            A function of row numbers.
        """
        return TextReading(self.encoder, texts, self.settings.precision)

    @property
    def starts_at_texts(self) -> bool:
        """Whether the classifiers start from the vectors of label texts."""
        init = getattr(self.settings, "head_init", "random")
        pretrained = not is_randomly_initialised(self.encoder, self.settings.encoder)
        return bool(init == "texts" or (init == "auto" and pretrained and all(self.train.labels.texts)))

    def token_arrays(self) -> tuple[AnyArray, ...]:
        """See `EncoderFit.token_arrays`."""
        return self.documents.ids, self.documents.offsets

    @property
    def learning_rate(self) -> float:
        """Of the encoder: the setting, or one that suits its initial weights."""
        if self.settings.learning_rate is not None:
            return self.settings.learning_rate
        return 2e-3 if is_randomly_initialised(self.encoder, self.settings.encoder) else 1e-4

    def learn(self, epochs: int | None = None, task: Callable[..., TreeTask] = TreeTask, **changes: Any) -> None:
        """Train encoder and classifiers.

        Args:
            epochs: passes over the rows; None: the setting.
            task: makes the task.
            **changes: fields of the task that differ from the settings.
        """
        own = self.settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(own.seed)
            self.heads = self.make_heads().to(self.device)
        texts = DeviceTokens(self.documents, self.device, self.max_tokens)
        given: dict[str, Any] = {
            "encoder": self.encoder,
            "heads": self.heads,
            "read": self.reading(texts),
            "targets": self.train.targets,
            "node_of_label": self.levels.node_of_label,
            "batch_size": own.batch_size,
            "learning_rate": self.learning_rate,
            "head_learning_rate": own.head_learning_rate or own.head_factor * self.learning_rate,
            "device": self.device,
            "weight_decay": own.weight_decay,
            "head_weight_decay": own.head_weight_decay,
            "average_from": own.average_from,
            "average_every": own.average_every,
            "evaluate": self.evaluation,
            "penalties": self.row_penalties(),
            "seed": own.seed,
        }
        made = task(**given | changes)
        config = self.training_config(
            epochs or own.epochs,
            max_gradient_norm=own.max_gradient_norm,
            keep_best=made.average_from is None,
            epsilon=EPSILON,
        )
        self.history = train(made, config, self.identity())
        made.average.apply()

    def validate(self) -> dict[str, float]:
        """P@1 and PSP@1 of the held-out rows."""
        vectors = torch.from_numpy(self.held_out_vectors()).to(self.device)

        def find(k: int) -> tuple[Ints, Floats]:
            labels, scores = searched(self.heads, vectors, k, self.settings.batch_size)
            return labels, PlattScaling(1.0, 0.0).of(scores)

        return self.measure(find)


def searched(heads: Any, vectors: torch.Tensor, k: int, batch_size: int) -> tuple[Ints, Floats]:
    """The best labels of many vectors, a batch at a time.

    Args:
        heads: with `search`, and `row_bytes` that it takes for a row.
        vectors: (rows, dimension), on the device of the heads.
        k: labels of a row.
        batch_size: rows at once, or fewer where a row has so many candidates that the batch would exceed BATCH_BYTES.

    Returns:
        Labels (rows, k) int32 and log odds (rows, k) float32, best first.
    """
    step = max(min(batch_size, BATCH_BYTES // heads.row_bytes), 1)
    found = [heads.search(vectors[first : first + step], k) for first in range(0, len(vectors), step)]
    if not found:
        return np.zeros((0, k), dtype=np.int32), np.zeros((0, k), dtype=np.float32)
    labels = torch.cat([one[0] for one in found]).int().cpu().numpy()
    return labels, torch.cat([one[1] for one in found]).float().cpu().numpy()


def label_levels(settings: TreeNetSettings, train: Dataset) -> LabelLevels:
    """Cluster the labels by the words of their rows.

    Args:
        settings: of the learner.
        train: rows to train on.

    Returns:
        The tree.
    """
    _, rows = Features.learn(train)
    with stage("clustering labels"):
        vectors = label_vectors(train.targets, rows)
        return LabelLevels.build(
            vectors, settings.max_leaf_labels, settings.branches, settings.cluster_levels, settings.seed
        )


def layers_of(encoder: Encoder) -> int:
    """Layers of an encoder that can be read one by one.

    Args:
        encoder: any.

    Returns:
        Those of our own transformer; 1 for any other network.
    """
    return int(encoder.settings["layers"]) if encoder.settings["kind"] == "transformer" else 1
