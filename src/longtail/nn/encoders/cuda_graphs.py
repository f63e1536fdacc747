"""CUDA graphs of an encoder: its kernels are recorded once for each shape of a batch, forward and backward, then
replayed in one launch.

A step of a small encoder is some hundred short kernels, and the host takes longer to launch them one by one than the
GPU to run them. Dropout is drawn anew in every replay.

Batches are rounded up with padding texts, so that few shapes occur. Recorded kernels run on a twin of the encoder over
the same memory, so that autograd never meets the weights themselves on the recording stream. All trainings share that
stream, because libraries keep memory for each stream.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from longtail.nn.encoders.build import Encoder
from longtail.nn.encoders.device_tokens import DeviceTokens
from longtail.nn.encoders.fused_transformer import can_fuse
from longtail.nn.encoders.layouts import Packed
from longtail.nn.encoders.transformer import Transformer
from longtail.nn.training.precision import autocast, uses_bf16

MAX_RECORDS = 8  # recorded shapes: each holds gradients of all weights
MAX_MEMORY = 0.4  # share of the device's memory in use above which nothing more is recorded: records keep their memory

Module = TypeVar("Module", bound=nn.Module)
Key = tuple[int, int, int, bool]  # tokens, texts, bound on their length, whether dropout is on


@dataclass(eq=False)
class RecordedEncoder:
    """`encoder.packed` with gradients, by CUDA graphs.

    A shape is recorded when it occurs for the second time: many occur only once. Recorded kernels run on a twin of the
    encoder and on one side stream, because autograd ties the gradient of a weight to the stream where that weight was
    first used, and the encoder's own weights are used on the caller's stream.
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
        self._anchor = torch.zeros((), device=device, requires_grad=True)  # makes autograd call `_Replay.backward`
        self.records: dict[Key, _EncoderGraph] = {}
        self._seen: Counter[Key] = Counter()

    def __call__(self, ids: Tensor, layout: Packed) -> Tensor:
        """Encode packed texts.

        The vectors are valid until the next call; `backward` must be called before that, and adds to the weights'
        gradients.

        Args:
            ids: (tokens,) int64.
            layout: Where each text lies.

        Returns:
            (texts, dimension) float32.
        """
        key = len(ids), len(layout.lengths), layout.longest, self.encoder.training
        self._seen[key] += 1
        if key not in self.records:
            if self._seen[key] == 1 or not has_room(self.records, ids.device):
                return self._encode(self.encoder, ids, layout)
            self.records[key] = self._record(ids, layout)
        record = self.records[key]
        copy_gradients(self.parameters)
        torch._foreach_copy_(record.inputs, _inputs(ids, layout))
        vectors: Tensor = _Replay.apply(self._anchor, record, self.parameters)  # type: ignore[no-untyped-call]
        return vectors

    def _encode(self, encoder: Encoder, ids: Tensor, layout: Packed) -> Tensor:
        with autocast(self.precision, ids.device, self.encoder.settings["kind"]):
            return encoder.packed(ids, layout)

    def _record(self, ids: Tensor, layout: Packed) -> _EncoderGraph:
        inputs = [tensor.clone() for tensor in _inputs(ids, layout)]
        own = Packed(inputs[1], inputs[2], inputs[3], inputs[4], layout.longest)
        rng_state = torch.cuda.get_rng_state(ids.device)
        pool = next(iter(self.records.values())).forward.pool() if self.records else None
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        self._twin.train(self.encoder.training)
        with on_side(self._stream):
            # Once without recording: the set-up of the first pass on a stream must not be recorded.
            vectors = self._encode(self._twin, inputs[0], own)
            to_vectors = torch.zeros_like(vectors)
            torch.autograd.grad(vectors, self._leaves, to_vectors, allow_unused=True)
            torch.cuda.set_rng_state(rng_state, ids.device)
            with torch.cuda.graph(forward, pool=pool, stream=self._stream):
                vectors = self._encode(self._twin, inputs[0], own)
            with torch.cuda.graph(backward, pool=forward.pool(), stream=self._stream):
                gradients = torch.autograd.grad(vectors, self._leaves, to_vectors, allow_unused=True)
        return _EncoderGraph(inputs, forward, vectors.detach(), to_vectors, backward, gradients)


@dataclass(frozen=True, eq=False)
class _EncoderGraph:
    """Recorded kernels, and the tensors that they read and write."""

    inputs: list[Tensor]
    forward: torch.cuda.CUDAGraph
    vectors: Tensor
    to_vectors: Tensor
    backward: torch.cuda.CUDAGraph
    gradients: tuple[Tensor | None, ...]


