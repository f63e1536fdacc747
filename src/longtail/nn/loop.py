"""The one training loop: steps, schedules, clipping, valid measures, early stop, checkpoints, history.

What is trained is a `Task`: it holds the modules, cuts an epoch into batches and turns a batch into gradients. The
loop knows nothing of texts or labels, and a task nothing of schedules or checkpoints.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from longtail.errors import RecipeError
from longtail.memory import readable, resident_bytes
from longtail.nn.checkpoint import Checkpoint, Place, next_place
from longtail.nn.history import History
from longtail.progress import stage


class Batch(Protocol):
    def __len__(self) -> int:
        """Rows of the batch."""


class Task(Protocol):
    """What is trained."""

    name: str  # of its checkpoints and its progress line

    @property
    def device(self) -> torch.device: ...

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """What learns; all of it is checkpointed."""

    @property
    def rows(self) -> int:
        """Rows of an epoch."""

    @property
    def steps(self) -> int:
        """Batches of an epoch, the same in every epoch."""

    def groups(self) -> list[dict[str, Any]]:
        """Parameter groups for AdamW, each with its own "lr" and "weight_decay"."""

    def begin_epoch(self, epoch: int) -> None:
        """Refresh what later batches are made from: clusters, mined negatives. Not called again on resuming."""

    def batches(self, epoch: int, begin: int) -> Iterator[Batch]:
        """The batches of an epoch from number `begin` on; the same for the same epoch and state."""

    def backward(self, batch: Any, share: float) -> Tensor:
        """Add share x the gradient of the batch's loss to the parameters; the loss, without waiting for it."""

    def measure(self) -> dict[str, float]:
        """Measures on valid, in percent; empty where there is nothing to measure on."""

    def state(self) -> dict[str, Tensor]:
        """What besides the modules a checkpoint must hold."""

    def load_state(self, state: Mapping[str, Tensor]) -> None: ...


@runtime_checkable
class Paced(Protocol):
    """A task with weights that move by themselves, or of whose gradients other processes hold a part."""

    def begin_step(self, factor: float) -> None:
        """The factor on every rate in the step that begins."""

    def end_step(self) -> None:
        """All batches of the step are done; the gradients are clipped and used next."""

    def place(self, place: Place) -> Place:
        """Where its checkpoints are kept."""


@dataclass(frozen=True)
class Course:
    """How long and how fast to learn."""

    epochs: int
    warmup: float = 0.1  # share of the steps in which the rates rise from 0
    decay: Literal["linear", "cosine", "none"] = "linear"
    clip: float | None = 1.0  # longest gradient
    accumulate: int = 1  # batches a step
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    measure_every: int = 5  # epochs; 0 = only after the last
    patience: int | None = None  # measurements without a gain before it stops; None = never
    watch: str = "P@1"  # the measure whose best weights are kept
    keep_best: bool = True  # in a second copy of the weights; else the last ones stay
    seed: int = 0

    def rate(self, step: int, steps: int) -> float:
        """The factor on every group's rate at a step."""
        rising = min(math.ceil(self.warmup * steps), steps)
        if step < rising:
            return (step + 1) / rising
        done = (step - rising) / max(steps - rising, 1)
        if self.decay == "linear":
            return 1 - done
        return 0.5 * (1 + math.cos(math.pi * done)) if self.decay == "cosine" else 1.0


def train(task: Task, course: Course, identity: Mapping[str, Any]) -> History:
    """Train the task's modules in place. `identity` (JSON values) says what a checkpoint must belong to.

    With a measure on valid, the modules end with the weights that measured best, unless the course keeps no copy of
    them; else with the last ones.
    """
    place = next_place(task.name)
    if place is not None and isinstance(task, Paced):
        place = task.place(place)
    with _seeded(course.seed, task.device):
        run = _Run(task, course, place, {**identity, "seed": course.seed, "epochs": course.epochs})
        run.resume()
        while run.epoch < course.epochs and not run.stopped:
            run.one_epoch()
        run.finish()
    return run.history


