"""Terms on the rows of a head: each moves a few labels, drawn anew, after every step of the head."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from longtail.arrays import Floats, Longs, Matrix
from longtail.nn.heads.head import Head


@dataclass(eq=False)
class GramPenalty:
    """Pulls the products of classifier rows to how often labels stand together.

    With m drawn labels, W their rows and A their part of the statistics: weight / m · ‖W Wᵀ − A‖². By `cosines` the
    rows are taken at length 1, so that the penalty turns them and leaves their length alone.
    """

    together: Matrix  # csr float32 (labels, labels), symmetric, 1 on the diagonal
    weight: float
    some: int  # labels of a draw, m
    cosines: bool
    seed: int = 0

    _held: tuple[Tensor, Tensor] | None = field(default=None, init=False)  # indices and data, on the device

    def step(self, head: Head, rate: float) -> None:
        drawn = self.draw(np.random.default_rng([self.seed, head.done]))
        device = head.weight.device
        labels, wanted = torch.from_numpy(drawn).to(device), self.wanted(drawn, device)
        head.move(labels, gram_gradient(head.rows(labels), wanted, self.weight, self.cosines), rate)

    def draw(self, chance: np.random.Generator) -> Longs:
        """Half of them any labels, and for each one that stands with it: of all pairs hardly any do, and those that
        do are what the penalty has to say."""
        number = self.together.shape[0]
        if number <= self.some:
            return np.arange(number)
        first = chance.integers(number, size=self.some // 2)
        begins, ends = self.together.indptr[first].astype(np.int64), self.together.indptr[first + 1].astype(np.int64)
        places = begins + (chance.random(len(first)) * (ends - begins)).astype(np.int64)
        found: Longs = np.unique(np.concatenate([first, self.together.indices[places]])).astype(np.int64)
        return found

    def wanted(self, drawn: Longs, device: torch.device) -> Tensor:
        """The statistics of the drawn labels among each other: (m, m). What is large is looked up on the device, and
        nothing is waited for."""
        if self._held is None:
            matrix = self.together
            self._held = torch.from_numpy(matrix.indices).to(device), torch.from_numpy(matrix.data).to(device)
        indices, data = self._held
        begins = self.together.indptr[drawn].astype(np.int64)
        counts = self.together.indptr[drawn + 1].astype(np.int64) - begins
        total, size = int(counts.sum()), len(drawn)
        shifts = begins - np.cumsum(counts) + counts
        labels, lengths, moved = (torch.from_numpy(array).to(device) for array in (drawn, counts, shifts))
        owners = torch.arange(size, device=device).repeat_interleave(lengths, output_size=total)
        places = torch.arange(total, device=device) + moved[owners]
        others = indices[places].long()
        where = torch.searchsorted(labels, others).clamp(max=size - 1)
        inside = labels[where] == others
        found = torch.zeros(size * size + 1, device=device)  # the last place takes what was not drawn
        found[torch.where(inside, owners * size + where, size * size)] = data[places]
        return found[:-1].view(size, size)


def gram_gradient(rows: Tensor, wanted: Tensor, weight: float, cosines: bool) -> Tensor:
    """The gradient of weight / m · ‖W Wᵀ − A‖² by the rows W (m, dimension), or by rows that are brought to length 1
    first."""
    if not cosines:
        return (4 * weight / len(rows)) * ((rows @ rows.T - wanted) @ rows)
    lengths = rows.norm(dim=1, keepdim=True).clamp(min=1e-6)
    unit = rows / lengths
    gradient = (4 * weight / len(rows)) * ((unit @ unit.T - wanted) @ unit)
    along = (gradient * unit).sum(dim=1, keepdim=True)
    return torch.div(gradient - along * unit, lengths)


@dataclass(eq=False)
class TiePenalty:
    """Pulls each classifier row to a fixed vector: weight / 2 · ‖w − v‖² for every label.

    A step moves `some` labels, drawn anew, so much more than each is moved as if all were moved every time.
    """

    vectors: Floats  # (labels, dimension), of length 1
    weight: float
    some: int
    length: float | None  # of the vectors; none: as long as each row is now, so that it turns and keeps its length
    seed: int = 0
    _held: Tensor | None = field(default=None, init=False)

    def step(self, head: Head, rate: float) -> None:
        if self._held is None:
            kind = torch.float32 if head.weight.dtype == torch.float32 else torch.bfloat16
            self._held = torch.from_numpy(self.vectors).to(head.weight.device, kind)
            self.vectors = np.zeros((0, self.vectors.shape[1]), dtype=np.float32)  # it lies on the device now
        number = len(self._held)
        if number <= self.some:
            drawn = np.arange(number)
        else:
            drawn = np.sort(np.random.default_rng([self.seed, head.done]).choice(number, self.some, replace=False))
        labels = torch.from_numpy(drawn).to(head.weight.device)
        rows, vectors = head.rows(labels), normalize(self._held[labels].float(), dim=1)
        share = rate * self.weight * number / len(drawn)
        lengths = rows.norm(dim=1, keepdim=True) if self.length is None else self.length
        head.move(labels, rows - lengths * vectors, min(share, 1.0))  # never past the vector
