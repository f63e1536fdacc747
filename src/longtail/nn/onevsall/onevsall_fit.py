"""From texts to an encoder and one classifier per label, trained end to end: what such learners do around the task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch

from longtail.arrays import AnyArray, Floats, Ints, Longs
from longtail.data.dataset import Dataset
from longtail.data.subsample import evenly_spaced
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.metrics.propensity import inverse_propensity
from longtail.nn.encoder_fit import (
    EncoderFit,
    is_randomly_initialised,
    max_tokens_of,
    token_cache,
    training_texts,
)
from longtail.nn.encoders.build import load_encoder
from longtail.nn.encoders.device_tokens import DeviceTokens
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.encoders.tokens import Tokens, tokenise
from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead
from longtail.nn.onevsall.head_shards import init_shard, top_of_all
from longtail.nn.onevsall.onevsall_scorer import OneVsAllScorer, rare_of
from longtail.nn.onevsall.onevsall_settings import OneVsAllSettings
from longtail.nn.onevsall.onevsall_task import OneVsAllTask, TextReading
from longtail.nn.training.history import History
from longtail.nn.training.loop import train
from longtail.nn.training.precision import best_device
from longtail.nn.training.process_group import ProcessGroup
from longtail.nn.training.row_penalties import Penalty
from longtail.progress import stage
from longtail.seams import PenalisesRows, TailMethod

GAIN = 2.0  # what one positive row adds to its label's score, at the default learning rate
NORM_ROWS = 512  # rows whose vectors' norms set that rate
LARGE = 1 << 30  # bytes of all classifiers from which the best weights are not copied
COPIED = 1 << 16  # classifiers copied to the host at once


class Outputs(NamedTuple):
    """The classifiers of a head."""

    counts: Longs  # (classifiers,) training counts
    of_a_label: int = 1  # classifiers that have a label's rows as positives


@dataclass(eq=False)
class OneVsAllFit(EncoderFit):
    """An encoder and a head in training; each process holds a range of the labels."""

    settings: OneVsAllSettings
    documents: Tokens
    head: OneVsAllHead
    ranks: ProcessGroup
    history: History | None = None

    @classmethod
    def begin(
        cls,
        settings: OneVsAllSettings,
        train: Dataset,
        valid: Dataset,
        parts: tuple[TailMethod, ...],
        pretrained: TextEncoder | None = None,
    ) -> Self:
        """Tokens, encoder and head before training.

        Args:
            settings: of the learner.
            train: rows to train on.
            valid: rows to validate and calibrate on; may be empty.
            parts: tail methods of the recipe; some add penalties on the classifiers.
            pretrained: an encoder to start from in place of the one that the settings name.

        Returns:
            A fit to train with `learn`.

        Raises:
            DataError: the rows have no texts or no labels, or classifiers start from label texts that are missing.
        """
        texts = training_texts(settings.name, train)
        with stage("loading the encoder"):
            if pretrained is None:
                encoder, tokenizer = load_encoder(
                    settings.encoder,
                    settings.dimension,
                    texts=(*texts, *filter(None, train.labels.texts_with_names)),
                    dropout=settings.encoder_dropout,
                    seed=settings.seed,
                )
            else:
                encoder, tokenizer = pretrained.fresh(settings.encoder_dropout)
        device, ranks = best_device(), ProcessGroup.here()
        with ranks.first_alone():
            documents = tokenise(texts, tokenizer, max_tokens_of(settings, encoder), token_cache(), what="documents")
        encoder = encoder.to(device)
        ranks.same(encoder)
        fit = cls(
            settings=settings,
            train=train,
            valid=valid,
            parts=parts,
            encoder=encoder,
            tokenizer=tokenizer,
            device=device,
            documents=documents,
            head=_head(settings, train, cls.outputs(settings, train), encoder.dimension, device, ranks),
            ranks=ranks,
        )
        reads = pretrained is not None or not fit.is_randomly_initialised
        if settings.head_init == "texts" or (settings.head_init == "auto" and reads and all(train.labels.texts)):
            first, last = ranks.range(len(train.labels))
            fit.head.set_weights(fit.text_vectors()[first:last])
        return fit

    @classmethod
    def outputs(cls, settings: OneVsAllSettings, train: Dataset) -> Outputs:
        """The classifiers of the head: one a label.

        Args:
            settings: of the learner.
            train: rows to train on.

        Returns:
            Their training counts.
        """
        return Outputs(train.labels.counts)

    def training_targets(self, first: int, last: int) -> TrainingTargets:
        """What the head is trained on.

        Args:
            first: classifier that this process's range starts at.
            last: classifier that it ends before.

        Returns:
            The targets of that range.
        """
        own, inverse = self.settings, None
        if own.propensity_power:
            inverse = (inverse_propensity(self.train.labels) ** own.propensity_power).astype(np.float32)
        return TrainingTargets(self.train.targets, own.positive_weight, inverse, first, last)

    @property
    def is_randomly_initialised(self) -> bool:
        """Whether the settings name an encoder that starts from random weights."""
        return is_randomly_initialised(self.encoder, self.settings.encoder)

    @cached_property
    def learning_rate(self) -> float:
        """Of the encoder: the setting, or one that suits its initial weights."""
        if self.settings.learning_rate is not None:
            return self.settings.learning_rate
        return 2e-3 if self.is_randomly_initialised else 6e-5

    @cached_property
    def head_learning_rate(self) -> float:
        """Of the classifiers: the setting, or one that suits the norms of the encoder's vectors.

        Pretrained encoders give vectors of norm 4 or so, and valid chose the rate for them. Randomly initialised ones
        give shorter vectors; their rate is raised so that one positive row adds as much to its label's score. The
        gradient of the hinge loss is unbounded, so there the rate is also divided by the batch size: a batch of
        similar rows must not overshoot.
        """
        if self.settings.head_learning_rate is not None:
            return self.settings.head_learning_rate
        slow = 1.0 if self.settings.loss == "bce" else min(1.0, 2 / self.settings.batch_size)
        if not self.is_randomly_initialised:
            return 0.1 * slow
        texts = self.train.texts or ()
        sample = [texts[row] for row in evenly_spaced(len(texts), NORM_ROWS)]
        tokens = tokenise(sample, self.tokenizer, self.max_tokens, what="some documents")
        vectors = self.encode_tokens(tokens, "some documents")
        return GAIN * slow / max(float(np.einsum("rd,rd->r", vectors, vectors).mean()), 1e-6)

    def token_arrays(self) -> tuple[AnyArray, ...]:
        """See `EncoderFit.token_arrays`. Any number of processes may resume a checkpoint."""
        return self.documents.ids, self.documents.offsets

    def learn(self) -> None:
        """Train encoder and head."""
        own = self.settings
        classifiers = len(self.outputs(own, self.train).counts)
        first, last = self.ranks.range(classifiers)
        texts = DeviceTokens(self.documents, self.device, self.max_tokens)
        task = OneVsAllTask(
            encoder=self.encoder,
            read=TextReading(self.encoder, texts, own.precision, own.compile, replay=True),
            head=self.head,
            targets=self.training_targets(first, last),
            batch_size=own.batch_size,
            learning_rate=self.learning_rate,
            head_learning_rate=self.head_learning_rate,
            device=self.device,
            dropout=own.dropout,
            weight_decay=own.weight_decay,
            penalties=self.penalties(first, last),
            evaluate=self.evaluation,
            ranks=self.ranks,
            seed=own.seed,
        )
        config = self.training_config(
            own.passes(int(np.count_nonzero(self.train.origins == 0))),
            max_gradient_norm=own.max_gradient_norm,
            keep_best=classifiers * self.head.width * self.head.weight.element_size() < LARGE,
        )
        self.history = train(task, config, self.identity())

    def penalties(self, first: int, last: int) -> tuple[Penalty, ...]:
        """The penalties that tail methods put on the classifiers.

        Args:
            first: label that this process's range starts at.
            last: label that it ends before.

        Returns:
            One penalty per tail method that has one.
        """
        makers = [part for part in self.parts if isinstance(part, PenalisesRows)]
        return tuple(
            part.penalty(self.train, (first, last), lambda: self.text_vectors()[first:last], self.settings.seed)
            for part in makers
        )

    def validate(self) -> dict[str, float]:
        """P@1 and PSP@1 of the held-out rows."""
        vectors = torch.from_numpy(self.held_out_vectors()).to(self.device)

        def find(k: int) -> tuple[Ints, Floats]:
            labels, scores = top_of_all(self.head, vectors, k, self.ranks, len(self.valid.labels))
            return labels, PlattScaling(1.0, 0.0).of(scores)

        return self.measure(find)

    def whole_head(self) -> tuple[Floats, Floats | None]:
        """The classifiers of all processes, on the host.

        Returns:
            Weights (classifiers, dimension) and biases (classifiers,) where there are any.
        """
        head, number = self.head, len(self.outputs(self.settings, self.train).counts)
        own = np.empty((head.labels, head.dimension), dtype=np.float32)
        for low in range(0, head.labels, COPIED):
            chunk = torch.arange(low, min(low + COPIED, head.labels), device=self.device)
            own[low : low + len(chunk)] = head.rows(chunk).cpu().numpy()
        weights = self.ranks.whole(own, number)
        return weights, None if head.bias is None else self.ranks.whole(head.bias.cpu().numpy(), number)

    def scorer(self) -> OneVsAllScorer:
        """The trained model, calibrated on valid; every process gets all labels."""
        encoder = TextEncoder.of(self.encoder, self.tokenizer, self.max_tokens)
        weights, bias = self.whole_head()
        uncalibrated = OneVsAllScorer(
            encoder, weights, bias, PlattScaling(1.0, 0.0), rare_of(weights, bias, self.train.labels.counts),
            half=self.head.weight.dtype != torch.float32,
        )  # fmt: skip
        return self.calibrated(uncalibrated, encoder.unnormalised)


def _head(
    settings: OneVsAllSettings,
    train: Dataset,
    outputs: Outputs,
    dimension: int,
    device: torch.device,
    ranks: ProcessGroup,
) -> OneVsAllHead:
    number = len(outputs.counts)
    share = train.targets.sum() * outputs.of_a_label / max(len(train) * number, 1)
    bias = settings.bias_init
    if bias == "auto":  # the log odds of a label of mean frequency, where nothing else is learned
        bias = math.log(max(share, 1e-12) / max(1 - share, 1e-12))
        bias = bias if settings.loss == "bce" else -1.0
    made = HeadSettings(
        loss=settings.loss, precision=settings.head_precision, momentum=settings.momentum,
        weight_decay=settings.head_weight_decay, bias=None if bias is None else float(bias),
        compensated=settings.kahan_share, chunk=settings.label_chunk, seed=settings.seed,
    )  # fmt: skip
    first, last = ranks.range(number)
    head = OneVsAllHead(last - first, dimension, made, device, outputs.counts[first:last])
    if ranks.count > 1:
        init_shard(head, first, number)
    return head
