"""The head: one weight vector per label, trained over all labels, one chunk of labels at a time.

A step takes the vectors of a batch (rows, dimension) and its sparse soft targets. For each chunk of labels it computes
the scores, turns them into the gradient of the loss by the scores, adds that gradient times the weights to the
gradient of the vectors, and updates the chunk's weights at once. It never holds a gradient of all labels, dense
targets, the loss or a second copy of the weights: memory is the weights and the score gradients of one chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import AnyArray, Ints, Longs
from longtail.errors import RecipeError
from longtail.nn.onevsall import plain_head as plain
from longtail.nn.onevsall.batch_targets import BatchTargets, ChunkTargets
from longtail.nn.onevsall.step_numbers import step_numbers
from longtail.nn.onevsall.stochastic_rounding import stochastic_round
from longtail.nn.training.seeds import fold_seed
from longtail.nn.training.to_device import to_device

KINDS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
FP8_SCALE = 64.0  # fp8 stores weights times this, which keeps typical weights out of its coarse subnormal range
WIDTH = 16  # vectors are padded to a multiple of this, for the tensor cores
CHUNK_BYTES = {"cpu": 4 << 20, "cuda": 256 << 20}  # of the score gradients of one chunk


@dataclass(frozen=True)
class HeadSettings:
    """How a head is stored and trained. Its learning rate applies to the sum over a batch's rows, not to the mean."""

    loss: plain.Loss = "bce"
    precision: Literal["auto", "fp32", "bf16", "fp8"] = "auto"  # auto: bf16 on a GPU, else fp32
    momentum: float = 0.0
    weight_decay: float = 1e-4  # each step shrinks every weight by learning rate x this
    bias: float | None = None  # initial bias of every label; None: no biases
    compensated: float = 0.0  # share of the labels, most frequent first, with Kahan-compensated updates
    chunk: int | None = None  # labels of a chunk; None: by the memory of one chunk
    kernels: Literal["auto", "plain", "fused"] = "auto"  # auto: fused on a GPU
    seed: int = 0

    def kind(self, device: torch.device) -> torch.dtype:
        """Resolve the precision.

        Args:
            device: of the weights.

        Returns:
            The type in which the weights are stored.
        """
        automatic = "bf16" if device.type == "cuda" else "fp32"
        return KINDS[automatic if self.precision == "auto" else self.precision]


class ChunkedTargets(Protocol):
    """The targets of a batch, by chunk of labels."""

    def between(self, start: int, end: int) -> ChunkTargets:
        """Select a range of labels.

        Args:
            start: first label.
            end: one past the last label.

        Returns:
            The targets of these labels; others among them are left out by the kernels.
        """


