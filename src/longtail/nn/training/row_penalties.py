"""Penalties on classifiers, as the tasks that train classifiers see them.

A penalty updates a few classifiers itself in each step. Where Adam trains them, it takes plain steps of its own: Adam
would divide the penalty's weight out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

RATE = 0.1  # of a penalty's steps on classifiers that Adam trains; that of `renee` with a pretrained encoder
FURTHEST = 0.1  # that such a step moves a classifier, as a share of its norm: short ones would be thrown anywhere


class PenalisedRows(Protocol):
    """Classifiers as a penalty sees them."""

    weight: Tensor  # (labels, at least dimension)
    done: int  # steps so far; with the seed of a penalty it determines what the penalty draws

    def rows(self, labels: Tensor) -> Tensor:
        """Read the weights of some labels.

        Args:
            labels: (labels,) int64.

        Returns:
            (labels, dimension) float32.
        """

    def update_rows(self, labels: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Step the weights of some labels against a gradient.

        Args:
            labels: (labels,) int64, without duplicates.
            gradient: (labels, dimension).
            learning_rate: of this step.
        """


class Penalty(Protocol):
    """A term on the classifier rows. It updates them itself, in each step."""

    def step(self, head: PenalisedRows, learning_rate: float) -> None:
        """Update the classifier rows.

        Args:
            head: holds them.
            learning_rate: of the classifiers in this step.
        """


@dataclass(eq=False)
class RowsUnderAdam:
    """See `PenalisedRows`: float32 classifiers that Adam trains."""

    weight: Tensor  # (labels, dimension), updated in place
    done: int
    places: Tensor | None = None  # (labels,) int64, the row of each label; None: in their order

    def rows(self, labels: Tensor) -> Tensor:
        """See `PenalisedRows.rows`."""
        return self.weight.detach().index_select(0, self._places(labels))

    @torch.no_grad()
    def update_rows(self, labels: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """See `PenalisedRows.update_rows`."""
        step = short_step(self.rows(labels), gradient, learning_rate)
        self.weight.index_add_(0, self._places(labels), step, alpha=-1)

    def _places(self, labels: Tensor) -> Tensor:
        return labels if self.places is None else self.places.index_select(0, labels)


def short_step(rows: Tensor, gradient: Tensor, learning_rate: float) -> Tensor:
    """Limit a step by the norm of what it moves.

    Args:
        rows: (labels, dimension) float32, before the step.
        gradient: (labels, dimension).
        learning_rate: of the step.

    Returns:
        (labels, dimension) float32, what to subtract.
    """
    step = learning_rate * gradient.float()
    longest = FURTHEST * rows.norm(dim=1, keepdim=True)
    share: Tensor = (longest / step.norm(dim=1, keepdim=True).clamp_min(1e-12)).clamp_max(1.0)
    return step * share
