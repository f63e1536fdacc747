"""The task of a dual encoder: one encoder for documents and labels that brings each near its positives."""

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
from longtail.nn.dual.balanced_clusters import balanced_clusters
from longtail.nn.dual.pair_batches import Curriculum, PairBatch, Pairs, clustered_order, paired, random_order
from longtail.nn.dual.vector_bank import Bank
from longtail.nn.encoders.build import Encoder
from longtail.nn.encoders.cuda_graphs import RecordedEncoder, can_replay
from longtail.nn.encoders.device_tokens import DeviceTokens, packed
from longtail.nn.encoders.layouts import Packed
from longtail.nn.training.checkpoint import CheckpointDir
from longtail.nn.training.gradient_cache import cached_backward
from longtail.nn.training.precision import autocast, decay_groups
from longtail.nn.training.process_group import ALONE, ProcessGroup
from longtail.nn.training.seeds import fold_seed
from longtail.nn.training.shared_batch import SharedCheckpointDir, begin_shared_epoch, shared_backward

Sides = list[tuple[DeviceTokens, Longs]]  # the tokens of each side, and the numbers of the texts to encode
# Of scores, positives, chosen columns (None: column i for row i) and weights; see `contrastive_losses`.
Loss = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
Miner = Callable[
    [int], Longs | None
]  # given an epoch: items (rows, shortlist) to draw negatives from; None = as before


