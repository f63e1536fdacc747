"""The training task over a pool: brings documents near their labels of the pool, by texts and by classifiers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from longtail.arrays import Floats, Longs
from longtail.nn.dual.dual_task import LabelTower, load_tower, tower_state
from longtail.nn.dual.pair_batches import clustered_order, random_order
from longtail.nn.encoders.build import Encoder
from longtail.nn.onevsall.onevsall_task import TextReading
from longtail.nn.pool.classifier_table import BY_LABEL, ClassifierTable
from longtail.nn.pool.encode_both_sides import BothSides, padded
from longtail.nn.pool.label_sampler import LabelSampler, PoolBatch
from longtail.nn.pool.mixed_precision_product import product
from longtail.nn.pool.pool_losses import PoolLoss, PoolTargets
from longtail.nn.pool.projection_heads import Heads
from longtail.nn.pool.recorded_loss import RecordedLoss
from longtail.nn.training.checkpoint import CheckpointDir
from longtail.nn.training.gradient_cache import cached_backward
from longtail.nn.training.label_shards import RowShardsDir
from longtail.nn.training.precision import decay_groups, uses_bf16
from longtail.nn.training.process_group import ALONE, ProcessGroup
from longtail.nn.training.row_penalties import RATE, Penalty
from longtail.nn.training.seeds import fold_seed
from longtail.nn.training.shared_batch import SharedCheckpointDir, begin_shared_epoch, shared_backward

# Given an epoch: clusters of the rows and mined labels of each; None = as before.
Refresh = Callable[[int], tuple[Longs, Longs | None] | None]
# Tensors of a checkpoint that have a row for each label.
CUT = ("weights.classifiers.weight", "best.classifiers.weight", *(f"task.table.{name}" for name in BY_LABEL))


@dataclass(eq=False)
class ClassifierTraining:
    """How classifiers learn beside the dual encoder: their table is updated after every batch."""

    table: ClassifierTable
    loss: PoolLoss
    scale: float  # of the scores
    learning_rate: float
    encoder_loss_weight: float  # weight of the dual encoder's loss; the classifiers' loss has the rest of 1
    norms: bool = True  # scores are products; False: cosines


@dataclass(eq=False)
class PoolTask:
    """A dual encoder over pools, with projection heads and classifiers where they are given."""

    encoder: Encoder
    documents: TextReading
    labels: TextReading
    sampler: LabelSampler
    loss: PoolLoss
    temperature: float
    batch_size: int
    learning_rate: float
    device: torch.device
    heads: Heads | None = None
    head_learning_rate: float = 0.0
    classifiers: ClassifierTraining | None = None
    tower: LabelTower | None = None
    penalties: Sequence[Penalty] = ()  # on the classifiers
    refresh: Refresh | None = None
    weight_decay: float = 0.01
    mini_batch_size: int | None = None  # texts whose activations are in memory at once; None: all of a batch
    replay: bool = True  # replay kernels from CUDA graphs where possible
    seed: int = 0
    encode_labels: Callable[[], Floats] | None = None  # unit vectors of all label texts, for the tower
    evaluate: Callable[[], dict[str, float]] | None = None  # measures on valid
    ranks: ProcessGroup = ALONE
    name: str = "encoder"

    def __post_init__(self) -> None:
        self._learned = np.flatnonzero(np.diff(self.sampler.targets.indptr)).astype(np.int64)  # rows with a label
        self.rows = len(self._learned)
        self.steps = math.ceil(self.rows / self.batch_size)
        self._factor = 1.0
        self._steps_begun = 0
        replay = self.replay and self.ranks.count == 1  # libraries that connect processes forbid recording
        self._texts = BothSides(self.documents, self.labels, self.mini_batch_size, replay, self.ranks.count)
        self._bf16 = uses_bf16(self.documents.precision, self.device, self.encoder.settings["kind"])
        self._recorded: RecordedLoss | None = None
        if self._texts.replays and self.tower is None:
            self._recorded = RecordedLoss(self._loss, self.heads, self.device)
        self.sampler = replace(self.sampler, padded=self._recorded is not None)
        self._clusters: Longs = np.zeros(0, dtype=np.int64)  # of each row with a label; empty = random order
        self._mined: Longs | None = None  # (all rows, mined labels of a row), -1 = none

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """See `Task.modules`."""
        found: dict[str, nn.Module] = {"encoder": self.encoder}
        if self.heads is not None:
            found["heads"] = self.heads
        if self.tower is not None:
            assert isinstance(self.tower, nn.Module)
            found["tower"] = self.tower
        if self.classifiers is not None:
            found["classifiers"] = self.classifiers.table
        return found

    def groups(self) -> list[dict[str, Any]]:
        """See `Task.groups`; the classifiers' table updates itself."""
        groups: list[dict[str, Any]] = decay_groups(self.encoder, self.learning_rate, self.weight_decay)
        if self.heads is not None:
            groups += decay_groups(self.heads, self.head_learning_rate, self.weight_decay)
        return groups if self.tower is None else groups + self.tower.groups(self.learning_rate)

    def begin_epoch(self, epoch: int) -> None:
        """See `Task.begin_epoch`: refreshes the label tower, the clusters and the mined labels."""
        encode, refresh = self.encode_labels, self.refresh
        if self.tower is not None and encode is not None:
            self.tower.begin_epoch(epoch, lambda: self.ranks.made_by_first(encode))
        fresh = None if refresh is None else self.ranks.made_by_first(lambda: refresh(epoch))
        if fresh is not None:
            self._clusters, self._mined = fresh
        self._steps_begun = epoch * self.steps
        begin_shared_epoch(self.seed, epoch, self.ranks)

    def batches(self, epoch: int, begin: int) -> Iterator[PoolBatch]:
        """See `Task.batches`."""
        rng, rows = np.random.default_rng([self.seed, epoch]), self._learned
        order = clustered_order(rows, self._clusters, rng) if len(self._clusters) else random_order(rows, rng)
        ahead = self.device.type != "cpu"  # a CPU that trains has no core to spare
        return self.sampler.batches(order, self.batch_size, begin, self._mined, (self.seed, epoch), ahead)

    def begin_step(self, factor: float) -> None:
        """See `StepHooks.begin_step`."""
        self._factor = factor
        if self.tower is not None:
            self.tower.begin_step()

    def end_step(self) -> None:
        """See `StepHooks.end_step`."""
        self.ranks.sum_gradients(self.encoder)
        if self.tower is not None:
            self.tower.end_step(self.learning_rate * self._factor)

    def checkpoint_dir(self, place: CheckpointDir) -> CheckpointDir:
        """See `StepHooks.checkpoint_dir`."""
        if self.classifiers is None:
            return SharedCheckpointDir.of(place, self.ranks)
        return RowShardsDir.of(place, self.ranks, self.sampler.targets.shape[1], lambda name: name in CUT)

    def backward(self, batch: PoolBatch, share: float) -> Tensor:
        """See `Task.backward`; the classifiers of the pool are updated when this returns."""
        pieces, sizes, join = self._texts.pieces(batch.rows, batch.pool, batch.columns)
        table = None if self.classifiers is None else self.classifiers.table
        weights = None if table is None else table.take(batch.pool_tensor)
        alone = self.ranks.count == 1
        encoded = join([piece() for piece in pieces]) if self.mini_batch_size is None and alone else None

        def loss_of(encoded: Tensor) -> Tensor:
            return self._loss(encoded, batch.pool_targets(), weights, self.heads, batch.pool_tensor)

        if not alone:
            self._steps_begun += 1
            seed, cached = fold_seed((self.seed << 40) ^ self._steps_begun), self.mini_batch_size is not None
            shape = sizes, self.encoder.dimension, self.device
            loss = shared_backward(pieces, shape, lambda found: loss_of(join(found)), share, self.ranks, seed, cached)
            to_weights = None if weights is None else weights.grad
        elif encoded is None:
            loss = cached_backward(pieces, lambda found: loss_of(join(found)), share)
            to_weights = None if weights is None else weights.grad
        else:
            loss, to_weights = self._loss_and_gradient(encoded, batch, weights, loss_of, share)
        if self.classifiers is not None and to_weights is not None:
            learning_rate = self.classifiers.learning_rate * self._factor
            self.classifiers.table.update(batch.pool_tensor, to_weights, learning_rate)
            for penalty in self.penalties:
                penalty.step(self.classifiers.table.penalised(), RATE * self._factor)
        return loss.detach()

    def _loss_and_gradient(
        self,
        encoded: Tensor,
        batch: PoolBatch,
        weights: Tensor | None,
        loss_of: Callable[[Tensor], Tensor],
        share: float,
    ) -> tuple[Tensor, Tensor | None]:
        """The loss and its gradient at the classifiers. Gradients of all modules are added to their parameters."""
        known = None if self._recorded is None else self._recorded(encoded, batch, weights, share)
        if known is not None:
            loss, to_encoded, to_weights = known
            torch.autograd.backward(encoded, to_encoded)
            return loss, to_weights
        loss = loss_of(encoded)
        torch.autograd.backward(loss * share)
        return loss, None if weights is None else weights.grad

    def _loss(
        self,
        encoded: Tensor,  # (rows + columns, dimension): documents, then the pool's texts
        targets: PoolTargets,
        weights: Tensor | None,  # (pool, dimension): the pool's classifiers
        heads: Heads | None,
        pool: Tensor | None = None,  # (pool,) labels, for the tower
    ) -> Tensor:
        sizes, bf16 = list(targets.targets.shape), self._bf16
        vectors = normalize(encoded.float(), dim=1) if heads is None else heads.encoder_side(encoded, bf16)
        rows, items = vectors.split(sizes)
        if self.tower is not None and pool is not None:
            items = self.tower.vectors(pool, items)
        loss = self.loss(product(rows / self.temperature, items, bf16), targets)
        if self.classifiers is None or weights is None:
            return loss
        assert heads is not None
        queries, weights = heads.classifier_side(encoded[: sizes[0]], bf16), padded(weights, sizes[1])
        if not self.classifiers.norms:
            queries, weights = normalize(queries, dim=1), normalize(weights, dim=1)
        scores = product(queries * self.classifiers.scale, weights, bf16)
        share = self.classifiers.encoder_loss_weight
        return share * loss + (1 - share) * self.classifiers.loss(scores, targets)

    def validate(self) -> dict[str, float]:
        """See `Task.validate`."""
        if self.evaluate is None:
            return {}
        with nullcontext() if self.classifiers is None else self.classifiers.table.gathered():
            return self.ranks.made_by_first(self.evaluate)

    def state(self) -> dict[str, Tensor]:
        """See `Task.state`: the clusters, the mined labels and the moments of the classifiers."""
        state = {"clusters": torch.from_numpy(self._clusters)}
        if self._mined is not None:
            state["mined"] = torch.from_numpy(self._mined)
        if self.classifiers is not None:
            state |= {f"table.{name}": tensor for name, tensor in self.classifiers.table.moments().items()}
        return state if self.tower is None else state | tower_state(self.tower)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state`."""
        self._clusters = state["clusters"].numpy()
        self._mined = state["mined"].numpy() if "mined" in state else None
        if self.tower is not None:
            load_tower(self.tower, state)
        if self.classifiers is not None:
            kept = {name.removeprefix("table."): tensor for name, tensor in state.items() if name.startswith("table.")}
            self.classifiers.table.load_moments(kept)
