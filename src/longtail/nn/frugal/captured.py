"""A training step of a frugal net that a GPU takes as one: recorded once, then replayed for other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import AnyArray, Longs, Matrix
from longtail.nn.frugal.runs import Run, Runs
from longtail.nn.heads.entries import Entries, Targets

if TYPE_CHECKING:
    from longtail.nn.frugal.task import FrugalTask

SPREAD = 4  # standard deviations above its mean that a batch has room for
TRIED = 20  # batches whose words are counted
WARM = 3  # steps before the recording, in which libraries make themselves ready


@dataclass(frozen=True, eq=False)
class Given:
    """What a step learns from, on the device."""

    run: Run  # the texts; a word is numbered by its place among `touched`
    touched: Tensor  # (words,) int64, each once
    entries: Entries
    meta: Entries | None = None  # the clusters' targets
    same: Tensor | None = None  # (words,) int64: which of them each is; what fills the list up is the first once more


class FixedRows:
    """Texts and targets of all rows on the device, cut there into batches whose arrays all have the same length.

    What fills the texts up stands behind the last one and weighs nothing; what fills `touched` up is its first word
    again, which must move as that one does. Targets that fill up are 0, at a label that the first row does not have,
    where 0 is true.
    """

    def __init__(self, texts: Runs, targets: Matrix, meta: Matrix | None, words: int, device: torch.device) -> None:
        self.texts = _Lists(texts.offsets, device, texts.words, texts.weights)
        self.targets = _Lists(targets.indptr, device, targets.indices, targets.data)
        self.meta = None if meta is None else _Lists(meta.indptr, device, meta.indices, meta.data)
        self.free = [None if kind is None else torch.from_numpy(free(kind)).to(device) for kind in (targets, meta)]
        self.words, self.device, self._read, self._most = words, device, texts, dict[int, int]()

    def holds(self, batch: Longs) -> bool:
        """Whether these rows have any word, and fit into the fixed length."""
        lists = (self.texts, self.targets, self.meta)
        return 0 < self._different(batch) <= self.most(len(batch)) and all(
            each.holds(batch) for each in lists if each is not None
        )

    def most(self, rows: int) -> int:
        """Different words for which a batch of so many rows has room: more than any of some that were tried had."""
        if rows not in self._most:
            chance = np.random.default_rng(rows)
            tried = [self._different(chance.integers(len(self._read), size=rows)) for _ in range(TRIED)]
            self._most[rows] = min(int(1.1 * max(tried)) + 16, self.words, self.texts.size(rows))
        return self._most[rows]

    def _different(self, batch: Longs) -> int:
        used = np.zeros(self.words, dtype=bool)
        used[self._read.words[self._read.places(batch)[0]]] = True
        return int(np.count_nonzero(used))

    def batch(self, rows: Tensor) -> Given:
        run, touched, same = self.read(rows)
        return Given(run, touched, *self.right(rows), same)

    def read(self, rows: Tensor) -> tuple[Run, Tensor, Tensor]:
        """The texts of these rows, their words, and which of the words each is."""
        where, most = self.texts.places(rows), self.most(len(rows))
        numbers, weights = self.texts.at(where)
        weights = weights * where.real
        # In order of the word, what fills up last; `slots` is the place of each one's word among the different ones.
        ordered, order = torch.sort(torch.where(where.real, numbers, self.words).int(), stable=True)
        ordered = ordered.long()
        new = torch.ones_like(ordered, dtype=torch.bool)
        torch.ne(ordered[1:], ordered[:-1], out=new[1:])
        slots = torch.cumsum(new, 0).sub_(1)
        places = torch.arange(len(ordered), device=self.device)
        # One place more than there is room for takes what fills up.
        kept = torch.where(ordered < self.words, slots, most)
        touched = ordered[:1].expand(most + 1).scatter(0, kept, ordered)[:most]
        begins = where.ends[-1:].expand(most + 1).clone()
        begins.scatter_reduce_(0, kept, places, "amin")
        begins = begins[:most]
        lengths = torch.cat([begins[1:], where.ends[-1:]]).sub_(begins)
        turned = Run(where.owners[order], weights[order], begins, lengths)
        words = torch.empty_like(slots).scatter_(0, order, kept.clamp_max(most - 1))
        run = Run(words, weights, where.ends - where.lengths, where.lengths, turned)
        return run, touched, torch.arange(most, device=self.device) * (lengths > 0)

    def right(self, rows: Tensor) -> tuple[Entries, Entries | None]:
        """The targets of these rows, and those of the clusters."""
        entries = self._entries(self.targets, self.free[0], rows)
        return entries, None if self.meta is None else self._entries(self.meta, self.free[1], rows)

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
        self.mean, self.spread = float(self.lengths.mean()), float(self.lengths.std())
        self.offsets = torch.from_numpy(np.array(offsets, dtype=np.int64)).to(device)
        self.numbers = torch.from_numpy(np.array(numbers, dtype=np.int32)).to(device)
        self.weights = torch.from_numpy(np.array(weights, dtype=np.float32)).to(device)

    def size(self, rows: int) -> int:
        """What rows drawn by chance hold almost never more of. As many as the longest would be several times more."""
        return int(self.mean * rows + SPREAD * self.spread * rows**0.5) + 1

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
        self.side, self.other = _streams(task.device)
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
            return self.task.learn(self._batch(), 1.0, self.factor)
        finally:
            for table in self.task.tables():
                table.clock = None

    def _batch(self) -> Given:
        """Texts and targets side by side: both are many small sums, for which a GPU has more room than it has time."""
        here = torch.cuda.current_stream(self.task.device)
        self.other.wait_stream(here)
        with torch.cuda.stream(self.other):
            right = self.data.right(self.rows)
        run, touched, same = self.data.read(self.rows)
        here.wait_stream(self.other)
        return Given(run, touched, *right, same)

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


@cache
def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    """The same for every recording: the libraries that multiply keep memory for each stream that they have seen."""
    return torch.cuda.Stream(device), torch.cuda.Stream(device)


def plain(targets: Targets) -> bool:
    """Targets as they are, and no row with all labels."""
    labels = targets.matrix.shape[1]
    as_given = targets.positive == 1 and targets.inverse_propensities is None and targets.first == 0
    return as_given and targets.last in (None, labels) and int(free(targets.matrix).max(initial=0)) < labels
