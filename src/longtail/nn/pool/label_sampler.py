"""The pool of labels that a batch learns from: some positives and some mined negatives of each row, shared by all rows.

A label of the pool is a positive of every row that has it, whether it was drawn for that row, for another row, or as
another row's negative. Pools are planned on the host without a loop over rows and copied to the device without waiting
for it. Drawn labels are sorted once, and the labels of the rows are found among them by bisection, so the cost depends
on the rows' labels and not on how many labels there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Floats, Longs, Matrix
from longtail.nn.encoders.device_tokens import ROUND
from longtail.nn.pool.pool_losses import PoolTargets
from longtail.nn.training.to_device import to_device

_Plan = tuple[Longs, Longs, int, Longs, Floats]  # rows, pool, columns, places and weights of a batch, on the host


@dataclass(frozen=True, eq=False)
class PoolBatch:
    """Some rows and the labels they choose from. Tensors are on the device."""

    rows: Longs  # (rows,)
    pool: Longs  # (pool,) distinct labels in rising order
    columns: int  # of the scores: the labels of the pool, and padding behind them
    pool_tensor: Tensor  # (pool,)
    places: Tensor  # (positives,) row x columns + column
    weights: Tensor  # (positives,) their targets

    def __len__(self) -> int:
        return len(self.rows)

    def targets(self, into: Tensor | None = None) -> Tensor:
        """The targets of the rows over the pool; transposed, those of the labels over the rows.

        Args:
            into: (rows, columns) to write to; a new tensor where None.

        Returns:
            (rows, columns) the target of every positive, 0 elsewhere.
        """
        shape = len(self.rows), self.columns
        dense = torch.zeros(shape, device=self.places.device) if into is None else into.zero_()
        dense.view(-1).index_copy_(0, self.places, self.weights)
        return dense

    def pool_targets(self) -> PoolTargets:
        """The targets as losses take them, with the padding marked."""
        has_padding = self.columns > len(self.pool)
        real = torch.arange(self.columns, device=self.places.device) < len(self.pool) if has_padding else None
        return PoolTargets(self.targets(), real)


@dataclass(frozen=True, eq=False)
class LabelSampler:
    """Makes the pool of a batch."""

    targets: Matrix  # csr float32 (rows, labels), entries in (0, 1]
    device: torch.device
    positives: int | None  # of a row that are drawn, at most; None: all (beta)
    negatives: int = 0  # mined labels of a row that are drawn (eta)
    all_labels: bool = False  # the pool is all labels
    padded: bool = False  # pad the pool to a round number of texts, so that few shapes occur

    def batch(self, rows: Longs, mined: Longs | None, rng: np.random.Generator) -> PoolBatch:
        """The batch of these rows.

        Args:
            rows: (rows,).
            mined: (all rows, mined labels of a row) wrong labels of each row, -1 for none.
            rng: draws positives and negatives.

        Returns:
            The batch, on the device.
        """
        return self._on_device(self._planned(rows, mined, rng))

    def _on_device(self, plan: _Plan) -> PoolBatch:
        rows, pool, columns, places, weights = plan
        there = to_device(pool, self.device), to_device(places, self.device)
        return PoolBatch(rows, pool, columns, *there, to_device(weights, self.device, np.float32))

    def _planned(self, rows: Longs, mined: Longs | None, rng: np.random.Generator) -> _Plan:
        entries, row_of = entries_of(self.targets, rows)
        labels, weights = self.targets.indices[entries].astype(np.int64), self.targets.data[entries]
        if self.all_labels:
            pool = np.arange(self.targets.shape[1], dtype=np.int64)
        else:
            parts = [labels[self._drawn(row_of, weights, rng)]]
            if mined is not None and self.negatives:
                parts.append(draw_negatives(mined[rows], self.negatives, rng))
            pool = np.unique(np.concatenate(parts))
        column = np.minimum(np.searchsorted(pool, labels), max(len(pool) - 1, 0))
        kept = pool[column] == labels
        columns = len(pool) + (-(len(rows) + len(pool)) % ROUND if self.padded else 0)
        return rows, pool, columns, row_of[kept] * columns + column[kept], weights[kept]

    def batches(
        self, order: Longs, size: int, begin: int, mined: Longs | None, seed: tuple[int, int], ahead: bool = False
    ) -> Iterator[PoolBatch]:
        """The batches of an epoch. Each has its own random state, so it is the same wherever the epoch is resumed.

        Args:
            order: (rows of the epoch,).
            size: rows of a batch.
            begin: number of the first batch, counted from 0.
            mined: as for `batch`.
            seed: of the epoch.
            ahead: whether a thread plans each batch while the one before is used.

        Yields:
            Batches of `size` rows; the last one may have fewer.
        """

        def plan(number: int) -> _Plan:
            rng = np.random.default_rng((*seed, number))
            return self._planned(order[number * size : (number + 1) * size], mined, rng)

        numbers = range(begin, -(-len(order) // size))
        if not ahead:
            yield from (self._on_device(plan(number)) for number in numbers)
            return
        with ThreadPoolExecutor(1) as worker:
            coming = [worker.submit(plan, number) for number in numbers[:1]]
            for number in numbers:
                ready = coming.pop().result()
                if number + 1 < numbers.stop:
                    coming.append(worker.submit(plan, number + 1))
                # Copy to the device in this thread: no other may use it while kernels are recorded.
                yield self._on_device(ready)

    def _drawn(self, row_of: Longs, weights: Floats, rng: np.random.Generator) -> Longs:
        """Which entries are drawn: up to `positives` of a row, without repeats, more probable with larger targets."""
        if self.positives is None:
            return np.arange(len(row_of))
        # Exponential arrival times at the rate of the target: the first arrivals are a weighted sample.
        arrivals = rng.exponential(size=len(row_of)) / weights
        order = np.lexsort((arrivals, row_of))
        counts = np.bincount(row_of)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        drawn: Longs = order[np.arange(len(order)) - first < self.positives]
        return drawn


def entries_of(targets: Matrix, rows: Longs) -> tuple[Longs, Longs]:
    """The entries of some rows of a matrix.

    Args:
        targets: csr (all rows, labels).
        rows: (rows,).

    Returns:
        (entries,) the index of each entry in `targets.indices`, and (entries,) its row's place among `rows`.
    """
    begins = targets.indptr[rows].astype(np.int64)
    counts = targets.indptr[rows + 1].astype(np.int64) - begins
    row_of = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    return np.arange(len(row_of), dtype=np.int64) + np.repeat(begins - before, counts), row_of


def draw_negatives(mined: Longs, number: int, rng: np.random.Generator) -> Longs:
    """Mined labels, drawn without repeats within a row.

    Args:
        mined: (rows, mined labels of a row), -1 for none.
        number: to draw of each row; all where a row has no more.
        rng: draws them.

    Returns:
        (drawn,) labels of all rows.
    """
    draws = np.where(mined < 0, np.inf, rng.random(mined.shape))
    if number < mined.shape[1]:
        first = np.argpartition(draws, number - 1, axis=1)[:, :number]
        mined = np.take_along_axis(mined, first, axis=1)
    drawn: Longs = mined[mined >= 0]
    return drawn
