"""A training step of a shallow net as a CUDA graph: recorded once, then replayed for other batches.

A step is some hundred small kernels, and a host launches them more slowly than they run. Texts and targets of all rows
lie on the device and are cut there, side by side, into batches whose arrays have one size; padding has weight 0
(`fixed_size_batches.py`). Word vectors and classifiers are updated in place, word vectors are summed, and scores become
probabilities, each by one kernel (`nn/kernels/adam_rows.py`, `weighted_bag.py`, `sigmoid.py`). All recordings share two
streams, because libraries keep memory for each stream. A batch that does not fit, the last batch of an epoch, and nets
with a pool of labels are not recorded and run as on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Longs
from longtail.nn.encoders.cuda_graphs import may_record
from longtail.nn.encoders.word_runs import Runs
from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.shallow.fixed_size_batches import FixedSizeBatches, StepInputs, first_absent_label
from longtail.nn.shallow.label_head import LabelHead
from longtail.nn.shallow.label_pool import Pool
from longtail.nn.shallow.sparse_adam import AdamRows

WARMUP_STEPS = 3  # before the recording, in which libraries allocate their memory


class MetaLabels(Protocol):
    """Meta-labels of a task, see `shallow_task.Meta`."""

    labels: LabelHead
    targets: TrainingTargets


class RecordableTask(Protocol):
    """What a recording uses of a `ShallowTask`."""

    texts: Runs
    labels: LabelHead
    targets: TrainingTargets
    batch_size: int
    device: torch.device
    pool: Pool | None
    frozen: bool
    mixup_alpha: float
    rows: int
    words: AdamRows

    @property
    def meta(self) -> MetaLabels | None:
        """Meta-labels, if there are any."""

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """See `Task.modules`."""

    @property
    def alone(self) -> bool:
        """See `ShallowTask.alone`."""

    def learn(self, inputs: StepInputs, share: float, factor: float | Tensor) -> Tensor:
        """See `ShallowTask.learn`."""

    def tables(self) -> list[AdamRows]:
        """See `ShallowTask.tables`."""


class RecordedStep:
    """The steps of a task as CUDA graphs. A step is a hundred small kernels, each of which takes longer to launch than
    to run; a graph is launched once."""

    def __init__(self, task: RecordableTask) -> None:
        """Prepare the recording.

        Args:
            task: that `fits`.
        """
        meta = None if task.meta is None else task.meta.targets.matrix
        self.task = task
        self.batches = FixedSizeBatches(task.texts, task.targets.matrix, meta, len(task.words), task.device)
        self.rows = torch.zeros(task.batch_size, dtype=torch.int64, device=task.device)
        self.factor, self.clock = (torch.zeros((), device=task.device) for _ in range(2))
        self.stream, self.second_stream = _streams(task.device)
        self._warmed_up = 0
        self._recorded: dict[bool, _Recorded] = {}

    @staticmethod
    def fits(task: RecordableTask) -> bool:
        """Check whether the steps of a task can be recorded: on a GPU, over all labels in one chunk, with unweighted
        targets and one document a row.

        Args:
            task: to record.

        Returns:
            Whether it can be.
        """
        if task.device.type != "cuda" or task.pool is not None or task.frozen or task.rows < task.batch_size:
            return False
        if task.mixup_alpha or not may_record():
            return False
        heads = [(task.labels, task.targets)]
        heads += [] if task.meta is None else [(task.meta.labels, task.meta.targets)]
        return all(labels.at_once(task.batch_size) and unweighted(targets) for labels, targets in heads)

    def step(self, batch: Longs, factor: float) -> Tensor:
        """Train on one batch, as `ShallowTask.backward` does.

        Args:
            batch: numbers of the rows, of the task's batch size.
            factor: on the learning rate.

        Returns:
            The loss.
        """
        task = self.task
        self.rows.copy_(torch.from_numpy(np.ascontiguousarray(batch)).pin_memory(), non_blocking=True)
        self.factor.fill_(factor)
        self.clock.fill_(task.words.done)
        alone = task.alone
        if self._warmed_up < WARMUP_STEPS:
            self._warmed_up += 1
            return self.on_recording_stream(self._learn)
        if alone not in self._recorded:
            self._recorded[alone] = self._record()
        else:
            for table in task.tables():
                table.begin_step()
        return self._recorded[alone].replayed()

    def _learn(self) -> Tensor:
        for table in self.task.tables():
            table.clock = self.clock
        try:
            return self.task.learn(self._batch(), 1.0, self.factor)
        finally:
            for table in self.task.tables():
                table.clock = None

    def _batch(self) -> StepInputs:
        """Cuts texts and targets on two streams: both are many small kernels that leave most of the GPU idle."""
        current = torch.cuda.current_stream(self.task.device)
        self.second_stream.wait_stream(current)
        with torch.cuda.stream(self.second_stream):
            targets = self.batches.targets_of(self.rows)
        run, touched, duplicate_of = self.batches.read(self.rows)
        current.wait_stream(self.second_stream)
        return StepInputs(run, touched, *targets, duplicate_of)

    def on_recording_stream(self, work: Callable[[], Tensor]) -> Tensor:
        """Run a step that is not recorded on the stream of the recording: autograd ties a weight's gradient to the
        stream where the weight was first used.

        Args:
            work: the step.

        Returns:
            Its loss.
        """
        current = torch.cuda.current_stream(self.task.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            loss = work()
        current.wait_stream(self.stream)
        return loss

    def _record(self) -> _Recorded:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            loss = self._learn()
        layers = [each for module in self.task.modules.values() for each in module.parameters()]
        return _Recorded(graph, loss, [(each, each.grad) for each in layers if each.grad is not None])


@dataclass(frozen=True, eq=False)
class _Recorded:
    graph: torch.cuda.CUDAGraph
    loss: Tensor
    gradients: list[tuple[nn.Parameter, Tensor]]  # parameters, and the tensors where a replay writes their gradients

    def replayed(self) -> Tensor:
        self.graph.replay()
        for layer, gradient in self.gradients:
            layer.grad = gradient
        return self.loss


@cache
def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    """Two streams, the same for every recording: cuBLAS keeps a workspace for each stream that it has seen."""
    return torch.cuda.Stream(device), torch.cuda.Stream(device)


def unweighted(targets: TrainingTargets) -> bool:
    """Check whether targets suit a recording.

    Args:
        targets: of a task.

    Returns:
        Whether they have no weights, cover all labels, and no row has every label.
    """
    labels = targets.matrix.shape[1]
    no_weights = targets.positive == 1 and targets.inverse_propensities is None and targets.first == 0
    covers = targets.last in (None, labels)
    return no_weights and covers and int(first_absent_label(targets.matrix).max(initial=0)) < labels
