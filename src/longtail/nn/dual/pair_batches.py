"""How an epoch is cut into batches: the order of the rows, one drawn positive per row, and the pool's other positives.

The loss has one term per row, and a row chooses among the items of its batch's pool. Rows are documents and items are
labels, or the other way round. Batches are planned on the host, a few at a time and without a loop over rows, and
copied to the device together, so that a training step never waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Doubles, Floats, Longs, Matrix
from longtail.nn.training.to_device import to_device

BLOCK = 8  # batches planned together; few, since the first step of an epoch waits for them


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which items are positives of which rows, with their soft targets."""

    targets: Matrix  # csr float32 (rows, items), entries in (0, 1]

    @cached_property
    def rows(self) -> Longs:
        """The rows that have a positive; others are not trained on."""
        return np.flatnonzero(np.diff(self.targets.indptr)).astype(np.int64)

    @cached_property
    def _sums(self) -> Doubles | None:
        """Cumulative sums of the targets; None where all targets are equal."""
        data = self.targets.data
        if len(data) == 0 or data.min() == data.max():
            return None
        return np.concatenate([[0.0], np.cumsum(data, dtype=np.float64)])

    @cached_property
    def weights(self) -> Floats | None:
        """(rows,) weights of rows in the loss: the largest target of each, so that a row with soft targets alone
        counts less. None where all are 1."""
        targets, rows = self.targets, self.rows
        largest = np.ones(targets.shape[0], dtype=np.float32)
        if len(rows):
            largest[rows] = np.maximum.reduceat(targets.data, targets.indptr[rows])
        return None if largest.min(initial=1) == 1 else largest

    def draw(self, rows: Longs, rng: np.random.Generator) -> Longs:
        """One positive of each row, drawn with a probability in proportion to its target.

        Args:
            rows: (rows,) with at least one positive each.
            rng: draws one number per row.

        Returns:
            (rows,) items.
        """
        begins, ends = self.targets.indptr[rows].astype(np.int64), self.targets.indptr[rows + 1].astype(np.int64)
        draws = rng.random(len(rows))
        if self._sums is None:
            entries = begins + (draws * (ends - begins)).astype(np.int64)
        else:
            low, high = self._sums[begins], self._sums[ends]
            entries = np.searchsorted(self._sums, low + draws * (high - low), side="right") - 1
        entries = np.clip(entries, begins, ends - 1)  # a product may be rounded up to the end
        drawn: Longs = self.targets.indices[entries].astype(np.int64)
        return drawn


def random_order(rows: Longs, rng: np.random.Generator) -> Longs:
    """Rows in random order.

    Args:
        rows: (rows,) row numbers.
        rng: shuffles them.

    Returns:
        (rows,) the same row numbers, shuffled.
    """
    return rng.permutation(rows)


def clustered_order(rows: Longs, clusters: Longs, rng: np.random.Generator) -> Longs:
    """Rows cluster by cluster. Clusters come in random order, and so do the rows of each.

    Args:
        rows: (rows,) row numbers.
        clusters: (rows,) the cluster of each.
        rng: shuffles them.

    Returns:
        (rows,) the same row numbers.
    """
    place = rng.permutation(int(clusters.max(initial=-1)) + 1)[clusters]
    mixed = rng.permutation(len(rows))
    return rows[mixed[np.argsort(place[mixed], kind="stable")]]


