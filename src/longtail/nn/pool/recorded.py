"""The loss of a pool with all its slopes as one recorded run of kernels.

Between an encoder's way forward and its way back lie some two hundred short kernels: heads, scores, losses of either
side, and their slopes. A host takes longer to launch them one by one than a GPU to run them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from longtail.nn.pool.heads import Heads
from longtail.nn.pool.losses import Weighed
from longtail.nn.pool.picks import PoolBatch
from longtail.nn.replay import has_room, kept_apart, on_side, side_stream, taken_over, twin

Loss = Callable[[Tensor, Weighed, Tensor | None, Heads | None], Tensor]
Key = tuple[int, int, bool]  # rows, columns, whether dropout is on


@dataclass(eq=False)
class RecordedLoss:
    """`loss` of encoded texts, targets, classifiers and heads. A shape is recorded when it comes for the second time:
    the last batch of an epoch may come but once."""

    loss: Loss
    heads: Heads | None
    device: torch.device

    def __post_init__(self) -> None:
        self._stream = side_stream(self.device)
        self._twin = None if self.heads is None else twin(self.heads)
        self._weights = [] if self.heads is None else list(self.heads.parameters())
        self.records: dict[Key, _Record] = {}
        self._seen: Counter[Key] = Counter()

    def __call__(
        self, encoded: Tensor, batch: PoolBatch, own: Tensor | None, share: float
    ) -> tuple[Tensor, Tensor, Tensor | None] | None:
        """The loss, and share x its slopes at the texts and at the classifiers, which stay until the next call; those
        of the heads are added to what they have. None where such a batch was never met before."""
        key = len(batch.rows), batch.columns, self.heads is not None and self.heads.training
        self._seen[key] += 1
        if key not in self.records:
            if self._seen[key] == 1 or not has_room(self.records, self.device):
                return None
            self.records[key] = self._record(encoded, batch, own)
        record = self.records[key]
        kept_apart(self._weights)
        record.inputs.fill(encoded, batch, own, share)
        record.run.replay()
        taken_over(self._weights, record.to_weights)
        to_own = None if own is None or record.to_own is None else record.to_own[: len(own)]
        return record.loss.clone(), record.to_encoded, to_own

    def _record(self, encoded: Tensor, batch: PoolBatch, own: Tensor | None) -> _Record:
        rows, columns = len(batch.rows), batch.columns
        empty = encoded.new_zeros
        inputs = _Inputs(
            empty(encoded.shape).requires_grad_(), empty((rows, columns)), empty((), dtype=torch.int64),
            None if own is None else empty((columns, own.shape[1])).requires_grad_(), empty(()),
        )  # fmt: skip
        inputs.fill(encoded, batch, own, 1.0)
        chance = torch.cuda.get_rng_state(self.device)
        leaves = [] if self._twin is None else list(self._twin.parameters())
        if self._twin is not None and self.heads is not None:
            self._twin.train(self.heads.training)

        def work() -> tuple[Tensor, ...]:
            real = torch.arange(columns, device=self.device) < inputs.labels
            loss = self.loss(inputs.encoded, Weighed(inputs.targets, real), inputs.own, self._twin)
            wanted = [inputs.encoded, *([] if inputs.own is None else [inputs.own]), *leaves]
            return loss.detach(), *torch.autograd.grad(loss, wanted, inputs.share)

        run = torch.cuda.CUDAGraph()
        pool = next(iter(self.records.values())).run.pool() if self.records else None
        with on_side(self._stream):
            work()  # once without recording: what the first pass on a stream sets up must not be recorded
            torch.cuda.set_rng_state(chance, self.device)
            with torch.cuda.graph(run, pool=pool, stream=self._stream):
                loss, to_encoded, *rest = work()
        to_own = None if inputs.own is None else rest.pop(0)
        return _Record(inputs, run, loss, to_encoded, to_own, rest)


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Places in memory that recorded kernels read."""

    encoded: Tensor  # (rows + columns, dimension)
    targets: Tensor  # (rows, columns)
    labels: Tensor  # how many of the columns are labels of the pool
    own: Tensor | None  # (columns, numbers) classifiers
    share: Tensor

    @torch.no_grad()
    def fill(self, encoded: Tensor, batch: PoolBatch, own: Tensor | None, share: float) -> None:
        self.encoded.copy_(encoded)
        batch.targets(self.targets)
        self.labels.fill_(len(batch.pool))
        self.share.fill_(share)
        if own is not None and self.own is not None:
            self.own[: len(own)].copy_(own)


@dataclass(frozen=True, eq=False)
class _Record:
    """Kernels, and the places in memory that they read and fill."""

    inputs: _Inputs
    run: torch.cuda.CUDAGraph
    loss: Tensor
    to_encoded: Tensor
    to_own: Tensor | None
    to_weights: list[Tensor]
