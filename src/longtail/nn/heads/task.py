"""The task of one-vs-all classifiers trained end to end: an encoder, and a head over all labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from longtail.arrays import Longs
from longtail.nn.batches import random_order
from longtail.nn.checkpoint import Place
from longtail.nn.encoders import Encoder
from longtail.nn.heads.entries import Entries, Targets
from longtail.nn.heads.head import Head
from longtail.nn.heads.ranks import ALONE, Ranks
from longtail.nn.heads.shards import SharedPlace
from longtail.nn.precision import autocast, decay_groups
from longtail.nn.resident import ResidentTokens, packed
from longtail.nn.seeds import folded


class Penalty(Protocol):
    """A term on the classifier rows, which it moves by itself after each step of the head."""

    def step(self, head: Head, rate: float) -> None: ...


@dataclass(eq=False)
class TextReading:
    """Rows by number to vectors that a gradient can go back through: an encoder over tokens."""

    encoder: Encoder
    texts: ResidentTokens
    precision: str = "auto"
    compiled: bool = False
    pack: bool | None = None  # read a batch as one run without padding; None: where that is faster

    def __post_init__(self) -> None:
        self._padded, self._packed = self.encoder.forward, self.encoder.packed
        if self.compiled:
            self._padded, self._packed = (torch.compile(way, dynamic=True) for way in (self._padded, self._packed))
        if self.pack is None:  # elsewhere attention pads again
            self.pack = self.texts.device.type == "cuda" and self.encoder.settings["kind"] == "transformer"

    def __call__(self, rows: Longs) -> Tensor:
        """(rows, dimension) in float32, of the length the encoder gives them."""
        run = packed([(self.texts, rows)]) if self.pack else None
        with autocast(self.precision, self.texts.device, self.encoder.settings["kind"]):
            if run is not None:
                return self._packed(*run).float()
            # Pieces of like length waste less on padding; on a GPU each costs launches, which small models wait for.
            pieces, places = self.texts.pieces(rows, 2 if self.texts.device.type == "cuda" else 4)
            vectors = torch.cat([self._padded(ids, mask) for ids, mask in pieces]).float()
            return vectors if places is None else vectors.index_select(0, places)


@dataclass(eq=False)
class OneVsAll:
    """`read` turns rows into vectors by the weights of `encoder`; the head gives every label a score.

    The encoder learns by the loop's AdamW from the mean over a batch's rows, so that clipping means the same for every
    batch; the head by its own rule from their sum, at `head_rate` times the loop's factor. Rows without a target are
    trained on too: no label is right for them. Any module and any way of reading will do.
    """

    encoder: nn.Module
    read: Callable[[Longs], Tensor]
    head: Head
    targets: Targets
    batch: int
    rate: float
    head_rate: float
    device: torch.device
    dropout: float = 0.0  # on the vectors
    weight_decay: float = 0.01  # of the encoder
    penalties: Sequence[Penalty] = ()
    look: Callable[[], dict[str, float]] | None = None  # measures on valid
    ranks: Ranks = ALONE
    seed: int = 0
    name: str = "classifiers"

    def __post_init__(self) -> None:
        self.rows = int(self.targets.matrix.shape[0])
        self.steps = math.ceil(self.rows / self.batch)
        self._factor = 1.0

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        return {"encoder": self.encoder, "head": self.head}

    def groups(self) -> list[dict[str, Any]]:
        return decay_groups(self.encoder, self.rate, self.weight_decay)

    def begin_epoch(self, epoch: int) -> None:
        if self.ranks.count > 1:  # processes that read different rows must not drop the same numbers
            torch.manual_seed(hash((self.seed, epoch, self.ranks.number)) & 0x7FFFFFFF)

    def batches(self, epoch: int, begin: int) -> Iterator[Longs]:
        order = random_order(np.arange(self.rows), np.random.default_rng([self.seed, epoch]))
        return (order[first : first + self.batch] for first in range(begin * self.batch, self.rows, self.batch))

    def begin_step(self, factor: float) -> None:
        self._factor = factor

    def end_step(self) -> None:
        self.ranks.sum_gradients(self.encoder)

    def backward(self, batch: Longs, share: float) -> Tensor:
        """The head has moved when this returns. The loss is that of what is right, the mean over its targets: the loss
        of all that is wrong is never computed."""
        first, last = self.ranks.range(len(batch))
        own = self.read(batch[first:last]) if last > first else None
        dimension = self.head.dimension
        read = torch.zeros((0, dimension), device=self.device) if own is None else own.detach()
        vectors, kept = self.ranks.gather(read, len(batch)), self._kept(len(batch), dimension)
        if kept is not None:
            vectors = vectors * kept
        entries = self.targets.batch(batch, self.device)
        loss = self.ranks.sum(_right(self.head, vectors, entries))
        rate = self.head_rate * self._factor
        gradient = self.ranks.sum(self.head.step(vectors, entries, rate).contiguous())
        for penalty in self.penalties:
            penalty.step(self.head, rate)
        if own is not None:
            if kept is not None:
                gradient = gradient * kept
            own.backward(gradient[first:last] * (share / len(batch)))
        return loss[0] / loss[1].clamp(min=1)

    def _kept(self, rows: int, dimension: int) -> Tensor | None:
        """What each number of the vectors is multiplied with; the same for any number of processes, which all see
        the whole batch, and after a training went on."""
        if self.dropout == 0:
            return None
        chance = torch.Generator(self.device).manual_seed(folded((self.seed << 40) ^ self.head.done))
        keep = torch.empty((rows, dimension), device=self.device).bernoulli_(1 - self.dropout, generator=chance)
        return keep.div_(1 - self.dropout)

    def measure(self) -> dict[str, float]:
        return {} if self.look is None else self.look()

    def place(self, place: Place) -> Place:
        return SharedPlace.of(place, self.ranks, self.head, int(self.targets.matrix.shape[1]))

    def state(self) -> dict[str, Tensor]:
        return {"done": torch.tensor(self.head.done)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.head.done = int(state["done"])


def _right(head: Head, vectors: Tensor, entries: Entries) -> Tensor:
    """(2,) the summed loss of the targets as if they were sure, and their number."""
    scores = torch.einsum("ed,ed->e", head.rows(entries.labels), vectors[entries.rows].float())
    if head.bias is not None:
        scores = scores + head.bias[entries.labels]
    found = softplus(-scores) if head.settings.loss == "bce" else (1 - scores).clamp(min=0) ** 2
    return torch.stack([found.sum(), found.new_full((), float(len(found)))])
