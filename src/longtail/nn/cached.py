"""Contrastive gradients of batches larger than memory: encode twice, keep only the vectors in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def cached_backward(
    pieces: Sequence[Callable[[], Tensor]], loss_of: Callable[[list[Tensor]], Tensor], share: float = 1.0
) -> Tensor:
    """share x the gradients of loss_of([piece() for piece in pieces]), one piece's activations in memory at a time.

    The vectors of all pieces are computed without a graph, then the loss and its gradient at the vectors; then each
    piece is computed again, under the same chance, and takes its vectors' gradient back to the weights. Paper: Gao et
    al., Scaling deep contrastive learning batch size (2021). Costs one more pass forward.
    """
    vectors, chances = [], []
    with torch.no_grad():
        for piece in pieces:
            chances.append(_chance())
            vectors.append(piece().detach().requires_grad_())
    after = _chance()
    loss = loss_of(vectors)
    torch.autograd.backward(loss * share)
    for piece, vector, chance in zip(pieces, vectors, chances, strict=True):
        if vector.grad is not None:
            _restore(chance)
            torch.autograd.backward(piece(), vector.grad.to(vector.dtype))
    _restore(after)
    return loss.detach()


def _chance() -> tuple[Tensor, list[Tensor]]:
    on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), on_devices


def _restore(chance: tuple[Tensor, list[Tensor]]) -> None:
    torch.set_rng_state(chance[0])
    if chance[1]:
        torch.cuda.set_rng_state_all(chance[1])
