"""The task of a dual encoder: documents and labels through one encoder, each near its positives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from longtail.arrays import Floats, Longs
from longtail.nn.bank import Bank
from longtail.nn.batches import Curriculum, PairBatch, Pairs, clustered_order, paired, random_order
from longtail.nn.cached import cached_backward
from longtail.nn.clusters import balanced_clusters
from longtail.nn.encoders import Encoder
from longtail.nn.layouts import Packed
from longtail.nn.precision import autocast, decay_groups
from longtail.nn.replay import Replayed, can_replay
from longtail.nn.resident import ResidentTokens, packed

Sides = list[tuple[ResidentTokens, Longs]]  # texts of several sides, by number
# Of scores, positives, the chosen ones (none: row i's is column i) and weights.
Loss = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
Miner = Callable[[int], Longs | None]  # before an epoch: items (rows, some) to draw negatives from; None = as before


class LabelTower(Protocol):
    """What stands for a label in training, where that is more than its text. An `nn.Module`."""

    def vectors(self, label_rows: Tensor, encoded: Tensor) -> Tensor:
        """Unit vectors (pool, dimension) of these labels (pool,), given the unit vectors of their texts."""

    def groups(self, rate: float) -> list[dict[str, Any]]:
        """Parameter groups, given the encoder's rate."""

    def begin_epoch(self, epoch: int, encode: Callable[[], Floats]) -> None:
        """May change before an epoch; `encode` gives the unit vectors of all labels' texts as they are now."""


