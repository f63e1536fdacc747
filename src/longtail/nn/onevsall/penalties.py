"""Penalties on the classifiers of a head. Each updates a random sample of labels after every step of the head.

There is no gradient of all labels that a penalty could be added to, so it updates a few labels, drawn from seed and
step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from longtail.arrays import Floats, Longs, Matrix
from longtail.nn.training.row_penalties import PenalisedRows


@dataclass(eq=False)
class GramPenalty:
    """Draws the products of classifier rows towards the co-occurrence of their labels (GLaS).

    With a sample of m labels, W their rows and A their co-occurrence: weight / m · ‖W Wᵀ − A‖². With `normalised` the
    rows enter at unit norm, so that the penalty turns them and keeps their norm.
    """

    cooccurrence: Matrix  # csr float32 (labels, labels), symmetric, 1 on the diagonal
    weight: float
    sample_size: int  # m
    normalised: bool
    seed: int = 0

    _on_device: tuple[Tensor, Tensor] | None = field(default=None, init=False)  # indices and data of the csr array

    def step(self, head: PenalisedRows, learning_rate: float) -> None:
        """See `Penalty.step`."""
        drawn = self.draw(np.random.default_rng([self.seed, head.done]))
        device = head.weight.device
        labels, target = torch.from_numpy(drawn).to(device), self.target(drawn, device)
        gradient = gram_gradient(head.rows(labels), target, self.weight, self.normalised)
        head.update_rows(labels, gradient, learning_rate)

    def draw(self, rng: np.random.Generator) -> Longs:
        """Sample labels: half of them at random, and for each a label that co-occurs with it. Of all pairs hardly any
        co-occur, and the penalty should see those that do.

        Args:
            rng: random state.

        Returns:
            Labels in rising order, at most `sample_size`.
        """
        number, indptr = self.cooccurrence.shape[0], self.cooccurrence.indptr
        if number <= self.sample_size:
            return np.arange(number)
        first = rng.integers(number, size=self.sample_size // 2)
        starts, ends = indptr[first].astype(np.int64), indptr[first + 1].astype(np.int64)
        places = starts + (rng.random(len(first)) * (ends - starts)).astype(np.int64)
        found: Longs = np.unique(np.concatenate([first, self.cooccurrence.indices[places]])).astype(np.int64)
        return found

    def target(self, drawn: Longs, device: torch.device) -> Tensor:
        """Look up the co-occurrence of the sampled labels with each other, without synchronising with the device.

        Args:
            drawn: m labels in rising order.
            device: of the result.

        Returns:
            (m, m) float32.
        """
        if self._on_device is None:
            matrix = self.cooccurrence
            self._on_device = torch.from_numpy(matrix.indices).to(device), torch.from_numpy(matrix.data).to(device)
        indices, data = self._on_device
        starts = self.cooccurrence.indptr[drawn].astype(np.int64)
        counts = self.cooccurrence.indptr[drawn + 1].astype(np.int64) - starts
        total, size = int(counts.sum()), len(drawn)
        shifts = starts - np.cumsum(counts) + counts
        labels, repeats, offsets = (torch.from_numpy(array).to(device) for array in (drawn, counts, shifts))
        owners = torch.arange(size, device=device).repeat_interleave(repeats, output_size=total)
        places = torch.arange(total, device=device) + offsets[owners]
        others = indices[places].long()
        where = torch.searchsorted(labels, others).clamp(max=size - 1)
        inside = labels[where] == others
        found = torch.zeros(size * size + 1, device=device)  # the last place takes labels that are not in the sample
        found[torch.where(inside, owners * size + where, size * size)] = data[places]
        return found[:-1].view(size, size)


def gram_gradient(rows: Tensor, target: Tensor, weight: float, normalised: bool) -> Tensor:
    """Compute the gradient of weight / m · ‖W Wᵀ − A‖² by the rows W.

    Args:
        rows: W, (m, dimension).
        target: A, (m, m).
        weight: of the penalty.
        normalised: whether the rows enter the penalty at unit norm.

    Returns:
        (m, dimension).
    """
    if not normalised:
        return (4 * weight / len(rows)) * ((rows @ rows.T - target) @ rows)
    norms = rows.norm(dim=1, keepdim=True).clamp(min=1e-6)
    unit = rows / norms
    gradient = (4 * weight / len(rows)) * ((unit @ unit.T - target) @ unit)
    along = (gradient * unit).sum(dim=1, keepdim=True)
    return torch.div(gradient - along * unit, norms)


@dataclass(eq=False)
class TiePenalty:
    """Draws each classifier row towards a fixed vector: weight / 2 · ‖w − v‖² for every label.

    A step updates a random sample of labels, each by so much more that the mean update is as if all were updated.
    """

    vectors: Floats  # (labels, dimension), unit norm
    weight: float
    sample_size: int
    norm: float | None  # of the vectors; None: the norm of each row, so that it turns and keeps its norm
    seed: int = 0
    _on_device: Tensor | None = field(default=None, init=False)

    def step(self, head: PenalisedRows, learning_rate: float) -> None:
        """See `Penalty.step`."""
        if self._on_device is None:
            kind = torch.float32 if head.weight.dtype == torch.float32 else torch.bfloat16
            self._on_device = torch.from_numpy(self.vectors).to(head.weight.device, kind)
            self.vectors = np.zeros((0, self.vectors.shape[1]), dtype=np.float32)  # frees the host copy
        number = len(self._on_device)
        if number <= self.sample_size:
            drawn = np.arange(number)
        else:
            rng = np.random.default_rng([self.seed, head.done])
            drawn = np.sort(rng.choice(number, self.sample_size, replace=False))
        labels = torch.from_numpy(drawn).to(head.weight.device)
        rows, vectors = head.rows(labels), normalize(self._on_device[labels].float(), dim=1)
        share = learning_rate * self.weight * number / len(drawn)
        norms = rows.norm(dim=1, keepdim=True) if self.norm is None else self.norm
        head.update_rows(labels, rows - norms * vectors, min(share, 1.0))  # never past the vector
