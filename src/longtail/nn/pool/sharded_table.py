"""The table of classifiers over several processes: each holds a range of the labels, and all train on any pool.

The rows of a pool are summed over the processes, of which one has each row and the others zeros; afterwards each
process updates the rows that are its own. Weights and moments so take a share of the memory on every host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from longtail.arrays import Floats
from longtail.nn.pool.classifier_table import ClassifierTable, Precision, TableRows
from longtail.nn.training.process_group import ProcessGroup


class ShardedTable(ClassifierTable):
    """A `ClassifierTable` that holds the classifiers of one process. Labels are named by their number among all."""

    def __init__(
        self,
        init: Floats,
        device: torch.device,
        ranks: ProcessGroup,
        labels: int,
        on_host: bool = False,
        precision: Precision = "fp32",
        seed: int = 0,
    ) -> None:
        """A table with all moments at zero.

        Args:
            init: (own labels, dimension) initial weights of `ranks.range(labels)`.
            device: that trains.
            ranks: the processes.
            labels: of all processes.
            on_host: see `ClassifierTable`.
            precision: of weights and moments.
            seed: of the stochastic rounding.

        Raises:
            RecipeError: see `ClassifierTable`.
        """
        super().__init__(init, device, on_host, precision, seed=seed)
        self.ranks, self.labels = ranks, labels
        self.begin, self.end = ranks.range(labels)
        self._everything: Floats | None = None

    def take(self, labels: Tensor) -> Tensor:
        """See `ClassifierTable.take`; every process asks for the same labels."""
        own = self._own(labels)
        rows = torch.zeros((len(labels), self.weight.shape[1]), device=labels.device)
        rows[own] = super().take(labels[own] - self.begin).detach()
        return self.ranks.sum(rows).requires_grad_()

    @torch.no_grad()
    def update(self, labels: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """See `ClassifierTable.update`: of the rows of this process."""
        own = self._own(labels)
        super().update(labels[own] - self.begin, gradient[own], learning_rate)

    def penalised(self) -> TableRows:
        """See `ClassifierTable.penalised`."""
        return ShardedRows(self._tables()[0], self.done, self.seed, self)

    def rows(self) -> Floats:
        """See `ClassifierTable.rows`. Outside of `gathered`, every process must ask, and all get all rows."""
        if self._everything is not None:
            return self._everything
        return self.ranks.whole(super().rows(), self.labels)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """See `ClassifierTable.gathered`."""
        found = self.ranks.whole(super().rows(), self.labels, by_first=True)
        self._everything = found
        try:
            yield
        finally:
            self._everything = None

    def _own(self, labels: Tensor) -> Tensor:
        return (labels >= self.begin) & (labels < self.end)


@dataclass(eq=False)
class ShardedRows(TableRows):
    """See `TableRows`."""

    table: ShardedTable

    def rows(self, labels: Tensor) -> Tensor:
        """See `PenalisedRows.rows`."""
        own = self.table._own(labels)
        found = torch.zeros((len(labels), self.weight.shape[1]), device=labels.device)
        found[own] = super().rows(labels[own] - self.table.begin)
        return self.table.ranks.sum(found)

    @torch.no_grad()
    def update_rows(self, labels: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """See `PenalisedRows.update_rows`."""
        own = self.table._own(labels)
        unsharded = TableRows(self.weight, self.done, self.seed)
        unsharded.update_rows(labels[own] - self.table.begin, gradient[own], learning_rate)