@dataclass(eq=False)
class Siamese:
    """One encoder for both sides. Rows are documents or labels, and items the other side."""

    encoder: Encoder
    row_texts: ResidentTokens
    item_texts: ResidentTokens
    pairs: Pairs  # rows x items
    loss: Loss
    batch: int
    epochs: int
    rate: float
    labels_are_rows: bool = False
    weight_decay: float = 0.01
    precision: str = "auto"
    chunk: int | None = None
    compiled: bool = False
    pack: bool | None = None  # read a batch as one run without padding; None: where that is faster
    replay: bool = True  # launch an encoder's kernels together where they can be
    seed: int = 0
    tower: LabelTower | None = None
    curriculum: Curriculum | None = None
    miner: Miner | None = None
    negatives: int = 1  # drawn from what was mined for each row, anew in each epoch
    stand_in: float = 0.0  # share of the loss in which another positive of the row stands for it
    encode_labels: Callable[[], Floats] | None = None  # unit vectors of all labels' texts, for the tower
    look: Callable[[], dict[str, float]] | None = None  # measures on valid
    name: str = "encoder"

    def __post_init__(self) -> None:
        self.device = self.row_texts.device
        self.rows = len(self.pairs.rows)
        self.steps = math.ceil(self.rows / self.batch)
        self._padded, self._packed = self.encoder.forward, self.encoder.packed
        if self.compiled:
            self._padded, self._packed = (torch.compile(way, dynamic=True) for way in (self._padded, self._packed))
        if self.pack is None:  # elsewhere attention pads again
            self.pack = self.device.type == "cuda" and self.encoder.settings["kind"] == "transformer"
        self._replayed: Replayed | None = None
        replays = self.replay and self.pack and not self.compiled
        if replays and can_replay(self.encoder, self.precision, (self.row_texts, self.item_texts)):
            self._replayed = Replayed(self.encoder, self.precision)
        self._bank: Bank | None = None
        if self.curriculum is not None:
            self._bank = Bank.of(len(self.row_texts.tokens), self.encoder.dimension, self.device)
        self._clusters: Longs = np.zeros(0, dtype=np.int64)  # of each of pairs.rows; empty = random order
        self._mined: Longs | None = None  # (rows, some), -1 = none

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        found: dict[str, nn.Module] = {"encoder": self.encoder}
        if self.tower is not None:
            assert isinstance(self.tower, nn.Module)
            found["tower"] = self.tower
        return found

    def groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = decay_groups(self.encoder, self.rate, self.weight_decay)
        return groups if self.tower is None else groups + self.tower.groups(self.rate)

    def begin_epoch(self, epoch: int) -> None:
        if self.tower is not None and self.encode_labels is not None:
            self.tower.begin_epoch(epoch, self.encode_labels)
        if self.curriculum is not None and self._bank is not None and self.curriculum.is_time(epoch, self.epochs):
            size = min(self.curriculum.size(epoch, self.epochs), self.batch)
            vectors = self._bank.vectors[torch.from_numpy(self.pairs.rows).to(self._bank.vectors.device)]
            self._clusters = balanced_clusters(
                vectors.cpu().numpy(), size=size, seed=self.seed + epoch, device=str(self.device)
            )
        if self.miner is not None:
            mined = self.miner(epoch)
            self._mined = self._mined if mined is None else mined

    def batches(self, epoch: int, begin: int) -> Iterator[PairBatch]:
        chance = np.random.default_rng([self.seed, epoch])
        rows = self.pairs.rows
        order = clustered_order(rows, self._clusters, chance) if len(self._clusters) else random_order(rows, chance)
        drawn = self.pairs.draw(order, chance)
        negatives = None
        if self._mined is not None:
            number = min(self.negatives, self._mined.shape[1])  # of more, some come twice
            columns = chance.integers(0, self._mined.shape[1], (len(self._mined), number))
            negatives = np.take_along_axis(self._mined, columns, axis=1)
        found = paired(self.pairs, order, drawn, self.batch, self.device, begin, negatives)
        if self.stand_in == 0:
            return found
        others = np.split(self.pairs.draw(order, chance), range(self.batch, len(order), self.batch))
        return (replace(batch, others=other) for batch, other in zip(found, others[begin:], strict=True))

    def backward(self, batch: PairBatch, share: float) -> Tensor:
        wanted = [(self.row_texts, batch.rows), (self.item_texts, batch.pool)]
        if batch.others is not None:
            wanted.append((self.item_texts, batch.others))
        pieces, joined = self._pieces(wanted)

        def loss_of(encoded: list[Tensor]) -> Tensor:
            rows, items, *others = joined(encoded)
            if self._bank is not None:
                self._bank.write(batch.row_tensor, rows)
            if self.tower is not None:
                if self.labels_are_rows:
                    rows = self.tower.vectors(batch.row_tensor, rows)
                else:
                    items = self.tower.vectors(batch.pool_tensor, items)
            loss = self._loss(rows, items, batch)
            return loss if not others else torch.lerp(loss, self._loss(others[0], items, batch), self.stand_in)

        if self.chunk is not None:
            return cached_backward(pieces, loss_of, share)
        loss = loss_of([piece() for piece in pieces])
        torch.autograd.backward(loss * share)
        return loss.detach()

    def _pieces(self, wanted: Sides) -> tuple[list[Callable[[], Tensor]], Callable[[list[Tensor]], list[Tensor]]]:
        """What to encode, piece by piece, and how to put the pieces together to the unit vectors of each side."""
        rounded = self._replayed is not None
        run = packed(wanted, rounded) if self.pack and self.chunk is None else None
        if run is not None:
            sizes = [len(rows) for _, rows in wanted]
            return [self._encoding(*run)], lambda encoded: list(_unit(encoded[0][: sum(sizes)]).split(sizes))
        # Pieces of like length waste less on padding; on a GPU each costs launches, which small models wait for.
        number = 2 if self.device.type == "cuda" else 4
        cut = [side.pieces(rows, number, self.chunk) for side, rows in wanted]

        def joined(encoded: list[Tensor]) -> list[Tensor]:
            found, begin = [], 0
            for texts, places in cut:
                whole = _unit(torch.cat(encoded[begin : begin + len(texts)]))
                found.append(whole if places is None else whole.index_select(0, places))
                begin += len(texts)
            return found

        return [self._encoding(*one) for texts, _ in cut for one in texts], joined

    def _loss(self, rows: Tensor, items: Tensor, batch: PairBatch) -> Tensor:
        """Each row's own positive has a column of its own, so that an item drawn twice counts twice; what was mined
        beside them stands behind."""
        columns = batch.chosen if batch.mined is None else torch.cat([batch.chosen, batch.mined])
        scores = rows @ items.index_select(0, columns).T
        positive = batch.positive().index_select(1, columns)
        return self.loss(scores, positive, None, batch.weights)

    def _encoding(self, ids: Tensor, layout: Tensor | Packed) -> Callable[[], Tensor]:
        def work() -> Tensor:
            if self._replayed is not None and isinstance(layout, Packed):
                return self._replayed(ids, layout)
            with autocast(self.precision, self.device, self.encoder.settings["kind"]):
                return self._packed(ids, layout) if isinstance(layout, Packed) else self._padded(ids, layout)

        return work

    def measure(self) -> dict[str, float]:
        return {} if self.look is None else self.look()

    def state(self) -> dict[str, Tensor]:
        state = {} if self._bank is None else self._bank.state()
        state["clusters"] = torch.from_numpy(self._clusters)
        if self._mined is not None:
            state["mined"] = torch.from_numpy(self._mined)
        return state

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        if self._bank is not None:
            self._bank.load_state(state)
        self._clusters = state["clusters"].numpy()
        self._mined = state["mined"].numpy() if "mined" in state else None


def _unit(vectors: Tensor) -> Tensor:
    return normalize(vectors.float(), dim=1)
