"""The training loop: schedules, steps, early stop, and that a killed training ends as if it had not been killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from longtail.errors import DataError, ModelError, RecipeError
from longtail.nn.checkpoint import keeping
from longtail.nn.history import History
from longtail.nn.loop import Course, _Run, train
from longtail.progress import listening

ROWS, SIZE = 24, 4


@dataclass
class Line:
    """Learn a linear map through dropout; the order of an epoch depends on what the steps before have left."""

    seed: int = 0
    scores: tuple[float, ...] = ()  # what `measure` answers, one after the other
    die_at: int | None = None  # kill the process in this call of backward
    name: str = "line"
    calls: int = 0
    measured: int = 0
    seen: list[list[int]] = field(default_factory=list)
    rate: float = 0.05

    def __post_init__(self) -> None:
        chance = torch.Generator().manual_seed(7)
        self.inputs = torch.randn(ROWS, 3, generator=chance)
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
            {"params": weights, "lr": self.rate, "weight_decay": 0.01},
            {"params": others, "lr": self.rate / 2, "weight_decay": 0.0},
        ]

    def begin_epoch(self, epoch: int) -> None:
        luck = torch.from_numpy(np.random.default_rng([self.seed, epoch]).random(ROWS))
        self.order = torch.argsort(self.bank + luck)

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

    def measure(self) -> dict[str, float]:
        self.measured += 1
        return {"P@1": self.scores[self.measured - 1]} if self.scores else {}

    def state(self) -> dict[str, Tensor]:
        return {"bank": self.bank, "order": self.order}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.bank, self.order = state["bank"], state["order"]

    @property
    def weights(self) -> bytes:
        return b"".join(tensor.numpy().tobytes() for tensor in self.model.state_dict().values())


COURSE = Course(epochs=4)


@pytest.fixture(scope="module")
def whole() -> Line:
    task = Line()
    train(task, COURSE, {})
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
        with pytest.raises(Stop), keeping(folder, every_seconds=0), listening(Killer(step)):
            train(Line(), COURSE, {})
        again = Line(seed=3 if step > 1 else 0)  # other first weights: all must come from the checkpoint
        again.seed = 0
        with keeping(folder, every_seconds=0):
            train(again, COURSE, {})
        assert again.weights == whole.weights, step
        assert again.calls == 24 - (step - 1)  # the step that was stopped had not been kept yet


@pytest.mark.parametrize("step", [3, 13])
def test_a_process_that_is_killed_goes_on_from_its_last_checkpoint(whole: Line, tmp_path: Path, step: int) -> None:
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_nn_loop import Line, COURSE, keeping, train
with keeping({str(tmp_path)!r}, every_seconds=0.0): train(Line(die_at={step}), COURSE, {{}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    again = Line()
    with keeping(tmp_path):
        train(again, COURSE, {})
    assert again.weights == whole.weights
    assert again.calls == 24 - step


def test_keeping_checkpoints_changes_nothing_and_a_finished_run_is_read_back(whole: Line, tmp_path: Path) -> None:
    task, again = Line(), Line(seed=5)
    again.seed = 0
    with keeping(tmp_path, every_seconds=1e9):
        train(task, COURSE, {})
    with keeping(tmp_path):
        history = train(again, COURSE, {})
    assert task.weights == again.weights == whole.weights
    assert again.calls == 0
    assert [line["epoch"] for line in history.lines] == [1, 2, 3, 4]
    assert History.read(tmp_path / "00-line").lines == history.lines
    assert (tmp_path / "00-line" / "history.svg").read_text().startswith("<svg")


def test_every_loop_of_a_block_has_its_own_place(tmp_path: Path) -> None:
    with keeping(tmp_path):
        train(Line(), Course(epochs=1), {})
        train(Line(seed=2), Course(epochs=1, seed=2), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00-line", "01-line"]


def test_the_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    with keeping(tmp_path):
        train(Line(), Course(epochs=1), {"recipe": "dpr(batch=64)", "data": "abc"})
    with keeping(tmp_path), pytest.raises(ModelError, match=r'recipe "dpr\(batch=64\)" there, "dpr" here'):
        train(Line(), Course(epochs=1), {"recipe": "dpr", "data": "abc"})
    with keeping(tmp_path), pytest.raises(ModelError, match=r"seed 0 there, 1 here"):
        train(Line(), Course(epochs=1, seed=1), {"recipe": "dpr(batch=64)", "data": "abc"})
    file = tmp_path / "00-line" / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-40])
    with keeping(tmp_path), pytest.raises(ModelError, match=r"remove it"):
        train(Line(), Course(epochs=1), {"recipe": "dpr(batch=64)", "data": "abc"})


def test_rates_rise_then_fall() -> None:
    linear = [Course(epochs=1, warmup=0.25).rate(step, 8) for step in range(8)]
    assert linear == pytest.approx([0.5, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    cosine = [Course(epochs=1, warmup=0, decay="cosine").rate(step, 4) for step in range(4)]
    assert cosine == pytest.approx([1, 0.5 + 0.5 * 0.5**0.5, 0.5, 0.5 - 0.5 * 0.5**0.5])
    assert [Course(epochs=1, warmup=0, decay="none").rate(step, 4) for step in range(4)] == [1, 1, 1, 1]


def test_gathered_batches_take_one_step_with_their_mean_gradient() -> None:
    torch.manual_seed(0)
    small, large = Line(), Line()
    for task in (small, large):
        task.model[1] = nn.Identity()
    large.batches = lambda epoch, begin: iter(large.order.split(2 * SIZE)[begin:])  # type: ignore[method-assign]
    large.steps = ROWS // (2 * SIZE)
    train(small, Course(epochs=2, accumulate=2), {})
    train(large, Course(epochs=2), {})
    for one, other in zip(small.model.parameters(), large.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_stops_without_gain_and_keeps_the_best() -> None:
    best = Line()
    train(best, Course(epochs=9, patience=2, measure_every=1, decay="none"), {})  # nothing to measure: never stops
    assert best.calls == 54
    task, short = Line(scores=(10, 30, 20, 30, 99)), Line()
    history = train(task, Course(epochs=9, patience=2, measure_every=1, warmup=0, decay="none"), {})
    assert [line["P@1"] for line in history.lines] == [10, 30, 20, 30]
    train(short, Course(epochs=2, measure_every=1, warmup=0, decay="none"), {})
    assert task.weights == short.weights


def test_a_loss_that_is_no_number_is_told_with_its_remedy() -> None:
    task = Line()
    task.wanted[3] = torch.nan
    with pytest.raises(RecipeError, match=r"loss of line is nan after epoch 1; lower the rate \(now 0.05\)"):
        train(task, COURSE, {})


def test_the_callers_chance_is_left_alone() -> None:
    torch.manual_seed(11)
    wanted = torch.rand(3)
    torch.manual_seed(11)
    chance = torch.get_rng_state()
    task = Line()
    torch.set_rng_state(chance)
    train(task, Course(epochs=1), {})
    assert torch.equal(torch.rand(3), wanted)


def test_a_history_that_cannot_be_read_says_where(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"history\.jsonl: cannot be read"):
        History.read(tmp_path)
    (tmp_path / "history.jsonl").write_text(json.dumps({"epoch": 1, "loss": 2.0}) + "\n{nonsense\n")
    with pytest.raises(DataError, match=r"history\.jsonl:2: not a line"):
        History.read(tmp_path)
    assert History([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0, "P@1": 5}]).values("P@1") == [(2, 5.0)]


def test_groups_that_learn_alike_are_moved_as_one() -> None:
    class Parted(Line):
        def groups(self) -> list[dict[str, Any]]:
            whole = super().groups()
            return [{**group, "params": [parameter]} for group in whole for parameter in group["params"]]

    alike, parted = Line(), Parted()
    run = _Run(parted, COURSE, None, {})
    assert [len(group["params"]) for group in run.optimiser.param_groups] == [2, 2]
    assert run.rates == [0.05, 0.025]
    for task in (alike, parted):
        train(task, COURSE, {})
    assert alike.weights == parted.weights