def twin(module: Module) -> Module:
    """Copy a network so that both share the memory of their weights, but not their gradients.

    Args:
        module: The network.

    Returns:
        The copy.
    """
    known: dict[int, Any] = {id(buffer): buffer for buffer in module.buffers()}
    for weight in module.parameters():
        known[id(weight)] = nn.Parameter(weight.detach(), weight.requires_grad)
    return deepcopy(module, known)


def can_replay(encoder: Encoder, precision: str, sides: Sequence[DeviceTokens]) -> bool:
    """Check whether the kernels of an encoder can be recorded.

    Args:
        encoder: The encoder.
        precision: The setting: auto, fp32 or bf16.
        sides: The texts that it will read.

    Returns:
        Whether it is a transformer that the Triton kernels fit, and recording is allowed.
    """
    body, kind, device = encoder.body, encoder.settings["kind"], sides[0].device
    longest = max(int(side.lengths.max(initial=1)) for side in sides)
    return (
        may_record()
        and isinstance(body, Transformer)
        and body.shape.pooling == "mean"  # the other poolings are undefined for an empty text
        and uses_bf16(precision, device, kind)
        and can_fuse(body.shape, device, torch.bfloat16, longest)
    )


def may_record() -> bool:
    """Check the environment: with LONGTAIL_CUDA_GRAPHS=0 every kernel is launched by itself, to find a fault or to
    measure what recording saves.

    Returns:
        Whether kernels may be recorded.
    """
    return os.environ.get("LONGTAIL_CUDA_GRAPHS", "") != "0"


def has_room(records: Sized, device: torch.device) -> bool:
    """Check whether one more graph may be recorded.

    Args:
        records: Those recorded so far.
        device: The GPU.

    Returns:
        Whether recording is allowed, there are few enough, and enough memory is free.
    """
    if not may_record():
        return False
    total = torch.cuda.get_device_properties(device).total_memory
    return len(records) < MAX_RECORDS and torch.cuda.max_memory_allocated(device) < MAX_MEMORY * total


def side_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream to record on: one for all trainings, since each further stream leaves some 64 MiB behind.

    Args:
        device: The GPU.

    Returns:
        The stream.
    """
    return _side_stream(torch.cuda.current_device() if device.index is None else device.index)


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@contextmanager
def on_side(stream: torch.cuda.Stream) -> Iterator[None]:
    """Run the block on a stream, after all earlier work of the current stream and before all later work.

    Args:
        stream: From `side_stream`.

    Yields:
        Nothing.
    """
    stream.wait_stream(torch.cuda.current_stream())
    # Autocast must not cache a weight's bf16 copy from one pass to the next: weights change.
    with torch.cuda.stream(stream), torch.autocast("cuda", enabled=False, cache_enabled=False):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def copy_gradients(weights: Sequence[nn.Parameter]) -> None:
    """Copy the existing gradients, before a replay overwrites the memory that they may lie in.

    Args:
        weights: Whose gradients to copy.
    """
    for weight in weights:
        if weight.grad is not None:
            weight.grad = weight.grad.clone()


def add_gradients(weights: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    """Add gradients to those of the weights, without autograd, which takes longer to pass on a hundred gradients than
    the device to compute them.

    Args:
        weights: The parameters.
        gradients: One for each, or None.
    """
    existing, added = [], []
    for weight, gradient in zip(weights, gradients, strict=True):
        if gradient is not None and weight.grad is not None:
            existing.append(weight.grad)
            added.append(gradient)
        elif gradient is not None:
            weight.grad = gradient
    if existing:
        torch._foreach_add_(existing, added)


def _inputs(ids: Tensor, layout: Packed) -> list[Tensor]:
    return [ids, layout.lengths, layout.ends, layout.text_of, layout.places]


class _Replay(torch.autograd.Function):
    """Replays the kernels. The next replay, forward or backward, overwrites the gradients that it leaves."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, record: _EncoderGraph, weights: list[nn.Parameter]) -> Tensor:
        ctx.record, ctx.weights = record, weights
        record.forward.replay()
        return record.vectors.detach()

    @staticmethod
    def backward(ctx: Any, to_vectors: Tensor) -> Any:
        record: _EncoderGraph = ctx.record
        record.to_vectors.copy_(to_vectors)
        record.backward.replay()
        add_gradients(ctx.weights, record.gradients)
        return None, None, None
