"""The training loop: schedules, steps, early stopping, and that a killed training ends as if it had not been killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import forked
from longtail.errors import DataError, ModelError, RecipeError
from longtail.nn.training.checkpoint import CheckpointDir, checkpointing
from longtail.nn.training.history import History
from longtail.nn.training.loop import TrainingConfig, _Run, train
from longtail.progress import listening

ROWS, SIZE = 24, 4


@dataclass
class Line:
    """Learn a linear map with dropout; the order of an epoch depends on the errors of the steps before."""

    seed: int = 0
    scores: tuple[float, ...] = ()  # what `validate` returns, one after the other
    die_at: int | None = None  # kill the process in this call of backward
    name: str = "line"
    calls: int = 0
    validated: int = 0
    seen: list[list[int]] = field(default_factory=list)
    learning_rate: float = 0.05

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(7)
        self.inputs = torch.randn(ROWS, 3, generator=generator)
        self.wanted = self.inputs @ torch.tensor([[1.0], [-2.0], [0.5]])
        torch.manual_seed(self.seed)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.bank = torch.zeros(ROWS)  # the error of each row when it was last seen
        self.order = torch.zeros(ROWS, dtype=torch.int64)

    device = torch.device("cpu")
    rows = ROWS
    steps = ROWS // SIZE

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        return {"model": self.model}

    def groups(self) -> list[dict[str, Any]]:
        weights = [parameter for parameter in self.model.parameters() if parameter.ndim > 1]
        others = [parameter for parameter in self.model.parameters() if parameter.ndim == 1]
        return [
            {"params": weights, "lr": self.learning_rate, "weight_decay": 0.01},
            {"params": others, "lr": self.learning_rate / 2, "weight_decay": 0.0},
        ]

    def begin_epoch(self, epoch: int) -> None:
        noise = torch.from_numpy(np.random.default_rng([self.seed, epoch]).random(ROWS))
        self.order = torch.argsort(self.bank + noise)

    def batches(self, epoch: int, begin: int) -> Iterator[Tensor]:
        return iter(self.order.split(SIZE)[begin:])

    def backward(self, batch: Tensor, share: float) -> Tensor:
        if self.calls == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.calls += 1
        self.seen.append(batch.tolist())
        error = (self.model(self.inputs[batch]) - self.wanted[batch])[:, 0] ** 2
        self.bank[batch] = error.detach()
        (error.mean() * share).backward()
        return error.mean().detach()

    def validate(self) -> dict[str, float]:
        self.validated += 1
        return {"P@1": self.scores[self.validated - 1]} if self.scores else {}

    def state(self) -> dict[str, Tensor]:
        return {"bank": self.bank, "order": self.order}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.bank, self.order = state["bank"], state["order"]

    @property
    def weights(self) -> bytes:
        return b"".join(tensor.numpy().tobytes() for tensor in self.model.state_dict().values())


CONFIG = TrainingConfig(epochs=4)


@pytest.fixture(scope="module")
def whole() -> Line:
    task = Line()
    train(task, CONFIG, {})
    return task


class Stop(Exception):
    pass


class Killer:
    """Stops the run after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def start(self, name: str, total: int | None) -> int:
        return 0

    def advance(self, handle: int, amount: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise Stop

    def finish(self, handle: int) -> None: ...


def test_a_run_stopped_at_any_step_ends_with_the_same_bits(whole: Line, tmp_path: Path) -> None:
    for step in range(1, 24):
        folder = tmp_path / str(step)
        with pytest.raises(Stop), checkpointing(folder, every_seconds=0), listening(Killer(step)):
            train(Line(), CONFIG, {})
        again = Line(seed=3 if step > 1 else 0)  # other initial weights: all must come from the checkpoint
        again.seed = 0
        with checkpointing(folder, every_seconds=0):
            train(again, CONFIG, {})
        assert again.weights == whole.weights, step
        assert again.calls == 24 - (step - 1)  # the step that was stopped is not in the checkpoint


@pytest.mark.parametrize("step", [3, 13])
def test_a_process_that_is_killed_resumes_from_its_last_checkpoint(whole: Line, tmp_path: Path, step: int) -> None:
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_nn_loop import Line, CONFIG, checkpointing, train
with checkpointing({str(tmp_path)!r}, every_seconds=0.0): train(Line(die_at={step}), CONFIG, {{}})
"""
    done = forked.run(["-c", code])
    assert done.returncode == -signal.SIGKILL
    again = Line()
    with checkpointing(tmp_path):
        train(again, CONFIG, {})
    assert again.weights == whole.weights
    assert again.calls == 24 - step


def test_writing_checkpoints_changes_nothing_and_a_finished_run_is_read_back(whole: Line, tmp_path: Path) -> None:
    task, again = Line(), Line(seed=5)
    again.seed = 0
    with checkpointing(tmp_path, every_seconds=1e9):
        train(task, CONFIG, {})
    with checkpointing(tmp_path):
        history = train(again, CONFIG, {})
    assert task.weights == again.weights == whole.weights
    assert again.calls == 0
    assert [line["epoch"] for line in history.lines] == [1, 2, 3, 4]
    assert History.read(tmp_path / "00-line").lines == history.lines
    assert (tmp_path / "00-line" / "history.svg").read_text().startswith("<svg")


def test_every_loop_of_a_block_has_its_own_directory(tmp_path: Path) -> None:
    with checkpointing(tmp_path):
        train(Line(), TrainingConfig(epochs=1), {})
        train(Line(seed=2), TrainingConfig(epochs=1, seed=2), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00-line", "01-line"]


def test_the_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    with checkpointing(tmp_path):
        train(Line(), TrainingConfig(epochs=1), {"recipe": "dpr(batch_size=64)", "data": "abc"})
    with checkpointing(tmp_path), pytest.raises(ModelError, match=r'recipe "dpr\(batch_size=64\)" there, "dpr" here'):
        train(Line(), TrainingConfig(epochs=1), {"recipe": "dpr", "data": "abc"})
    with checkpointing(tmp_path), pytest.raises(ModelError, match=r"seed 0 there, 1 here"):
        train(Line(), TrainingConfig(epochs=1, seed=1), {"recipe": "dpr(batch_size=64)", "data": "abc"})
    file = tmp_path / "00-line" / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-40])
    with checkpointing(tmp_path), pytest.raises(ModelError, match=r"remove it"):
        train(Line(), TrainingConfig(epochs=1), {"recipe": "dpr(batch_size=64)", "data": "abc"})


def test_learning_rates_rise_then_fall() -> None:
    linear = [TrainingConfig(epochs=1, warmup=0.25).learning_rate_factor(step, 8) for step in range(8)]
    assert linear == pytest.approx([0.5, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    cosine = [TrainingConfig(epochs=1, warmup=0, schedule="cosine").learning_rate_factor(step, 4) for step in range(4)]
    assert cosine == pytest.approx([1, 0.5 + 0.5 * 0.5**0.5, 0.5, 0.5 - 0.5 * 0.5**0.5])
    assert [TrainingConfig(epochs=1, warmup=0, schedule="none").learning_rate_factor(step, 4) for step in range(4)] == [
        1,
        1,
        1,
        1,
    ]


def test_accumulated_batches_take_one_step_with_their_mean_gradient() -> None:
    torch.manual_seed(0)
    small, large = Line(), Line()
    for task in (small, large):
        task.model[1] = nn.Identity()
    large.batches = lambda epoch, begin: iter(large.order.split(2 * SIZE)[begin:])  # type: ignore[method-assign]
    large.steps = ROWS // (2 * SIZE)
    train(small, TrainingConfig(epochs=2, accumulation_steps=2), {})
    train(large, TrainingConfig(epochs=2), {})
    for one, other in zip(small.model.parameters(), large.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


class Recording(Line):
    """Compares the gradient of each step, before it is clipped, with that of all its rows as one batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model[1] = nn.Identity()
        self.first = 0  # the call of backward that began the step
        self.rows_of_steps: list[int] = []

    def begin_step(self, factor: float) -> None:
        self.first = self.calls

    def end_step(self) -> None:
        rows = [row for batch in self.seen[self.first :] for row in batch]
        error = (self.model(self.inputs[rows]) - self.wanted[rows]) ** 2
        expected = torch.autograd.grad(error.mean(), list(self.model.parameters()))
        for parameter, gradient in zip(self.model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)
        self.rows_of_steps.append(len(rows))

    def checkpoint_dir(self, directory: CheckpointDir) -> CheckpointDir:
        return directory


def test_the_gradient_of_accumulated_batches_is_that_of_one_large_batch() -> None:
    """AdamW and clipping hide a wrong scale of the gradient, so it is compared before both."""
    task = Recording()
    history = train(task, TrainingConfig(epochs=1, accumulation_steps=4), {})
    assert task.rows_of_steps == [4 * SIZE, 2 * SIZE]  # the last step has fewer batches
    assert history.lines[-1]["steps"] == 2


def test_stops_without_gain_and_keeps_the_best() -> None:
    best = Line()
    train(best, TrainingConfig(epochs=9, patience=2, validate_every=1, schedule="none"), {})
    assert best.calls == 54  # without a validation split it never stops early
    task, short = Line(scores=(10, 30, 20, 30, 99)), Line()
    history = train(task, TrainingConfig(epochs=9, patience=2, validate_every=1, warmup=0, schedule="none"), {})
    assert [line["P@1"] for line in history.lines] == [10, 30, 20, 30]
    train(short, TrainingConfig(epochs=2, validate_every=1, warmup=0, schedule="none"), {})
    assert task.weights == short.weights


def test_a_loss_that_is_not_finite_is_raised_with_its_remedy() -> None:
    task = Line()
    task.wanted[3] = torch.nan
    with pytest.raises(RecipeError, match=r"line is nan after epoch 1; lower learning_rate \(now 0.05\), or raise"):
        train(task, CONFIG, {})


def test_the_callers_random_state_is_restored() -> None:
    torch.manual_seed(11)
    wanted = torch.rand(3)
    torch.manual_seed(11)
    state = torch.get_rng_state()
    task = Line()
    torch.set_rng_state(state)
    train(task, TrainingConfig(epochs=1), {})
    assert torch.equal(torch.rand(3), wanted)


def test_a_history_that_cannot_be_read_raises_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"history\.jsonl: cannot be read"):
        History.read(tmp_path)
    whole = json.dumps({"epoch": 1, "loss": 2.0, "rows_per_second": 9, "peak_bytes": 9})
    for wrong in ("{nonsense", "[1]", "{}", whole.replace("2.0", '"2.0"'), whole.replace('"epoch"', '"Epoch"')):
        (tmp_path / "history.jsonl").write_text(f"{whole}\n{wrong}\n")
        with pytest.raises(DataError, match=r"history\.jsonl:2: not a line"):
            History.read(tmp_path)
    (tmp_path / "history.jsonl").write_text(f"{whole}\n{{nonsense\n")
    with pytest.raises(DataError, match=r"history\.jsonl:2: not a line"):
        History.read(tmp_path)
    assert History([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0, "P@1": 5}]).values("P@1") == [(2, 5.0)]


def test_parameter_groups_with_the_same_settings_are_merged() -> None:
    class Parted(Line):
        def groups(self) -> list[dict[str, Any]]:
            groups = super().groups()
            return [{**group, "params": [parameter]} for group in groups for parameter in group["params"]]

    whole, parted = Line(), Parted()
    run = _Run(parted, CONFIG, None, {})
    assert [len(group["params"]) for group in run.optimiser.param_groups] == [2, 2]
    assert run.learning_rates == [0.05, 0.025]
    for task in (whole, parted):
        train(task, CONFIG, {})
    assert whole.weights == parted.weights
