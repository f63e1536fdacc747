"""The residual blocks of the shallow nets, and their convolutions along the word vectors.

Attribute names of these modules are keys of saved models.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import _SpectralNorm

from longtail.nn.encoders.fast_dropout import drop
from longtail.nn.training.thread_invariant import matrix_vector, scaled


class SpectralNorm(_SpectralNorm):
    """torch's, but for the products and the sum in the gradient, whose bits would depend on the number of threads."""

    def forward(self, weight: Tensor) -> Tensor:
        """(out, width) to the same, with a largest singular value near 1."""
        if self.training:
            self._power_method(weight, self.n_power_iterations)
        left, right = self._u.clone(), self._v.clone()  # a second call before the backward pass changes both
        return scaled(torch.vdot(left, matrix_vector(weight, right)).reciprocal(), weight)

    @torch.no_grad()
    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            F.normalize(matrix_vector(weight_mat, self._v), dim=0, eps=self.eps, out=self._u)
            F.normalize(matrix_vector(weight_mat.T, self._u), dim=0, eps=self.eps, out=self._v)


def spectral_linear(width: int, out: int | None = None) -> nn.Linear:
    """Build a linear layer with spectral norm 1. A square one starts at the identity.

    Args:
        width: of the input.
        out: width of the output; None is `width`.

    Returns:
        The layer, parametrised as `torch.nn.utils.parametrizations.spectral_norm` does it.
    """
    layer = nn.Linear(width, out or width)
    if out in (None, width):
        nn.init.eye_(layer.weight)
    nn.init.zeros_(layer.bias)
    parametrize.register_parametrization(layer, "weight", SpectralNorm(layer.weight))
    return layer


def cast_linear(layer: nn.Linear, vectors: Tensor) -> Tensor:
    """Apply a linear layer in the precision of the vectors.

    Args:
        layer: in float32.
        vectors: (rows, width).

    Returns:
        (rows, out), of the type of the vectors.
    """
    return F.linear(vectors, layer.weight.to(vectors.dtype), layer.bias.to(vectors.dtype))


class ResidualBlock(nn.Module):
    """x + Dropout(ReLU(S x)): the block of Astec."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layer, self.dropout = spectral_linear(width), dropout

    def forward(self, vectors: Tensor) -> Tensor:
        """(rows, width) to the same."""
        return vectors + drop(F.relu(cast_linear(self.layer, vectors)), self.dropout, self.training)


class GatedBlock(nn.Module):
    """σ(a) ∘ S Dropout(ReLU(x)) + σ(b) ∘ x, with vectors a and b of initial value 0: the block of DECAF."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layer, self.dropout = spectral_linear(width), dropout
        self.moved, self.kept = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))  # a and b

    def forward(self, vectors: Tensor) -> Tensor:
        """(rows, width) to the same."""
        changed = cast_linear(self.layer, drop(F.relu(vectors), self.dropout, self.training))
        gates = [torch.sigmoid(gate).to(vectors.dtype) for gate in (self.moved, self.kept)]
        return gates[0] * changed + gates[1] * vectors


class ScaledBlock(nn.Module):
    """x + k S Dropout(ReLU(x)), with a number k of initial value 1: the block of ECLARE."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layer, self.dropout = spectral_linear(width), dropout
        self.share = nn.Parameter(torch.ones(()))  # k

    def forward(self, vectors: Tensor) -> Tensor:
        """(rows, width) to the same."""
        changed = cast_linear(self.layer, drop(F.relu(vectors), self.dropout, self.training))
        return vectors + scaled(self.share.to(vectors.dtype), changed)


class Attention(nn.Module):
    """Self-attention without softmax along one axis, which costs a product of small matrices. It is added with a share
    of initial value 0."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(channels // 8, 1)
        self.asks, self.answers = nn.Conv1d(channels, inner, 1), nn.Conv1d(channels, inner, 1)  # query, key
        self.says = nn.Conv1d(channels, channels, 1)  # value
        self.share = nn.Parameter(torch.zeros(()))

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, channels, length) to the same."""
        query, key, value = self.asks(rows), self.answers(rows), self.says(rows)
        # (value keyᵀ) query: the (length, length) matrix of all pairs never exists.
        found = torch.bmm(torch.bmm(value, key.transpose(1, 2)), query) / rows.shape[2]
        return rows + scaled(self.share, found)


class Inception(nn.Module):
    """Turns word vectors (rows, places, width) into features (rows, features).

    The places are channels, and convolutions slide along the dimensions of the word vectors: short texts have few
    places, and each dimension carries its own information. The caller applies dropout to the word vectors.
    """

    def __init__(self, places: int, width: int, channels: int, dropout: float) -> None:
        """Build the layers.

        Args:
            places: words of a text.
            width: of the word vectors.
            channels: of each convolution.
            dropout: before the last convolution.
        """
        super().__init__()
        self.dropout = dropout
        self.over_places, self.over_width = Attention(places), Attention(width)
        self.mixed = nn.Conv1d(places, channels, 1)
        self.wide = nn.ModuleList(
            nn.Conv1d(channels, channels, size, stride=4, padding=2 * (size // 4 - 1), padding_mode="circular")
            for size in (4, 8, 16)
        )
        self.norm = nn.BatchNorm1d(3 * channels)
        self.last = nn.Conv1d(3 * channels, channels, 16, stride=4)
        self.features = channels * ((width // 4 - 16) // 4 + 1)
        self.layer = nn.Linear(self.features, self.features)

    def forward(self, words: Tensor) -> Tensor:
        """(rows, places, width) to (rows, features)."""
        rows = self.over_width(self.over_places(words).transpose(1, 2)).transpose(1, 2)
        found = self._convolved(rows).flatten(1)
        return found + F.gelu(self.layer(found))

    def _convolved(self, rows: Tensor) -> Tensor:
        mixed = self.mixed(rows)
        wide = torch.cat([layer(mixed) for layer in self.wide], dim=1)
        wide = drop(self.norm(F.gelu(wide)), self.dropout, self.training)
        return F.gelu(self.last(wide))
