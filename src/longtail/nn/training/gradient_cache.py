"""Gradients of contrastive batches that do not fit in memory: encode twice and keep only the vectors in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_RngState = tuple[Tensor, list[Tensor]]  # of the CPU, and of each GPU


def cached_backward(
    pieces: Sequence[Callable[[], Tensor]], loss_of: Callable[[list[Tensor]], Tensor], share: float = 1.0
) -> Tensor:
    """Add share x the gradients of loss_of([piece() for piece in pieces]), with one piece's activations in memory.

    First the vectors of all pieces are computed without a graph, then the loss and its gradients at the vectors. Then
    each piece is computed again, from the same random state, and passes the gradient of its vectors on to the weights.
    Paper: Gao et al., Scaling deep contrastive learning batch size (2021). It costs one more forward pass.

    Args:
        pieces: Each encodes one part of the batch: vectors (texts, dimension).
        loss_of: The loss, given the vectors of all pieces.
        share: Factor on the gradients.

    Returns:
        The loss, a scalar without a graph.
    """
    vectors, states = [], []
    with torch.no_grad():
        for piece in pieces:
            states.append(_rng_state())
            vectors.append(piece().detach().requires_grad_())
    after = _rng_state()
    loss = loss_of(vectors)
    torch.autograd.backward(loss * share)
    for piece, vector, state in zip(pieces, vectors, states, strict=True):
        if vector.grad is not None:
            _restore(state)
            torch.autograd.backward(piece(), vector.grad.to(vector.dtype))
    _restore(after)
    return loss.detach()


def _rng_state() -> _RngState:
    of_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), of_devices


def _restore(state: _RngState) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])
