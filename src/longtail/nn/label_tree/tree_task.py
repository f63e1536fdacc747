"""The training task of nets over a label tree: an encoder and the classifiers of every level, trained together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Ints, Longs, Matrix
from longtail.nn.dual.pair_batches import random_order
from longtail.nn.encoders.build import Encoder
from longtail.nn.label_tree.candidate_blocks import Entries
from longtail.nn.training.checkpoint import CheckpointDir
from longtail.nn.training.precision import decay_groups
from longtail.nn.training.row_penalties import RATE, Penalty, RowsUnderAdam
from longtail.nn.training.to_device import to_device
from longtail.nn.training.weight_average import WeightAverage


class TreeHeads(Protocol):
    """The classifiers that are trained."""

    def loss(self, vectors: Tensor, entries: Any) -> Tensor:
        """Compute the loss of a batch.

        Args:
            vectors: (examples, dimension), or what the task reads instead.
            entries: what `TreeTask.entries` makes of the targets.

        Returns:
            A number with a gradient.
        """


class NumberedBatch(NamedTuple):
    """Rows of a batch, and its number in the epoch."""

    rows: Longs
    number: int

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(eq=False)
class TreeTask:
    """Trains an encoder and heads by AdamW, each with its own learning rate."""

    encoder: Encoder
    heads: Any  # a module with `TreeHeads.loss`
    read: Callable[[Longs], Any]
    targets: Matrix  # csr (rows, labels)
    node_of_label: tuple[Ints, ...]  # on each level
    batch_size: int
    learning_rate: float
    head_learning_rate: float
    device: torch.device
    weight_decay: float = 0.01
    head_weight_decay: float = 0.0
    dropout_until: float = 1.0  # share of an epoch's batches that are trained with dropout
    average_from: int | None = None  # epochs
    average_every: int = 100  # steps
    evaluate: Callable[[], dict[str, float]] | None = None  # validation measures
    before_epoch: Callable[[], None] | None = None
    penalties: Sequence[Penalty] = ()  # on the labels' classifiers, `heads.of_labels`
    seed: int = 0
    name: str = "label tree"
    done: int = 0  # steps
    average: WeightAverage = field(init=False)

    def __post_init__(self) -> None:
        self.rows = int(self.targets.shape[0])
        self.steps = math.ceil(self.rows / self.batch_size)
        self.average = WeightAverage(self.modules)
        self._factor = 1.0
        self._places = to_device(self.node_of_label[-1], self.device, np.int64) if self.penalties else None

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """See `Task.modules`."""
        return {"encoder": self.encoder, "heads": self.heads}

    def groups(self) -> list[dict[str, Any]]:
        """See `Task.groups`."""
        return [
            *decay_groups(self.encoder, self.learning_rate, self.weight_decay),
            *decay_groups(self.heads, self.head_learning_rate, self.head_weight_decay),
        ]

    def begin_epoch(self, epoch: int) -> None:
        """See `Task.begin_epoch`."""
        if self.before_epoch is not None:
            self.before_epoch()

    def batches(self, epoch: int, begin: int) -> Iterator[NumberedBatch]:
        """See `Task.batches`."""
        order = random_order(np.arange(self.rows), np.random.default_rng([self.seed, epoch]))
        size = self.batch_size
        return (NumberedBatch(order[size * step : size * (step + 1)], step) for step in range(begin, self.steps))

    def backward(self, batch: NumberedBatch, share: float) -> Tensor:
        """See `Task.backward`."""
        with_dropout = batch.number < self.dropout_until * self.steps
        for module in self.modules.values():
            module.train(with_dropout)
        loss: Tensor = self.heads.loss(self.read(batch.rows), self.entries(batch.rows))
        (loss * share).backward()
        return loss.detach()

    def entries(self, rows: Longs) -> list[Entries]:
        """The targets of rows, on each level; a cluster has the targets of its labels.

        Args:
            rows: of the training data.

        Returns:
            The entries of each level.
        """
        starts = self.targets.indptr[rows].astype(np.int64)
        counts = self.targets.indptr[rows + 1] - starts
        examples = np.repeat(np.arange(len(rows)), counts)
        places = np.arange(len(examples)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
        labels = self.targets.indices[places]
        values = to_device(self.targets.data[places], self.device, np.float32)
        where = to_device(examples, self.device, np.int64)
        return [Entries(where, to_device(nodes[labels], self.device, np.int64), values) for nodes in self.node_of_label]

    def begin_step(self, factor: float) -> None:
        """See `StepHooks.begin_step`. The weights that the last step left are averaged."""
        self._factor = factor
        first = None if self.average_from is None else self.average_from * self.steps
        if first is not None and self.done > first and (self.done - first) % self.average_every == 0:
            self.average.add()

    def end_step(self) -> None:
        """See `StepHooks.end_step`: penalties on the labels' classifiers take their steps."""
        with torch.no_grad():
            for penalty in self.penalties:
                rows = RowsUnderAdam(self.heads.of_labels.detach(), self.done, self._places)
                penalty.step(rows, RATE * self._factor)
        self.done += 1

    def checkpoint_dir(self, directory: CheckpointDir) -> CheckpointDir:
        """See `StepHooks.checkpoint_dir`."""
        return directory

    def validate(self) -> dict[str, float]:
        """See `Task.validate`. Averaged weights are measured where there are any."""
        if self.evaluate is None:
            return {}
        with self.average.applied():
            return self.evaluate()

    def state(self) -> dict[str, Tensor]:
        """See `Task.state`."""
        return {"done": torch.tensor(self.done), **self.average.state()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state`."""
        self.done = int(state["done"])
        self.average.load_state(state)
