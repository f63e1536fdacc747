"""Losses over a pool, against loops written from their formulas; gradients; half precision and low temperatures."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from longtail.errors import DataError
from longtail.nn.pool.pool_losses import (
    LOSSES,
    PoolTargets,
    bce,
    decoupled,
    infonce,
    loss_of,
    pick_one,
    plain_bce,
    supcon,
)


def case(rows: int = 6, pool: int = 9, seed: int = 0, soft: bool = True) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.normal(0, 3, (rows, pool)))
    targets = (rng.random((rows, pool)) < 0.3) * (rng.choice([0.25, 0.5, 1.0], (rows, pool)) if soft else 1.0)
    targets[0] = 0  # a row without positives
    targets[1] = 1  # one without negatives
    return scores, torch.from_numpy(targets)


def slow(scores: Tensor, targets: Tensor, are_decoupled: bool) -> float:
    """Row by row and positive by positive."""
    total, counted = 0.0, 0
    for row, wanted in zip(scores.tolist(), targets.tolist(), strict=True):
        positives = [place for place, target in enumerate(wanted) if target > 0]
        if not positives:
            continue
        counted += 1
        share = 0.0
        for place in positives:
            if are_decoupled:  # a target t leaves a negative of weight 1 - t
                rivals = sum((1 - wanted[other]) * math.exp(score) for other, score in enumerate(row))
                whole = math.exp(row[place]) + rivals
            else:
                whole = sum(math.exp(score) for score in row)
            share += wanted[place] * -math.log(math.exp(row[place]) / whole)
        total += max(wanted) * share / sum(wanted)
    return total / counted


@pytest.mark.parametrize("soft", [False, True])
def test_supcon_and_decoupled_are_their_formulas(soft: bool) -> None:
    scores, targets = case(soft=soft)
    assert supcon(scores, targets).item() == pytest.approx(slow(scores, targets, are_decoupled=False), rel=1e-12)
    assert decoupled(scores, targets).item() == pytest.approx(slow(scores, targets, are_decoupled=True), rel=1e-12)


def test_over_all_labels_supcon_is_pick_all_labels_normalised() -> None:
    """PAL-N: 1 / sum(y) x the sum over labels of y x cross-entropy, the mean over rows."""
    scores, targets = case(soft=False)
    scores, targets = scores[2:], targets[2:]
    scores, targets = scores[targets.sum(1) > 0], targets[targets.sum(1) > 0]
    entropy = -torch.log_softmax(scores, dim=1)
    expected = ((targets * entropy).sum(1) / targets.sum(1)).mean()
    assert supcon(scores, targets).item() == pytest.approx(expected.item(), rel=1e-12)


def test_infonce_draws_one_positive_by_its_target() -> None:
    scores = torch.tensor([[1.0, 2.0, 0.5]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0.25, 0.0]], dtype=torch.float64)
    entropy = -torch.log_softmax(scores, dim=1)[0]
    torch.manual_seed(0)
    found = [infonce(scores, targets).item() for _ in range(800)]
    first, second = entropy[0].item(), 0.25 * entropy[1].item()
    near_first = np.isclose(found, first)
    assert (near_first | np.isclose(found, second)).all()
    assert abs(near_first.mean() - 0.8) < 0.05
    assert infonce(scores, torch.zeros_like(targets)).item() == 0


def test_pick_one_is_decoupled_with_one_positive_and_without_the_others() -> None:
    scores = torch.tensor([[2.0, 1.0, 0.0, -1.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0.25, 0.0, 0.0]], dtype=torch.float64)
    # A positive that is not drawn is a negative of weight 1 - target, as in `decoupled`.
    rivals = 0.75 * math.exp(1.0) + math.exp(0.0) + math.exp(-1.0)
    wanted = [math.log(1 + rivals / math.exp(2.0)), 0.25 * math.log(1 + rivals / math.exp(1.0))]
    torch.manual_seed(0)
    found = np.array([pick_one(scores, targets).item() for _ in range(800)])
    first = np.isclose(found, wanted[0])
    assert (first | np.isclose(found, wanted[1])).all()
    assert abs(first.mean() - 0.8) < 0.05
    hard = (targets > 0).double()
    assert pick_one(scores, hard).item() in (
        pytest.approx(math.log(1 + (1 + math.exp(-1)) / math.exp(2))),
        pytest.approx(math.log(1 + (1 + math.exp(-1)) / math.exp(1))),
    )
    alone = torch.eye(3, 5, dtype=torch.float64)  # one positive a row: nothing to draw
    values = torch.randn((3, 5), dtype=torch.float64)
    for dim in (0, 1):
        assert pick_one(values, alone, dim).item() == pytest.approx(decoupled(values, alone, dim).item())
    assert pick_one(scores, torch.zeros_like(targets)).item() == 0


def test_plain_bce_is_its_formula() -> None:
    scores, targets = case()
    total = 0.0
    for row, wanted in zip(scores.tolist(), targets.tolist(), strict=True):
        for score, target in zip(row, wanted, strict=True):
            probability = 1 / (1 + math.exp(-score))
            total -= target * math.log(probability) + (1 - target) * math.log(1 - probability)
    assert plain_bce(scores, targets).item() == pytest.approx(total / len(scores), rel=1e-10)
    assert loss_of("plainbce", 0.3, level=7.0)(scores, targets).item() == pytest.approx(total / len(scores), rel=1e-10)


def test_bce_is_its_formula() -> None:
    scores, targets = case()
    probabilities = torch.sigmoid(scores - math.log(scores.shape[1]))
    each = -(targets * probabilities.log() + (1 - targets) * (1 - probabilities).log())
    assert bce(scores, targets).item() == pytest.approx(each.sum(1).mean().item(), rel=1e-12)
    flat = torch.zeros((2, 1000), dtype=torch.float64)
    assert torch.sigmoid(flat - math.log(1000)).sum(1)[0].item() == pytest.approx(1, rel=1e-2)


def test_sums_and_both_sides() -> None:
    scores, targets = case()
    pair = 0.3 * decoupled(scores, targets) + 0.7 * decoupled(scores.T, targets.T)
    assert torch.allclose(loss_of("decoupled", 0.3)(scores, targets), pair)
    assert torch.allclose(loss_of("decoupled+bce", 0.3)(scores, targets), pair + bce(scores, targets))
    assert torch.allclose(loss_of("supcon", 1)(scores, targets), supcon(scores, targets))
    # From the labels' side, P^L is the transpose: swapping the two sides swaps their weights.
    assert torch.allclose(loss_of("supcon", 0.3)(scores, targets), loss_of("supcon", 0.7)(scores.T, targets.T))


@pytest.mark.parametrize("name", ["supcon", "decoupled", "bce", "decoupled+bce", "supcon+decoupled"])
def test_gradients(name: str) -> None:
    scores, targets = case()
    loss = loss_of(name, 0.4)
    assert torch.autograd.gradcheck(lambda given: loss(given, targets), (scores.requires_grad_(),))


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_and_low_temperatures_stay_numbers(name: str) -> None:
    rng = torch.Generator().manual_seed(0)
    cosines = (torch.rand((64, 200), generator=rng) * 2 - 1).to(torch.bfloat16)
    targets = (torch.rand((64, 200), generator=rng) < 0.02).float()
    targets[3], targets[4] = 0, 1
    given = (cosines / 0.01).requires_grad_()  # up to 100
    torch.manual_seed(0)
    found = LOSSES[name](given, targets)
    (gradient,) = torch.autograd.grad(found, given)
    assert found.dtype == torch.float32 and found.isfinite() and gradient.isfinite().all()
    torch.manual_seed(0)
    exact = LOSSES[name](given.detach().double(), targets.double())
    assert found.item() == pytest.approx(exact.item(), rel=1e-4)


def test_decoupled_positives_do_not_compete() -> None:
    """SupCon lowers one positive in favour of the other, and so would a finite mask value in place of -inf."""
    scores = torch.tensor([[50.0, -50.0, -60.0]], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(decoupled(scores, targets), scores)
    assert gradient[0, 0].abs().item() < 1e-20  # certain of it already
    assert gradient[0, 1].item() < 0  # still raised, against the negative alone
    (gradient,) = torch.autograd.grad(supcon(scores, targets), scores)
    assert gradient[0, 0].item() > 0.4  # supcon lowers the positive with the high score


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match="one shape"):
        supcon(torch.zeros(2, 3), torch.zeros(3, 2))


@pytest.mark.parametrize("name", [*LOSSES, "decoupled+bce"])
def test_padding_of_a_pool_changes_nothing(name: str) -> None:
    scores, targets = case()
    if name in ("infonce", "pickone"):  # which draw one of several
        targets = targets * (targets.cumsum(1) == targets)
        targets = targets * (targets.cumsum(0) == targets)
    rng = torch.Generator().manual_seed(1)
    more = torch.cat([scores, 9 + torch.randn((len(scores), 4), generator=rng)], 1)
    wide = torch.cat([targets, torch.zeros(len(targets), 4)], 1)
    real = torch.arange(more.shape[1]) < scores.shape[1]
    found = []
    for given, wanted in ((scores, PoolTargets(targets)), (more, PoolTargets(wide, real))):
        given = given.clone().requires_grad_()
        loss = loss_of(name, 0.7, level=0.5)(given, wanted)
        loss.backward()
        assert given.grad is not None
        found.append((loss.detach(), given.grad))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-10, atol=0)
    torch.testing.assert_close(found[1][1][:, :-4], found[0][1], rtol=1e-10, atol=1e-14)
    assert (found[1][1][:, -4:] == 0).all()
