"""Batches whose arrays all have the same size, cut on a GPU from the texts and targets of all rows, for CUDA graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import AnyArray, Longs, Matrix
from longtail.nn.encoders.word_runs import Run, Runs
from longtail.nn.onevsall.batch_targets import BatchTargets

DEVIATIONS = 4  # standard deviations above the mean size that a batch has room for
SAMPLED_BATCHES = 20  # batches whose words are counted


@dataclass(frozen=True, eq=False)
class StepInputs:
    """Texts and targets of a batch, on the device."""

    run: Run  # the texts; words are numbered by their place among `touched`
    touched: Tensor  # (words,) int64: rows of the word vectors that the step uses; duplicates only as padding
    targets: BatchTargets
    meta: BatchTargets | None = None  # targets of the clusters
    duplicate_of: Tensor | None = None  # (words,) int64, where `touched` is padded: its first place for padding


class FixedSizeBatches:
    """Texts and targets of all rows on the device, cut there into batches whose arrays all have the same size.

    Padding of the texts comes after the last one and has weight 0. Padding of `touched` repeats its first word, which
    must be updated once. Padding of the targets is a target of 0, at a label that the first row does not have, where 0
    is the true target.
    """

    def __init__(self, texts: Runs, targets: Matrix, meta: Matrix | None, words: int, device: torch.device) -> None:
        """Copy everything to the device.

        Args:
            texts: of all rows.
            targets: csr (rows, labels).
            meta: csr (rows, clusters), or None.
            words: number of all words.
            device: a GPU.
        """
        self.texts = _Lists(texts.offsets, device, texts.words, texts.weights)
        self.targets = _Lists(targets.indptr, device, targets.indices, targets.data)
        self.meta = None if meta is None else _Lists(meta.indptr, device, meta.indices, meta.data)
        self.absent = [
            None if matrix is None else torch.from_numpy(first_absent_label(matrix)).to(device)
            for matrix in (targets, meta)
        ]
        self.words, self.device, self._host_texts, self._max_words = words, device, texts, dict[int, int]()

    def holds(self, batch: Longs) -> bool:
        """Check whether a batch fits the fixed size.

        Args:
            batch: numbers of the rows.

        Returns:
            Whether it fits, and has a word at all.
        """
        lists = (self.texts, self.targets, self.meta)
        return 0 < self._count_words(batch) <= self.max_words(len(batch)) and all(
            each.holds(batch) for each in lists if each is not None
        )

    def max_words(self, rows: int) -> int:
        """Choose the room for different words in a batch: a tenth more than in the largest of some sampled batches.

        Args:
            rows: of a batch.

        Returns:
            A number of words.
        """
        if rows not in self._max_words:
            rng = np.random.default_rng(rows)
            counts = [self._count_words(rng.integers(len(self._host_texts), size=rows)) for _ in range(SAMPLED_BATCHES)]
            self._max_words[rows] = min(int(1.1 * max(counts)) + 16, self.words, self.texts.size(rows))
        return self._max_words[rows]

    def _count_words(self, batch: Longs) -> int:
        used = np.zeros(self.words, dtype=bool)
        used[self._host_texts.words[self._host_texts.places(batch)[0]]] = True
        return int(np.count_nonzero(used))

    def batch(self, rows: Tensor) -> StepInputs:
        """Cut a batch.

        Args:
            rows: (rows,) int64 on the device.

        Returns:
            Its texts and targets, padded to the fixed size.
        """
        run, touched, duplicate_of = self.read(rows)
        return StepInputs(run, touched, *self.targets_of(rows), duplicate_of)

    def read(self, rows: Tensor) -> tuple[Run, Tensor, Tensor]:
        """Cut the texts of a batch.

        Args:
            rows: (rows,) int64 on the device.

        Returns:
            The texts; and `touched` and `duplicate_of` of `StepInputs`.
        """
        where, room = self.texts.places(rows), self.max_words(len(rows))
        numbers, weights = self.texts.at(where)
        weights = weights * where.real
        # Sorted by word, padding last; `slots` is the place of each entry's word among the different words.
        ordered, order = torch.sort(torch.where(where.real, numbers, self.words).int(), stable=True)
        ordered = ordered.long()
        new = torch.ones_like(ordered, dtype=torch.bool)
        torch.ne(ordered[1:], ordered[:-1], out=new[1:])
        slots = torch.cumsum(new, 0).sub_(1)
        places = torch.arange(len(ordered), device=self.device)
        # One extra place takes the padding.
        kept = torch.where(ordered < self.words, slots, room)
        touched = ordered[:1].expand(room + 1).scatter(0, kept, ordered)[:room]
        starts = where.ends[-1:].expand(room + 1).clone()
        starts.scatter_reduce_(0, kept, places, "amin")
        starts = starts[:room]
        lengths = torch.cat([starts[1:], where.ends[-1:]]).sub_(starts)
        transposed = Run(where.owners[order], weights[order], starts, lengths)
        words = torch.empty_like(slots).scatter_(0, order, kept.clamp_max(room - 1))
        run = Run(words, weights, where.ends - where.lengths, where.lengths, transposed)
        return run, touched, torch.arange(room, device=self.device) * (lengths > 0)

    def targets_of(self, rows: Tensor) -> tuple[BatchTargets, BatchTargets | None]:
        """Cut the targets of a batch.

        Args:
            rows: (rows,) int64 on the device.

        Returns:
            Targets of the labels, and of the clusters where there are any.
        """
        targets = self._cut(self.targets, self.absent[0], rows)
        return targets, None if self.meta is None else self._cut(self.meta, self.absent[1], rows)

    @staticmethod
    def _cut(lists: _Lists, absent: Tensor | None, rows: Tensor) -> BatchTargets:
        assert absent is not None
        where = lists.places(rows)
        labels, values = lists.at(where)
        labels = torch.where(where.real, labels, absent[rows[:1]])
        owners, values = where.owners * where.real, values * where.real
        # One chunk holds all labels, so the host needs no sorted labels to cut them.
        return BatchTargets(owners, labels, values, 1 - values, np.zeros(len(values), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class _Places:
    """Positions of the entries of a batch's rows, padded to a fixed number."""

    source: Tensor  # (entries,)
    owners: Tensor  # (entries,) row in the batch
    real: Tensor  # (entries,) bool, False for padding
    lengths: Tensor  # (rows,)
    ends: Tensor  # (rows,)


