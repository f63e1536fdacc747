"""An encoder and a head in the loop: one step against float64 autograd, and a killed training resumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402
from scipy import sparse  # noqa: E402
from torch import nn  # noqa: E402

from longtail.arrays import Longs  # noqa: E402
from longtail.nn.onevsall.batch_targets import TrainingTargets  # noqa: E402
from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead  # noqa: E402
from longtail.nn.onevsall.onevsall_task import OneVsAllTask  # noqa: E402
from longtail.nn.training.checkpoint import FILE, checkpointing  # noqa: E402
from longtail.nn.training.loop import TrainingConfig, train  # noqa: E402
from longtail.nn.training.task import StepHooks  # noqa: E402

CPU = torch.device("cpu")
ROWS, LABELS, WIDTH = 30, 17, 6


def some_targets(seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.random((ROWS, LABELS)) * (rng.random((ROWS, LABELS)) < 0.2)
    dense[3] = 0  # a row without positives
    return sparse.csr_array(dense.astype(np.float32))


def made(dropout: float = 0.0, batch_size: int = 7, die_at: int | None = None, **head: object) -> OneVsAllTask:
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

    return OneVsAllTask(
        encoder=encoder,
        read=read,
        head=OneVsAllHead(LABELS, WIDTH, settings, CPU),
        targets=TrainingTargets(some_targets()),
        batch_size=batch_size,
        learning_rate=0.01,
        head_learning_rate=0.1,
        device=CPU,
        dropout=dropout,
    )


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_batch_is_the_gradient_of_the_loss(dropout: float) -> None:
    """The encoder's by the mean over rows, the head's by the sum at its own learning rate times the loop's factor."""
    task = made(dropout, weight_decay=0.0)
    task.encoder.eval()
    task.begin_step(0.25)
    batch, mask = np.array([2, 3, 11, 29, 5]), task._dropout_mask(5, WIDTH)
    weight, bias = task.head.weight.double()[:, :WIDTH].clone(), task.head.bias.double()
    weight.requires_grad_()
    bias = bias.clone().requires_grad_()
    task.encoder.zero_grad()
    vectors = task.read(batch)
    dropped = vectors.double() if mask is None else vectors.double() * mask.double()
    scores = dropped @ weight.T + bias
    target = torch.from_numpy(task.targets.matrix.toarray()[batch]).double()
    loss = nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="sum")
    expected = torch.autograd.grad(loss, [*task.encoder.parameters(), weight, bias])
    reported = task.backward(batch, share=0.5)
    for parameter, gradient in zip(task.encoder.parameters(), expected, strict=False):
        assert torch.allclose(parameter.grad, gradient.float() * 0.5 / 5, atol=1e-6)
    assert torch.allclose(task.head.weight[:, :WIDTH].double(), weight - 0.025 * expected[-2], atol=1e-6)
    assert torch.allclose(task.head.bias.double(), bias - 0.025 * expected[-1], atol=1e-6)
    right = nn.functional.softplus(-scores)[target > 0].mean()
    assert float(reported) == pytest.approx(right.item(), rel=1e-5)


def test_the_dropout_mask_depends_on_the_step_and_keeps_the_mean() -> None:
    task = made(0.6)
    first = task._dropout_mask(4000, WIDTH)
    assert torch.equal(first, task._dropout_mask(4000, WIDTH))
    assert set(first.unique().tolist()) == {0.0, 2.5} and abs(float(first.mean()) - 1) < 0.05
    task.head.done += 1
    assert not torch.equal(first, task._dropout_mask(4000, WIDTH))


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


def test_the_loop_passes_its_factor_to_the_head() -> None:
    task, factors = made(batch_size=15), []
    assert isinstance(task, StepHooks)
    begin = task.begin_step
    task.begin_step = lambda factor: (factors.append(factor), begin(factor))  # type: ignore[method-assign]
    config = TrainingConfig(epochs=5, warmup=0.4)
    train(task, config, {})
    assert factors == [config.learning_rate_factor(step, 10) for step in range(10)]
    assert task.head.done == 10


def state_of(task: OneVsAllTask) -> dict[str, torch.Tensor]:
    return {
        f"{name}.{key}": value for name, module in task.modules.items() for key, value in module.state_dict().items()
    }


@pytest.mark.parametrize("head", [{}, {"momentum": 0.9}])
def test_a_killed_training_ends_as_if_it_had_not_been(head: dict[str, float], tmp_path: Path) -> None:
    config = TrainingConfig(epochs=6, validate_every=0)
    whole = made(0.5, **head)
    train(whole, config, {"what": "test"})
    with checkpointing(tmp_path, every_seconds=0), pytest.raises(KeyboardInterrupt):
        train(made(0.5, die_at=17, **head), config, {"what": "test"})
    again = made(0.5, **head)
    with checkpointing(tmp_path, every_seconds=0):
        train(again, config, {"what": "test"})
    assert again.head.done == whole.head.done == 6 * whole.steps
    ended, expected = state_of(again), state_of(whole)
    assert ended.keys() == expected.keys()
    assert all(torch.equal(ended[name], expected[name]) for name in ended)


@pytest.mark.parametrize("keep_best", [True, False])
def test_a_copy_of_the_best_weights_is_optional(keep_best: bool, tmp_path: Path) -> None:
    """Validation runs either way; without the copy the last weights stay."""
    values = iter([30.0, 20.0, 10.0])
    task, seen = made(), []

    def validate() -> dict[str, float]:
        seen.append(task.head.weight.clone())
        return {"P@1": next(values), "PSP@1": 1.0}

    task.evaluate = validate
    with checkpointing(tmp_path):
        history = train(task, TrainingConfig(epochs=3, validate_every=1, keep_best=keep_best), {})
    assert [value for _, value in history.values("P@1")] == [30.0, 20.0, 10.0]
    assert torch.equal(task.head.weight, seen[0] if keep_best else seen[-1])
    with safe_open(next(tmp_path.glob(f"*/{FILE}")), framework="pt") as file:
        assert any(name.startswith("best.") for name in file.keys()) == keep_best  # noqa: SIM118


def test_penalties_take_the_learning_rate_of_the_head() -> None:
    seen = []

    class Shrink:
        def step(self, head: OneVsAllHead, learning_rate: float) -> None:
            seen.append((head.done, learning_rate))

    task = made()
    task.penalties = (Shrink(),)
    task.begin_step(0.5)
    task.backward(np.arange(4), 1.0)
    assert seen == [(1, 0.05)]
