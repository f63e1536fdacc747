"""The encoder that BERT, RoBERTa and DistilBERT share, in few and large operations.

All three normalise after each block and differ, for a single text, only in names and in which rows of the position
table they use. One projection makes queries, keys and values; the table of segment 0 is part of the positions.
Under autocast everything between the embeddings and the pooled vector is computed and kept in the lower precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.errors import DataError
from longtail.nn import fused
from longtail.nn.layouts import POOLINGS, Grouped, Packed, Padded

ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "relu": "relu"}


@dataclass(frozen=True)
class Shape:
    """Sizes and constants of a transformer."""

    vocabulary: int
    width: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536  # width between the two halves of a feed-forward block
    places: int = 512  # the longest text
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"  # of ACTIVATIONS
    epsilon: float = 1e-12  # of the normalisations
    pooling: str = "mean"  # of POOLINGS

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise DataError(f"a transformer's width is a multiple of its heads, got {self.width} and {self.heads}")
        if self.pooling not in POOLINGS:
            raise DataError(f"pooling is one of {', '.join(POOLINGS)}, got {self.pooling!r}")

    @property
    def form(self) -> str:
        """Of the activation: relu, or GELU's approximation as torch names it."""
        return ACTIVATIONS[self.activation]


class Transformer(nn.Module):
    """Token ids to one vector a text."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.width = shape.width
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.places, shape.width)
        self.norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)  # as BERT begins
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """(texts, places) ids, and which of them count (None: all), to (texts, width) float32."""
        places = ids.shape[1]
        # Padding to a multiple may reach beyond the table; what it reads there is masked.
        positions = torch.arange(places, device=ids.device).clamp_(max=self.shape.places - 1)
        return self._encode(ids, positions, Padded.of(mask, self._precision(ids.device.type)), places)

    def packed(self, ids: Tensor, layout: Packed | Grouped) -> Tensor:
        """(tokens,) ids of texts that follow one another to (texts, width) float32."""
        lower = self._precision(ids.device.type)
        # Else plain torch is as fast, and compiles nothing. A graph that is being traced cannot ask.
        learns = torch.compiler.is_compiling() or not torch.is_inference_mode_enabled()
        if learns and isinstance(layout, Packed) and fused.can_fuse(self.shape, ids.device, lower, layout.longest):
            return fused.encode(self, ids, layout, lower)
        return self._encode(ids, layout.places, layout, layout.longest)

    def _encode(self, ids: Tensor, positions: Tensor, layout: Padded | Packed | Grouped, longest: int) -> Tensor:
        if longest > -(-self.shape.places // 8) * 8:
            raise DataError(f"the encoder reads at most {self.shape.places} tokens, got {longest}; cut texts earlier")
        lower = self._precision(ids.device.type)
        with torch.autocast(ids.device.type, enabled=False):
            states = F.embedding(ids, self.words.weight) + F.embedding(positions, self.positions.weight)
            states = F.dropout(_normed(states, self.norm), self.shape.dropout, self.training).to(lower)
            for layer in self.layers:
                states = layer(states, layout)
            return layout.pool(states, self.shape.pooling)

    def _precision(self, device: str) -> torch.dtype:
        stored = next(self.layers.parameters()).dtype
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else stored


class Layer(nn.Module):
    """Attention, then a feed-forward block; each is added to what came in and the sum is normalised."""

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
        shape = self.shape
        split = _linear(states, self.attend).unflatten(-1, (3, shape.heads, shape.width // shape.heads))
        mixed = layout.attend(split, shape.attention_dropout if self.training else 0.0).flatten(-2)
        mixed = F.dropout(_linear(mixed, self.attended), shape.dropout, self.training)
        states = _normed(states + mixed, self.attended_norm)
        inner = _activate(_linear(states, self.widen), shape.form)
        outer = F.dropout(_linear(inner, self.narrow), shape.dropout, self.training)
        return _normed(states + outer, self.narrow_norm)


def _linear(states: Tensor, layer: nn.Linear) -> Tensor:
    return F.linear(states, layer.weight.to(states.dtype), layer.bias.to(states.dtype))


def _normed(states: Tensor, layer: nn.LayerNorm) -> Tensor:
    weight, bias = layer.weight.to(states.dtype), layer.bias.to(states.dtype)
    return F.layer_norm(states, layer.normalized_shape, weight, bias, layer.eps)


def _activate(states: Tensor, form: str) -> Tensor:
    return F.relu(states) if form == "relu" else F.gelu(states, approximate=form)
