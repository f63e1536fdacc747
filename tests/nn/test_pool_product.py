"""Products of bf16 factors with float32 sums, and their gradients, against float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from longtail.nn.pool.mixed_precision_product import product


def test_without_rounding_it_is_the_plain_product() -> None:
    left, right = torch.randn(3, 8), torch.randn(5, 8)
    assert torch.equal(product(left, right, bf16=False), left @ right.T)


def test_rounded_factors_change_scores_and_gradients_little() -> None:
    rng = torch.Generator().manual_seed(0)
    left, right = (normalize(torch.randn(rows, 384, generator=rng), dim=1) for rows in (40, 70))
    weights = torch.randn(40, 70, generator=rng)
    found = []
    for kind, bf16 in ((torch.float64, False), (torch.float32, True)):
        one, other = (side.to(kind).requires_grad_() for side in (left, right))
        scores = product(one, other, bf16)
        assert scores.dtype == kind
        (scores * weights).sum().backward()
        assert one.grad is not None and other.grad is not None
        found.append((scores.detach().double(), one.grad.double(), other.grad.double()))
    (scores, *gradients), (rounded, *others) = found
    assert (scores - rounded).abs().max() < 1e-3
    assert not torch.equal(scores, rounded)
    for gradient, other in zip(gradients, others, strict=True):
        assert (gradient - other).norm() < 5e-3 * gradient.norm()


def test_a_tiny_gradient_survives() -> None:
    """A gradient of 1e-12 is 0 in float16, and not in bf16."""
    left, right = torch.ones(1, 2, requires_grad=True), torch.ones(1, 2)
    (product(left, right, bf16=True) * 1e-12).sum().backward()
    assert left.grad is not None and left.grad[0, 0].item() == pytest.approx(1e-12, rel=5e-3)
