"""A classifier a label, of which a step moves only those of its pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Floats
from longtail.nn.heads.rounding import by_chance

BETAS = (0.9, 0.999)
EPSILON = 1e-8
CHUNK = 1 << 16  # rows that are turned into another precision at a time
Precision = Literal["fp32", "bf16"]


class ClassifierTable(nn.Module):
    """Weights (labels, dimension) with AdamW's two means, which wait while nobody uses a row: a step costs what it
    touches. A row's means are corrected for how often that row has moved.

    The table lies in `home`, on the device or in the host's memory; rows are computed on the device either way. In
    bf16, weights and means are rounded up or down by chance, drawn from seed and step. The means are no part of the
    state dict, so that a copy of the best weights is no larger than the weights.
    """

    weight: Tensor
    first: Tensor
    second: Tensor
    moved: Tensor

    def __init__(
        self,
        begin: Floats,
        device: torch.device,
        home: torch.device | None = None,
        precision: Precision = "fp32",
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        self.device, self.home = device, home or device
        self.weight_decay, self.seed, self.done = weight_decay, seed, 0
        weight = torch.empty(begin.shape, dtype=kind, device=self.home)
        for low in range(0, len(begin), CHUNK):
            weight[low : low + CHUNK] = torch.from_numpy(np.ascontiguousarray(begin[low : low + CHUNK]))
        self.register_buffer("weight", weight)
        self.register_buffer("first", torch.zeros_like(weight), persistent=False)
        self.register_buffer("second", torch.zeros_like(weight), persistent=False)
        self.register_buffer("moved", torch.zeros(len(begin), dtype=torch.int32, device=self.home), persistent=False)

    def take(self, labels: Tensor) -> Tensor:
        """The rows of these labels as a leaf that gathers a gradient, in float32 on the device."""
        return self._taken(self.weight, labels.to(self.home)).requires_grad_()

    @torch.no_grad()
    def move(self, labels: Tensor, gradient: Tensor, rate: float) -> None:
        """Move the rows of these labels, each named once, against their gradient."""
        places = labels.to(self.home)
        weight, first, second = (self._taken(table, places) for table in (self.weight, self.first, self.second))
        moved = self.moved.index_select(0, places) + 1
        times = moved.to(self.device).float()[:, None]
        first.lerp_(gradient, 1 - BETAS[0])
        second.lerp_(gradient.square(), 1 - BETAS[1])
        pace = rate / (1 - BETAS[0] ** times)
        spread = (second / (1 - BETAS[1] ** times)).sqrt_().add_(EPSILON)
        weight.mul_(1 - rate * self.weight_decay).sub_(pace * first / spread)
        chance = torch.Generator(self.device).manual_seed((self.seed << 40) ^ self.done)
        for table, rows in ((self.weight, weight), (self.first, first), (self.second, second)):
            table.index_copy_(0, places, by_chance(rows, table.dtype, chance).to(self.home))
        self.moved.index_copy_(0, places, moved)
        self.done += 1

    def _taken(self, table: Tensor, places: Tensor) -> Tensor:
        rows = table.index_select(0, places)
        if self.home != self.device:
            rows = rows.pin_memory().to(self.device, non_blocking=True)
        return rows.float() if rows.dtype != torch.float32 else rows

    def rows(self) -> Floats:
        """All of them as they are now (labels, dimension)."""
        found: Floats = self.weight.float().cpu().numpy().copy()
        return found

    def means(self) -> dict[str, Tensor]:
        """What a checkpoint holds besides the weights."""
        return {"first": self.first, "second": self.second, "moved": self.moved, "done": torch.tensor(self.done)}

    def load_means(self, state: Mapping[str, Tensor]) -> None:
        for name in ("first", "second", "moved"):
            getattr(self, name).copy_(state[name])
        self.done = int(state["done"])
