"""The training task of one-vs-all classifiers: an encoder and a head over all labels, trained together.

The head updates its own weights, which are buffers. The loop passes it the factor on the learning rate through
`StepHooks`, and keeps no second copy of the weights where `TrainingConfig.keep_best` is off. The loss that is logged is
that of the positives; that of the negatives is never computed. Dropout on the vectors is drawn from seed and step, over
the whole batch on every process, so that a training is the same on one process and on several, and after it was
resumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Longs
from longtail.nn.dual.pair_batches import random_order
from longtail.nn.encoders.build import Encoder
from longtail.nn.encoders.cuda_graphs import RecordedEncoder, can_replay
from longtail.nn.encoders.device_tokens import DeviceTokens, packed
from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.onevsall.head import OneVsAllHead
from longtail.nn.onevsall.head_shards import ShardedCheckpointDir
from longtail.nn.onevsall.positive_loss import positive_loss
from longtail.nn.onevsall.recorded_head import RecordedHead
from longtail.nn.training.checkpoint import CheckpointDir
from longtail.nn.training.precision import autocast, decay_groups
from longtail.nn.training.process_group import ALONE, ProcessGroup
from longtail.nn.training.row_penalties import Penalty
from longtail.nn.training.seeds import fold_seed

SHORT = 1 << 18  # labels up to which launching the head's kernels takes longer than running them


@dataclass(eq=False)
class TextReading:
    """Encodes rows by their number into vectors that carry a gradient."""

    encoder: Encoder
    texts: DeviceTokens
    precision: str = "auto"
    compiled: bool = False
    pack: bool | None = None  # encode a batch as one sequence without padding; None: where that is faster
    replay: bool = False  # replay kernels from CUDA graphs where possible; then vectors are valid until the next call

    def __post_init__(self) -> None:
        self._padded, self._packed = self.encoder.forward, self.encoder.packed
        if self.compiled:
            self._padded, self._packed = (torch.compile(way, dynamic=True) for way in (self._padded, self._packed))
        if self.pack is None:  # elsewhere attention would pad again
            self.pack = self.texts.device.type == "cuda" and self.encoder.settings["kind"] == "transformer"
        self._replayed: RecordedEncoder | None = None
        if self.replay and self.pack and not self.compiled and can_replay(self.encoder, self.precision, [self.texts]):
            self._replayed = RecordedEncoder(self.encoder, self.precision)

    def __call__(self, rows: Longs) -> Tensor:
        """Encode rows.

        Args:
            rows: (rows,) numbers of the training rows.

        Returns:
            (rows, dimension) float32, unnormalised.
        """
        run = packed([(self.texts, rows)], self._replayed is not None) if self.pack else None
        if run is not None and self._replayed is not None:
            return self._replayed(*run)[: len(rows)].float()
        with autocast(self.precision, self.texts.device, self.encoder.settings["kind"]):
            if run is not None:
                return self._packed(*run).float()
            # Pieces of similar length need less padding, but on a GPU each piece costs kernel launches.
            pieces, places = self.texts.pieces(rows, 2 if self.texts.device.type == "cuda" else 4)
            vectors = torch.cat([self._padded(ids, mask) for ids, mask in pieces]).float()
            return vectors if places is None else vectors.index_select(0, places)


@dataclass(eq=False)
class OneVsAllTask:
    """Trains an encoder and a head: `read` encodes rows with the weights of `encoder`, the head scores every label.

    The loop's AdamW trains the encoder on the mean over a batch's rows, so that gradient clipping means the same for
    every batch size. The head trains itself on their sum, at `head_learning_rate` times the schedule's factor. Rows
    without a target count too: every label is a negative for them. `encoder` may be any module, `read` any function.
    """

    encoder: nn.Module
    read: Callable[[Longs], Tensor]
    head: OneVsAllHead
    targets: TrainingTargets
    batch_size: int
    learning_rate: float
    head_learning_rate: float
    device: torch.device
    dropout: float = 0.0  # on the vectors
    weight_decay: float = 0.01  # of the encoder
    penalties: Sequence[Penalty] = ()
    evaluate: Callable[[], dict[str, float]] | None = None  # validation measures
    ranks: ProcessGroup = ALONE
    seed: int = 0
    name: str = "classifiers"
    replay: bool = True  # replay the head's kernels from a CUDA graph where that is faster

    def __post_init__(self) -> None:
        self.rows = int(self.targets.matrix.shape[0])
        self.steps = math.ceil(self.rows / self.batch_size)
        self._factor = 1.0
        self._recorded: RecordedHead | None = None
        short = self.head.labels <= SHORT and self.head.weight.is_cuda and self.head.fused and self.head.lost is None
        if self.replay and short and self.ranks.count == 1:  # libraries that connect processes forbid recording
            self._recorded = RecordedHead(self.head)

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """See `Task.modules`."""
        return {"encoder": self.encoder, "head": self.head}

    def groups(self) -> list[dict[str, Any]]:
        """See `Task.groups`."""
        return decay_groups(self.encoder, self.learning_rate, self.weight_decay)

    def begin_epoch(self, epoch: int) -> None:
        """See `Task.begin_epoch`."""
        if self.ranks.count > 1:  # processes encode different rows and must not share dropout masks
            torch.manual_seed(hash((self.seed, epoch, self.ranks.number)) & 0x7FFFFFFF)

    def batches(self, epoch: int, begin: int) -> Iterator[Longs]:
        """See `Task.batches`."""
        order = random_order(np.arange(self.rows), np.random.default_rng([self.seed, epoch]))
        return (
            order[first : first + self.batch_size]
            for first in range(begin * self.batch_size, self.rows, self.batch_size)
        )

    def begin_step(self, factor: float) -> None:
        """See `StepHooks.begin_step`."""
        self._factor = factor

    def end_step(self) -> None:
        """See `StepHooks.end_step`."""
        self.ranks.sum_gradients(self.encoder)

    def backward(self, batch: Longs, share: float) -> Tensor:
        """See `Task.backward`. Also steps the head. The loss is the mean over the positives: that of all negatives is
        never computed."""
        first, last = self.ranks.range(len(batch))
        own = self.read(batch[first:last]) if last > first else None
        dimension = self.head.dimension
        detached = torch.zeros((0, dimension), device=self.device) if own is None else own.detach()
        vectors, mask = self.ranks.gather(detached, len(batch)), self._dropout_mask(len(batch), dimension)
        if mask is not None:
            vectors = vectors * mask
        targets = self.targets.batch(batch, self.device)
        learning_rate = self.head_learning_rate * self._factor
        found = None if self._recorded is None else self._recorded(vectors, targets, learning_rate)
        if found is None:
            loss = self.ranks.sum(positive_loss(self.head, vectors, targets))
            gradient = self.ranks.sum(self.head.step(vectors, targets, learning_rate).contiguous())
        else:
            loss, gradient = found
        for penalty in self.penalties:
            penalty.step(self.head, learning_rate)
        if own is not None:
            if mask is not None:
                gradient = gradient * mask
            own.backward(gradient[first:last] * (share / len(batch)))
        return loss[0] / loss[1].clamp(min=1)

    def _dropout_mask(self, rows: int, dimension: int) -> Tensor | None:
        """Factors (rows, dimension) on the vectors. They depend on seed and step alone, so every process and a resumed
        training draws the same."""
        if self.dropout == 0:
            return None
        generator = torch.Generator(self.device).manual_seed(fold_seed((self.seed << 40) ^ self.head.done))
        keep = torch.empty((rows, dimension), device=self.device).bernoulli_(1 - self.dropout, generator=generator)
        return keep.div_(1 - self.dropout)

    def validate(self) -> dict[str, float]:
        """See `Task.validate`."""
        return {} if self.evaluate is None else self.evaluate()

    def checkpoint_dir(self, place: CheckpointDir) -> CheckpointDir:
        """Shards the checkpoint where several processes train."""
        return ShardedCheckpointDir.of(place, self.ranks, self.head, self.targets.outputs)

    def state(self) -> dict[str, Tensor]:
        """See `Task.state`."""
        return {"done": torch.tensor(self.head.done)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state`."""
        self.head.done = int(state["done"])
