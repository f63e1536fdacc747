"""The transformer that BERT, RoBERTa and DistilBERT share, in few and large operations.

All three normalise after each block; for a single text they differ only in the names of weights and in the rows of the
position table that they use. One projection computes queries, keys and values; the embedding of segment 0 is added to
the positions. Under autocast everything between the embeddings and the pooled vector is in the lower precision.

It is written twice: here in plain torch, and in `fused_transformer.py` for training on a GPU, with forward and backward
written out.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.errors import DataError
from longtail.nn.encoders import fused_transformer as fused
from longtail.nn.encoders.layouts import Grouped, Packed, Padded
from longtail.nn.encoders.transformer_layer import Layer, Shape, normed


class Transformer(nn.Module):
    """Token ids to one vector for each text."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.width = shape.width * max(len(shape.taps), 1)
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.places, shape.width)
        self.norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)  # the initialisation of BERT
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode a padded batch.

        Args:
            ids: (texts, places) int64.
            mask: (texts, places) bool, which places hold a token; None: all.

        Returns:
            (texts, width) float32.
        """
        places = ids.shape[1]
        # Padding to a multiple may go beyond the position table; such places are masked.
        positions = torch.arange(places, device=ids.device).clamp_(max=self.shape.places - 1)
        return self._encode(ids, positions, Padded.of(mask, self._precision(ids.device.type)), places)

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute the last layer's states of a padded batch.

        Args:
            ids: (texts, places) int64.
            mask: (texts, places) bool, which places hold a token.

        Returns:
            (texts, places, width).
        """
        positions = torch.arange(ids.shape[1], device=ids.device).clamp_(max=self.shape.places - 1)
        lower = self._precision(ids.device.type)
        layout = Padded.of(mask, lower)
        with torch.autocast(ids.device.type, enabled=False):
            return self._states(ids, positions, layout, ids.shape[1], lower)[self.shape.layers]

    def packed(self, ids: Tensor, layout: Packed | Grouped) -> Tensor:
        """Encode texts that lie one after another.

        Args:
            ids: (tokens,) int64.
            layout: Where each text lies.

        Returns:
            (texts, width) float32.
        """
        lower = self._precision(ids.device.type)
        # In inference plain torch is as fast, and compiles nothing. torch.compile cannot trace the question.
        training = torch.compiler.is_compiling() or not torch.is_inference_mode_enabled()
        if training and isinstance(layout, Packed) and fused.can_fuse(self.shape, ids.device, lower, layout.longest):
            return fused.encode(self, ids, layout, lower)
        return self._encode(ids, layout.places, layout, layout.longest)

    def _encode(self, ids: Tensor, positions: Tensor, layout: Padded | Packed | Grouped, longest: int) -> Tensor:
        lower = self._precision(ids.device.type)
        with torch.autocast(ids.device.type, enabled=False):
            found = self._states(ids, positions, layout, longest, lower)
            if not self.shape.taps:
                return layout.pool(found[self.shape.layers], self.shape.pooling)
            return torch.cat([layout.pool(found[layer], self.shape.pooling) for layer in self.shape.taps], dim=-1)

    def _states(
        self, ids: Tensor, positions: Tensor, layout: Padded | Packed | Grouped, longest: int, lower: torch.dtype
    ) -> dict[int, Tensor]:
        """The states after the layers that are read, by number from 1."""
        if longest > -(-self.shape.places // 8) * 8:
            raise DataError(
                f"the encoder reads at most {self.shape.places} tokens, got {longest}; set a smaller max_tokens"
            )
        kept, found = self.shape.taps or (self.shape.layers,), {}
        states = F.embedding(ids, self.words.weight) + F.embedding(positions, self.positions.weight)
        states = F.dropout(normed(states, self.norm), self.shape.dropout, self.training).to(lower)
        for number, layer in enumerate(self.layers, start=1):
            states = layer(states, layout)
            if number in kept:
                found[number] = states
        return found

    def _precision(self, device: str) -> torch.dtype:
        stored = next(self.layers.parameters()).dtype
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else stored
