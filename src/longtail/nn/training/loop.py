"""The one training loop: steps, learning-rate schedule, gradient clipping, validation, early stopping, checkpoints,
history.

It trains a `Task`, which holds the modules, divides an epoch into batches and computes the gradients of a batch. The
loop knows nothing of texts or labels, and a task nothing of schedules or checkpoints.

Random numbers come from a state of the loop's own, which the seed determines. A checkpoint holds everything that the
loop depends on, so a training that was killed and resumed ends with the same bits on a CPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor, nn

from longtail.errors import RecipeError
from longtail.memory import readable, resident_bytes
from longtail.nn.training.checkpoint import Checkpoint, CheckpointDir, next_checkpoint_dir
from longtail.nn.training.history import History
from longtail.nn.training.task import StepHooks, Task
from longtail.progress import Measured, emit, measured, stage

MOMENTS = {"step", "exp_avg", "exp_avg_sq"}  # of AdamW, for each parameter


@dataclass(frozen=True)
class TrainingConfig:
    """Epochs, learning-rate schedule, clipping, validation and early stopping."""

    epochs: int
    warmup: float = 0.1  # share of the steps in which the learning rates rise from 0
    schedule: Literal["linear", "cosine", "none"] = "linear"  # how they fall to 0 after that
    max_gradient_norm: float | None = 1.0  # gradients are clipped to this norm; None = never
    accumulation_steps: int = 1  # batches whose gradients are averaged in one optimiser step
    betas: tuple[float, float] = (0.9, 0.999)  # of AdamW
    epsilon: float = 1e-6  # of AdamW
    validate_every: int = 5  # epochs between two validations; 0 = only after the last epoch
    patience: int | None = None  # validations without a gain before training stops; None = never stop early
    monitor: str = "P@1"  # the measure that decides which weights are best
    keep_best: bool = True  # end with the best weights, which takes a second copy of them; else with the last ones
    seed: int = 0

    def learning_rate_factor(self, step: int, steps: int) -> float:
        """Compute the factor of the schedule on every learning rate.

        Args:
            step: From 0.
            steps: In the whole training.

        Returns:
            A number from 0 to 1.
        """
        warmup = min(math.ceil(self.warmup * steps), steps)
        if step < warmup:
            return (step + 1) / warmup
        done = (step - warmup) / max(steps - warmup, 1)
        if self.schedule == "linear":
            return 1 - done
        return 0.5 * (1 + math.cos(math.pi * done)) if self.schedule == "cosine" else 1.0


def train(task: Task, config: TrainingConfig, identity: Mapping[str, Any]) -> History:
    """Train the task's modules in place, from the last checkpoint of a `checkpointing` block where there is one.

    The modules end with the weights of the best validation; where there is no validation split, or with
    `keep_best=False`, with the last ones.

    Args:
        task: What is trained.
        config: How.
        identity: JSON values that a checkpoint must agree with, from `training_identity`.

    Returns:
        The loss and the validation measures of each epoch.

    Raises:
        RecipeError: The loss is not a finite number.
        ModelError: The checkpoint belongs to another training, or cannot be read or written.
    """
    directory = next_checkpoint_dir(task.name)
    if directory is not None and isinstance(task, StepHooks):
        directory = task.checkpoint_dir(directory)
    with _seeded(config.seed, task.device):
        run = _Run(task, config, directory, {**identity, "seed": config.seed, "epochs": config.epochs})
        run.resume()
        while run.epoch < config.epochs and not run.stopped:
            run.one_epoch()
        run.finish()
    emit(run.history)  # a model does not hold it, and a benchmark may want it
    return run.history


@dataclass
class _Run:
    """The state of a training that runs. All that changes is here, so that a checkpoint can hold it."""

    task: Task
    config: TrainingConfig
    directory: CheckpointDir | None
    identity: Mapping[str, Any]
    epoch: int = 0  # epochs done
    step: int = 0  # optimiser steps done in this epoch
    stopped: bool = False  # by early stopping
    best: float = -math.inf
    waited: int = 0  # validations since the best
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        config, groups = self.config, _merged(self.task.groups())
        self.learning_rates = [float(group["lr"]) for group in groups]
        self.optimiser = torch.optim.AdamW(groups, betas=config.betas, eps=config.epsilon, fused=True)
        self.parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        self.steps = math.ceil(self.task.steps / config.accumulation_steps)  # in an epoch
        self.loss = torch.zeros((), device=self.task.device)  # summed over this epoch's steps
        self.best_weights: dict[str, Tensor] = {}
        self.written = time.monotonic()
        self.measures: dict[str, float] = {}

    def one_epoch(self) -> None:
        task, start, rows = self.task, time.monotonic(), 0
        if self.step == 0:
            task.begin_epoch(self.epoch)
            self.loss.zero_()
        for module in task.modules.values():
            module.train()
        left = task.rows * (self.config.epochs - self.epoch) - task.rows * self.step // max(self.steps, 1)
        with stage(self._line(), total=left, timed=False) as advance:
            batches = task.batches(self.epoch, self.step * self.config.accumulation_steps)
            while group := list(islice(batches, self.config.accumulation_steps)):
                self._one_step(group)
                done = sum(map(len, group))
                rows += done
                advance(done)
                if self.directory is not None and time.monotonic() - self.written >= self.directory.every_seconds:
                    self.checkpoint()
        loss = float(self.loss) / max(self.steps, 1)  # the only line of an epoch that waits for the device
        seconds = time.monotonic() - start
        self.epoch, self.step = self.epoch + 1, 0
        line: dict[str, Any] = {
            "epoch": self.epoch,
            "steps": self.epoch * self.steps,
            "loss": loss,
            "learning_rate": self.optimiser.param_groups[0]["lr"],
            "seconds": round(seconds, 3),
            "rows_per_second": round(rows / max(seconds, 1e-9)),
            "peak_bytes": max([_peak(task.device), *(line["peak_bytes"] for line in self.history.lines[-1:])]),
        }
        if not math.isfinite(loss):
            raise RecipeError(
                f"the loss of {task.name} is {loss} after epoch {self.epoch}; lower learning_rate "
                f"(now {max(self.learning_rates):g}), or raise temperature or batch_size"
            )
        validated = self._validate() if self._is_time_to_validate() else {}
        self.history.lines.append(line | validated)
        if self.directory is not None:
            self.checkpoint()
            self.history.write(self.directory.folder)
            if validated:
                self.history.draw(self.directory.folder)
        # Last: a callback may end the training, and its checkpoint is written by now.
        numbers = {name: value for name, value in line.items() if name not in ("epoch", "steps")} | validated
        measured(Measured(task.name, self.epoch * self.steps, self.epoch, numbers))

    def _one_step(self, group: list[Any]) -> None:
        factor = self.config.learning_rate_factor(self.epoch * self.steps + self.step, self.config.epochs * self.steps)
        for settings, learning_rate in zip(self.optimiser.param_groups, self.learning_rates, strict=True):
            settings["lr"] = learning_rate * factor
        hooks = self.task if isinstance(self.task, StepHooks) else None
        if hooks is not None:
            hooks.begin_step(factor)
        self.optimiser.zero_grad(set_to_none=True)
        for batch in group:
            self.loss += self.task.backward(batch, 1 / len(group)) / len(group)
        if hooks is not None:
            hooks.end_step()
        if self.config.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.config.max_gradient_norm)
        self.optimiser.step()
        self.step += 1

    def _is_time_to_validate(self) -> bool:
        every = self.config.validate_every
        return self.epoch == self.config.epochs or (every > 0 and self.epoch % every == 0)

    def _validate(self) -> dict[str, float]:
        for module in self.task.modules.values():
            module.eval()
        self.measures = self.task.validate()
        value = self.measures.get(self.config.monitor)
        if value is not None:
            if value > self.best:
                self.best, self.waited = value, 0
                if self.config.keep_best:
                    self.best_weights = {name: tensor.detach().clone() for name, tensor in self._weights().items()}
            else:
                self.waited += 1
                self.stopped = self.config.patience is not None and self.waited >= self.config.patience
        return self.measures

    def finish(self) -> None:
        """Load the best weights into the modules, and write the history and its picture."""
        if self.best_weights:
            self._load_weights(self.best_weights)
        for module in self.task.modules.values():
            module.eval()
        if self.directory is not None:
            self.history.write(self.directory.folder)
            self.history.draw(self.directory.folder)

    def _line(self) -> str:
        """The progress line. The listener adds the time left and the memory of the process."""
        line = f"training {self.task.name}: epoch {self.epoch + 1} of {self.config.epochs}"
        if self.history.lines:
            last = self.history.lines[-1]
            line += f", loss {last['loss']:.3g}"
            line += "".join(f", {name} {value:.1f}" for name, value in self.measures.items())
            line += f", {last['rows_per_second']:,} examples/s"
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
        """Write all that the rest of the training depends on."""
        assert self.directory is not None
        optimiser = self.optimiser.state_dict()
        tensors = {f"weights.{name}": tensor for name, tensor in self._weights().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        tensors |= {f"task.{name}": tensor for name, tensor in self.task.state().items()}
        tensors |= {
            f"optimiser.{number}.{name}": tensor
            for number, parts in optimiser["state"].items()
            for name, tensor in parts.items()
        }
        tensors |= {"loss": self.loss, "rng.cpu": torch.get_rng_state()}
        if self.task.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.task.device)
        facts = {
            "epoch": self.epoch,
            "step": self.step,
            "stopped": self.stopped,
            "best": self.best if math.isfinite(self.best) else None,
            "waited": self.waited,
            "measures": self.measures,
            "history": self.history.lines,
        }
        self.directory.write(Checkpoint(facts, tensors), self.identity)
        self.written = time.monotonic()

    def resume(self) -> None:
        """Continue from the last checkpoint, where there is one."""
        found = self.directory.read(self.identity) if self.directory is not None else None
        if found is not None and self.directory is not None:
            with self.directory.reading():
                self._restore(found.facts, found.tensors)

    def _restore(self, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take apart a checkpoint. It raises whatever it likes where that is not what `checkpoint` wrote."""
        self.epoch, self.step, self.waited = (int(facts[name]) for name in ("epoch", "step", "waited"))
        if not (0 <= self.epoch <= self.config.epochs and 0 <= self.step <= self.steps):
            raise ValueError(f"{self.epoch} epochs and {self.step} steps of {self.config.epochs} and {self.steps}")
        self.stopped = bool(facts["stopped"])
        self.best = -math.inf if facts["best"] is None else float(facts["best"])
        self.measures = {str(name): float(value) for name, value in facts["measures"].items()}
        self.history.lines.extend(History.of(facts["history"]).lines)
        self._load_weights(_under("weights.", tensors))
        weights = self._weights()  # those in host memory stay there
        self.best_weights = {name: best.to(weights[name].device) for name, best in _under("best.", tensors).items()}
        _same_shapes(self.best_weights, weights)
        kept = _under("task.", tensors)
        _same_shapes(kept, self.task.state())
        self.task.load_state(kept)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under("optimiser.", tensors).items():
            number, _, part = name.partition(".")
            state.setdefault(int(number), {})[part] = tensor
        for place, parts in state.items():
            if parts.keys() != MOMENTS or any(
                parts[name].shape != self.parameters[place].shape for name in MOMENTS - {"step"}
            ):  # the fused step would read beside them
                raise ValueError(f"the moments of parameter {place} have another shape")
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self.loss = tensors["loss"].reshape(()).float().to(self.task.device)
        torch.set_rng_state(tensors["rng.cpu"])
        if "rng.cuda" in tensors and self.task.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["rng.cuda"], self.task.device)


def _same_shapes(given: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Raise where a tensor that was read back has another type or shape than the one in its place, if one is there."""
    for name, tensor in given.items():
        there = name in own and own[name].numel() > 0
        if there and (tensor.shape != own[name].shape or tensor.dtype != own[name].dtype):
            raise ValueError(f"{name} has another type or shape")


def _merged(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge groups with the same settings: the optimiser's overhead for a group is as long as its update."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in groups:
        settings = tuple(sorted((name, value) for name, value in group.items() if name != "params"))
        merged.setdefault(settings, {**group, "params": []})["params"] += group["params"]
    return list(merged.values())


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """A random state of our own, which the seed determines; the caller's is restored afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resident_bytes()
