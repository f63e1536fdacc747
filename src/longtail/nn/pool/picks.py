"""The labels that a batch learns from: some positives and some mined negatives of each row, shared by all its rows.

Whoever has a label of the pool has it as a positive, whether it was drawn for that row, for another row, or as another
row's negative. All is planned on the host without a loop over rows and sent to the device without waiting for it; what
it costs depends on the rows' labels and not on how many labels there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Floats, Longs, Matrix
from longtail.nn.pool.losses import Weighed
from longtail.nn.resident import ROUND, sent

_Plan = tuple[Longs, Longs, int, Longs, Floats]  # rows, pool, columns, places and weights of a batch, on the host


@dataclass(frozen=True, eq=False)
class PoolBatch:
    """Some rows and the labels they choose from. The tensors stand on the device."""

    rows: Longs  # (rows,)
    pool: Longs  # (pool,) distinct labels in order
    columns: int  # as many as labels of the pool, or more: these fill it up, and are nobody's
    pool_tensor: Tensor  # (pool,)
    places: Tensor  # (positives,) row x columns + column
    weights: Tensor  # (positives,) their targets

    def __len__(self) -> int:
        return len(self.rows)

    def targets(self, into: Tensor | None = None) -> Tensor:
        """(rows, columns): the target of every positive of the pool, else 0; its transpose is the labels' side."""
        shape = len(self.rows), self.columns
        dense = torch.zeros(shape, device=self.places.device) if into is None else into.zero_()
        dense.view(-1).index_copy_(0, self.places, self.weights)
        return dense

    def weighed(self) -> Weighed:
        """What losses ask of it."""
        some = self.columns > len(self.pool)
        real = torch.arange(self.columns, device=self.places.device) < len(self.pool) if some else None
        return Weighed(self.targets(), real)


@dataclass(frozen=True, eq=False)
class Picker:
    """How a batch's pool is made."""

    targets: Matrix  # csr float32 (rows, labels), entries in (0, 1]
    device: torch.device
    positives: int | None  # at most so many of a row are drawn; none: all (beta)
    negatives: int = 0  # of a row's mined ones that are drawn (eta)
    everything: bool = False  # the pool is all labels
    filled: bool = False  # up to a round number of texts, so that few shapes occur

    def batch(self, rows: Longs, mined: Longs | None, chance: np.random.Generator) -> PoolBatch:
        """`mined` (all rows, some) are wrong labels of each row, -1 = none."""
        return self._sent(self._planned(rows, mined, chance))

    def _sent(self, plan: _Plan) -> PoolBatch:
        rows, pool, columns, places, weights = plan
        there = sent(pool, self.device), sent(places, self.device)
        return PoolBatch(rows, pool, columns, *there, _sent_floats(weights, self.device))

    def _planned(self, rows: Longs, mined: Longs | None, chance: np.random.Generator) -> _Plan:
        entries, row_of = entries_of(self.targets, rows)
        labels, weights = self.targets.indices[entries].astype(np.int64), self.targets.data[entries]
        if self.everything:
            pool = np.arange(self.targets.shape[1], dtype=np.int64)
        else:
            parts = [labels[self._drawn(row_of, weights, chance)]]
            if mined is not None and self.negatives:
                parts.append(drawn_of(mined[rows], self.negatives, chance))
            pool = np.unique(np.concatenate(parts))
        column = np.minimum(np.searchsorted(pool, labels), max(len(pool) - 1, 0))
        kept = pool[column] == labels
        columns = len(pool) + (-(len(rows) + len(pool)) % ROUND if self.filled else 0)
        return rows, pool, columns, row_of[kept] * columns + column[kept], weights[kept]

    def batches(
        self, order: Longs, size: int, begin: int, mined: Longs | None, seed: tuple[int, int], ahead: bool = False
    ) -> Iterator[PoolBatch]:
        """Batches of `size` rows from number `begin` on. Each has chance of its own, so that it is the same wherever
        one begins. `ahead` plans each by a thread while the one before is used."""

        def plan(number: int) -> _Plan:
            chance = np.random.default_rng((*seed, number))
            return self._planned(order[number * size : (number + 1) * size], mined, chance)

        numbers = range(begin, -(-len(order) // size))
        if not ahead:
            yield from (self._sent(plan(number)) for number in numbers)
            return
        with ThreadPoolExecutor(1) as worker:
            coming = [worker.submit(plan, number) for number in numbers[:1]]
            for number in numbers:
                ready = coming.pop().result()
                if number + 1 < numbers.stop:
                    coming.append(worker.submit(plan, number + 1))
                # Only here is the device spoken to: another thread must not while kernels are recorded.
                yield self._sent(ready)

    def _drawn(self, row_of: Longs, weights: Floats, chance: np.random.Generator) -> Longs:
        """Which entries are drawn: at most so many of a row, without repeats, likelier where the target is larger."""
        if self.positives is None:
            return np.arange(len(row_of))
        waits = chance.exponential(size=len(row_of)) / weights  # the first to arrive; a larger target arrives sooner
        order = np.lexsort((waits, row_of))
        counts = np.bincount(row_of)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        drawn: Longs = order[np.arange(len(order)) - first < self.positives]
        return drawn


def entries_of(targets: Matrix, rows: Longs) -> tuple[Longs, Longs]:
    """Where the entries of these rows lie in the matrix, and whose each is: its place among the rows."""
    begins = targets.indptr[rows].astype(np.int64)
    counts = targets.indptr[rows + 1].astype(np.int64) - begins
    row_of = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    return np.arange(len(row_of), dtype=np.int64) + np.repeat(begins - before, counts), row_of


def drawn_of(mined: Longs, some: int, chance: np.random.Generator) -> Longs:
    """`some` different ones of each row's mined labels, all where there are no more."""
    luck = np.where(mined < 0, np.inf, chance.random(mined.shape))
    if some < mined.shape[1]:
        first = np.argpartition(luck, some - 1, axis=1)[:, :some]
        mined = np.take_along_axis(mined, first, axis=1)
    drawn: Longs = mined[mined >= 0]
    return drawn


def _sent_floats(numbers: Floats, device: torch.device) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.float32))
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
