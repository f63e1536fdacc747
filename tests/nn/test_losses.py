"""Each loss against a slow version in plain Python, its gradients, and the traps of published code."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from longtail.errors import DataError
from longtail.nn.dual import contrastive_losses as losses


def batch(seed: int, rows: int = 6, pool: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Scores in [-1, 1], positives, and one of them chosen in each row."""
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.uniform(-1, 1, (rows, pool)))
    chosen = torch.from_numpy(rng.permutation(pool)[:rows] if rows <= pool else rng.integers(0, pool, rows))
    positive = torch.from_numpy(rng.random((rows, pool)) < 0.25)
    positive[torch.arange(rows), chosen] = True
    return scores, positive, chosen


def negatives_of(row: int, positive: Tensor, chosen: Tensor) -> list[int]:
    return [j for j in range(positive.shape[1]) if not positive[row, j] and j != int(chosen[row])]


def slow_triplet(
    scores: Tensor, positive: Tensor, chosen: Tensor, margin: float, number: int, temperature: float | None
) -> float:
    total = 0.0
    for row in range(len(scores)):
        own = float(scores[row, chosen[row]])
        hard = sorted((float(scores[row, j]) for j in negatives_of(row, positive, chosen)), reverse=True)[:number]
        violators = [score for score in hard if score - own + margin > 0]
        shares = [1.0 if temperature is None else math.exp(score / temperature) for score in violators]
        total += sum(
            share / sum(shares) * (score - own + margin) for share, score in zip(shares, violators, strict=True)
        )
    return total / len(scores)


def slow_hardest_pairs(
    scores: Tensor, positive: Tensor, chosen: Tensor, margin: float, positives: int, negatives: int
) -> float:
    total = 0.0
    for row in range(len(scores)):
        known = [j for j in range(scores.shape[1]) if positive[row, j] or j == int(chosen[row])]
        low = sorted(float(scores[row, j]) for j in known)[:positives]
        high = sorted((float(scores[row, j]) for j in negatives_of(row, positive, chosen)), reverse=True)[:negatives]
        hinges = [n - p + margin for p in low for n in high if n - p + margin > 0]
        shares = [math.exp(hinge) for hinge in hinges]
        total += sum(share / sum(shares) * hinge for share, hinge in zip(shares, hinges, strict=True))
    return total / len(scores)


def slow_softmax(scores: Tensor, positive: Tensor, chosen: Tensor, temperature: float, both: bool) -> float:
    total = 0.0
    for row in range(len(scores)):
        column = int(chosen[row])
        own = float(scores[row, column]) / temperature
        rivals = [float(scores[row, j]) / temperature for j in negatives_of(row, positive, chosen)]
        forth = math.log(sum(math.exp(score - own) for score in [own, *rivals]))
        rows = [i for i in range(len(scores)) if i != row and not positive[i, column]]
        back = math.log(1 + sum(math.exp(float(scores[i, column]) / temperature - own) for i in rows))
        total += (forth + back) / 2 if both else forth
    return total / len(scores)


def slow_logistic(
    scores: Tensor, positive: Tensor, chosen: Tensor, margin: float, number: int | None, scale: float
) -> float:
    total = 0.0
    for row in range(len(scores)):
        own = float(scores[row, chosen[row]])
        hard = sorted((float(scores[row, j]) for j in negatives_of(row, positive, chosen)), reverse=True)[:number]
        total += sum(math.log(1 + math.exp(scale * (score - own + margin))) for score in hard) / max(len(hard), 1)
    return total / len(scores)


def slow_probabilistic(
    scores: Tensor, targets: Tensor, c: float, d: float, number: int | None, min_loss: float
) -> float:
    total = 0.0
    for row in range(len(scores)):
        costs = []
        for score, target in zip(scores[row].tolist(), targets[row].tolist(), strict=True):
            probability = c * math.exp(d * score) / math.exp(d)
            if target > 0:
                total += -target * math.log(probability) - (1 - target) * math.log(1 - probability)
            else:
                costs.append(-math.log(1 - probability))
        total += sum(cost for cost in sorted(costs, reverse=True)[:number] if cost >= min_loss)
    return total / len(scores)


