"""The residual blocks of the frugal nets, and their convolutions along the word vectors."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from longtail.nn.frugal.drop import drop


def steady_linear(width: int, out: int | None = None) -> nn.Linear:
    """A linear layer that lengthens nothing (its largest singular value is 1), begun at the identity."""
    layer = nn.Linear(width, out or width)
    if out in (None, width):
        nn.init.eye_(layer.weight)
    nn.init.zeros_(layer.bias)
    steady = spectral_norm(layer)
    assert isinstance(steady, nn.Linear)
    return steady


def through(layer: nn.Linear, vectors: Tensor) -> Tensor:
    """A linear layer in the precision of the vectors."""
    return F.linear(vectors, layer.weight.to(vectors.dtype), layer.bias.to(vectors.dtype))


class Added(nn.Module):
    """x + Dropout(ReLU(S x)): the block of Astec."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layer, self.dropout = steady_linear(width), dropout

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors + drop(F.relu(through(self.layer, vectors)), self.dropout, self.training)


class Gated(nn.Module):
    """σ(a) ∘ S Dropout(ReLU(x)) + σ(b) ∘ x, with a and b of each dimension begun at 0: the block of DECAF."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layer, self.dropout = steady_linear(width), dropout
        self.moved, self.kept = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))

    def forward(self, vectors: Tensor) -> Tensor:
        moved = through(self.layer, drop(F.relu(vectors), self.dropout, self.training))
        shares = [torch.sigmoid(share).to(vectors.dtype) for share in (self.moved, self.kept)]
        return shares[0] * moved + shares[1] * vectors


class Scaled(nn.Module):
    """x + k S Dropout(ReLU(x)), with one number k begun at 1: the block of ECLARE."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.layer, self.dropout = steady_linear(width), dropout
        self.share = nn.Parameter(torch.ones(()))

    def forward(self, vectors: Tensor) -> Tensor:
        moved = through(self.layer, drop(F.relu(vectors), self.dropout, self.training))
        return vectors + self.share.to(vectors.dtype) * moved


class Attention(nn.Module):
    """Self-attention without softmax along one axis, so its cost is that of a product of small matrices; the share
    with which it is added begins at 0."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(channels // 8, 1)
        self.asks, self.answers = nn.Conv1d(channels, inner, 1), nn.Conv1d(channels, inner, 1)
        self.says = nn.Conv1d(channels, channels, 1)
        self.share = nn.Parameter(torch.zeros(()))

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, channels, length) to the same."""
        asked, answered, said = self.asks(rows), self.answers(rows), self.says(rows)
        # (said answeredᵀ) asked: the (length, length) matrix of all pairs never exists.
        found = torch.bmm(torch.bmm(said, answered.transpose(1, 2)), asked) / rows.shape[2]
        return rows + self.share * found


class Inception(nn.Module):
    """Word vectors (rows, places, width) to vectors (rows, features): the places are channels, and convolutions slide
    along the word vectors, since short texts have few places and each dimension says something of its own. Dropout on
    the word vectors is the caller's."""

    def __init__(self, places: int, width: int, channels: int, dropout: float) -> None:
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
        rows = self.over_width(self.over_places(words).transpose(1, 2)).transpose(1, 2)
        found = self._convolved(rows).flatten(1)
        return found + F.gelu(self.layer(found))

    def _convolved(self, rows: Tensor) -> Tensor:
        mixed = self.mixed(rows)
        wide = torch.cat([layer(mixed) for layer in self.wide], dim=1)
        wide = drop(self.norm(F.gelu(wide)), self.dropout, self.training)
        return F.gelu(self.last(wide))
