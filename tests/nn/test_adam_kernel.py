"""The kernel that updates rows of a table, against Adam in float64.

It runs on a GPU or, where there is none, in Triton's interpreter.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from triton_device import DEVICE, interpreter, needs_triton

from longtail.nn.shallow.sparse_adam import BETAS, EPSILON

__all__ = ["interpreter"]  # a fixture
pytestmark = needs_triton
RATE, DECAY = 0.03, 0.2


def adam(tables: list[Tensor], gradient: Tensor, step: int, factor: float) -> list[Tensor]:
    """The paper's formula, with decoupled weight decay."""
    weight, first, second = tables
    first = BETAS[0] * first + (1 - BETAS[0]) * gradient
    second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
    mean, square = first / (1 - BETAS[0] ** step), second / (1 - BETAS[1] ** step)
    return [weight - factor * RATE * (DECAY * weight + mean / (square.sqrt() + EPSILON)), first, second]


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, device=DEVICE)


@pytest.mark.parametrize("shape", [(7, 5), (70, 64), (3, 1500), (90,)])
@pytest.mark.parametrize("chosen", [None, False, True])
def test_the_kernel_is_a_step_of_adam(shape: tuple[int, ...], chosen: bool | None) -> None:
    """All rows, some of them, or some with duplicates, which are updated once."""
    from longtail.nn.kernels.adam_rows import adam_step

    torch.manual_seed(0)
    tables = [drawn(*shape), drawn(*shape), drawn(*shape).abs()]
    exact = [table.double() for table in tables]
    for step, factor in ((1, 0.5), (2, 1.0), (900, 0.1)):
        places = torch.randperm(shape[0])[: shape[0] // 2 + 1].to(DEVICE)
        at: Tensor | slice = slice(None) if chosen is None else places
        gradient = drawn(*shape)[at]
        for table, part in zip(
            exact, adam([table[at] for table in exact], gradient.double(), step, factor), strict=True
        ):
            table[at] = part
        same = None
        if chosen:
            same = torch.cat([torch.arange(len(places)), torch.zeros(5, dtype=torch.int64)]).to(DEVICE)
            gradient = torch.cat([gradient, drawn(5, *shape[1:])])
            places = torch.cat([places, places[:1].expand(5)])
        done, part = (torch.full((), number, device=DEVICE) for number in (step - 1.0, factor))
        adam_step(tables, gradient, None if chosen is None else places, same, done, part, RATE, DECAY, BETAS, EPSILON)
    for table, known in zip(tables, exact, strict=True):
        torch.testing.assert_close(table.double(), known, rtol=1e-5, atol=1e-6)
