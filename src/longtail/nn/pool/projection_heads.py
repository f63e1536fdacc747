"""Two heads on one encoder: one vector to compare with label texts, and one to compare with classifiers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from longtail.arrays import Floats
from longtail.nn.pool.mixed_precision_product import product

CHUNK = 1 << 16  # vectors projected at once


class Heads(nn.Module):
    """normalise(dropout(tanh(linear))) for the dual encoder, dropout(linear) for the classifiers.

    Both read the encoder's unit vector and are initialised with the identity, or with its first `head_dimension` rows.
    The numbers of a unit vector are small, and tanh hardly changes small numbers: at first both heads give the
    encoder's own vector.
    """

    def __init__(
        self, dimension: int, dropout: float = 0.1, classifiers: bool = True, head_dimension: int | None = None
    ) -> None:
        """Heads at the identity.

        Args:
            dimension: of the encoder's vectors.
            dropout: after each linear layer.
            classifiers: whether there is a head for classifiers.
            head_dimension: of the heads' vectors; None: the encoder's.
        """
        super().__init__()
        self.texts = nn.Linear(dimension, head_dimension or dimension)
        self.rows = nn.Linear(dimension, head_dimension or dimension) if classifiers else None
        self.dropout = nn.Dropout(dropout)
        for layer in (self.texts, self.rows):
            if layer is not None:
                nn.init.eye_(layer.weight)
                nn.init.zeros_(layer.bias)

    def encoder_side(self, encoded: Tensor, bf16: bool = False) -> Tensor:
        """The vectors that documents and label texts are compared by.

        Args:
            encoded: (texts, dimension) from the encoder.
            bf16: whether products are of bf16 factors.

        Returns:
            (texts, head dimension) unit vectors.
        """
        return normalize(self.dropout(torch.tanh(_linear(self.texts, encoded, bf16))), dim=1)

    def classifier_side(self, encoded: Tensor, bf16: bool = False) -> Tensor:
        """The vectors that classifiers score.

        Args:
            encoded: (texts, dimension) from the encoder.
            bf16: whether products are of bf16 factors.

        Returns:
            (texts, head dimension), not normalised.
        """
        assert self.rows is not None
        found: Tensor = self.dropout(_linear(self.rows, encoded, bf16))
        return found

    def project(self, encoded: Floats, side: str) -> Floats:
        """Unit vectors of many texts, without dropout.

        Args:
            encoded: (texts, dimension) from the encoder.
            side: "encoder" or "classifiers".

        Returns:
            (texts, head dimension).
        """
        device = self.texts.weight.device
        pieces = [
            self.project_on_device(torch.from_numpy(encoded[low : low + CHUNK]).to(device, copy=True), side).cpu()
            for low in range(0, len(encoded), CHUNK)
        ]
        found: Floats = torch.cat(pieces).numpy() if pieces else encoded[:, : self.texts.out_features]
        return found

    @torch.inference_mode()
    def project_on_device(self, encoded: Tensor, side: str) -> Tensor:
        """The same as `project` for vectors on the heads' device.

        Args:
            encoded: (texts, dimension); it is overwritten where the head dimension is the same.
            side: "encoder" or "classifiers".

        Returns:
            (texts, head dimension).
        """
        training = self.training
        self.eval()
        work = self.encoder_side if side == "encoder" else self.classifier_side
        width = self.texts.out_features
        found = encoded if encoded.shape[1] == width else encoded.new_empty((len(encoded), width))
        for low in range(0, len(encoded), CHUNK):
            here = slice(low, low + CHUNK)
            found[here] = normalize(work(encoded[here]), dim=1)
        self.train(training)
        return found


def _linear(layer: nn.Linear, encoded: Tensor, bf16: bool) -> Tensor:
    return product(normalize(encoded.float(), dim=1), layer.weight, bf16) + layer.bias