@dataclass
class _Run:
    """A training under way. What changes is here, so that a checkpoint can hold all of it."""

    task: Task
    course: Course
    place: Place | None
    identity: Mapping[str, Any]
    epoch: int = 0  # epochs that are done
    step: int = 0  # optimiser steps of this epoch that are done
    stopped: bool = False
    best: float = -math.inf
    waited: int = 0  # measurements since the best
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        course, groups = self.course, _merged(self.task.groups())
        self.rates = [float(group["lr"]) for group in groups]
        self.optimiser = torch.optim.AdamW(groups, betas=course.betas, eps=course.epsilon, fused=True)
        self.parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        self.steps = math.ceil(self.task.steps / course.accumulate)  # of an epoch
        self.loss = torch.zeros((), device=self.task.device)  # sum over this epoch's steps
        self.best_weights: dict[str, Tensor] = {}
        self.written = time.monotonic()
        self.measures: dict[str, float] = {}

    def one_epoch(self) -> None:
        task, begun, rows = self.task, time.monotonic(), 0
        if self.step == 0:
            task.begin_epoch(self.epoch)
            self.loss.zero_()
        for module in task.modules.values():
            module.train()
        left = task.rows * (self.course.epochs - self.epoch) - task.rows * self.step // max(self.steps, 1)
        with stage(self._line(), total=left) as advance:
            batches = task.batches(self.epoch, self.step * self.course.accumulate)
            while group := list(islice(batches, self.course.accumulate)):
                self._one_step(group)
                done = sum(map(len, group))
                rows += done
                advance(done)
                if self.place is not None and time.monotonic() - self.written >= self.place.every_seconds:
                    self.checkpoint()
        loss = float(self.loss) / max(self.steps, 1)  # the one place of an epoch that waits for the device
        seconds = time.monotonic() - begun
        self.epoch, self.step = self.epoch + 1, 0
        line: dict[str, Any] = {
            "epoch": self.epoch,
            "steps": self.epoch * self.steps,
            "loss": loss,
            "rate": self.optimiser.param_groups[0]["lr"],
            "seconds": round(seconds, 3),
            "rows_per_second": round(rows / max(seconds, 1e-9)),
            "peak_bytes": max([_peak(task.device), *(line["peak_bytes"] for line in self.history.lines[-1:])]),
        }
        if not math.isfinite(loss):
            raise RecipeError(
                f"the loss of {task.name} is {loss} after epoch {self.epoch}; lower the rate "
                f"(now {max(self.rates):g}) or raise the temperature or the batch"
            )
        measured = self._measure() if self._is_time_to_measure() else {}
        self.history.lines.append(line | measured)
        if self.place is not None:
            self.checkpoint()
            self.history.write(self.place.folder)
            if measured:
                self.history.draw(self.place.folder)

    def _one_step(self, group: list[Any]) -> None:
        factor = self.course.rate(self.epoch * self.steps + self.step, self.course.epochs * self.steps)
        for settings, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            settings["lr"] = rate * factor
        paced = self.task if isinstance(self.task, Paced) else None
        if paced is not None:
            paced.begin_step(factor)
        self.optimiser.zero_grad(set_to_none=True)
        for batch in group:
            self.loss += self.task.backward(batch, 1 / len(group)) / len(group)
        if paced is not None:
            paced.end_step()
        if self.course.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.course.clip)
        self.optimiser.step()
        self.step += 1

    def _is_time_to_measure(self) -> bool:
        every = self.course.measure_every
        return self.epoch == self.course.epochs or (every > 0 and self.epoch % every == 0)

    def _measure(self) -> dict[str, float]:
        for module in self.task.modules.values():
            module.eval()
        self.measures = self.task.measure()
        value = self.measures.get(self.course.watch)
        if value is not None:
            if value > self.best:
                self.best, self.waited = value, 0
                if self.course.keep_best:
                    self.best_weights = {name: tensor.detach().clone() for name, tensor in self._weights().items()}
            else:
                self.waited += 1
                self.stopped = self.course.patience is not None and self.waited >= self.course.patience
        return self.measures

    def finish(self) -> None:
        """Leave the best weights in the modules, and the history's picture beside it."""
        if self.best_weights:
            self._load_weights(self.best_weights)
        for module in self.task.modules.values():
            module.eval()
        if self.place is not None:
            self.history.write(self.place.folder)
            self.history.draw(self.place.folder)

    def _line(self) -> str:
        """One line for whoever listens: time left and this process's memory are the listener's to show."""
        line = f"training {self.task.name}: epoch {self.epoch + 1} of {self.course.epochs}"
        if self.history.lines:
            last = self.history.lines[-1]
            line += f", loss {last['loss']:.3g}"
            line += "".join(f", {name} {value:.1f}" for name, value in self.measures.items())
            line += f", {last['rows_per_second']:,} rows/s"
            if self.task.device.type == "cuda":
                line += f", GPU peak {readable(last['peak_bytes'])}"
        return line

    def _weights(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": tensor
            for name, module in self.task.modules.items()
            for key, tensor in module.state_dict().items()
        }

    def _load_weights(self, weights: Mapping[str, Tensor]) -> None:
        for name, module in self.task.modules.items():
            module.load_state_dict(_under(f"{name}.", weights))

    def checkpoint(self) -> None:
        """All that the rest of the training depends on."""
        assert self.place is not None
        optimiser = self.optimiser.state_dict()
        tensors = {f"weights.{name}": tensor for name, tensor in self._weights().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        tensors |= {f"task.{name}": tensor for name, tensor in self.task.state().items()}
        tensors |= {
            f"optimiser.{number}.{name}": tensor
            for number, parts in optimiser["state"].items()
            for name, tensor in parts.items()
        }
        tensors |= {"loss": self.loss, "chance.cpu": torch.get_rng_state()}
        if self.task.device.type == "cuda":
            tensors["chance.cuda"] = torch.cuda.get_rng_state(self.task.device)
        facts = {
            "epoch": self.epoch,
            "step": self.step,
            "stopped": self.stopped,
            "best": self.best if math.isfinite(self.best) else None,
            "waited": self.waited,
            "measures": self.measures,
            "history": self.history.lines,
        }
        self.place.write(Checkpoint(facts, tensors), self.identity)
        self.written = time.monotonic()

    def resume(self) -> None:
        """Go on from the last checkpoint, where there is one."""
        found = self.place.read(self.identity) if self.place is not None else None
        if found is None:
            return
        facts, tensors = found.facts, found.tensors
        self.epoch, self.step, self.stopped = facts["epoch"], facts["step"], facts["stopped"]
        self.best = -math.inf if facts["best"] is None else facts["best"]
        self.waited, self.measures = facts["waited"], facts["measures"]
        self.history.lines.extend(facts["history"])
        self._load_weights(_under("weights.", tensors))
        now = self._weights()  # what lies in the host's memory stays there
        self.best_weights = {name: best.to(now[name].device) for name, best in _under("best.", tensors).items()}
        self.task.load_state(_under("task.", tensors))
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under("optimiser.", tensors).items():
            number, _, part = name.partition(".")
            state.setdefault(int(number), {})[part] = tensor
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self.loss = tensors["loss"].to(self.task.device)
        torch.set_rng_state(tensors["chance.cpu"])
        if "chance.cuda" in tensors and self.task.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["chance.cuda"], self.task.device)


def _merged(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that learn alike as one: an optimiser spends as long on asking about a group as on moving it."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in groups:
        alike = tuple(sorted((name, value) for name, value in group.items() if name != "params"))
        found.setdefault(alike, {**group, "params": []})["params"] += group["params"]
    return list(found.values())


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Chance of our own: the same for the same seed, and the caller's is left as it was."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resident_bytes()
