"""Adam on tables of which a step uses some rows only, such as word vectors and classifiers: other rows stay.

Adam's moments of a row wait until a step uses the row, so a step costs what it touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from longtail.nn.extra import has_kernels

BETAS = (0.9, 0.999)
EPSILON = 1e-8
Places = Tensor | slice


@dataclass(frozen=True)
class Rule:
    """Settings of Adam."""

    learning_rate: float
    weight_decay: float = 0.0  # each update shrinks a row by learning rate x this


class AdamRows(nn.Module):
    """Weights (rows, width) with Adam's two moments, as buffers and not parameters: they are updated here.

    The moments of a row stay while no step uses it. They are no part of the state dict, so that a copy of the best
    weights is no larger than the weights.
    """

    first: Tensor
    second: Tensor

    def __init__(self, weight: Tensor, rule: Rule) -> None:
        """Start with zero moments.

        Args:
            weight: (rows, width); updated in place.
            rule: settings of Adam.
        """
        super().__init__()
        self.rule, self.done = rule, 0  # done: steps so far
        self.clock: Tensor | None = None  # steps before this one, on the device; a CUDA graph reads it from there
        self.register_buffer("weight", weight)
        self.register_buffer("first", torch.zeros_like(weight), persistent=False)
        self.register_buffer("second", torch.zeros_like(weight), persistent=False)

    weight: Tensor

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, places: Places) -> Tensor:
        """Copy rows into a leaf tensor that collects a gradient.

        Args:
            places: a range of rows, or row numbers without duplicates.

        Returns:
            (rows, width).
        """
        return self.weight[places].detach().requires_grad_()

    def begin_step(self) -> None:
        """Count a step. Updates from here on belong to it; each row is updated at most once in it."""
        self.done += 1

    @torch.no_grad()
    def update(
        self, places: Places, gradient: Tensor, factor: float | Tensor, duplicate_of: Tensor | None = None
    ) -> None:
        """Update rows by one step of Adam.

        Args:
            places: a range of rows, or row numbers.
            gradient: (rows, width).
            factor: on the learning rate.
            duplicate_of: (rows,) int64, where places repeat: the first position of each place. The row is updated
                once, by the gradient at that position.
        """
        device, numbers = self.weight.device, None if isinstance(places, slice) else places
        tables = [self.weight, self.first, self.second]
        done = torch.full((), float(self.done - 1), device=device) if self.clock is None else self.clock
        if device.type == "cuda" and has_kernels():
            from longtail.nn.kernels.adam_rows import adam_step

            part = factor if isinstance(factor, Tensor) else torch.full((), factor, device=device)
            chosen = [table[places] if numbers is None else table for table in tables]
            rule = (self.rule.learning_rate, self.rule.weight_decay, BETAS, EPSILON)
            adam_step(chosen, gradient, numbers, duplicate_of, done, part, *rule)
            return
        parts = [table[places] for table in tables]  # views of a range, else copies
        step = done.clone()  # adamw increments it in place
        gradient = gradient if duplicate_of is None else gradient[duplicate_of]
        adamw(
            [parts[0]], [gradient], [parts[1]], [parts[2]], [], [step], fused=True, amsgrad=False, maximize=False,
            beta1=BETAS[0], beta2=BETAS[1], eps=EPSILON, lr=self.rule.learning_rate * factor,
            weight_decay=self.rule.weight_decay,
        )  # fmt: skip
        if numbers is not None:
            for table, updated in zip(tables, parts, strict=True):
                table[numbers] = updated

    def moments(self) -> dict[str, Tensor]:
        """Collect the state that a checkpoint holds besides the weights.

        Returns:
            Adam's two moments and the number of steps.
        """
        return {"first": self.first, "second": self.second, "done": torch.tensor(self.done)}

    def load_moments(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state.

        Args:
            state: as `moments` returned it.
        """
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
        self.done = int(state["done"])
