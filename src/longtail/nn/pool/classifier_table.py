"""One classifier per label, of which a step updates only those of its pool.

Classifiers and their moments are read and written only where a pool names them, on the device or in host memory that
the GPU reads itself (`nn/training/mapped_memory.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Floats
from longtail.errors import RecipeError
from longtail.memory import available_bytes
from longtail.nn.onevsall.stochastic_rounding import stochastic_round
from longtail.nn.training.mapped_memory import MappedMemory
from longtail.nn.training.row_penalties import short_step
from longtail.nn.training.seeds import fold_seed

BETAS = (0.9, 0.999)
BY_LABEL = ("first", "second", "updates")  # of the moments
EPSILON = 1e-8
CHUNK = 1 << 16  # rows converted to another precision at once
SPARE = 4 << 30  # bytes of the host's memory that a table leaves free
Precision = Literal["fp32", "bf16"]


@dataclass(eq=False)
class TableRows:
    """See `PenalisedRows`: classifiers of any precision, in any memory that the device reads."""

    weight: Tensor
    done: int
    seed: int

    def rows(self, labels: Tensor) -> Tensor:
        """See `PenalisedRows.rows`."""
        return self.weight.index_select(0, labels).float()

    @torch.no_grad()
    def update_rows(self, labels: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """See `PenalisedRows.update_rows`."""
        before = self.rows(labels)
        after = before - short_step(before, gradient, learning_rate)
        rng = torch.Generator(self.weight.device).manual_seed(fold_seed((self.seed << 40) ^ self.done))
        self.weight.index_copy_(0, labels, stochastic_round(after, self.weight.dtype, rng))


class ClassifierTable(nn.Module):
    """Weights (labels, dimension) with AdamW's two moments. A step reads and updates only the rows it uses, and the
    moments of a row are bias-corrected by the number of its own updates.

    The table lies on the device or, `on_host`, in the host's memory, where the device reads and writes the rows it
    needs until the table is closed; moments that do not fit there lie on the device. In bf16, weights and moments are
    rounded stochastically, with bits drawn from seed and step. The moments are no part of the state dict, so a copy of
    the best weights is no larger than the weights.
    """

    weight: Tensor
    first: Tensor
    second: Tensor
    updates: Tensor  # (labels,) how often each row was updated

    def __init__(
        self,
        init: Floats,
        device: torch.device,
        on_host: bool = False,
        precision: Precision = "fp32",
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        """A table with all moments at zero.

        Args:
            init: (labels, dimension) initial weights.
            device: that trains.
            on_host: whether the table lies in the host's memory.
            precision: of weights and moments.
            weight_decay: of AdamW.
            seed: of the stochastic rounding.

        Raises:
            RecipeError: the host cannot map that much memory for the device.
        """
        super().__init__()
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.device, self.weight_decay, self.seed, self.done = device, weight_decay, seed, 0
        names, shape = ("weight", "first", "second"), init.shape
        self._taken: tuple[Tensor, Tensor] | None = None  # labels of this step, and their rows as they were stored
        self._mapped: dict[str, MappedMemory] = {}
        size = torch.Size(shape).numel() * dtype.itemsize
        try:
            for name in names if on_host else ():
                if not self._mapped or device.type == "cpu" or size < available_bytes() - SPARE:
                    self._mapped[name] = MappedMemory(shape, dtype, device)
        except RecipeError:  # there is not enough memory
            self.close()
            raise
        for name in names:
            mapped = self._mapped.get(name)
            table = torch.zeros(shape, dtype=dtype, device=device) if mapped is None else mapped.host
            self.register_buffer(name, table, persistent=name == "weight")
        for low in range(0, len(init), CHUNK):
            self.weight[low : low + CHUNK] = torch.from_numpy(np.ascontiguousarray(init[low : low + CHUNK]))
        self.register_buffer("updates", torch.zeros(len(init), dtype=torch.int32, device=device), persistent=False)

    def take(self, labels: Tensor) -> Tensor:
        """The classifiers of some labels, as a leaf that collects a gradient.

        Args:
            labels: (labels of the pool,).

        Returns:
            (labels of the pool, dimension) float32 on the device.
        """
        rows = self._tables()[0].index_select(0, labels)
        self._taken = labels, rows
        return rows.float().requires_grad_()

    @torch.no_grad()
    def update(self, labels: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """One step of AdamW on the classifiers of some labels.

        Args:
            labels: (labels of the pool,) each named once.
            gradient: (labels of the pool, dimension).
            learning_rate: of this step.
        """
        tables = self._tables()
        taken, self._taken = self._taken, None
        if taken is not None and taken[0] is labels:
            weight = taken[1].float().clone()  # not read twice: the host's memory is far
        else:
            weight = tables[0].index_select(0, labels).float()
        first, second = (table.index_select(0, labels).float() for table in tables[1:])
        updates = self.updates.index_select(0, labels) + 1
        times = updates.float()[:, None]
        first.lerp_(gradient, 1 - BETAS[0])
        second.lerp_(gradient.square(), 1 - BETAS[1])
        step_size = learning_rate / (1 - BETAS[0] ** times)
        deviation = (second / (1 - BETAS[1] ** times)).sqrt_().add_(EPSILON)
        weight.mul_(1 - learning_rate * self.weight_decay).sub_(step_size * first / deviation)
        rng = torch.Generator(self.device).manual_seed(fold_seed((self.seed << 40) ^ self.done))
        for table, rows in zip(tables, (weight, first, second), strict=True):
            table.index_copy_(0, labels, stochastic_round(rows, table.dtype, rng))
        self.updates.index_copy_(0, labels, updates)
        self.done += 1

    def penalised(self) -> TableRows:
        """The classifiers as penalties see them."""
        return TableRows(self._tables()[0], self.done, self.seed)

    def close(self) -> None:
        """Give mapped memory back to the host. From then on only the host can use the table."""
        for one in self._mapped.values():
            one.give_back()

    def _tables(self) -> list[Tensor]:
        """Weights and both moments, as the device sees them."""
        own = {"weight": self.weight, "first": self.first, "second": self.second}
        return list((own | {name: one.there for name, one in self._mapped.items()}).values())

    def _wait(self) -> None:
        """Wait until the device has written to the host's memory."""
        if self._mapped and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _save_to_state_dict(self, *parts: Any) -> None:
        self._wait()
        super()._save_to_state_dict(*parts)

    def _load_from_state_dict(self, *parts: Any) -> None:
        self._wait()
        super()._load_from_state_dict(*parts)

    def rows(self) -> Floats:
        """(labels, dimension): all classifiers as they are now."""
        self._wait()
        found: Floats = self.weight.float().cpu().numpy().copy()
        return found

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """While the first of several processes works alone: it finds all `rows`. Every process enters the block."""
        yield

    def moments(self) -> dict[str, Tensor]:
        """What a checkpoint holds besides the weights: moments, updates of each row, and steps."""
        self._wait()
        return {"first": self.first, "second": self.second, "updates": self.updates, "done": torch.tensor(self.done)}

    def load_moments(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `moments` gave.

        Args:
            state: from a checkpoint.
        """
        for name in BY_LABEL:
            getattr(self, name).copy_(state[name])
        self.done = int(state["done"])
