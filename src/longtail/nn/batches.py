"""How an epoch is cut into batches: the order of the rows, a positive for each, and who else is positive in the pool.

Rows are what the loss is taken over and items are what they choose from: documents and labels, or the other way
round. All is planned on the host, some batches at a time and without a loop over rows, and sent to the device in one
piece, so that a training step never waits for an answer of the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Doubles, Floats, Longs, Matrix

BLOCK = 8  # batches planned together: few, since the first step of an epoch waits for them


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which items are positives of which rows, and how much."""

    targets: Matrix  # csr float32 (rows, items), entries in (0, 1]

    @cached_property
    def rows(self) -> Longs:
        """The rows that have a positive; the others cannot be learned from."""
        return np.flatnonzero(np.diff(self.targets.indptr)).astype(np.int64)

    @cached_property
    def _sums(self) -> Doubles | None:
        """Running sums of the targets, where they differ from each other."""
        data = self.targets.data
        if len(data) == 0 or data.min() == data.max():
            return None
        return np.concatenate([[0.0], np.cumsum(data, dtype=np.float64)])

    @cached_property
    def weights(self) -> Floats | None:
        """The largest target of each row, where it is not 1 for all: a row of soft targets only counts for less."""
        targets, rows = self.targets, self.rows
        most = np.ones(targets.shape[0], dtype=np.float32)
        if len(rows):
            most[rows] = np.maximum.reduceat(targets.data, targets.indptr[rows])
        return None if most.min(initial=1) == 1 else most

    def draw(self, rows: Longs, chance: np.random.Generator) -> Longs:
        """One positive of each row, drawn in proportion to its target."""
        begins, ends = self.targets.indptr[rows].astype(np.int64), self.targets.indptr[rows + 1].astype(np.int64)
        luck = chance.random(len(rows))
        if self._sums is None:
            entries = begins + (luck * (ends - begins)).astype(np.int64)
        else:
            low, high = self._sums[begins], self._sums[ends]
            entries = np.searchsorted(self._sums, low + luck * (high - low), side="right") - 1
        entries = np.clip(entries, begins, ends - 1)  # a product may be rounded up to the end
        drawn: Longs = self.targets.indices[entries].astype(np.int64)
        return drawn


def random_order(rows: Longs, chance: np.random.Generator) -> Longs:
    return chance.permutation(rows)


def clustered_order(rows: Longs, clusters: Longs, chance: np.random.Generator) -> Longs:
    """Cluster after cluster in random order, the rows of each in random order too. `clusters` (rows,) is each one's."""
    place = chance.permutation(int(clusters.max(initial=-1)) + 1)[clusters]
    mixed = chance.permutation(len(rows))
    return rows[mixed[np.argsort(place[mixed], kind="stable")]]


