"""An encoder's kernels launched together: recorded once for each shape of a batch, forward and back, then replayed.

A small encoder's step is some hundred short kernels, and a host takes longer to launch them one by one than a GPU to
run them. Chance is drawn on the device while replaying, as it would be without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from longtail.nn.encoders import Encoder
from longtail.nn.fused import can_fuse
from longtail.nn.layouts import Packed
from longtail.nn.precision import autocast, is_lower
from longtail.nn.resident import ResidentTokens
from longtail.nn.transformer import Transformer

MOST = 8  # shapes that are recorded: each keeps the gradients of all weights
ROOM = 0.4  # share of the device's memory above which nothing is recorded: what was recorded keeps its memory

Module = TypeVar("Module", bound=nn.Module)
Key = tuple[int, int, int, bool]  # tokens, texts, bound on their length, whether dropout is on


@dataclass(eq=False)
class Replayed:
    """`encoder.packed` with gradients. A shape is recorded when it comes for the second time: many come only once.

    What is recorded runs on a twin of the encoder and on one stream: autograd ties the gradient of a weight to the
    stream where that weight was first used, and the weights themselves are used on the caller's.
    """

    encoder: Encoder
    precision: str

    def __post_init__(self) -> None:
        self._twin = twin(self.encoder)
        pairs = zip(self.encoder.parameters(), self._twin.parameters(), strict=True)
        learned = [(weight, leaf) for weight, leaf in pairs if weight.requires_grad]
        self.parameters, self._leaves = ([pair[side] for pair in learned] for side in range(2))
        device = self.parameters[0].device
        self._stream = side_stream(device)
        self._anchor = torch.zeros((), device=device, requires_grad=True)  # so that autograd calls back
        self.records: dict[Key, _Record] = {}
        self._seen: Counter[Key] = Counter()

    def __call__(self, ids: Tensor, layout: Packed) -> Tensor:
        """Vectors (texts, dimension) that stay until the next call; their gradient is to be taken before that, by
        `backward`, which adds it to that of the weights."""
        key = len(ids), len(layout.lengths), layout.longest, self.encoder.training
        self._seen[key] += 1
        if key not in self.records:
            if self._seen[key] == 1 or not has_room(self.records, ids.device):
                return self._encode(self.encoder, ids, layout)
            self.records[key] = self._record(ids, layout)
        record = self.records[key]
        kept_apart(self.parameters)
        torch._foreach_copy_(record.inputs, _inputs(ids, layout))
        vectors: Tensor = _Replay.apply(self._anchor, record, self.parameters)  # type: ignore[no-untyped-call]
        return vectors

    def _encode(self, encoder: Encoder, ids: Tensor, layout: Packed) -> Tensor:
        with autocast(self.precision, ids.device, self.encoder.settings["kind"]):
            return encoder.packed(ids, layout)

    def _record(self, ids: Tensor, layout: Packed) -> _Record:
        inputs = [one.clone() for one in _inputs(ids, layout)]
        own = Packed(inputs[1], inputs[2], inputs[3], inputs[4], layout.longest)
        chance = torch.cuda.get_rng_state(ids.device)
        pool = next(iter(self.records.values())).forward.pool() if self.records else None
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        self._twin.train(self.encoder.training)
        with on_side(self._stream):
            # Once without recording: what the first pass on a stream sets up must not be recorded.
            vectors = self._encode(self._twin, inputs[0], own)
            to_vectors = torch.zeros_like(vectors)
            torch.autograd.grad(vectors, self._leaves, to_vectors, allow_unused=True)
            torch.cuda.set_rng_state(chance, ids.device)
            with torch.cuda.graph(forward, pool=pool, stream=self._stream):
                vectors = self._encode(self._twin, inputs[0], own)
            with torch.cuda.graph(backward, pool=forward.pool(), stream=self._stream):
                gradients = torch.autograd.grad(vectors, self._leaves, to_vectors, allow_unused=True)
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


def twin(module: Module) -> Module:
    """The same network over the same memory, with parameters and thus gradients of its own."""
    known: dict[int, Any] = {id(buffer): buffer for buffer in module.buffers()}
    for weight in module.parameters():
        known[id(weight)] = nn.Parameter(weight.detach(), weight.requires_grad)
    return deepcopy(module, known)


def can_replay(encoder: Encoder, precision: str, sides: Sequence[ResidentTokens]) -> bool:
    """Whether the kernels of this encoder over these texts can be recorded."""
    body, kind, device = encoder.body, encoder.settings["kind"], sides[0].device
    longest = max(int(side.lengths.max(initial=1)) for side in sides)
    return (
        isinstance(body, Transformer)
        and body.shape.pooling == "mean"  # of no tokens, other poolings have no answer
        and is_lower(precision, device, kind)
        and can_fuse(body.shape, device, torch.bfloat16, longest)
    )


def has_room(records: Sized, device: torch.device) -> bool:
    """Whether one more may be recorded there."""
    most = torch.cuda.get_device_properties(device).total_memory
    return len(records) < MOST and torch.cuda.max_memory_allocated(device) < ROOM * most


def side_stream(device: torch.device) -> torch.cuda.Stream:
    """Where kernels are recorded, one for all trainings: each that had its own left some 64 MiB behind."""
    return _side_stream(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@contextmanager
def on_side(stream: torch.cuda.Stream) -> Iterator[None]:
    """On that stream, after what was asked for before and before what is asked for next."""
    stream.wait_stream(torch.cuda.current_stream())
    # A weight's copy in half precision must not be kept from one pass to the next: weights change.
    with torch.cuda.stream(stream), torch.autocast("cuda", enabled=False, cache_enabled=False):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def kept_apart(weights: Sequence[nn.Parameter]) -> None:
    """Gradients of a batch before, which are to be added to, may lie where a replay writes."""
    for weight in weights:
        if weight.grad is not None:
            weight.grad = weight.grad.clone()


def taken_over(weights: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    """Add these to what the weights have: autograd would take longer to hand over a hundred gradients than the device
    to compute them."""
    known, found = [], []
    for weight, gradient in zip(weights, gradients, strict=True):
        if gradient is not None and weight.grad is not None:
            known.append(weight.grad)
            found.append(gradient)
        elif gradient is not None:
            weight.grad = gradient
    if known:
        torch._foreach_add_(known, found)


def _inputs(ids: Tensor, layout: Packed) -> list[Tensor]:
    return [ids, layout.lengths, layout.ends, layout.text_of, layout.places]


class _Replay(torch.autograd.Function):
    """The gradients it leaves are places that the next replay, forward too, fills again."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, record: _Record, weights: list[nn.Parameter]) -> Tensor:
        ctx.record, ctx.weights = record, weights
        record.forward.replay()
        return record.vectors.detach()

    @staticmethod
    def backward(ctx: Any, to_vectors: Tensor) -> Any:
        record: _Record = ctx.record
        record.to_vectors.copy_(to_vectors)
        record.backward.replay()
        taken_over(ctx.weights, record.gradients)
        return None, None, None