class _Lists:
    """A list of numbers with weights for each row."""

    def __init__(self, offsets: AnyArray, device: torch.device, numbers: AnyArray, weights: AnyArray) -> None:
        self.lengths = np.diff(offsets)
        self.mean, self.deviation = float(self.lengths.mean()), float(self.lengths.std())
        self.offsets = torch.from_numpy(np.array(offsets, dtype=np.int64)).to(device)
        self.numbers = torch.from_numpy(np.array(numbers, dtype=np.int32)).to(device)
        self.weights = torch.from_numpy(np.array(weights, dtype=np.float32)).to(device)

    def size(self, rows: int) -> int:
        """Room that random rows almost never exceed. Room for the longest lists would be several times as much."""
        return int(self.mean * rows + DEVIATIONS * self.deviation * rows**0.5) + 1

    def holds(self, batch: Longs) -> bool:
        return int(self.lengths[batch].sum()) <= self.size(len(batch))

    def at(self, where: _Places) -> tuple[Tensor, Tensor]:
        return self.numbers[where.source].long(), self.weights[where.source]

    def places(self, rows: Tensor) -> _Places:
        size = self.size(len(rows))
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        ends = torch.cumsum(lengths, 0)
        numbers = torch.arange(size, device=rows.device)
        owners = torch.searchsorted(ends, numbers, right=True).clamp_max_(len(rows) - 1)
        source = numbers - (ends - lengths - starts)[owners]
        source = source.clamp_(0, len(self.numbers) - 1)
        return _Places(source, owners, numbers < ends[-1], lengths, ends)


def first_absent_label(targets: Matrix) -> Longs:
    """Find the first label that each row does not have.

    Args:
        targets: csr (rows, labels), sorted.

    Returns:
        (rows,) int64; the number of labels for a row that has all.
    """
    counts = np.diff(targets.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    first = targets.indices == np.arange(len(rows)) - targets.indptr[rows]  # labels of a row rise
    return np.bincount(rows[first], minlength=len(counts)).astype(np.int64)
