"""An encoder and a head in the loop: one step against float64 autograd, and a training that was killed goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402
from scipy import sparse  # noqa: E402
from torch import nn  # noqa: E402

from longtail.arrays import Longs  # noqa: E402
from longtail.nn.checkpoint import FILE, keeping  # noqa: E402
from longtail.nn.heads.entries import Targets  # noqa: E402
from longtail.nn.heads.head import Head, HeadSettings  # noqa: E402
from longtail.nn.heads.task import OneVsAll  # noqa: E402
from longtail.nn.loop import Course, Paced, train  # noqa: E402

CPU = torch.device("cpu")
ROWS, LABELS, WIDTH = 30, 17, 6


def some_targets(seed: int = 0) -> sparse.csr_array:
    chance = np.random.default_rng(seed)
    dense = chance.random((ROWS, LABELS)) * (chance.random((ROWS, LABELS)) < 0.2)
    dense[3] = 0  # a row without positives
    return sparse.csr_array(dense.astype(np.float32))


def made(dropout: float = 0.0, batch: int = 7, die_at: int | None = None, **head: object) -> OneVsAll:
    """A linear map of fixed numbers as the encoder."""
    inputs = torch.from_numpy(np.random.default_rng(5).normal(size=(ROWS, 4)).astype(np.float32))
    torch.manual_seed(1)
    encoder = nn.Sequential(nn.Linear(4, WIDTH), nn.Dropout(0.1))
    settings = HeadSettings(precision="fp32", bias=-2.0, **head)  # type: ignore[arg-type]
    calls = 0

    def read(rows: Longs) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == die_at:
            raise KeyboardInterrupt
        return encoder(inputs[rows])

    return OneVsAll(
        encoder=encoder,
        read=read,
        head=Head(LABELS, WIDTH, settings, CPU),
        targets=Targets(some_targets()),
        batch=batch,
        rate=0.01,
        head_rate=0.1,
        device=CPU,
        dropout=dropout,
    )


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_batch_is_the_gradient_of_the_loss(dropout: float) -> None:
    """The encoder's by the mean over rows, the head's by the sum at its own rate times the loop's factor."""
    task = made(dropout, weight_decay=0.0)
    task.encoder.eval()
    task.begin_step(0.25)
    batch, kept = np.array([2, 3, 11, 29, 5]), task._kept(5, WIDTH)
    weight, bias = task.head.weight.double()[:, :WIDTH].clone(), task.head.bias.double()
    weight.requires_grad_()
    bias = bias.clone().requires_grad_()
    task.encoder.zero_grad()
    vectors = task.read(batch)
    dropped = vectors.double() if kept is None else vectors.double() * kept.double()
    scores = dropped @ weight.T + bias
    wanted = torch.from_numpy(task.targets.matrix.toarray()[batch]).double()
    loss = nn.functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum")
    expected = torch.autograd.grad(loss, [*task.encoder.parameters(), weight, bias])
    told = task.backward(batch, share=0.5)
    for parameter, gradient in zip(task.encoder.parameters(), expected, strict=False):
        assert torch.allclose(parameter.grad, gradient.float() * 0.5 / 5, atol=1e-6)
    assert torch.allclose(task.head.weight[:, :WIDTH].double(), weight - 0.025 * expected[-2], atol=1e-6)
    assert torch.allclose(task.head.bias.double(), bias - 0.025 * expected[-1], atol=1e-6)
    right = nn.functional.softplus(-scores)[wanted > 0].mean()
    assert float(told) == pytest.approx(right.item(), rel=1e-5)


def test_dropout_is_of_the_step_and_keeps_the_mean() -> None:
    task = made(0.6)
    first = task._kept(4000, WIDTH)
    assert torch.equal(first, task._kept(4000, WIDTH))
    assert set(first.unique().tolist()) == {0.0, 2.5} and abs(float(first.mean()) - 1) < 0.05
    task.head.done += 1
    assert not torch.equal(first, task._kept(4000, WIDTH))


def test_every_row_is_in_every_epoch_also_one_without_a_target() -> None:
    task = made()
    epochs = [np.concatenate(list(task.batches(epoch, 0))) for epoch in (0, 1)]
    for order in epochs:
        assert np.array_equal(np.sort(order), np.arange(ROWS))
    assert not np.array_equal(*epochs)
    later = list(task.batches(1, 2))
    assert np.array_equal(np.concatenate(later), epochs[1][14:]) and len(later) == task.steps - 2
    before = task.head.weight.clone()
    task.backward(np.array([3]), 1.0)
    assert not torch.equal(before, task.head.weight)


def test_the_loop_tells_the_head_its_factor() -> None:
    task, factors = made(batch=15), []
    assert isinstance(task, Paced)
    begin = task.begin_step
    task.begin_step = lambda factor: (factors.append(factor), begin(factor))  # type: ignore[method-assign]
    course = Course(epochs=5, warmup=0.4)
    train(task, course, {})
    assert factors == [course.rate(step, 10) for step in range(10)]
    assert task.head.done == 10


def state_of(task: OneVsAll) -> dict[str, torch.Tensor]:
    return {
        f"{name}.{key}": value for name, module in task.modules.items() for key, value in module.state_dict().items()
    }


@pytest.mark.parametrize("head", [{}, {"momentum": 0.9}])
def test_a_killed_training_ends_as_if_it_had_not_been(head: dict[str, float], tmp_path: Path) -> None:
    course = Course(epochs=6, measure_every=0)
    whole = made(0.5, **head)
    train(whole, course, {"what": "test"})
    with keeping(tmp_path, every_seconds=0), pytest.raises(KeyboardInterrupt):
        train(made(0.5, die_at=17, **head), course, {"what": "test"})
    again = made(0.5, **head)
    with keeping(tmp_path, every_seconds=0):
        train(again, course, {"what": "test"})
    assert again.head.done == whole.head.done == 6 * whole.steps
    ended, expected = state_of(again), state_of(whole)
    assert ended.keys() == expected.keys()
    assert all(torch.equal(ended[name], expected[name]) for name in ended)


@pytest.mark.parametrize("keep_best", [True, False])
def test_a_second_copy_of_the_weights_is_a_choice(keep_best: bool, tmp_path: Path) -> None:
    """Measures are taken and shown either way; without the copy the last weights stay."""
    values = iter([30.0, 20.0, 10.0])
    task, seen = made(), []

    def look() -> dict[str, float]:
        seen.append(task.head.weight.clone())
        return {"P@1": next(values), "PSP@1": 1.0}

    task.look = look
    with keeping(tmp_path):
        history = train(task, Course(epochs=3, measure_every=1, keep_best=keep_best), {})
    assert [value for _, value in history.values("P@1")] == [30.0, 20.0, 10.0]
    assert torch.equal(task.head.weight, seen[0] if keep_best else seen[-1])
    with safe_open(next(tmp_path.glob(f"*/{FILE}")), framework="pt") as file:
        assert any(name.startswith("best.") for name in file.keys()) == keep_best  # noqa: SIM118


def test_penalties_move_the_head_at_its_rate() -> None:
    seen = []

    class Shrink:
        def step(self, head: Head, rate: float) -> None:
            seen.append((head.done, rate))

    task = made()
    task.penalties = (Shrink(),)
    task.begin_step(0.5)
    task.backward(np.arange(4), 1.0)
    assert seen == [(1, 0.05)]
