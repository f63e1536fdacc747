"""Sizes of a transformer, and one layer of it in plain torch: attention, then a feed-forward block."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.errors import DataError
from longtail.nn.encoders.encoder_names import ACTIVATIONS as ACTIVATIONS
from longtail.nn.encoders.layouts import POOLINGS, Grouped, Packed, Padded
from longtail.nn.training.thread_invariant import layer_norm


@dataclass(frozen=True)
class Shape:
    """Sizes and constants of a transformer."""

    vocabulary: int
    width: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536  # width of the hidden layer of a feed-forward block
    places: int = 512  # tokens of the longest text
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"  # one of ACTIVATIONS
    epsilon: float = 1e-12  # of the layer norms
    pooling: str = "mean"  # one of POOLINGS
    taps: tuple[int, ...] = ()  # layers, from 1, whose pooled states stand side by side in the vector; none: the last

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise DataError(
                f"a transformer's width must be a multiple of its heads, got width {self.width} and {self.heads} heads"
            )
        if self.pooling not in POOLINGS:
            raise DataError(f"pooling must be one of {', '.join(POOLINGS)}, got {self.pooling!r}")
        if any(not 1 <= layer <= self.layers for layer in self.taps):
            raise DataError(f"taps are layers from 1 to {self.layers}, got {list(self.taps)}")

    def settings(self) -> dict[str, Any]:
        """The sizes as plain JSON; `taps` only where there are any."""
        found = asdict(self)
        return found | {"taps": list(self.taps)} if self.taps else {k: v for k, v in found.items() if k != "taps"}

    @property
    def form(self) -> str:
        """The form of the activation: relu, or torch's name of the GELU approximation."""
        return ACTIVATIONS[self.activation]


class Layer(nn.Module):
    """Attention, then a feed-forward block; each adds to its input and normalises the sum."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.attend = nn.Linear(shape.width, 3 * shape.width)  # queries, keys, values
        self.attended = nn.Linear(shape.width, shape.width)
        self.attended_norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.widen = nn.Linear(shape.width, shape.inner)
        self.narrow = nn.Linear(shape.inner, shape.width)
        self.narrow_norm = nn.LayerNorm(shape.width, shape.epsilon)

    def forward(self, states: Tensor, layout: Padded | Packed | Grouped) -> Tensor:
        """States (..., width) to states of the same shape."""
        shape = self.shape
        split = _linear(states, self.attend).unflatten(-1, (3, shape.heads, shape.width // shape.heads))
        mixed = layout.attend(split, shape.attention_dropout if self.training else 0.0).flatten(-2)
        mixed = F.dropout(_linear(mixed, self.attended), shape.dropout, self.training)
        states = normed(states + mixed, self.attended_norm)
        inner = _activate(_linear(states, self.widen), shape.form)
        outer = F.dropout(_linear(inner, self.narrow), shape.dropout, self.training)
        return normed(states + outer, self.narrow_norm)


def _linear(states: Tensor, layer: nn.Linear) -> Tensor:
    return F.linear(states, layer.weight.to(states.dtype), layer.bias.to(states.dtype))


def normed(states: Tensor, layer: nn.LayerNorm) -> Tensor:
    """Normalise states in their own precision.

    Args:
        states: (..., width).
        layer: with its weights in any precision.

    Returns:
        (..., width) of the type of `states`.
    """
    weight, bias = layer.weight.to(states.dtype), layer.bias.to(states.dtype)
    return layer_norm(states, weight, bias, layer.eps)


def _activate(states: Tensor, form: str) -> Tensor:
    return F.relu(states) if form == "relu" else F.gelu(states, approximate=form)
