"""A training step of a frugal net that a GPU takes as one: recorded once, then replayed for other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import AnyArray, Longs, Matrix
from longtail.nn.frugal.runs import Run, Runs
from longtail.nn.heads.entries import Entries, Targets

if TYPE_CHECKING:
    from longtail.nn.frugal.task import FrugalTask

SPREAD = 6  # standard deviations above its mean that a batch has room for
WARM = 3  # steps before the recording, in which libraries make themselves ready


@dataclass(frozen=True, eq=False)
class Given:
    """What a step learns from, on the device."""

    run: Run  # the texts; a word is numbered by its place among `touched`
    touched: Tensor  # (words,) int64, each once
    entries: Entries
    meta: Entries | None = None  # the clusters' targets
    real: Tensor | None = None  # (words,) bool: false where a word only fills the list up; none: all are


class FixedRows:
    """Texts and targets of all rows on the device, cut there into batches whose arrays all have the same length.

    Words that fill a batch up weigh nothing, and words that fill `touched` up are ones that no row of it has.
    Targets that fill it up are 0, at a label that the first row does not have, where 0 is true.
    """

    def __init__(self, texts: Runs, targets: Matrix, meta: Matrix | None, words: int, device: torch.device) -> None:
        self.texts = _Lists(texts.offsets, device, texts.words, texts.weights)
        self.targets = _Lists(targets.indptr, device, targets.indices, targets.data)
        self.meta = None if meta is None else _Lists(meta.indptr, device, meta.indices, meta.data)
        self.free = [None if kind is None else torch.from_numpy(free(kind)).to(device) for kind in (targets, meta)]
        self.words, self.device = words, device

    def holds(self, batch: Longs) -> bool:
        """Whether these rows fit into the fixed length."""
        return all(lists.holds(batch) for lists in (self.texts, self.targets, self.meta) if lists is not None)

    def batch(self, rows: Tensor) -> Given:
        where = self.texts.places(rows)
        numbers, weights = self.texts.at(where)
        used = torch.zeros(self.words + 1, dtype=torch.uint8, device=self.device)  # what fills up counts at the end
        # An assignment would copy its 1 from the host, which a recording cannot.
        used.index_fill_(0, torch.where(where.real, numbers, self.words), 1)
        number = min(self.words, len(numbers))
        real, order = torch.sort(used[: self.words], descending=True, stable=True)
        touched = order[:number]
        place = torch.zeros(self.words, dtype=torch.int64, device=self.device)
        place[touched] = torch.arange(number, device=self.device)
        # What fills up is spread over the words: of many equal ones the gradients are summed one after another.
        spread = torch.arange(len(numbers), device=self.device) % number
        words = torch.where(where.real, place[numbers], spread)
        run = Run(words, weights * where.real, where.ends - where.lengths, where.lengths)
        entries = self._entries(self.targets, self.free[0], rows)
        meta = None if self.meta is None else self._entries(self.meta, self.free[1], rows)
        return Given(run, touched, entries, meta, real[:number].bool())

    @staticmethod
    def _entries(lists: _Lists, free: Tensor | None, rows: Tensor) -> Entries:
        assert free is not None
        where = lists.places(rows)
        labels, values = lists.at(where)
        labels = torch.where(where.real, labels, free[rows[:1]])
        owners, pull = where.owners * where.real, values * where.real
        # One chunk holds all labels, so where entries would be cut does not matter.
        return Entries(owners, labels, pull, 1 - pull, np.zeros(len(pull), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the entries of some rows stand, filled up to a fixed number."""

    source: Tensor  # (entries,)
    owners: Tensor  # (entries,) which of the rows
    real: Tensor  # (entries,) bool
    lengths: Tensor  # (rows,)
    ends: Tensor  # (rows,)


