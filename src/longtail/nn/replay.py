"""An encoder's kernels launched together: recorded once for each shape of a batch, forward and back, then replayed.

A small encoder's step is some hundred short kernels, and a host takes longer to launch them one by one than a GPU to
run them. Chance is drawn on the device while replaying, as it would be without.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from longtail.nn.encoders import Encoder
from longtail.nn.layouts import Packed
from longtail.nn.precision import autocast

MOST = 8  # shapes that are recorded: each keeps the gradients of all weights
ROOM = 0.4  # share of the device's memory above which nothing is recorded: what was recorded keeps its memory

Key = tuple[int, int, int]  # tokens, texts, bound on their length


@dataclass(eq=False)
class Replayed:
    """`encoder.packed` with gradients. A shape is recorded when it comes for the second time: many come only once."""

    encoder: Encoder
    precision: str

    def __post_init__(self) -> None:
        self.parameters = [weight for weight in self.encoder.parameters() if weight.requires_grad]
        # What adds up a weight's gradient belongs to the stream where it was first made, and lives while it is held.
        self._held = [weight.expand_as(weight).grad_fn for weight in self.parameters]
        self.records: dict[Key, _Record] = {}
        self._seen: Counter[Key] = Counter()

    def __call__(self, ids: Tensor, layout: Packed) -> Tensor:
        """Vectors (texts, dimension) that stay until the next call; their gradient is to be taken before that."""
        key = len(ids), len(layout.lengths), layout.longest
        self._seen[key] += 1
        if key not in self.records:
            if self._seen[key] == 1 or not self._has_room(ids.device):
                return self._encode(ids, layout)
            self.records[key] = self._record(ids, layout)
        record = self.records[key]
        for weight in self.parameters:
            if weight.grad is not None:  # of a batch before, to be added to: it may lie where this replay writes
                weight.grad = weight.grad.clone()
        torch._foreach_copy_(record.inputs, _inputs(ids, layout))
        vectors: Tensor = _Replay.apply(record, *self.parameters)  # type: ignore[no-untyped-call]
        return vectors

    def _encode(self, ids: Tensor, layout: Packed) -> Tensor:
        with autocast(self.precision, ids.device, self.encoder.settings["kind"]):
            return self.encoder.packed(ids, layout)

    def _has_room(self, device: torch.device) -> bool:
        most = torch.cuda.get_device_properties(device).total_memory
        return len(self.records) < MOST and torch.cuda.max_memory_allocated(device) < ROOM * most

    def _record(self, ids: Tensor, layout: Packed) -> _Record:
        inputs = [one.clone() for one in _inputs(ids, layout)]
        own = Packed(inputs[1], inputs[2], inputs[3], inputs[4], layout.longest)
        chance = torch.cuda.get_rng_state(ids.device)
        current, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(current)
        with torch.cuda.stream(aside):  # what a stream's first product sets up must not be recorded
            vectors = self._encode(inputs[0], own)
            torch.autograd.grad(vectors, self.parameters, torch.zeros_like(vectors), allow_unused=True)
        current.wait_stream(aside)
        torch.cuda.set_rng_state(chance, ids.device)
        pool = next(iter(self.records.values())).forward.pool() if self.records else None
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(forward, pool=pool):
            vectors = self._encode(inputs[0], own)
        to_vectors = torch.zeros_like(vectors)
        with torch.cuda.graph(backward, pool=forward.pool()):
            gradients = torch.autograd.grad(vectors, self.parameters, to_vectors, allow_unused=True)
        return _Record(inputs, forward, vectors.detach(), to_vectors, backward, gradients)


@dataclass(frozen=True, eq=False)
class _Record:
    """Kernels, and the places in memory that they read and fill."""

    inputs: list[Tensor]
    forward: torch.cuda.CUDAGraph
    vectors: Tensor
    to_vectors: Tensor
    backward: torch.cuda.CUDAGraph
    gradients: tuple[Tensor | None, ...]


def _inputs(ids: Tensor, layout: Packed) -> list[Tensor]:
    return [ids, layout.lengths, layout.ends, layout.text_of, layout.places]


class _Replay(torch.autograd.Function):
    """The gradients it gives are places that the next replay, forward too, fills again."""

    @staticmethod
    def forward(ctx: Any, record: _Record, *parameters: Tensor) -> Tensor:
        ctx.record = record
        record.forward.replay()
        return record.vectors.detach()

    @staticmethod
    def backward(ctx: Any, to_vectors: Tensor) -> Any:
        record: _Record = ctx.record
        record.to_vectors.copy_(to_vectors)
        record.backward.replay()
        return None, *(None if gradient is None else gradient.detach() for gradient in record.gradients)
