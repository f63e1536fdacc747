"""The loss of a pool and its gradients as a CUDA graph.

Between an encoder's forward and backward pass lie some two hundred short kernels: heads, scores, the losses of both
directions, and their gradients. A host takes longer to launch them one by one than a GPU takes to run them.

So the loss is recorded together with its gradients, and launched as one. A pool is padded with columns that losses
leave out (`PoolTargets.real`); a test checks that padding changes nothing. With a tower over the labels, as `dexa` adds
one, kernels are launched one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from longtail.nn.encoders.cuda_graphs import add_gradients, copy_gradients, has_room, on_side, side_stream, twin
from longtail.nn.pool.label_sampler import PoolBatch
from longtail.nn.pool.pool_losses import PoolTargets
from longtail.nn.pool.projection_heads import Heads

Loss = Callable[[Tensor, PoolTargets, Tensor | None, Heads | None], Tensor]
Key = tuple[int, int, bool]  # rows, columns, whether dropout is on


@dataclass(eq=False)
class RecordedLoss:
    """`loss` of encoded texts, targets, classifiers and heads, with its gradients. A shape is recorded when it occurs
    the second time, since the shape of an epoch's last batch may occur only once."""

    loss: Loss
    heads: Heads | None
    device: torch.device

    def __post_init__(self) -> None:
        self._stream = side_stream(self.device)
        self._twin = None if self.heads is None else twin(self.heads)
        self._parameters = [] if self.heads is None else list(self.heads.parameters())
        self.records: dict[Key, _LossGraph] = {}
        self._seen: Counter[Key] = Counter()

    def __call__(
        self, encoded: Tensor, batch: PoolBatch, weights: Tensor | None, share: float
    ) -> tuple[Tensor, Tensor, Tensor | None] | None:
        """Replay the graph of this batch's shape. Gradients of the heads are added to their parameters.

        Args:
            encoded: (rows + columns, dimension).
            batch: with the targets.
            weights: (pool, dimension) classifiers.
            share: that gradients are multiplied with.

        Returns:
            The loss, and the gradients at the encoded texts and at the classifiers, which are valid until the next
            call. None where this shape has no graph yet.
        """
        key = len(batch.rows), batch.columns, self.heads is not None and self.heads.training
        self._seen[key] += 1
        if key not in self.records:
            if self._seen[key] == 1 or not has_room(self.records, self.device):
                return None
            self.records[key] = self._record(encoded, batch, weights)
        record = self.records[key]
        copy_gradients(self._parameters)
        record.inputs.fill(encoded, batch, weights, share)
        record.run.replay()
        add_gradients(self._parameters, record.to_parameters)
        to_weights = None if weights is None or record.to_weights is None else record.to_weights[: len(weights)]
        return record.loss.clone(), record.to_encoded, to_weights

    def _record(self, encoded: Tensor, batch: PoolBatch, weights: Tensor | None) -> _LossGraph:
        rows, columns = len(batch.rows), batch.columns
        empty = encoded.new_zeros
        inputs = _Inputs(
            empty(encoded.shape).requires_grad_(), empty((rows, columns)), empty((), dtype=torch.int64),
            None if weights is None else empty((columns, weights.shape[1])).requires_grad_(), empty(()),
        )  # fmt: skip
        inputs.fill(encoded, batch, weights, 1.0)
        rng_state = torch.cuda.get_rng_state(self.device)
        leaves = [] if self._twin is None else list(self._twin.parameters())
        if self._twin is not None and self.heads is not None:
            self._twin.train(self.heads.training)

        def work() -> tuple[Tensor, ...]:
            real = torch.arange(columns, device=self.device) < inputs.labels
            loss = self.loss(inputs.encoded, PoolTargets(inputs.targets, real), inputs.weights, self._twin)
            at = [inputs.encoded, *([] if inputs.weights is None else [inputs.weights]), *leaves]
            return loss.detach(), *torch.autograd.grad(loss, at, inputs.share)

        run = torch.cuda.CUDAGraph()
        pool = next(iter(self.records.values())).run.pool() if self.records else None
        with on_side(self._stream):
            work()  # once unrecorded: what the first pass on a stream sets up must not be recorded
            torch.cuda.set_rng_state(rng_state, self.device)
            with torch.cuda.graph(run, pool=pool, stream=self._stream):
                loss, to_encoded, *rest = work()
        to_weights = None if inputs.weights is None else rest.pop(0)
        return _LossGraph(inputs, run, loss, to_encoded, to_weights, rest)


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Tensors that recorded kernels read."""

    encoded: Tensor  # (rows + columns, dimension)
    targets: Tensor  # (rows, columns)
    labels: Tensor  # how many of the columns are labels of the pool
    weights: Tensor | None  # (columns, dimension) classifiers
    share: Tensor

    @torch.no_grad()
    def fill(self, encoded: Tensor, batch: PoolBatch, weights: Tensor | None, share: float) -> None:
        self.encoded.copy_(encoded)
        batch.targets(self.targets)
        self.labels.fill_(len(batch.pool))
        self.share.fill_(share)
        if weights is not None and self.weights is not None:
            self.weights[: len(weights)].copy_(weights)


@dataclass(frozen=True, eq=False)
class _LossGraph:
    """A CUDA graph, the tensors it reads, and those it writes."""

    inputs: _Inputs
    run: torch.cuda.CUDAGraph
    loss: Tensor
    to_encoded: Tensor
    to_weights: Tensor | None  # at the classifiers
    to_parameters: list[Tensor]  # at the heads