shapes = st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(0, 10_000))


@given(shapes, st.sampled_from([1, 3, 50]), st.sampled_from([None, 0.1, 1.0]), st.sampled_from([0.0, 0.3, 1.0]))
def test_triplet_is_the_slow_one(
    shape: tuple[int, int, int], number: int, temperature: float | None, margin: float
) -> None:
    scores, positive, chosen = batch(shape[2], shape[0], shape[1])
    got = losses.triplet(scores, positive, chosen, margin=margin, negatives=number, temperature=temperature)
    assert float(got) == pytest.approx(slow_triplet(scores, positive, chosen, margin, number, temperature), abs=1e-12)


@given(shapes, st.sampled_from([1, 3, 50]), st.sampled_from([1, 5, 50]), st.sampled_from([0.0, 0.2, 1.0]))
def test_hardest_pairs_are_the_slow_ones(
    shape: tuple[int, int, int], positives: int, negatives: int, margin: float
) -> None:
    scores, positive, chosen = batch(shape[2], shape[0], shape[1])
    got = losses.hardest_pairs(scores, positive, chosen, margin=margin, positives=positives, negatives=negatives)
    expected = slow_hardest_pairs(scores, positive, chosen, margin, positives, negatives)
    assert float(got) == pytest.approx(expected, abs=1e-12)


@given(shapes, st.booleans(), st.sampled_from([0.05, 1.0]))
def test_softmax_is_the_slow_one(shape: tuple[int, int, int], both: bool, temperature: float) -> None:
    scores, positive, chosen = batch(shape[2], shape[0], shape[1])
    got = losses.softmax(scores, positive, chosen, temperature=temperature, both=both)
    assert float(got) == pytest.approx(slow_softmax(scores, positive, chosen, temperature, both), abs=1e-10)


@pytest.mark.parametrize("pool", [5, 8])
def test_softmax_without_choices_takes_row_i_to_column_i(pool: int) -> None:
    torch.manual_seed(0)
    scores, positive = torch.randn(5, pool, dtype=torch.float64), torch.rand(5, pool) < 0.2
    got, wanted = (losses.softmax(scores, positive, own, both=True) for own in (None, torch.arange(5)))
    assert float(got) == pytest.approx(float(wanted), abs=1e-12)


@given(shapes, st.sampled_from([None, 2, 50]), st.sampled_from([1.0, 5.0]))
def test_logistic_is_the_slow_one(shape: tuple[int, int, int], number: int | None, scale: float) -> None:
    scores, positive, chosen = batch(shape[2], shape[0], shape[1])
    got = losses.logistic(scores, positive, chosen, margin=0.2, negatives=number, scale=scale)
    assert float(got) == pytest.approx(slow_logistic(scores, positive, chosen, 0.2, number, scale), abs=1e-12)


@given(shapes, st.sampled_from([None, 2, 50]), st.sampled_from([0.0, 0.2]))
def test_probabilistic_is_the_slow_one(shape: tuple[int, int, int], number: int | None, min_loss: float) -> None:
    scores, positive, _ = batch(shape[2], shape[0], shape[1])
    soft = positive * torch.from_numpy(np.random.default_rng(shape[2]).choice([0.4, 1.0], positive.shape))
    for targets in (positive, soft):
        got = losses.probabilistic(scores, targets, ceiling=0.8, sharpness=2.0, negatives=number, min_loss=min_loss)
        assert float(got) == pytest.approx(slow_probabilistic(scores, targets, 0.8, 2.0, number, min_loss), abs=1e-12)


GRADIENTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "triplet": lambda s, p, c: losses.triplet(s, p, c, negatives=3, temperature=None),
    "softmax": lambda s, p, c: losses.softmax(s, p, c, temperature=0.2),
    "softmax both": lambda s, p, c: losses.softmax(s, p, c, temperature=0.2, both=True),
    "logistic": lambda s, p, c: losses.logistic(s, p, c, margin=0.1, scale=5),
    "logistic hardest": lambda s, p, c: losses.logistic(s, p, c, negatives=2),
    "probabilistic": lambda s, p, c: losses.probabilistic(s, p, negatives=3, min_loss=0.1),
    "probabilistic all": lambda s, p, c: losses.probabilistic(s, p * 0.7, negatives=None),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    for seed in range(5):
        scores, positive, chosen = batch(seed, 4, 7)
        assert torch.autograd.gradcheck(
            lambda s, p=positive, c=chosen: GRADIENTS[name](s, p, c), scores.requires_grad_()
        )


def test_triplet_weights_are_constants_to_the_gradient() -> None:
    """By hand: the gradient at each violator is its weight, at the chosen positive minus their sum. If weights were not
    detached, they would add a gradient of their own, and gradcheck would agree with the wrong gradient."""
    scores = torch.tensor([[0.5, 0.6, 0.3, -0.9, 0.8]], dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([[True, False, False, False, True]])
    losses.triplet(scores, positive, margin=0.3, temperature=0.1).backward()
    first, second = math.exp(6), math.exp(3)  # the violators 0.6 and 0.3; -0.9 is far enough, 0.8 is a positive
    expected = [-1.0, first / (first + second), second / (first + second), 0.0, 0.0]
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_triplet_gives_no_share_to_those_that_keep_the_margin() -> None:
    """With a logit of 0 in place of -inf, nine distant negatives would take most of the weight of the one violator."""
    scores = torch.tensor([[0.2, 0.1] + [-0.9] * 9], dtype=torch.float64)
    assert float(losses.triplet(scores, torch.eye(1, 11).bool(), margin=0.3)) == pytest.approx(0.2)


@pytest.mark.parametrize("depth", [-0.5, -20.0, -1000.0])
def test_positives_not_chosen_are_no_negatives(depth: float) -> None:
    """All negatives score below any finite stand-in for a masked positive, so that one would be the hardest of all."""
    scores = torch.tensor([[depth, depth + 0.5, depth - 0.1, depth - 0.2]], dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([[True, True, False, False]])
    bare = torch.tensor([[depth, depth - 0.1, depth - 0.2]], dtype=torch.float64)
    alone = torch.tensor([[True, False, False]])
    calls: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda s, p: losses.triplet(s, p, negatives=2),
        losses.softmax,
        lambda s, p: losses.logistic(s, p, negatives=2),
    ]
    for call in calls:
        got = call(scores, positive)
        assert got.item() == pytest.approx(call(bare, alone).item(), rel=1e-9)
        (gradient,) = torch.autograd.grad(got, scores)
        assert gradient[0, 1] == 0


def test_probabilistic_takes_no_positive_for_a_negative() -> None:
    """The hardest negative is far below the positives: a positive lowered by a constant would still be picked."""
    scores = torch.tensor([[0.999, 0.99, -1.0]], dtype=torch.float64, requires_grad=True)
    loss = losses.probabilistic(scores, torch.tensor([[True, True, False]]), ceiling=0.99, sharpness=4, negatives=1)
    loss.backward()
    assert scores.grad is not None
    assert scores.grad[0, :2].tolist() == pytest.approx([-4, -4])
    assert scores.grad[0, 2] > 0


ALL: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "triplet": losses.triplet,
    "triplet equal shares": lambda s, p: losses.triplet(s, p, temperature=None),
    "hardest pairs": losses.hardest_pairs,
    "softmax": losses.softmax,
    "softmax both": lambda s, p: losses.softmax(s, p, both=True),
    "logistic": losses.logistic,
}


