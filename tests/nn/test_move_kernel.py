"""The kernel that moves rows of a table against Adam in float64.

Needs triton and a GPU, or its interpreter: TRITON_INTERPRET=1 runs it on a CPU.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from longtail.nn.frugal.rows import BETAS, EPSILON

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or not (ON_GPU or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="needs triton, and a GPU or TRITON_INTERPRET=1",
)
RATE, DECAY = 0.03, 0.2


def adam(tables: list[Tensor], gradient: Tensor, step: int, factor: float) -> list[Tensor]:
    """From the paper's formula, with decay apart from the gradient."""
    weight, first, second = tables
    first = BETAS[0] * first + (1 - BETAS[0]) * gradient
    second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
    mean, square = first / (1 - BETAS[0] ** step), second / (1 - BETAS[1] ** step)
    return [weight - factor * RATE * (DECAY * weight + mean / (square.sqrt() + EPSILON)), first, second]


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, device=DEVICE)


@pytest.mark.parametrize("shape", [(7, 5), (70, 64), (3, 1500), (90,)])
@pytest.mark.parametrize("chosen", [None, False, True])
def test_the_kernel_moves_as_adam(shape: tuple[int, ...], chosen: bool | None) -> None:
    """All rows, some of them, or some that are named again, which do not move again."""
    from longtail.nn.kernels.move import move

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
        move(tables, gradient, None if chosen is None else places, same, done, part, RATE, DECAY, BETAS, EPSILON)
    for table, known in zip(tables, exact, strict=True):
        torch.testing.assert_close(table.double(), known, rtol=1e-5, atol=1e-6)
