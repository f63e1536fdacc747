"""What the training loop trains: the protocols of a task, its batches and its hooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from longtail.nn.training.checkpoint import CheckpointDir


class Batch(Protocol):
    """The rows of one batch."""

    def __len__(self) -> int:
        """How many rows it has."""


class Task(Protocol):
    """What the loop trains."""

    name: str  # of its checkpoints and its progress line

    @property
    def device(self) -> torch.device:
        """Where the modules compute."""

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """The trained modules by name; a checkpoint holds all of them."""

    @property
    def rows(self) -> int:
        """Rows in an epoch."""

    @property
    def steps(self) -> int:
        """Batches in an epoch, the same number in every epoch."""

    def groups(self) -> list[dict[str, Any]]:
        """Group the parameters for AdamW.

        Returns:
            Groups, each with its own "lr" and "weight_decay".
        """

    def begin_epoch(self, epoch: int) -> None:
        """Refresh what batches are made from: clusters, hard negatives. Not called again when an epoch is resumed.

        Args:
            epoch: from 0.
        """

    def batches(self, epoch: int, begin: int) -> Iterator[Batch]:
        """Make the batches of an epoch.

        Args:
            epoch: from 0.
            begin: number of the first batch.

        Returns:
            The batches from that number on; the same ones for the same epoch and state.
        """

    def backward(self, batch: Any, share: float) -> Tensor:
        """Add share x the gradient of the batch's loss to the parameters.

        Args:
            batch: one of `batches`.
            share: of the step, where it has several batches.

        Returns:
            The loss, a scalar that need not be computed yet.
        """

    def validate(self) -> dict[str, float]:
        """Measure on the validation split.

        Returns:
            Measures in percent, by name; empty where there is no such split.
        """

    def state(self) -> dict[str, Tensor]:
        """Collect what a checkpoint must hold besides the modules.

        Returns:
            Tensors by name.
        """

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned.

        Args:
            state: tensors by name.
        """


@runtime_checkable
class StepHooks(Protocol):
    """A task that updates some weights itself, or whose gradients are partly held by other processes."""

    def begin_step(self, factor: float) -> None:
        """Called before each step.

        Args:
            factor: the schedule's, on every learning rate.
        """

    def end_step(self) -> None:
        """Called after all batches of a step, before its gradients are clipped and applied."""

    def checkpoint_dir(self, directory: CheckpointDir) -> CheckpointDir:
        """Choose where checkpoints go.

        Args:
            directory: the one that the loop was assigned.

        Returns:
            The directory to use instead, or the same.
        """