class LabelTower(Protocol):
    """Makes the vector of a label in training from more than its text. An `nn.Module`."""

    def vectors(self, label_rows: Tensor, encoded: Tensor) -> Tensor:
        """Compute the vectors that stand for labels.

        Args:
            label_rows: (pool,) the labels.
            encoded: (pool, dimension) unit vectors of their texts.

        Returns:
            (pool, dimension) unit vectors.
        """

    def groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """Group the parameters for AdamW.

        Args:
            learning_rate: the encoder's.

        Returns:
            Groups, each with its own "lr" and "weight_decay".
        """

    def begin_epoch(self, epoch: int, encode: Callable[[], Floats]) -> None:
        """Called before each epoch.

        Args:
            epoch: from 0.
            encode: returns the unit vectors (labels, dimension) of all label texts as they are now.
        """

    def begin_step(self) -> None:
        """Called before each step."""

    def end_step(self, learning_rate: float) -> None:
        """Called after all gradients of a step, for what is in no parameter group.

        Args:
            learning_rate: of the encoder now.
        """

    def state(self) -> dict[str, Tensor]:
        """Collect what a checkpoint holds besides the module's own state.

        Returns:
            Tensors by name.
        """

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned.

        Args:
            state: Tensors by name.
        """


def tower_state(tower: LabelTower) -> dict[str, Tensor]:
    """The state of a label tower under names of its own, for the state of a task.

    Args:
        tower: in training.

    Returns:
        Tensors by name.
    """
    return {f"tower {name}": tensor for name, tensor in tower.state().items()}


def load_tower(tower: LabelTower, state: Mapping[str, Tensor]) -> None:
    """Restore a label tower from the state of a task.

    Args:
        tower: to restore.
        state: of the task, with what `tower_state` gave.
    """
    own = {name.removeprefix("tower "): tensor for name, tensor in state.items() if name.startswith("tower ")}
    tower.load_state(own)


@dataclass(eq=False)
class DualEncoderTask:
    """One encoder for both sides. Rows are documents and items labels, or the other way round."""

    encoder: Encoder
    row_texts: DeviceTokens
    item_texts: DeviceTokens
    pairs: Pairs  # rows x items
    loss: Loss
    batch_size: int
    epochs: int
    learning_rate: float
    labels_are_rows: bool = False
    weight_decay: float = 0.01
    precision: str = "auto"
    mini_batch_size: int | None = None  # texts whose activations are in memory at once; None: all of a batch
    compiled: bool = False
    pack: bool | None = None  # encode a batch as one run of tokens without padding; None: where that is faster
    replay: bool = True  # replay the encoder's kernels from a CUDA graph where possible
    seed: int = 0
    tower: LabelTower | None = None
    curriculum: Curriculum | None = None
    miner: Miner | None = None
    negatives: int = 1  # drawn in each epoch from the items mined for each row
    surrogate_weight: float = 0.0  # share of the loss in which another positive of the row takes the row's place
    encode_labels: Callable[[], Floats] | None = None  # unit vectors of all label texts, for the tower
    evaluate: Callable[[], dict[str, float]] | None = None  # measures on valid
    ranks: ProcessGroup = ALONE
    name: str = "encoder"

    def __post_init__(self) -> None:
        self.device = self.row_texts.device
        self.rows = len(self.pairs.rows)
        self.steps = math.ceil(self.rows / self.batch_size)
        self._padded, self._packed = self.encoder.forward, self.encoder.packed
        if self.compiled:
            self._padded, self._packed = (torch.compile(way, dynamic=True) for way in (self._padded, self._packed))
        if self.pack is None:  # elsewhere attention would pad the run again
            self.pack = self.device.type == "cuda" and self.encoder.settings["kind"] == "transformer"
        self._replayed: RecordedEncoder | None = None
        self._steps_begun = 0
        if self.ranks.count > 1:
            self.pack = False  # a run of tokens cannot be divided
        replays = self.replay and self.pack and not self.compiled
        if replays and can_replay(self.encoder, self.precision, (self.row_texts, self.item_texts)):
            self._replayed = RecordedEncoder(self.encoder, self.precision)
        self._bank: Bank | None = None
        if self.curriculum is not None:
            self._bank = Bank.of(len(self.row_texts.tokens), self.encoder.dimension, self.device)
        self._clusters: Longs = np.zeros(0, dtype=np.int64)  # of each of pairs.rows; empty = random order
        self._mined: Longs | None = None  # (rows, shortlist), -1 = none
        self._factor = 1.0  # of the schedule, on every learning rate

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """See `Task.modules`."""
        found: dict[str, nn.Module] = {"encoder": self.encoder}
        if self.tower is not None:
            assert isinstance(self.tower, nn.Module)
            found["tower"] = self.tower
        return found

    def groups(self) -> list[dict[str, Any]]:
        """See `Task.groups`."""
        groups: list[dict[str, Any]] = decay_groups(self.encoder, self.learning_rate, self.weight_decay)
        return groups if self.tower is None else groups + self.tower.groups(self.learning_rate)

    def begin_epoch(self, epoch: int) -> None:
        """See `Task.begin_epoch`: refreshes the label tower, the clusters and the mined negatives."""
        encode = self.encode_labels
        if self.tower is not None and encode is not None:
            self.tower.begin_epoch(epoch, lambda: self.ranks.made_by_first(encode))
        if self.curriculum is not None and self._bank is not None and self.curriculum.is_time(epoch, self.epochs):
            size = min(self.curriculum.size(epoch, self.epochs), self.batch_size)
            vectors = self._bank.vectors[torch.from_numpy(self.pairs.rows).to(self._bank.vectors.device)]
            host, place = vectors.cpu().numpy(), str(self.device)
            self._clusters = self.ranks.made_by_first(
                lambda: balanced_clusters(host, size=size, seed=self.seed + epoch, device=place)
            )
        miner = self.miner
        if miner is not None:
            mined = self.ranks.made_by_first(lambda: miner(epoch))
            self._mined = self._mined if mined is None else mined
        self._steps_begun = epoch * self.steps
        begin_shared_epoch(self.seed, epoch, self.ranks)

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

    def checkpoint_dir(self, directory: CheckpointDir) -> CheckpointDir:
        """See `StepHooks.checkpoint_dir`."""
        return SharedCheckpointDir.of(directory, self.ranks)

    def batches(self, epoch: int, begin: int) -> Iterator[PairBatch]:
        """See `Task.batches`."""
        rng = np.random.default_rng([self.seed, epoch])
        rows = self.pairs.rows
        order = clustered_order(rows, self._clusters, rng) if len(self._clusters) else random_order(rows, rng)
        drawn = self.pairs.draw(order, rng)
        negatives = None
        if self._mined is not None:
            number = min(self.negatives, self._mined.shape[1])
            columns = rng.integers(0, self._mined.shape[1], (len(self._mined), number))  # with replacement
            negatives = np.take_along_axis(self._mined, columns, axis=1)
        found = paired(self.pairs, order, drawn, self.batch_size, self.device, begin, negatives)
        if self.surrogate_weight == 0:
            return found
        others = np.split(self.pairs.draw(order, rng), range(self.batch_size, len(order), self.batch_size))
        return (replace(batch, others=other) for batch, other in zip(found, others[begin:], strict=True))

    def backward(self, batch: PairBatch, share: float) -> Tensor:
        """See `Task.backward`."""
        sides = [(self.row_texts, batch.rows), (self.item_texts, batch.pool)]
        if batch.others is not None:
            sides.append((self.item_texts, batch.others))
        pieces, sizes, join = self._pieces(sides)

        def loss_of(encoded: list[Tensor]) -> Tensor:
            rows, items, *others = join(encoded)
            if self._bank is not None:
                self._bank.write(batch.row_tensor, rows)
            if self.tower is not None:
                if self.labels_are_rows:
                    rows = self.tower.vectors(batch.row_tensor, rows)
                else:
                    items = self.tower.vectors(batch.pool_tensor, items)
            loss = self._loss(rows, items, batch)
            if not others:
                return loss
            return torch.lerp(loss, self._loss(others[0], items, batch), self.surrogate_weight)

        if self.ranks.count > 1:
            self._steps_begun += 1
            seed, cached = fold_seed((self.seed << 40) ^ self._steps_begun), self.mini_batch_size is not None
            shape = sizes, self.encoder.dimension, self.device
            return shared_backward(pieces, shape, loss_of, share, self.ranks, seed, cached)
        if self.mini_batch_size is not None:
            return cached_backward(pieces, loss_of, share)
        loss = loss_of([piece() for piece in pieces])
        torch.autograd.backward(loss * share)
        return loss.detach()

    def _pieces(
        self, sides: Sides
    ) -> tuple[list[Callable[[], Tensor]], list[int], Callable[[list[Tensor]], list[Tensor]]]:
        """What encodes the texts, piece by piece; the texts of each piece; and what joins the pieces to the unit
        vectors of each side."""
        rounded = self._replayed is not None
        run = packed(sides, rounded) if self.pack and self.mini_batch_size is None else None
        if run is not None:
            sizes = [len(rows) for _, rows in sides]
            return [self._encoding(*run)], [], lambda encoded: list(_unit(encoded[0][: sum(sizes)]).split(sizes))
        # Pieces of texts of similar length waste less on padding. On a GPU each piece costs kernel launches, which
        # small models wait for.
        number = 2 if self.device.type == "cuda" else 4
        even = self.mini_batch_size
        if self.ranks.count > 1:  # as many texts for each process
            even = min(even or self.batch_size, -(-min(len(rows) for _, rows in sides) // self.ranks.count))
        cut = [side.pieces(rows, number, even) for side, rows in sides]

        def join(encoded: list[Tensor]) -> list[Tensor]:
            found, begin = [], 0
            for texts, places in cut:
                whole = _unit(torch.cat(encoded[begin : begin + len(texts)]))
                found.append(whole if places is None else whole.index_select(0, places))
                begin += len(texts)
            return found

        whole = [one for texts, _ in cut for one in texts]
        return [self._encoding(*one) for one in whole], [len(ids) for ids, _ in whole], join

    def _loss(self, rows: Tensor, items: Tensor, batch: PairBatch) -> Tensor:
        """Column i is row i's drawn positive, so an item that two rows draw counts twice. Mined negatives follow."""
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

    def validate(self) -> dict[str, float]:
        """See `Task.validate`."""
        return {} if self.evaluate is None else self.ranks.made_by_first(self.evaluate)

    def state(self) -> dict[str, Tensor]:
        """See `Task.state`: the vector bank, the clusters and the mined negatives."""
        state = {} if self._bank is None else self._bank.state()
        state["clusters"] = torch.from_numpy(self._clusters)
        if self._mined is not None:
            state["mined"] = torch.from_numpy(self._mined)
        return state if self.tower is None else state | tower_state(self.tower)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state`."""
        if self.tower is not None:
            load_tower(self.tower, state)
        if self._bank is not None:
            self._bank.load_state(state)
        self._clusters = state["clusters"].numpy()
        self._mined = state["mined"].numpy() if "mined" in state else None


def _unit(vectors: Tensor) -> Tensor:
    return normalize(vectors.float(), dim=1)
