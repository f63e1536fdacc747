"""The head: a weight vector a label, trained over all labels one chunk at a time.

A step takes the vectors of a batch (rows, dimension) and its sparse soft targets. For each chunk of labels it computes
the scores, turns them into the slope of the loss, adds the slopes times the weights to the gradient of the vectors,
moves the chunk's weights at once and forgets the rest. No gradient of all labels, no dense target, no loss and no
second copy of the weights ever exists: memory is the weights and one chunk of slopes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import AnyArray, Longs
from longtail.errors import RecipeError
from longtail.nn.heads import plain
from longtail.nn.heads.entries import Entries
from longtail.nn.heads.rounding import by_chance
from longtail.nn.seeds import folded

KINDS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
EIGHTHS = 64.0  # fp8 holds weights times this, so that common weights are not in its coarse lowest range
WIDTH = 16  # vectors are filled up to a multiple of this, which matrix units like
SLOPES = {"cpu": 4 << 20, "cuda": 256 << 20}  # bytes of the slopes of one chunk


@dataclass(frozen=True)
class HeadSettings:
    """How a head is stored and how it learns. Its rate is of the sum over the rows of a batch, not of their mean."""

    loss: plain.Loss = "bce"
    precision: Literal["auto", "fp32", "bf16", "fp8"] = "auto"  # auto: bf16 on a GPU, else fp32
    momentum: float = 0.0
    weight_decay: float = 1e-4  # each step takes rate x this share of every weight
    bias: float | None = None  # where a number of each label's own begins; none: no such number
    compensated: float = 0.0  # share of the labels, most frequent first, that remember what rounding took
    chunk: int | None = None  # labels; none: as suits the machine
    kernels: Literal["auto", "plain", "fused"] = "auto"  # auto: fused on a GPU
    seed: int = 0

    def kind(self, device: torch.device) -> torch.dtype:
        automatic = "bf16" if device.type == "cuda" else "fp32"
        return KINDS[automatic if self.precision == "auto" else self.precision]


class Head(nn.Module):
    """Weights (labels, dimension); buffers, not parameters, since they move by themselves."""

    weight: Tensor
    bias: Tensor | None
    velocity: Tensor | None
    slots: Tensor | None  # (labels,) int32: where the label's compensation stands, -1 for none
    lost: Tensor | None  # (compensated labels, width) what rounding took so far

    def __init__(
        self,
        labels: int,
        dimension: int,
        settings: HeadSettings,
        device: torch.device,
        counts: Longs | None = None,
        spread: float = 0.02,
    ) -> None:
        """Weights begin at random with this spread. `counts` (labels,) says which labels are frequent."""
        super().__init__()
        self.labels, self.dimension, self.settings = labels, dimension, settings
        self.width = -(-dimension // WIDTH) * WIDTH
        self.done = 0  # steps
        kind = settings.kind(device)
        self.scale = EIGHTHS if kind == torch.float8_e4m3fn else 1.0
        self.register_buffer("weight", torch.empty((labels, self.width), dtype=kind, device=device))
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(settings.seed)
            for begin, end in self._chunks(1 << 16):
                some = torch.randn((end - begin, self.width), device=device) * (spread * self.scale)
                some[:, dimension:] = 0
                self.weight[begin:end] = some.to(kind)
        own = None if settings.bias is None else torch.full((labels,), settings.bias, device=device)
        self.register_buffer("bias", own)
        held = torch.float32 if kind == torch.float32 else torch.bfloat16
        moving = torch.zeros((labels, self.width), dtype=held, device=device) if settings.momentum else None
        self.register_buffer("velocity", moving)
        remembered = round(settings.compensated * labels) if kind != torch.float32 else 0
        slots = lost = None
        if remembered:
            if counts is None:
                raise RecipeError("compensated rounding asks which labels are frequent: give their counts")
            slots = torch.full((labels,), -1, dtype=torch.int32)
            frequent = torch.from_numpy(np.argsort(-counts, kind="stable")[:remembered].copy())
            slots[frequent] = torch.arange(remembered, dtype=torch.int32)
            lost = torch.zeros((remembered, self.width), dtype=torch.bfloat16, device=device)
        self.register_buffer("slots", None if slots is None else slots.to(device))
        self.register_buffer("lost", lost)

    @property
    def fused(self) -> bool:
        """Whether the kernels for a GPU do the work."""
        if self.settings.kernels == "plain" or self.weight.dtype == torch.float32:
            return False
        return self.settings.kernels == "fused" or self.weight.is_cuda

    def step(self, vectors: Tensor, entries: Entries, rate: float) -> Tensor:
        """Move the weights against the summed loss of a batch of vectors (rows, dimension); the gradient of the
        vectors, in float32, by the weights as they were."""
        self.done += 1
        ready = self.ready(vectors.detach())
        total = torch.zeros((len(ready), self.width), dtype=_sums(ready.dtype), device=ready.device)
        work = self._fused_chunk if self.fused else self._plain_chunk
        room: dict[str, Tensor] = {}
        for begin, end in self._chunks(self.chunk(len(ready))):
            work(ready, entries, total, begin, end, rate, room)
        return total[:, : self.dimension]

    def chunk(self, rows: int) -> int:
        """Labels of a chunk for a batch of so many rows."""
        if self.settings.chunk is not None:
            return self.settings.chunk
        device = self.weight.device.type
        size = 4 if self.weight.dtype == torch.float32 else 2
        return max(SLOPES.get(device, 64 << 20) // (size * max(rows, 1)) // 256 * 256, 256)

    def ready(self, vectors: Tensor) -> Tensor:
        """Vectors as wide as the weights, in the precision they are multiplied in."""
        kind = self.weight.dtype if self.weight.dtype.itemsize > 1 else torch.bfloat16
        if vectors.shape[1] == self.width:
            return vectors.to(kind).contiguous()
        filled = torch.zeros((len(vectors), self.width), dtype=kind, device=vectors.device)
        filled[:, : self.dimension] = vectors
        return filled

    def _chunks(self, size: int) -> list[tuple[int, int]]:
        return [(begin, min(begin + size, self.labels)) for begin in range(0, self.labels, size)]

    def _plain_chunk(
        self, ready: Tensor, entries: Entries, total: Tensor, begin: int, end: int, rate: float, room: Any
    ) -> None:
        own = self.settings
        weights = self.multiplied(begin, end)
        bias = None if self.bias is None else self.bias[begin:end]
        found = plain.slopes(weights, bias, ready, entries.between(begin, end), begin, own.loss)
        plain.add_product(total, found.T, weights)
        keep = 1 - rate * own.weight_decay
        if self.bias is not None:
            self.bias[begin:end] -= rate * found.sum(dim=1, dtype=self.bias.dtype)
        if self.weight.dtype == ready.dtype and self.weight.dtype.itemsize > 2 and self.velocity is None:
            self.weight[begin:end].addmm_(found, ready, beta=keep, alpha=-rate)
            return
        self._move(begin, end, plain.product(found, ready), rate, keep)

    def _move(self, begin: int, end: int, gradient: Tensor, rate: float, keep: float) -> None:
        """The chunk's weights against this gradient, then rounded."""
        chance = self._chance(begin)
        if self.velocity is not None:
            gradient = gradient.add_(self.velocity[begin:end].to(gradient.dtype), alpha=self.settings.momentum)
            self.velocity[begin:end] = by_chance(gradient, self.velocity.dtype, chance)
        before = self.weight[begin:end].to(gradient.dtype)
        change = before * (keep - 1) - gradient * (rate * self.scale)
        after = by_chance(before + change, self.weight.dtype, chance)
        if self.slots is not None and self.lost is not None:
            slots = self.slots[begin:end]
            rows = torch.nonzero(slots >= 0)[:, 0]
            places = slots[rows].long()
            wanted = change[rows] + self.lost[places].float()
            exact = before[rows] + wanted
            rounded = exact.to(self.weight.dtype)
            self.lost[places] = (wanted - (rounded.float() - before[rows])).to(self.lost.dtype)
            after[rows] = rounded
        self.weight[begin:end] = after

    def _fused_chunk(
        self, ready: Tensor, entries: Entries, total: Tensor, begin: int, end: int, rate: float, room: dict[str, Tensor]
    ) -> None:
        from longtail.nn.heads import fused

        size = self.chunk(len(ready))
        if not room:
            columns = -(-len(ready) // 8) * 8
            room["slopes"] = torch.empty((min(size, self.labels), columns), dtype=ready.dtype, device=ready.device)
        weights = self.multiplied(begin, end)
        found = room["slopes"][: end - begin]
        bias = None if self.bias is None else self.bias[begin:end]
        fused.slopes(weights, bias, ready, entries.between(begin, end), begin, self.settings.loss, found)
        fused.add_product(total, found[:, : len(ready)].T, weights)
        fused.update(self, begin, end, found, ready, rate)

    def multiplied(self, begin: int, end: int) -> Tensor:
        """The weights of a chunk in the precision they are multiplied in."""
        some = self.weight[begin:end]
        return some if some.dtype.itemsize > 1 else some.to(torch.bfloat16).div_(self.scale)

    def _chance(self, begin: int) -> torch.Generator:
        """Chance that depends on seed, step and chunk alone, so that a training goes on as it would have."""
        chance = torch.Generator(self.weight.device)
        return chance.manual_seed(folded((self.settings.seed << 44) ^ (self.done << 24) ^ begin))

    def rows(self, labels: Tensor) -> Tensor:
        """The weights of these labels in float32: (labels, dimension)."""
        return self.weight[labels].float()[:, : self.dimension] / self.scale

    def move(self, labels: Tensor, gradient: Tensor, rate: float) -> None:
        """Move the weights of a few labels, each named once, against a gradient (labels, dimension) of their own."""
        after = (self.rows(labels) - rate * gradient.float()) * self.scale
        rounded = by_chance(after, self.weight.dtype, self._chance(self.labels))
        self.weight[labels, : self.dimension] = rounded.to(self.weight.dtype)

    def begin_at(self, rows: AnyArray | Tensor) -> None:
        """Put the weights to these (labels, dimension)."""
        given = torch.as_tensor(rows)
        for begin, end in self._chunks(1 << 16):
            some = given[begin:end].to(self.weight.device).float() * self.scale
            self.weight[begin:end, : self.dimension] = some.to(self.weight.dtype)

    def scores(self, vectors: Tensor) -> Tensor:
        """All scores (rows, labels) in float32: for few labels and for tests."""
        found = plain.product(self.ready(vectors), self.multiplied(0, self.labels).T)
        return found if self.bias is None else found + self.bias


def _sums(kind: torch.dtype) -> torch.dtype:
    return torch.float64 if kind == torch.float64 else torch.float32