class _Lists:
    """Numbers with weights, a list a row."""

    def __init__(self, offsets: AnyArray, device: torch.device, numbers: AnyArray, weights: AnyArray) -> None:
        self.lengths = np.diff(offsets)
        self.offsets = torch.from_numpy(np.array(offsets, dtype=np.int64)).to(device)
        self.numbers = torch.from_numpy(np.array(numbers, dtype=np.int32)).to(device)
        self.weights = torch.from_numpy(np.array(weights, dtype=np.float32)).to(device)

    def size(self, rows: int) -> int:
        """What rows drawn by chance hold almost never more of. As many as the longest would be several times more."""
        return int(self.lengths.mean() * rows + SPREAD * self.lengths.std() * rows**0.5) + 1

    def holds(self, batch: Longs) -> bool:
        return int(self.lengths[batch].sum()) <= self.size(len(batch))

    def at(self, where: _Places) -> tuple[Tensor, Tensor]:
        return self.numbers[where.source].long(), self.weights[where.source]

    def places(self, rows: Tensor) -> _Places:
        size = self.size(len(rows))
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        ends = torch.cumsum(lengths, 0)
        numbers = torch.arange(size, device=rows.device)
        owners = torch.searchsorted(ends, numbers, right=True).clamp_max_(len(rows) - 1)
        source = numbers - (ends - lengths - begins)[owners]
        source = source.clamp_(0, len(self.numbers) - 1)
        return _Places(source, owners, numbers < ends[-1], lengths, ends)


def free(targets: Matrix) -> Longs:
    """Of each row the first label that it does not have; the number of labels where it has all."""
    counts = np.diff(targets.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    first = targets.indices == np.arange(len(rows)) - targets.indptr[rows]  # labels of a row rise
    return np.bincount(rows[first], minlength=len(counts)).astype(np.int64)


class Captured:
    """The steps of a task, recorded. A step is a hundred small products and sums, and a GPU waits longer for each to be
    asked for than it takes; a recording is asked for once."""

    def __init__(self, task: FrugalTask) -> None:
        meta = None if task.meta is None else task.meta.targets.matrix
        self.task = task
        self.data = FixedRows(task.texts, task.targets.matrix, meta, len(task.words), task.device)
        self.rows = torch.zeros(task.batch, dtype=torch.int64, device=task.device)
        self.factor, self.clock = (torch.zeros((), device=task.device) for _ in range(2))
        self.side = torch.cuda.Stream(task.device)
        self._warm = 0
        self._recorded: dict[bool, _Recorded] = {}

    @staticmethod
    def fits(task: FrugalTask) -> bool:
        """Whether a step of this task can be recorded: on a GPU, against all labels at once, with targets as they
        are."""
        if task.device.type != "cuda" or task.pool is not None or task.frozen or task.rows < task.batch:
            return False
        heads = [(task.labels, task.targets)]
        heads += [] if task.meta is None else [(task.meta.labels, task.meta.targets)]
        return all(labels.at_once(task.batch) and plain(targets) for labels, targets in heads)

    def step(self, batch: Longs, factor: float) -> Tensor:
        """As `FrugalTask.backward`."""
        task = self.task
        self.rows.copy_(torch.from_numpy(np.ascontiguousarray(batch)).pin_memory(), non_blocking=True)
        self.factor.fill_(factor)
        self.clock.fill_(task.words.done)
        alone = task.alone
        if self._warm < WARM:
            self._warm += 1
            return self.beside(self._learn)
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
            return self.task.learn(self.data.batch(self.rows), 1.0, self.factor)
        finally:
            for table in self.task.tables():
                table.clock = None

    def beside(self, work: Callable[[], Tensor]) -> Tensor:
        """What is not recorded runs on the stream of the recording too: autograd ties a weight's gradient to the stream
        where the weight was first used."""
        here = torch.cuda.current_stream(self.task.device)
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            loss = work()
        here.wait_stream(self.side)
        return loss

    def _record(self) -> _Recorded:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.side):
            loss = self._learn()
        layers = [each for module in self.task.modules.values() for each in module.parameters()]
        return _Recorded(graph, loss, [(each, each.grad) for each in layers if each.grad is not None])


@dataclass(frozen=True, eq=False)
class _Recorded:
    graph: torch.cuda.CUDAGraph
    loss: Tensor
    gradients: list[tuple[nn.Parameter, Tensor]]  # where each replay leaves them

    def replayed(self) -> Tensor:
        self.graph.replay()
        for layer, gradient in self.gradients:
            layer.grad = gradient
        return self.loss


def plain(targets: Targets) -> bool:
    """Targets as they are, and no row with all labels."""
    labels = targets.matrix.shape[1]
    as_given = targets.positive == 1 and targets.inverse_propensities is None and targets.first == 0
    return as_given and targets.last in (None, labels) and int(free(targets.matrix).max(initial=0)) < labels