@dataclass(frozen=True)
class Curriculum:
    """The size of the clusters that batches are made of: random batches first, then larger and larger clusters."""

    start: float = 0.2  # share of the epochs with random batches
    min_cluster_size: int = 4
    max_cluster_size: int = 256
    until: float = 0.7  # share of the epochs after which clusters have the largest size
    refresh_every: int = 5  # epochs between two clusterings

    def size(self, epoch: int, epochs: int) -> int:
        """Rows of a cluster in an epoch.

        Args:
            epoch: counted from 0.
            epochs: in all.

        Returns:
            The size; 1 means a random order.
        """
        done = epoch / max(epochs, 1)
        if done < self.start or epoch == 0:  # before the first epoch there are no vectors to cluster
            return 1
        doublings = max(int(np.log2(self.max_cluster_size / self.min_cluster_size)), 0)
        part = min((done - self.start) / max(self.until - self.start, 1e-9), 1.0)
        return min(self.min_cluster_size << int(part * doublings + 1e-9), self.max_cluster_size)

    def is_time(self, epoch: int, epochs: int) -> bool:
        """Whether rows are clustered before an epoch: the first with clusters, at a new size, and every
        `refresh_every` epochs.

        Args:
            epoch: counted from 0.
            epochs: in all.

        Returns:
            True where a new clustering is due.
        """
        size = self.size(epoch, epochs)
        if size == 1:
            return False
        first = next(number for number in range(epoch + 1) if self.size(number, epochs) > 1)
        return size != self.size(epoch - 1, epochs) or (epoch - first) % self.refresh_every == 0


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some rows, one positive of each, and the pool of items they choose from. Tensors are on the device."""

    rows: Longs  # (rows,)
    pool: Longs  # (pool,) distinct items
    row_tensor: Tensor  # (rows,)
    pool_tensor: Tensor  # (pool,)
    chosen: Tensor  # (rows,) pool column of each row's drawn positive
    marks: Tensor  # (known positives,) row x pool + column
    mined: Tensor | None = None  # pool columns of mined negatives that no row has drawn
    weights: Tensor | None = None  # (rows,)
    others: Longs | None = None  # (rows,) another positive of each

    def __len__(self) -> int:
        return len(self.rows)

    def positive(self) -> Tensor:
        """(rows, pool) bool: every known positive."""
        mask = torch.zeros(len(self.rows) * len(self.pool), dtype=torch.bool, device=self.marks.device)
        return mask.index_fill_(0, self.marks, True).view(len(self.rows), len(self.pool))


def paired(
    pairs: Pairs,
    order: Longs,
    drawn: Longs,
    size: int,
    device: torch.device,
    begin: int = 0,
    negatives: Longs | None = None,
    all_positives: bool = False,
) -> Iterator[PairBatch]:
    """Consecutive batches of an epoch. A batch's pool holds the drawn positives of its rows and their negatives.

    Args:
        pairs: the positives of all rows.
        order: (rows of the epoch,) row numbers.
        drawn: (rows of the epoch,) the drawn positive of each.
        size: rows of a batch.
        device: where the tensors go.
        begin: number of the first batch, counted from 0.
        negatives: (all rows, negatives of a row) more items for the pool, -1 for none.
        all_positives: whether the pool holds all positives of the rows, too.

    Yields:
        Batches of `size` rows; the last one may have fewer.
    """
    place = np.full(pairs.targets.shape[1], -1, dtype=np.int64)
    for first in range(begin * size, len(order), BLOCK * size):
        here = slice(first, first + BLOCK * size)
        yield from _block(pairs, order[here], drawn[here], size, device, negatives, all_positives, place)


def _block(
    pairs: Pairs,
    rows: Longs,
    drawn: Longs,
    size: int,
    device: torch.device,
    negatives: Longs | None,
    all_positives: bool,
    place: Longs,  # (items,) scratch memory, all -1: the pool column of an item in the current batch
) -> Iterator[PairBatch]:
    targets = pairs.targets
    begins, counts = targets.indptr[rows].astype(np.int64), np.diff(targets.indptr)[rows].astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    row_of = np.repeat(np.arange(len(rows)), counts)  # the row of each known positive
    positives = targets.indices[np.arange(len(row_of)) + np.repeat(begins - ends[:-1], counts)]
    pools, chosen, marks, mined_places = [], [], [], []
    for first in range(0, len(rows), size):
        last = min(first + size, len(rows))
        own, known = drawn[first:last], slice(ends[first], ends[last])
        mined = np.zeros(0, dtype=np.int64) if negatives is None else negatives[rows[first:last]].ravel()
        mined = mined[mined >= 0]
        more = [mined] if len(mined) else []
        pool = np.unique(np.concatenate([own, *more, *([positives[known]] if all_positives else [])]))
        place[pool] = np.arange(len(pool))
        found = place[positives[known]]
        kept = found >= 0
        pools.append(pool)
        chosen.append(place[own])
        marks.append((row_of[known][kept] - first) * len(pool) + found[kept])
        mined_places.append(place[np.setdiff1d(mined, own)] if more else mined)
        place[pool] = -1
    weights = None if pairs.weights is None else to_device(pairs.weights[rows], device)
    arrays = (rows, *map(np.concatenate, (pools, chosen, marks, mined_places)))
    on_device = [to_device(array, device) for array in arrays]
    row_parts, chosen_parts = (tensor.split(size) for tensor in (on_device[0], on_device[2]))
    pool_parts, mark_parts, mined_parts = (
        tensor.split([len(part) for part in parts])
        for tensor, parts in ((on_device[1], pools), (on_device[3], marks), (on_device[4], mined_places))
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
