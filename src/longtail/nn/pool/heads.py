"""Two heads on one encoder: a vector to compare with label texts, and one to compare with classifiers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from longtail.arrays import Floats
from longtail.nn.pool.product import product

MANY = 1 << 16  # vectors that are read at a time


class Heads(nn.Module):
    """normalise(dropout(tanh(linear))) for the dual encoder, dropout(linear) for the classifiers.

    Both read the encoder's vector at length 1 and begin as the identity, or as its first `numbers` of them. Numbers of
    a vector of length 1 are small, and tanh hardly bends small ones: at the beginning both heads are the encoder as it
    was given.
    """

    def __init__(
        self, dimension: int, dropout: float = 0.1, classifiers: bool = True, numbers: int | None = None
    ) -> None:
        super().__init__()
        self.texts = nn.Linear(dimension, numbers or dimension)
        self.rows = nn.Linear(dimension, numbers or dimension) if classifiers else None
        self.dropout = nn.Dropout(dropout)
        for layer in (self.texts, self.rows):
            if layer is not None:
                nn.init.eye_(layer.weight)
                nn.init.zeros_(layer.bias)

    def encoder_side(self, encoded: Tensor, lower: bool = False) -> Tensor:
        """Of length 1: what documents and label texts are compared by. `lower` multiplies in bf16."""
        return normalize(self.dropout(torch.tanh(_read(self.texts, encoded, lower))), dim=1)

    def classifier_side(self, encoded: Tensor, lower: bool = False) -> Tensor:
        """Of any length: what classifiers score."""
        assert self.rows is not None
        found: Tensor = self.dropout(_read(self.rows, encoded, lower))
        return found

    def applied(self, encoded: Floats, side: str) -> Floats:
        """Many vectors (rows, dimension), of length 1, without dropout; side "encoder" or "classifiers"."""
        device = self.texts.weight.device
        pieces = [self.applied_there(torch.from_numpy(encoded[low : low + MANY]).to(device, copy=True), side).cpu()
                  for low in range(0, len(encoded), MANY)]  # fmt: skip
        found: Floats = torch.cat(pieces).numpy() if pieces else encoded[:, : self.texts.out_features]
        return found

    @torch.inference_mode()
    def applied_there(self, encoded: Tensor, side: str) -> Tensor:
        """The same of vectors that lie beside the heads, in their place where the numbers are as many."""
        training = self.training
        self.eval()
        work = self.encoder_side if side == "encoder" else self.classifier_side
        width = self.texts.out_features
        found = encoded if encoded.shape[1] == width else encoded.new_empty((len(encoded), width))
        for low in range(0, len(encoded), MANY):
            here = slice(low, low + MANY)
            found[here] = normalize(work(encoded[here]), dim=1)
        self.train(training)
        return found


def _read(layer: nn.Linear, encoded: Tensor, lower: bool) -> Tensor:
    return product(normalize(encoded.float(), dim=1), layer.weight, lower) + layer.bias
