"""A classifier a label, of which a step moves only those of its pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Floats
from longtail.errors import RecipeError
from longtail.nn.heads.rounding import by_chance
from longtail.nn.lent import Lent
from longtail.nn.seeds import folded

BETAS = (0.9, 0.999)
EPSILON = 1e-8
CHUNK = 1 << 16  # rows that are turned into another precision at a time
Precision = Literal["fp32", "bf16"]


class ClassifierTable(nn.Module):
    """Weights (labels, dimension) with AdamW's two means, which wait while nobody uses a row: a step costs what it
    touches. A row's means are corrected for how often that row has moved.

    The table lies on the device or, `on_host`, in the host's memory, where the device fetches and puts back the rows it
    needs until the table is closed. In bf16, weights and means are rounded up or down by chance, drawn from seed and
    step. The means are no part of the state dict, so that a copy of the best weights is no larger than the weights.
    """

    weight: Tensor
    first: Tensor
    second: Tensor
    moved: Tensor

    def __init__(
        self,
        begin: Floats,
        device: torch.device,
        on_host: bool = False,
        precision: Precision = "fp32",
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        self.device, self.weight_decay, self.seed, self.done = device, weight_decay, seed, 0
        names, shape = ("weight", "first", "second"), begin.shape
        self._lent: list[Lent] = []
        try:
            for _ in names if on_host else ():
                self._lent.append(Lent(shape, kind, device))
        except RecipeError:  # there is not enough for all of them
            self.close()
            raise
        tables = [one.host for one in self._lent] or [torch.zeros(shape, dtype=kind, device=device) for _ in names]
        for name, table in zip(names, tables, strict=True):
            self.register_buffer(name, table, persistent=name == "weight")
        for low in range(0, len(begin), CHUNK):
            self.weight[low : low + CHUNK] = torch.from_numpy(np.ascontiguousarray(begin[low : low + CHUNK]))
        self.register_buffer("moved", torch.zeros(len(begin), dtype=torch.int32, device=device), persistent=False)

    def take(self, labels: Tensor) -> Tensor:
        """The rows of these labels as a leaf that gathers a gradient, in float32 on the device."""
        return self._tables()[0].index_select(0, labels).float().requires_grad_()

    @torch.no_grad()
    def move(self, labels: Tensor, gradient: Tensor, rate: float) -> None:
        """Move the rows of these labels, each named once, against their gradient."""
        tables = self._tables()
        weight, first, second = (table.index_select(0, labels).float() for table in tables)
        moved = self.moved.index_select(0, labels) + 1
        times = moved.float()[:, None]
        first.lerp_(gradient, 1 - BETAS[0])
        second.lerp_(gradient.square(), 1 - BETAS[1])
        pace = rate / (1 - BETAS[0] ** times)
        spread = (second / (1 - BETAS[1] ** times)).sqrt_().add_(EPSILON)
        weight.mul_(1 - rate * self.weight_decay).sub_(pace * first / spread)
        chance = torch.Generator(self.device).manual_seed(folded((self.seed << 40) ^ self.done))
        for table, rows in zip(tables, (weight, first, second), strict=True):
            table.index_copy_(0, labels, by_chance(rows, table.dtype, chance))
        self.moved.index_copy_(0, labels, moved)
        self.done += 1

    def close(self) -> None:
        """No more rows will be asked for: what the host has lent is its own again."""
        for one in self._lent:
            one.give_back()

    def _tables(self) -> list[Tensor]:
        """Weights and both means, as the device sees them."""
        return [one.there for one in self._lent] or [self.weight, self.first, self.second]

    def _wait(self) -> None:
        """Until what the device writes into the host's memory is there."""
        if self._lent and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _save_to_state_dict(self, *parts: Any) -> None:
        self._wait()
        super()._save_to_state_dict(*parts)

    def _load_from_state_dict(self, *parts: Any) -> None:
        self._wait()
        super()._load_from_state_dict(*parts)

    def rows(self) -> Floats:
        """All of them as they are now (labels, dimension)."""
        self._wait()
        found: Floats = self.weight.float().cpu().numpy().copy()
        return found

    def means(self) -> dict[str, Tensor]:
        """What a checkpoint holds besides the weights."""
        self._wait()
        return {"first": self.first, "second": self.second, "moved": self.moved, "done": torch.tensor(self.done)}

    def load_means(self, state: Mapping[str, Tensor]) -> None:
        for name in ("first", "second", "moved"):
            getattr(self, name).copy_(state[name])
        self.done = int(state["done"])