class OneVsAllHead(nn.Module):
    """Weights (labels, dimension) as buffers, not parameters: the head updates them itself."""

    weight: Tensor
    bias: Tensor | None
    velocity: Tensor | None
    slots: Tensor | None  # (labels,) int32: row of the label in `lost`, -1 for none
    lost: Tensor | None  # (compensated labels, width) rounding errors so far

    def __init__(
        self,
        labels: int,
        dimension: int,
        settings: HeadSettings,
        device: torch.device,
        counts: Longs | None = None,
        std: float = 0.02,
    ) -> None:
        """Initialise the weights at random.

        Args:
            labels: number of labels.
            dimension: of the vectors.
            settings: how the head is stored and trained.
            device: of the weights.
            counts: (labels,) training counts; needed for compensated updates of the most frequent labels.
            std: standard deviation of the initial weights.

        Raises:
            RecipeError: compensated updates without counts.
        """
        super().__init__()
        self.labels, self.dimension, self.settings = labels, dimension, settings
        self.width = -(-dimension // WIDTH) * WIDTH
        self.done = 0  # steps taken
        kind = settings.kind(device)
        self.scale = FP8_SCALE if kind == torch.float8_e4m3fn else 1.0
        self.register_buffer("weight", torch.empty((labels, self.width), dtype=kind, device=device))
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(settings.seed)
            for start, end in self._chunks(1 << 16):
                piece = torch.randn((end - start, self.width), device=device) * (std * self.scale)
                piece[:, dimension:] = 0
                self.weight[start:end] = piece.to(kind)
        bias = None if settings.bias is None else torch.full((labels,), settings.bias, device=device)
        self.register_buffer("bias", bias)
        velocity_kind = torch.float32 if kind == torch.float32 else torch.bfloat16
        velocity = torch.zeros((labels, self.width), dtype=velocity_kind, device=device) if settings.momentum else None
        self.register_buffer("velocity", velocity)
        compensated = round(settings.compensated * labels) if kind != torch.float32 else 0
        slots = lost = None
        if compensated:
            if counts is None:
                raise RecipeError("compensated updates go to the most frequent labels: pass the labels' counts")
            slots = torch.full((labels,), -1, dtype=torch.int32)
            frequent = torch.from_numpy(np.argsort(-counts, kind="stable")[:compensated].copy())
            slots[frequent] = torch.arange(compensated, dtype=torch.int32)
            lost = torch.zeros((compensated, self.width), dtype=torch.bfloat16, device=device)
        self.register_buffer("slots", None if slots is None else slots.to(device))
        self.register_buffer("lost", lost)

    @property
    def fused(self) -> bool:
        """Whether the Triton kernels do the work."""
        if self.settings.kernels == "plain" or self.weight.dtype == torch.float32:
            return False
        return self.settings.kernels == "fused" or self.weight.is_cuda

    def step(self, vectors: Tensor, targets: BatchTargets, learning_rate: float) -> Tensor:
        """Update the weights by one step of SGD on the summed loss of a batch.

        Args:
            vectors: (rows, dimension) of the batch.
            targets: of the batch.
            learning_rate: of this step.

        Returns:
            The gradient of the vectors (rows, dimension) in float32, by the weights before the step.
        """
        self.done += 1
        if self.fused:
            numbers = to_device(self.step_numbers(learning_rate), self.weight.device)
            return self.fused_step(vectors, targets, numbers)
        padded = self.pad(vectors.detach())
        total = torch.zeros((len(padded), self.width), dtype=_accumulator(padded.dtype), device=padded.device)
        for start, end in self._chunks(self.chunk(len(padded))):
            self._plain_chunk(padded, targets, total, start, end, learning_rate)
        return total[:, : self.dimension]

    def step_numbers(self, learning_rate: float) -> Ints:
        """What `fused_step` reads of this step.

        Args:
            learning_rate: of this step.

        Returns:
            See `step_numbers.py`.
        """
        own = self.settings
        return step_numbers(learning_rate, self.scale, 1 - learning_rate * own.weight_decay, own.seed, self.done)

    def fused_step(self, vectors: Tensor, targets: ChunkedTargets, numbers: Tensor) -> Tensor:
        """A step by the Triton kernels. It depends on nothing of the host's but shapes, so it can be recorded.

        Args:
            vectors: (rows, dimension) of the batch.
            targets: of the batch.
            numbers: from `step_numbers`, on the device.

        Returns:
            The gradient of the vectors (rows, dimension) in float32, by the weights before the step.
        """
        from longtail.nn.onevsall import fused_head as fused

        padded = self.pad(vectors.detach())
        total = torch.zeros((len(padded), self.width), device=padded.device)
        size, wide = self.chunk(len(padded)), -(-len(padded) // 8) * 8
        held = torch.empty((min(size, self.labels), wide), dtype=padded.dtype, device=padded.device)
        for start, end in self._chunks(size):
            weights, gradients = self.chunk_weights(start, end), held[: end - start]
            part, loss = targets.between(start, end), self.settings.loss
            bias, velocity, slots = (
                None if each is None else each[start:end] for each in (self.bias, self.velocity, self.slots)
            )
            fused.score_gradients(weights, bias, padded, part, start, loss, gradients)
            fused.add_product(total, gradients[:, : len(padded)].T, weights)
            stored = fused.HeadChunk(self.weight[start:end], bias, velocity, slots, self.lost)
            fused.update(stored, gradients, padded, numbers, start, self.settings.momentum)
        return total[:, : self.dimension]

    def chunk(self, rows: int) -> int:
        """Choose the number of labels in a chunk.

        Args:
            rows: of the batch.

        Returns:
            The setting, or about as many labels as fit `CHUNK_BYTES`.
        """
        if self.settings.chunk is not None:
            return self.settings.chunk
        device = self.weight.device.type
        size = 4 if self.weight.dtype == torch.float32 else 2
        labels = max(CHUNK_BYTES.get(device, 64 << 20) // (size * max(rows, 1)) // 256 * 256, 256)
        if not (self.fused and self.weight.is_cuda):
            return labels
        from longtail.nn.onevsall import fused_head as fused

        return fused.whole_turns(labels)

    def pad(self, vectors: Tensor) -> Tensor:
        """Pad vectors with zeros to the width of the weights, in the precision of the products.

        Args:
            vectors: (rows, dimension).

        Returns:
            (rows, width), bf16 where the weights are fp8, else of their type.
        """
        kind = self.weight.dtype if self.weight.dtype.itemsize > 1 else torch.bfloat16
        if vectors.shape[1] == self.width:
            return vectors.to(kind).contiguous()
        padded = torch.zeros((len(vectors), self.width), dtype=kind, device=vectors.device)
        padded[:, : self.dimension] = vectors
        return padded

    def _chunks(self, size: int) -> list[tuple[int, int]]:
        return [(start, min(start + size, self.labels)) for start in range(0, self.labels, size)]

    def _plain_chunk(
        self,
        padded: Tensor,
        targets: BatchTargets,
        total: Tensor,
        start: int,
        end: int,
        learning_rate: float,
    ) -> None:
        own = self.settings
        weights = self.chunk_weights(start, end)
        bias = None if self.bias is None else self.bias[start:end]
        gradients = plain.score_gradients(weights, bias, padded, targets.between(start, end), start, own.loss)
        plain.add_product(total, gradients.T, weights)
        decay = 1 - learning_rate * own.weight_decay
        if self.bias is not None:
            self.bias[start:end] -= learning_rate * gradients.sum(dim=1, dtype=self.bias.dtype)
        if self.weight.dtype == padded.dtype and self.weight.dtype.itemsize > 2 and self.velocity is None:
            self.weight[start:end].addmm_(gradients, padded, beta=decay, alpha=-learning_rate)
            return
        self._update(start, end, plain.product(gradients, padded), learning_rate, decay)

    def _update(self, start: int, end: int, gradient: Tensor, learning_rate: float, decay: float) -> None:
        """Step the chunk's weights against this gradient, then round them."""
        generator = self._generator(start)
        if self.velocity is not None:
            gradient = gradient.add_(self.velocity[start:end].to(gradient.dtype), alpha=self.settings.momentum)
            self.velocity[start:end] = stochastic_round(gradient, self.velocity.dtype, generator)
        before = self.weight[start:end].to(gradient.dtype)
        change = before * (decay - 1) - gradient * (learning_rate * self.scale)
        after = stochastic_round(before + change, self.weight.dtype, generator)
        if self.slots is not None and self.lost is not None:
            slots = self.slots[start:end]
            rows = torch.nonzero(slots >= 0)[:, 0]
            places = slots[rows].long()
            corrected = change[rows] + self.lost[places].float()
            exact = before[rows] + corrected
            rounded = exact.to(self.weight.dtype)
            self.lost[places] = (corrected - (rounded.float() - before[rows])).to(self.lost.dtype)
            after[rows] = rounded
        self.weight[start:end] = after

    def chunk_weights(self, start: int, end: int) -> Tensor:
        """Read the weights of a chunk in the precision of the products.

        Args:
            start: first label.
            end: one past the last label.

        Returns:
            (labels, width); fp8 weights as unscaled bf16.
        """
        weights = self.weight[start:end]
        return weights if weights.dtype.itemsize > 1 else weights.to(torch.bfloat16).div_(self.scale)

    def _generator(self, start: int) -> torch.Generator:
        """A generator that depends on seed, step and chunk alone, so that a resumed training draws the same bits."""
        generator = torch.Generator(self.weight.device)
        return generator.manual_seed(fold_seed((self.settings.seed << 44) ^ (self.done << 24) ^ start))

    def rows(self, labels: Tensor) -> Tensor:
        """Read the weights of some labels.

        Args:
            labels: (labels,) int64.

        Returns:
            (labels, dimension) float32.
        """
        return self.weight[labels].float()[:, : self.dimension] / self.scale

    def update_rows(self, labels: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Step the weights of some labels against a gradient, as penalties do.

        Args:
            labels: (labels,) int64, without duplicates.
            gradient: (labels, dimension).
            learning_rate: of this step.
        """
        after = (self.rows(labels) - learning_rate * gradient.float()) * self.scale
        rounded = stochastic_round(after, self.weight.dtype, self._generator(self.labels))
        self.weight[labels, : self.dimension] = rounded.to(self.weight.dtype)

    def set_weights(self, rows: AnyArray | Tensor) -> None:
        """Set the weights.

        Args:
            rows: (labels, dimension).
        """
        given = torch.as_tensor(rows)
        for start, end in self._chunks(1 << 16):
            piece = given[start:end].to(self.weight.device).float() * self.scale
            self.weight[start:end, : self.dimension] = piece.to(self.weight.dtype)

    def scores(self, vectors: Tensor) -> Tensor:
        """Compute all scores at once: for few labels and for tests.

        Args:
            vectors: (rows, dimension).

        Returns:
            (rows, labels) float32.
        """
        found = plain.product(self.pad(vectors), self.chunk_weights(0, self.labels).T)
        return found if self.bias is None else found + self.bias


def _accumulator(kind: torch.dtype) -> torch.dtype:
    return torch.float64 if kind == torch.float64 else torch.float32
