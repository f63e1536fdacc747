"""The task of a pool: documents near the labels of their batch's pool, by texts and by classifiers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from longtail.arrays import Floats, Longs
from longtail.nn.batches import clustered_order, random_order
from longtail.nn.cached import cached_backward
from longtail.nn.checkpoint import Place
from longtail.nn.encoders import Encoder
from longtail.nn.heads.task import TextReading
from longtail.nn.pool.heads import Heads
from longtail.nn.pool.losses import PoolLoss, Weighed
from longtail.nn.pool.picks import Picker, PoolBatch
from longtail.nn.pool.product import product
from longtail.nn.pool.reading import BothSides, filled
from longtail.nn.pool.recorded import RecordedLoss
from longtail.nn.pool.table import ClassifierTable
from longtail.nn.precision import decay_groups, is_lower
from longtail.nn.siamese import LabelTower

Renew = Callable[
    [int], tuple[Longs, Longs | None] | None
]  # before an epoch: clusters and mined labels; None = as before


@dataclass(eq=False)
class Classifying:
    """The second half: a table of classifiers, moved at its own rate after every batch."""

    table: ClassifierTable
    loss: PoolLoss
    scale: float  # of the scores
    rate: float
    weight: float  # of the dual encoder's loss; the rest is this one's
    lengths: bool = True  # scores are products; else of what is of length 1


@dataclass(eq=False)
class PoolTask:
    """Without heads, texts are compared as the encoder gives them."""

    encoder: Encoder
    documents: TextReading
    labels: TextReading
    picker: Picker
    loss: PoolLoss
    temperature: float
    batch: int
    rate: float
    device: torch.device
    heads: Heads | None = None
    head_rate: float = 0.0
    classifying: Classifying | None = None
    tower: LabelTower | None = None
    renew: Renew | None = None
    weight_decay: float = 0.01
    chunk: int | None = None
    replay: bool = True  # launch the encoder's kernels together where they can be
    seed: int = 0
    encode_labels: Callable[[], Floats] | None = None  # unit vectors of all labels' texts, for the tower
    look: Callable[[], dict[str, float]] | None = None  # measures on valid
    name: str = "encoder"

    def __post_init__(self) -> None:
        self._learned = np.flatnonzero(np.diff(self.picker.targets.indptr)).astype(np.int64)  # rows with a label
        self.rows = len(self._learned)
        self.steps = math.ceil(self.rows / self.batch)
        self._factor = 1.0
        self._texts = BothSides(self.documents, self.labels, self.chunk, self.replay)
        self._lower = is_lower(self.documents.precision, self.device, self.encoder.settings["kind"])
        self._recorded: RecordedLoss | None = None
        if self._texts.replays and self.tower is None:
            self._recorded = RecordedLoss(self._loss, self.heads, self.device)
        self.picker = replace(self.picker, filled=self._recorded is not None)
        self._clusters: Longs = np.zeros(0, dtype=np.int64)  # of each of these rows; empty = random order
        self._mined: Longs | None = None  # (all rows, some), -1 = none

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        found: dict[str, nn.Module] = {"encoder": self.encoder}
        if self.heads is not None:
            found["heads"] = self.heads
        if self.tower is not None:
            assert isinstance(self.tower, nn.Module)
            found["tower"] = self.tower
        if self.classifying is not None:
            found["classifiers"] = self.classifying.table
        return found

    def groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = decay_groups(self.encoder, self.rate, self.weight_decay)
        if self.heads is not None:
            groups += decay_groups(self.heads, self.head_rate, self.weight_decay)
        return groups if self.tower is None else groups + self.tower.groups(self.rate)

    def begin_epoch(self, epoch: int) -> None:
        if self.tower is not None and self.encode_labels is not None:
            self.tower.begin_epoch(epoch, self.encode_labels)
        fresh = None if self.renew is None else self.renew(epoch)
        if fresh is not None:
            self._clusters, self._mined = fresh

    def batches(self, epoch: int, begin: int) -> Iterator[PoolBatch]:
        chance, rows = np.random.default_rng([self.seed, epoch]), self._learned
        order = clustered_order(rows, self._clusters, chance) if len(self._clusters) else random_order(rows, chance)
        ahead = self.device.type != "cpu"  # which has no time to spare
        return self.picker.batches(order, self.batch, begin, self._mined, (self.seed, epoch), ahead)

    def begin_step(self, factor: float) -> None:
        self._factor = factor

    def end_step(self) -> None: ...

    def place(self, place: Place) -> Place:
        return place

    def backward(self, batch: PoolBatch, share: float) -> Tensor:
        pieces, joined = self._texts.pieces(batch.rows, batch.pool, batch.columns)
        table = None if self.classifying is None else self.classifying.table
        own = None if table is None else table.take(batch.pool_tensor)
        encoded = joined([piece() for piece in pieces]) if self.chunk is None else None

        def loss_of(encoded: Tensor) -> Tensor:
            return self._loss(encoded, batch.weighed(), own, self.heads, batch.pool_tensor)

        if encoded is None:
            loss = cached_backward(pieces, lambda found: loss_of(joined(found)), share)
            to_own = None if own is None else own.grad
        else:
            loss, to_own = self._both_ways(encoded, batch, own, loss_of, share)
        if self.classifying is not None and to_own is not None:
            self.classifying.table.move(batch.pool_tensor, to_own, self.classifying.rate * self._factor)
        return loss.detach()

    def _both_ways(
        self, encoded: Tensor, batch: PoolBatch, own: Tensor | None, loss_of: Callable[[Tensor], Tensor], share: float
    ) -> tuple[Tensor, Tensor | None]:
        """The loss, and its slopes at the classifiers; those of all else go to the weights."""
        known = None if self._recorded is None else self._recorded(encoded, batch, own, share)
        if known is not None:
            loss, to_encoded, to_own = known
            torch.autograd.backward(encoded, to_encoded)
            return loss, to_own
        loss = loss_of(encoded)
        torch.autograd.backward(loss * share)
        return loss, None if own is None else own.grad

    def _loss(
        self, encoded: Tensor, targets: Weighed, own: Tensor | None, heads: Heads | None, pool: Tensor | None = None
    ) -> Tensor:
        """Of the vectors of documents and, behind them, of the pool's texts; `own` are the pool's classifiers."""
        sizes, lower = list(targets.targets.shape), self._lower
        vectors = normalize(encoded.float(), dim=1) if heads is None else heads.encoder_side(encoded, lower)
        rows, items = vectors.split(sizes)
        if self.tower is not None and pool is not None:
            items = self.tower.vectors(pool, items)
        loss = self.loss(product(rows / self.temperature, items, lower), targets)
        if self.classifying is None or own is None:
            return loss
        assert heads is not None
        asked, own = heads.classifier_side(encoded[: sizes[0]], lower), filled(own, sizes[1])
        if not self.classifying.lengths:
            asked, own = normalize(asked, dim=1), normalize(own, dim=1)
        scores = product(asked * self.classifying.scale, own, lower)
        weight = self.classifying.weight
        return weight * loss + (1 - weight) * self.classifying.loss(scores, targets)

    def measure(self) -> dict[str, float]:
        return {} if self.look is None else self.look()

    def state(self) -> dict[str, Tensor]:
        state = {"clusters": torch.from_numpy(self._clusters)}
        if self._mined is not None:
            state["mined"] = torch.from_numpy(self._mined)
        if self.classifying is not None:
            state |= {f"table.{name}": tensor for name, tensor in self.classifying.table.means().items()}
        return state

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._clusters = state["clusters"].numpy()
        self._mined = state["mined"].numpy() if "mined" in state else None
        if self.classifying is not None:
            kept = {name.removeprefix("table."): tensor for name, tensor in state.items() if name.startswith("table.")}
            self.classifying.table.load_means(kept)