@pytest.mark.parametrize("name", ALL)
def test_rows_without_negatives_have_no_loss_and_no_gradient(name: str) -> None:
    for size in (1, 3):
        scores = torch.rand(size, size, dtype=torch.float64, requires_grad=True)
        got = ALL[name](scores, torch.ones(size, size, dtype=torch.bool))
        (gradient,) = torch.autograd.grad(got, scores)
        assert got.item() == 0
        assert gradient.abs().max() == 0


def test_probabilistic_without_negatives() -> None:
    scores = torch.tensor([[1.0]], dtype=torch.float64, requires_grad=True)
    got = losses.probabilistic(scores, torch.ones(1, 1))
    assert got.item() == pytest.approx(-math.log(0.9))
    (gradient,) = torch.autograd.grad(got, scores)
    assert gradient.item() == pytest.approx(-1.5)


@pytest.mark.parametrize("name", ALL)
def test_chosen_need_not_be_marked_and_defaults_to_the_diagonal(name: str) -> None:
    scores, _, _ = batch(3, 4, 6)
    marked = torch.eye(4, 6).bool()
    assert float(ALL[name](scores, torch.zeros_like(marked))) == float(ALL[name](scores, marked))


@pytest.mark.parametrize("name", ALL)
def test_half_precision_is_summed_in_single(name: str) -> None:
    scores, positive, _ = batch(5, 64, 200)
    half = scores.bfloat16().requires_grad_()
    got = ALL[name](half, positive)
    got.backward()
    assert got.dtype == torch.float32
    assert got.item() == pytest.approx(ALL[name](half.detach().double(), positive).item(), rel=1e-5)
    assert half.grad is not None and half.grad.dtype == torch.bfloat16 and bool(half.grad.isfinite().all())


def test_weights_count_rows() -> None:
    scores, positive, chosen = batch(7)
    weights = torch.tensor([1.0, 0.5, 0.0, 1.0, 0.25, 1.0])
    calls: list[Callable[..., Tensor]] = [losses.triplet, losses.hardest_pairs, losses.softmax, losses.logistic]
    for call in calls:
        each = [float(call(scores[row : row + 1], positive[row : row + 1], chosen[row : row + 1])) for row in range(6)]
        expected = sum(float(weight) * value for weight, value in zip(weights, each, strict=True)) / 6
        assert float(call(scores, positive, chosen, weights)) == pytest.approx(expected)
    each = [float(losses.probabilistic(scores[row : row + 1], positive[row : row + 1])) for row in range(6)]
    expected = sum(float(weight) * value for weight, value in zip(weights, each, strict=True)) / 6
    assert float(losses.probabilistic(scores, positive, weights)) == pytest.approx(expected)


def test_logistic_is_calibrated() -> None:
    """Two items, right with probabilities 0.8 and 0.3: where the expected loss is lowest, the logistic function of the
    scores is these probabilities, up to one constant."""
    scores = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    first, second = torch.tensor([[True, False]]), torch.tensor([[False, True]])
    optimiser = torch.optim.LBFGS([scores], max_iter=100, line_search_fn="strong_wolfe")

    def expected() -> Tensor:
        optimiser.zero_grad()
        loss = 0.8 * 0.7 * losses.logistic(scores, first, torch.tensor([0]))
        loss = loss + 0.3 * 0.2 * losses.logistic(scores, second, torch.tensor([1]))
        loss.backward()
        return loss

    optimiser.step(expected)  # type: ignore[no-untyped-call]
    gap = math.log(0.8 / 0.2) - math.log(0.3 / 0.7)
    assert (scores[0, 0] - scores[0, 1]).item() == pytest.approx(gap, abs=1e-4)


def test_shapes_are_checked() -> None:
    scores = torch.zeros(3, 2)
    with pytest.raises(DataError, match=r"one shape, got \(3, 2\) and \(3, 1\)"):
        losses.softmax(scores, torch.zeros(3, 1))
    with pytest.raises(DataError, match="3 rows cannot each choose a column of 2"):
        losses.triplet(scores, torch.zeros(3, 2))
    assert losses.probabilistic(scores, torch.zeros(3, 2)).ndim == 0
