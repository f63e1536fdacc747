"""A batch divided over processes, so that its gradients are those of one process.

Each process encodes its share of the texts. All get all vectors, compute the same loss over the whole batch, so every
text of it is a negative of every other, and each passes the gradient of its own vectors on to the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from longtail.nn.training.checkpoint import Checkpoint, CheckpointDir
from longtail.nn.training.gradient_cache import cached_backward
from longtail.nn.training.process_group import ProcessGroup


def shared_backward(
    pieces: Sequence[Callable[[], Tensor]],
    shape: tuple[Sequence[int], int, torch.device],
    loss_of: Callable[[list[Tensor]], Tensor],
    share: float,
    ranks: ProcessGroup,
    seed: int,
    cached: bool = False,
) -> Tensor:
    """Add share x the gradients of loss_of(vectors of all pieces). Gradients of what the pieces encode with must be
    summed over the processes afterwards; those of what `loss_of` uses besides are whole on every process.

    Args:
        pieces: each encodes one part of the batch, (texts, dimension); the same parts on every process.
        shape: texts of each piece, the dimension of the vectors, and their device.
        loss_of: the loss, given the vectors of all pieces.
        share: factor on the gradients.
        ranks: the processes.
        seed: of the random numbers of `loss_of`, which must be the same on every process.
        cached: whether to hold the activations of one piece at a time.

    Returns:
        The loss, a scalar without a graph.
    """
    sizes, dimension, device = shape
    own = [number for number in range(len(pieces)) if number % ranks.count == ranks.number]
    loss = [torch.zeros(())]

    def whole_loss(encoded: list[Tensor]) -> Tensor:
        given = dict(zip(own, encoded, strict=True))
        room = torch.zeros((sum(sizes), dimension), device=device)
        whole = [leaf.requires_grad_() for leaf in _exchanged(given, room, sizes, ranks)]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            found = loss_of(whole)
            torch.autograd.backward(found * share)
        loss[0] = found.detach()
        # The gradient of this sum at the own vectors is what the loss has there.
        parts = [
            (vectors * leaf.grad.to(vectors.dtype)).sum()
            for number, vectors in given.items()
            if (leaf := whole[number]).grad is not None
        ]
        return torch.stack(parts).sum() if parts else found.detach().clone().requires_grad_()

    mine = [pieces[number] for number in own]
    if cached:
        cached_backward(mine, whole_loss)
    else:
        torch.autograd.backward(whole_loss([piece() for piece in mine]))
    return loss[0]


def _exchanged(own: Mapping[int, Tensor], total: Tensor, sizes: Sequence[int], ranks: ProcessGroup) -> list[Tensor]:
    """The vectors of all pieces on every process, without their graphs. A sum with zeros keeps the bits."""
    parts = total.split(list(sizes))
    for number, vectors in own.items():
        parts[number].copy_(vectors.detach())
    return [part.clone() for part in ranks.sum(total).split(list(sizes))]


def begin_shared_epoch(seed: int, epoch: int, ranks: ProcessGroup) -> None:
    """Give each process random numbers of its own: they encode different texts, and must not share dropout masks.

    Args:
        seed: of the training.
        epoch: from 0.
        ranks: the processes.
    """
    if ranks.count > 1:
        torch.manual_seed(hash((seed, epoch, ranks.number)) & 0x7FFFFFFF)


@dataclass(frozen=True)
class SharedCheckpointDir(CheckpointDir):
    """The checkpoint of processes that all hold the same: the first writes it, at the end of each epoch, since their
    clocks differ. Any number of processes can resume from it."""

    ranks: ProcessGroup

    @classmethod
    def of(cls, place: CheckpointDir, ranks: ProcessGroup) -> CheckpointDir:
        """Make the directory of a training over several processes.

        Args:
            place: the directory of one process.
            ranks: the processes.

        Returns:
            The same folder on every process; `place` itself where there is only one.
        """
        if ranks.count == 1:
            return place
        return cls(ranks.made_by_first(lambda: place.folder), float("inf"), ranks)

    def write(self, checkpoint: Checkpoint, identity: Mapping[str, Any]) -> None:
        """See `CheckpointDir.write`."""
        if self.ranks.number == 0:
            super().write(checkpoint, identity)
        self.ranks.wait()
