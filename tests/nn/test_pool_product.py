"""Products in bf16 with sums in float32: against float64, there and back."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from longtail.nn.pool.product import product


def test_without_rounding_it_is_the_plain_product() -> None:
    left, right = torch.randn(3, 8), torch.randn(5, 8)
    assert torch.equal(product(left, right, lower=False), left @ right.T)


def test_rounded_factors_move_scores_and_slopes_little() -> None:
    chance = torch.Generator().manual_seed(0)
    left, right = (normalize(torch.randn(rows, 384, generator=chance), dim=1) for rows in (40, 70))
    pull = torch.randn(40, 70, generator=chance)
    found = []
    for kind, lower in ((torch.float64, False), (torch.float32, True)):
        one, other = (side.to(kind).requires_grad_() for side in (left, right))
        scores = product(one, other, lower)
        assert scores.dtype == kind
        (scores * pull).sum().backward()
        assert one.grad is not None and other.grad is not None
        found.append((scores.detach().double(), one.grad.double(), other.grad.double()))
    (scores, *slopes), (rounded, *others) = found
    assert (scores - rounded).abs().max() < 1e-3
    assert not torch.equal(scores, rounded)
    for slope, other in zip(slopes, others, strict=True):
        assert (slope - other).norm() < 5e-3 * slope.norm()


def test_a_tiny_slope_survives() -> None:
    """1e-12 of a pull is none in half precision and is one in bf16."""
    left, right = torch.ones(1, 2, requires_grad=True), torch.ones(1, 2)
    (product(left, right, lower=True) * 1e-12).sum().backward()
    assert left.grad is not None and left.grad[0, 0].item() == pytest.approx(1e-12, rel=5e-3)
