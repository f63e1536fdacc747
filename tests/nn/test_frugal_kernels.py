"""Kernels that sum rows of a table and turn scores into chances, against float64.

Needs triton and a GPU, or its interpreter: TRITON_INTERPRET=1 runs them on a CPU.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or not (ON_GPU or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="needs triton, and a GPU or TRITON_INTERPRET=1",
)


@pytest.mark.parametrize("width", [5, 64, 100])
@pytest.mark.parametrize("lengths", [[3, 0, 1, 70, 32, 0], [1], [0, 0]])
def test_the_kernel_sums_each_list(width: int, lengths: list[int]) -> None:
    """Empty lists too, and whatever stands behind the last one is not read."""
    from longtail.nn.kernels.bag import summed

    torch.manual_seed(0)
    total = sum(lengths)
    table, weights = torch.randn(40, width), torch.randn(total + 9)
    numbers = torch.cat([torch.randint(0, 40, (total,)), torch.full((9,), 10**9)])
    sizes = torch.tensor(lengths)
    begins = torch.cumsum(sizes, 0) - sizes
    exact = torch.stack([
        (table.double()[numbers[begin : begin + size]] * weights.double()[begin : begin + size, None]).sum(0)
        for begin, size in zip(begins.tolist(), lengths, strict=True)
    ])  # fmt: skip
    found = summed(*(part.to(DEVICE) for part in (table, numbers, weights, begins, sizes)))
    torch.testing.assert_close(found.double().cpu(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [3, 512, 700])
def test_the_kernel_makes_chances(rows: int, kind: torch.dtype) -> None:
    from longtail.nn.kernels.sigmoid import chances_

    torch.manual_seed(0)
    scores, bias = (4 * torch.randn(7, rows)).to(kind), torch.randn(7)
    exact = torch.sigmoid(scores.double() + bias.double()[:, None])
    found = chances_(scores.to(DEVICE), bias.to(DEVICE))
    assert found.dtype == kind
    torch.testing.assert_close(found.double().cpu(), exact, rtol=0, atol=1e-6 if kind == torch.float32 else 4e-3)
