"""Kernels that sum rows of a table and turn scores into probabilities, against float64.

They run on a GPU or, where there is none, in Triton's interpreter.
"""

from __future__ import annotations

import pytest
import torch
from triton_device import DEVICE, interpreter, needs_triton

__all__ = ["interpreter"]  # a fixture
pytestmark = needs_triton


@pytest.mark.parametrize("width", [5, 64, 100])
@pytest.mark.parametrize("lengths", [[3, 0, 1, 70, 32, 0], [1], [0, 0]])
def test_the_kernel_sums_each_list(width: int, lengths: list[int]) -> None:
    """Empty lists too; padding behind the last one is not read."""
    from longtail.nn.kernels.weighted_bag import summed

    torch.manual_seed(0)
    total = sum(lengths)
    table, weights = torch.randn(40, width), torch.randn(total + 9)
    numbers = torch.cat([torch.randint(0, 40, (total,)), torch.full((9,), 10**9)])
    sizes = torch.tensor(lengths)
    starts = torch.cumsum(sizes, 0) - sizes
    exact = torch.stack([
        (table.double()[numbers[start : start + size]] * weights.double()[start : start + size, None]).sum(0)
        for start, size in zip(starts.tolist(), lengths, strict=True)
    ])  # fmt: skip
    found = summed(*(part.to(DEVICE) for part in (table, numbers, weights, starts, sizes)))
    torch.testing.assert_close(found.double().cpu(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [3, 512, 700])
def test_the_kernel_is_a_sigmoid(rows: int, kind: torch.dtype) -> None:
    from longtail.nn.kernels.sigmoid import sigmoid_

    torch.manual_seed(0)
    scores, bias = (4 * torch.randn(7, rows)).to(kind), torch.randn(7)
    exact = torch.sigmoid(scores.double() + bias.double()[:, None])
    found = sigmoid_(scores.to(DEVICE), bias.to(DEVICE))
    assert found.dtype == kind
    torch.testing.assert_close(found.double().cpu(), exact, rtol=0, atol=1e-6 if kind == torch.float32 else 4e-3)
