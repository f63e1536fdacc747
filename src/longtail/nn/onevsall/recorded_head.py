"""A step of the head and the loss of its positives as a CUDA graph.

Over some ten thousand labels the products of a step take less time than the host takes to launch its kernels, so these
are recorded once for each shape and replayed in one launch. A batch's targets are padded with entries of label -1,
which every kernel leaves out. Learning rate and seed are read from memory (`step_numbers.py`), so the bits of a
replayed step are those of a launched one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from longtail.nn.encoders.cuda_graphs import has_room, on_side, side_stream
from longtail.nn.onevsall.batch_targets import BatchTargets, ChunkTargets
from longtail.nn.onevsall.head import OneVsAllHead
from longtail.nn.onevsall.positive_loss import positive_loss
from longtail.nn.training.to_device import to_device

ENTRIES = 512  # targets of a batch are padded to a multiple of this, so that few shapes occur
Key = tuple[int, int]  # rows, entries


@dataclass(frozen=True, eq=False)
class PaddedTargets:
    """The targets of a batch and entries of label -1 behind them. A chunk gets all, and leaves out those of others."""

    rows: Tensor
    labels: Tensor
    positive_weight: Tensor
    negative_weight: Tensor

    @classmethod
    def empty(cls, entries: int, device: torch.device) -> PaddedTargets:
        """Room for the targets of a batch.

        Args:
            entries: at most so many.
            device: of the head.

        Returns:
            Nothing but padding.
        """
        rows, labels = (torch.zeros(entries, dtype=torch.int64, device=device) for _ in range(2))
        return cls(rows, labels.fill_(-1), *(torch.zeros(entries, device=device) for _ in range(2)))

    def fill(self, targets: BatchTargets) -> None:
        """Copy the targets of a batch.

        Args:
            targets: at most as many as there is room for.
        """
        number = len(targets.labels)
        given = [targets.rows, targets.labels, targets.positive_weight, targets.negative_weight]
        torch._foreach_copy_([each[:number] for each in self._all()], given)
        self.labels[number:].fill_(-1)

    def between(self, start: int, end: int) -> ChunkTargets:
        """See `ChunkedTargets.between`."""
        return ChunkTargets(*self._all())

    def _all(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.rows, self.labels, self.positive_weight, self.negative_weight


@dataclass(eq=False)
class RecordedHead:
    """`positive_loss` and `OneVsAllHead.step`. A shape is recorded when it occurs the second time, since that of an
    epoch's last batch may occur only once. A head with compensated updates cannot be recorded: the step that runs
    before the recording would change it."""

    head: OneVsAllHead

    def __post_init__(self) -> None:
        self._device = self.head.weight.device
        self._stream = side_stream(self._device)
        self.records: dict[Key, _HeadGraph] = {}
        self._seen: Counter[Key] = Counter()

    def __call__(self, vectors: Tensor, targets: BatchTargets, learning_rate: float) -> tuple[Tensor, Tensor] | None:
        """Replay the graph of this batch's shape.

        Args:
            vectors: (rows, dimension).
            targets: of the batch.
            learning_rate: of the head in this step.

        Returns:
            The loss of the positives (2,) and the gradient of the vectors, valid until the next call. None where this
            shape has no graph; the head is then as it was.
        """
        key = len(vectors), max(-(-len(targets.labels) // ENTRIES), 1) * ENTRIES
        self._seen[key] += 1
        if key not in self.records:
            if self._seen[key] == 1 or not has_room(self.records, self._device):
                return None
            self.records[key] = self._record(key, vectors)
        record = self.records[key]
        self.head.done += 1
        record.vectors.copy_(vectors)
        record.targets.fill(targets)
        record.numbers.copy_(to_device(self.head.step_numbers(learning_rate), self._device))
        record.run.replay()
        return record.loss.clone(), record.gradient

    def _record(self, key: Key, like: Tensor) -> _HeadGraph:
        head, (rows, entries) = self.head, key
        vectors = torch.zeros((rows, head.dimension), dtype=like.dtype, device=self._device)
        targets = PaddedTargets.empty(entries, self._device)
        # A step at rate 0 that keeps all weights: what runs before the recording changes nothing.
        still = to_device(head.step_numbers(0.0), self._device)
        run = torch.cuda.CUDAGraph()
        pool = next(iter(self.records.values())).run.pool() if self.records else None
        velocity = None if head.velocity is None else head.velocity.clone()
        with on_side(self._stream):
            head.fused_step(vectors, targets, still)  # once unrecorded: what a first pass sets up must not be recorded
            positive_loss(head, vectors, targets)
            if velocity is not None and head.velocity is not None:
                head.velocity.copy_(velocity)
            with torch.cuda.graph(run, pool=pool, stream=self._stream):
                loss = positive_loss(head, vectors, targets)
                gradient = head.fused_step(vectors, targets, still)
        return _HeadGraph(run, vectors, targets, still, loss, gradient)


@dataclass(frozen=True, eq=False)
class _HeadGraph:
    """A CUDA graph, the tensors it reads, and those it writes."""

    run: torch.cuda.CUDAGraph
    vectors: Tensor
    targets: PaddedTargets
    numbers: Tensor
    loss: Tensor
    gradient: Tensor