@dataclass(frozen=True)
class Curriculum:
    """How large the clusters are that batches are made of: random at first, then larger and larger."""

    start: float = 0.2  # share of the epochs with random batches
    smallest: int = 4
    largest: int = 256
    until: float = 0.7  # share of the epochs after which the size is the largest
    refresh: int = 5  # epochs between two clusterings

    def size(self, epoch: int, epochs: int) -> int:
        """Rows of a cluster in this epoch (from 0); 1 means a random order."""
        done = epoch / max(epochs, 1)
        if done < self.start or epoch == 0:  # before the first epoch there is nothing to cluster
            return 1
        doublings = max(int(np.log2(self.largest / self.smallest)), 0)
        part = min((done - self.start) / max(self.until - self.start, 1e-9), 1.0)
        return min(self.smallest << int(part * doublings + 1e-9), self.largest)

    def is_time(self, epoch: int, epochs: int) -> bool:
        """Whether to cluster anew before this epoch: at the first that needs it, at a new size, and each few epochs."""
        size = self.size(epoch, epochs)
        if size == 1:
            return False
        first = next(number for number in range(epoch + 1) if self.size(number, epochs) > 1)
        return size != self.size(epoch - 1, epochs) or (epoch - first) % self.refresh == 0


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some rows, one positive of each, and the items they choose from. The tensors stand on the device."""

    rows: Longs  # (rows,)
    pool: Longs  # (pool,) distinct items
    row_tensor: Tensor  # (rows,)
    pool_tensor: Tensor  # (pool,)
    chosen: Tensor  # (rows,) place of each row's drawn positive in the pool
    marks: Tensor  # (known positives,) row x pool + column
    mined: Tensor | None = None  # places in the pool that nobody has drawn
    weights: Tensor | None = None  # (rows,)
    others: Longs | None = None  # (rows,) another positive of each

    def __len__(self) -> int:
        return len(self.rows)

    def positive(self) -> Tensor:
        """Every known positive: (rows, pool) bool."""
        mask = torch.zeros(len(self.rows) * len(self.pool), dtype=torch.bool, device=self.marks.device)
        return mask.index_fill_(0, self.marks, True).view(len(self.rows), len(self.pool))


def paired(
    pairs: Pairs,
    order: Longs,  # the rows of the epoch
    drawn: Longs,  # the positive of each
    size: int,
    device: torch.device,
    begin: int = 0,
    negatives: Longs | None = None,  # (all rows, some) more items for the pool, -1 = none
    everyone: bool = False,
) -> Iterator[PairBatch]:
    """Consecutive batches of `size` rows from batch number `begin` on; the pool is the drawn positives, and the
    negatives of the rows where there are any. With `everyone`, it is all positives of the rows."""
    place = np.full(pairs.targets.shape[1], -1, dtype=np.int64)
    for first in range(begin * size, len(order), BLOCK * size):
        here = slice(first, first + BLOCK * size)
        yield from _block(pairs, order[here], drawn[here], size, device, negatives, everyone, place)


def _block(
    pairs: Pairs,
    rows: Longs,
    drawn: Longs,
    size: int,
    device: torch.device,
    negatives: Longs | None,
    everyone: bool,
    place: Longs,  # (items,) -1: where an item stands in the pool of the batch at hand
) -> Iterator[PairBatch]:
    targets = pairs.targets
    begins, counts = targets.indptr[rows].astype(np.int64), np.diff(targets.indptr)[rows].astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    row_of = np.repeat(np.arange(len(rows)), counts)  # the row of each known positive
    wanted = targets.indices[np.arange(len(row_of)) + np.repeat(begins - ends[:-1], counts)]
    pools, chosen, marks, mined_places = [], [], [], []
    for first in range(0, len(rows), size):
        last = min(first + size, len(rows))
        own, known = drawn[first:last], slice(ends[first], ends[last])
        mined = np.zeros(0, dtype=np.int64) if negatives is None else negatives[rows[first:last]].ravel()
        mined = mined[mined >= 0]
        more = [mined] if len(mined) else []
        pool = np.unique(np.concatenate([own, *more, *([wanted[known]] if everyone else [])]))
        place[pool] = np.arange(len(pool))
        found = place[wanted[known]]
        kept = found >= 0
        pools.append(pool)
        chosen.append(place[own])
        marks.append((row_of[known][kept] - first) * len(pool) + found[kept])
        mined_places.append(place[np.setdiff1d(mined, own)] if more else mined)
        place[pool] = -1
    weights = None if pairs.weights is None else _sent(pairs.weights[rows], device)
    there = [_sent(array, device) for array in (rows, *map(np.concatenate, (pools, chosen, marks, mined_places)))]
    row_parts, chosen_parts = (tensor.split(size) for tensor in (there[0], there[2]))
    pool_parts, mark_parts, mined_parts = (
        tensor.split([len(part) for part in parts])
        for tensor, parts in ((there[1], pools), (there[3], marks), (there[4], mined_places))
    )
    for batch, pool in enumerate(pools):
        here = slice(batch * size, min((batch + 1) * size, len(rows)))
        yield PairBatch(
            rows=rows[here],
            pool=pool,
            row_tensor=row_parts[batch],
            pool_tensor=pool_parts[batch],
            chosen=chosen_parts[batch],
            marks=mark_parts[batch],
            mined=None if negatives is None else mined_parts[batch],
            weights=None if weights is None else weights[here],
        )


def _sent(array: Longs | Floats, device: torch.device) -> Tensor:
    """To the device without waiting for it."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
