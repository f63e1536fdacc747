"""From texts to a trained dual encoder: what all dual encoders do around their own loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from longtail.arrays import AnyArray, Floats, Ints, Longs
from longtail.data.dataset import Dataset
from longtail.errors import MissingExtra, RecipeError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.dual.dual_scorer import DualEncoderScorer
from longtail.nn.dual.dual_settings import DualEncoderSettings
from longtail.nn.dual.dual_task import DualEncoderTask, LabelTower, Loss
from longtail.nn.dual.mined_negatives import nearest_wrong
from longtail.nn.dual.pair_batches import Pairs
from longtail.nn.dual.score_fusion import ScoreFusion
from longtail.nn.encoder_fit import (
    EncoderFit,
    is_randomly_initialised,
    judge_candidates,
    max_tokens_of,
    token_cache,
    training_texts,
)
from longtail.nn.encoders.build import load_encoder
from longtail.nn.encoders.device_tokens import SHARE, DeviceTokens, free_bytes
from longtail.nn.encoders.encode import encode_to_device
from longtail.nn.encoders.text_encoder import TextEncoder, normalised
from longtail.nn.encoders.tokens import Tokens, tokenise
from longtail.nn.training.history import History
from longtail.nn.training.loop import TrainingConfig, train
from longtail.nn.training.precision import best_device
from longtail.nn.training.process_group import ProcessGroup
from longtail.progress import stage
from longtail.seams import MovesLabels, TailMethod
from longtail.search.device import normalise_
from longtail.search.exact import top_k

PRETRAINED_LEARNING_RATE = 2e-4  # of an encoder with pretrained weights, where the settings name none


@dataclass(eq=False)
class DualEncoderFit(EncoderFit):
    """A dual encoder in training: one encoder, the tokens of documents and labels, and a label tower where a tail
    method adds one."""

    settings: DualEncoderSettings
    documents: Tokens
    labels: Tokens
    tower: LabelTower | None = None
    history: History | None = None

    @classmethod
    def begin(
        cls, settings: DualEncoderSettings, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]
    ) -> DualEncoderFit:
        """Tokens, the untrained encoder and its label tower.

        Args:
            settings: of the learner.
            train: rows to train on.
            valid: rows to validate and calibrate on; may be empty.
            parts: tail methods of the recipe; those that move labels make the label tower.

        Returns:
            A fit to train with `learn`.

        Raises:
            DataError: a label or the rows have no text, or no row has a label.
            MissingExtra: approximate search is asked for without faiss.
            RecipeError: `search_dimension` is larger than the encoder's dimension.
        """
        label_texts = settings.label_texts(train.labels)
        texts = training_texts(settings.name, train)
        if settings.search == "approximate" and find_spec("faiss") is None:
            raise MissingExtra("faiss-cpu", "search", f"{settings.name}(search='approximate')")
        with stage("loading the encoder"):
            encoder, tokenizer = load_encoder(
                settings.encoder,
                settings.dimension,
                texts=(*texts, *label_texts),
                dropout=settings.dropout,
                seed=settings.seed,
            )
        if (settings.search_dimension or 0) > encoder.dimension:
            raise RecipeError(
                f"setting 'search_dimension' of {settings.name} is {settings.search_dimension}, and the vectors of "
                f"{settings.encoder} have {encoder.dimension} numbers: take fewer, or none for all"
            )
        device, cache, limit = best_device(), token_cache(), max_tokens_of(settings, encoder)
        ranks, both = ProcessGroup.here(), {"documents": texts, "labels": label_texts}
        with ranks.first_alone():
            documents, labels = (tokenise(given, tokenizer, limit, cache, what=what) for what, given in both.items())
        encoder = encoder.to(device)
        ranks.same(encoder)
        towers = cls(settings, train, valid, parts, encoder, tokenizer, device, documents, labels)
        towers.add_tower()
        return towers

    def add_tower(self) -> None:
        """Make the label tower where a tail method has one. It starts from the label texts' vectors as they are now."""
        for maker in (part for part in self.parts if isinstance(part, MovesLabels)):
            tower = maker.label_tower(self.train.labels, self.text_vectors(), self.label_means, self.settings.seed)
            self.tower = tower.to(self.device)

    @cached_property
    def learning_rate(self) -> float:
        """Of the encoder: the setting, or one that suits its initial weights."""
        own = self.settings
        if own.learning_rate is not None:
            return own.learning_rate
        random = is_randomly_initialised(self.encoder, own.encoder)
        return own.random_init_learning_rate if random else PRETRAINED_LEARNING_RATE

    def token_arrays(self) -> tuple[AnyArray, ...]:
        """See `EncoderFit.token_arrays`."""
        return self.documents.ids, self.documents.offsets, self.labels.ids, self.labels.offsets

    def training_config(self, epochs: int, **changes: Any) -> TrainingConfig:
        """See `EncoderFit.training_config`."""
        own = self.settings
        return super().training_config(
            epochs, max_gradient_norm=own.max_gradient_norm, accumulation_steps=own.accumulation_steps, **changes
        )

    def learn(self, loss: Loss, **more: Any) -> None:
        """Train the encoder, and the label tower where there is one.

        Args:
            loss: of a batch's scores.
            **more: fields of `DualEncoderTask`, such as its curriculum, its miner or another learning rate.
        """
        own, by_label = self.settings, self.settings.anchors == "labels"
        targets = self.train.targets
        documents, labels = self.resident
        more = {"epochs": own.epochs, "learning_rate": self.learning_rate} | more
        task = DualEncoderTask(
            encoder=self.encoder,
            row_texts=labels if by_label else documents,
            item_texts=documents if by_label else labels,
            pairs=Pairs(sparse.csr_array(targets.T) if by_label else targets),
            loss=loss,
            batch_size=own.batch_size,
            labels_are_rows=by_label,
            weight_decay=own.weight_decay,
            precision=own.precision,
            mini_batch_size=own.mini_batch_size,
            compiled=own.compile,
            seed=own.seed,
            tower=self.tower,
            encode_labels=self.text_vectors,
            evaluate=self.evaluation,
            ranks=ProcessGroup.here(),
            **more,
        )
        self.history = train(task, self.training_config(task.epochs), self.identity())

    @cached_property
    def resident(self) -> tuple[DeviceTokens, DeviceTokens]:
        """The tokens of documents and of labels, on the encoder's device where they fit."""
        documents, labels = (
            DeviceTokens(tokens, self.device, self.max_tokens) for tokens in (self.documents, self.labels)
        )
        return documents, labels

    def shaped(self, encoded: Floats) -> Floats:
        """The unit vectors that are compared.

        Args:
            encoded: (texts, dimension) from the encoder.

        Returns:
            (texts, dimension), or the dimension of a projection head where a subclass has one.
        """
        return normalised(encoded)

    def shaped_on_device(self, encoded: Tensor) -> Tensor:
        """The same as `shaped` on the encoder's device.

        Args:
            encoded: (texts, dimension); it is overwritten where the result has the same shape.

        Returns:
            As `shaped`.
        """
        normalised: Tensor = normalise_(encoded)
        return normalised

    def vectors_on_device(self, side: DeviceTokens, what: str) -> Tensor:
        """Unit vectors of one side's texts.

        Args:
            side: the documents or the labels.
            what: what the texts are, for the progress line.

        Returns:
            (texts, dimension) on the encoder's device; on the host where they would take too much of its memory.
        """
        if 4 * self.encoder.dimension * len(side.tokens) > SHARE * free_bytes(self.device):
            return torch.from_numpy(self.shaped(self.encode_tokens(side.tokens, what)))
        return self.shaped_on_device(encode_to_device(self.encoder, side, what=what))

    def text_vectors(self) -> Floats:
        """(labels, dimension): unit vectors of the labels' texts."""
        return self.shaped(self.encode_tokens(self.labels, "labels"))

    def label_vectors(self) -> Floats:
        """(labels, dimension): unit vectors of the labels' texts, moved by the label tower."""
        vectors: Floats = self._after_tower(torch.from_numpy(self.text_vectors())).cpu().numpy()
        return vectors

    @torch.no_grad()
    def _after_tower(self, texts: Tensor) -> Tensor:
        if self.tower is None:
            return texts
        return self.tower.vectors(torch.arange(len(texts), device=self.device), texts.to(self.device)).float()

    def searched(self, vectors: Floats) -> Floats:
        """Vectors as they are searched: cut to `search_dimension` and normalised again.

        Args:
            vectors: (rows, dimension) unit vectors.

        Returns:
            (rows, search_dimension) unit vectors.
        """
        cut = self.settings.search_dimension
        return vectors if cut is None else normalised(vectors[:, :cut])

    def document_vectors(self) -> Floats:
        """(documents, dimension): unit vectors of the training documents."""
        return self.shaped(self.encode_tokens(self.documents, "documents"))

    def label_means(self) -> Floats:
        """(labels, dimension): the mean direction of each label's documents; its text's where it has none."""
        weights = self.train.targets.T.tocsr()
        means = normalised(weights @ self.document_vectors())
        bare = np.diff(weights.indptr) == 0
        if bare.any():
            means[bare] = self.text_vectors()[bare]
        return means

    def mine(self, shortlist: int, documents: Tensor | None = None) -> Longs:
        """Hard negatives: the nearest items of each row that are none of its positives, by the encoder as it is now.

        Args:
            shortlist: negatives of a row, at most.
            documents: (documents, dimension) unit vectors; encoded here where they are not given.

        Returns:
            (rows, shortlist) items, -1 where a row has fewer.
        """
        rows = self.vectors_on_device(self.resident[0], "documents") if documents is None else documents
        items, targets = self._after_tower(self.vectors_on_device(self.resident[1], "labels")), self.train.targets
        if self.settings.anchors == "labels":
            rows, items, targets = items, rows, sparse.csr_array(targets.T)
        return nearest_wrong(rows, items, targets, shortlist, self.device)

    def validate(self) -> dict[str, float]:
        """P@1 and PSP@1 of the held-out rows."""
        queries = self.searched(normalised(self.held_out_vectors()))
        return self.measure_labels(queries, self.searched(self.label_vectors()))

    def measure_labels(self, queries: Floats, labels: Floats) -> dict[str, float]:
        """P@1 and PSP@1 of the held-out rows, where labels are found by these vectors.

        Args:
            queries: (held-out rows, dimension).
            labels: (labels, dimension).

        Returns:
            Each measure in percent.
        """

        def find(k: int) -> tuple[Ints, Floats]:
            return top_k(queries, labels, k, device=str(self.device))

        return self.measure(find)

    def scorer(self, classifiers: Floats | None = None) -> DualEncoderScorer:
        """The trained model, fused and calibrated on valid.

        Args:
            classifiers: (labels, search dimension) unit vectors from `learn_classifiers`.

        Returns:
            A scorer with one vector per label.
        """
        own = self.settings
        encoder = TextEncoder.of(self.encoder, self.tokenizer, self.max_tokens, own.search_dimension)
        texts = self.searched(self.label_vectors())
        uncalibrated = DualEncoderScorer(
            encoder,
            texts if classifiers is None else classifiers,
            initial_calibration(own.temperature),
            moved=self.tower is not None,
            search=own.search,
        )

        def fuse(scorer: DualEncoderScorer, rows: Dataset, vectors: Floats) -> DualEncoderScorer:
            return self._fused(scorer, rows, vectors, texts, classifiers)

        return self.calibrated(uncalibrated, encoder.vectors, fuse)

    def _fused(
        self, scorer: DualEncoderScorer, rows: Dataset, vectors: Floats, texts: Floats, classifiers: Floats | None
    ) -> DualEncoderScorer:
        """One vector and one bias per label, in place of two vectors and a count."""
        if classifiers is None and self.settings.frequency_weight == 0:
            return scorer
        near, hits, counted = judge_candidates(scorer, vectors, rows)
        log_counts = np.log1p(rows.labels.counts).astype(np.float32)
        cosines = near.scores[counted]
        by_text = cosines
        if classifiers is not None:
            by_text = np.einsum("rkd,rd->rk", texts[near.indices], vectors)[counted]
        fusion = ScoreFusion.fit(
            by_text, None if classifiers is None else cosines, log_counts[near.indices[counted]], hits
        )
        if fusion is None:
            return scorer
        bias = np.float32(self.settings.frequency_weight * fusion.frequency) * log_counts
        return replace(
            scorer,
            labels=fusion.vectors(texts, classifiers),
            bias=bias if self.settings.frequency_weight else None,
            text_norm=fusion.text_norm,
            calibration=PlattScaling(1.0, 0.0),
        )


def initial_calibration(temperature: float) -> PlattScaling:
    """The calibration of cosines before it is fitted: probability 1/2 at a cosine of 1/2.

    Args:
        temperature: that cosines were divided by in training.

    Returns:
        Platt scaling of cosines.
    """
    scale = 1 / temperature
    return PlattScaling(scale, -0.5 * scale)
