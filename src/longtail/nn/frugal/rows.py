"""A table whose rows move when they are used, and only then: word vectors, classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

BETAS = (0.9, 0.999)
EPSILON = 1e-8
Places = Tensor | slice


@dataclass(frozen=True)
class Rule:
    """Adam on the rows that a step has touched; their means stay as they are while nobody touches them."""

    rate: float
    decay: float = 0.0  # each time a row moves, rate x this share of it goes


class MovingRows(nn.Module):
    """Weights (rows, width) with Adam's two means; not parameters, since they move by themselves.

    The means are no part of the state dict, so that a copy of the best weights is no larger than the weights.
    """

    first: Tensor
    second: Tensor

    def __init__(self, weight: Tensor, rule: Rule) -> None:
        """Moves this very tensor."""
        super().__init__()
        self.rule, self.done = rule, 0
        self.clock: Tensor | None = None  # steps done before this one, where the device is to know them
        self.register_buffer("weight", weight)
        self.register_buffer("first", torch.zeros_like(weight), persistent=False)
        self.register_buffer("second", torch.zeros_like(weight), persistent=False)

    weight: Tensor

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, places: Places) -> Tensor:
        """These rows as a leaf that gathers a gradient. Places are a range of rows, or rows each named once."""
        return self.weight[places].detach().requires_grad_()

    def begin_step(self) -> None:
        """Rows that move from here on move in the next step; each moves at most once in it."""
        self.done += 1

    @torch.no_grad()
    def move(self, places: Places, gradient: Tensor, factor: float | Tensor, same: Tensor | None = None) -> None:
        """Move these rows against their gradient, at this part of the rate. Of places that repeat, `same` says which
        of them each is: it moves once, by the gradient that stands there."""
        device, some = self.weight.device, None if isinstance(places, slice) else places
        tables = [self.weight, self.first, self.second]
        done = torch.full((), float(self.done - 1), device=device) if self.clock is None else self.clock
        if device.type == "cuda" and has_kernels():
            from longtail.nn.kernels.move import move

            part = factor if isinstance(factor, Tensor) else torch.full((), factor, device=device)
            chosen = [table[places] if some is None else table for table in tables]
            move(chosen, gradient, some, same, done, part, self.rule.rate, self.rule.decay, BETAS, EPSILON)
            return
        parts = [table[places] for table in tables]  # views of a range, else copies
        step = done.clone()  # it is counted up in place
        gradient = gradient if same is None else gradient[same]
        adamw(
            [parts[0]], [gradient], [parts[1]], [parts[2]], [], [step], fused=True, amsgrad=False, maximize=False,
            beta1=BETAS[0], beta2=BETAS[1], eps=EPSILON, lr=self.rule.rate * factor, weight_decay=self.rule.decay,
        )  # fmt: skip
        if some is not None:
            for table, moved in zip(tables, parts, strict=True):
                table[some] = moved

    def means(self) -> dict[str, Tensor]:
        """What a checkpoint holds besides the weights."""
        return {"first": self.first, "second": self.second, "done": torch.tensor(self.done)}

    def load_means(self, state: Mapping[str, Tensor]) -> None:
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
        self.done = int(state["done"])


@cache
def has_kernels() -> bool:
    """Whether a GPU can be given kernels of our own."""
    return find_spec("triton") is not None
