"""Encoders over word vectors with random initial weights: a weighted bag of words, and a recurrent network."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from longtail.arrays import Floats
from longtail.errors import DataError
from longtail.nn.encoders.layouts import Padded
from longtail.nn.encoders.tokens import Tokens


class Bag(nn.Module):
    """The sum of a text's token vectors, weighted by idf; the weights of a text have unit norm.

    With `residual`, a learned linear layer with ReLU is added to the sum.
    """

    idf: Tensor

    def __init__(self, vocabulary: int, width: int, residual: bool, dropout: float) -> None:
        super().__init__()
        self.width, self.dropout = width, dropout
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)  # so that a text's vector has a norm near 1 at first
        self.register_buffer("idf", torch.ones(vocabulary))
        self.residual = nn.Linear(width, width) if residual else None

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Token ids and mask (texts, places) to vectors (texts, width) float32."""
        weights = self.idf[ids]  # (texts, places)
        if mask is not None:
            weights = weights * mask
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-9)
        table = self.words.weight
        summed = F.embedding_bag(ids, table, mode="sum", per_sample_weights=weights.to(table.dtype)).float()
        summed = F.dropout(summed, self.dropout, self.training)
        return summed if self.residual is None else summed + F.relu(self.residual(summed)).float()

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Token ids and mask (texts, places) to word vectors (texts, places, width)."""
        return F.dropout(self.words(ids), self.dropout, self.training)


class Recurrent(nn.Module):
    """A bidirectional gated recurrent network (GRU); a text's vector is the mean of its states."""

    def __init__(self, vocabulary: int, width: int, dropout: float) -> None:
        super().__init__()
        if width % 2:
            raise DataError(f"the encoder gru reads in two directions and needs an even dimension, got {width}")
        self.width, self.dropout = width, dropout
        self.words = nn.Embedding(vocabulary, width)
        self.network = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Token ids and mask (texts, places) to vectors (texts, width) float32."""
        vectors = F.dropout(self.words(ids), self.dropout, self.training)
        if mask is None:
            return Padded(None, None).pool(self.network(vectors)[0], "mean")
        return Padded(mask, None).pool(self._read(vectors, mask), "mean")

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Token ids and mask (texts, places) to states (texts, places, width)."""
        return self._read(F.dropout(self.words(ids), self.dropout, self.training), mask)

    def _read(self, vectors: Tensor, mask: Tensor) -> Tensor:
        # Packed, so that the backward direction starts at a text's last token and not in the padding.
        packed = pack_padded_sequence(vectors, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.network(packed)[0], batch_first=True, total_length=mask.shape[1])[0]


def inverse_frequency(tokens: Tokens, vocabulary: int) -> Floats:
    """Compute the inverse document frequency of each token: ln((1 + texts) / (1 + texts with the token)) + 1.

    Args:
        tokens: The texts.
        vocabulary: How many tokens there are.

    Returns:
        (vocabulary,) float32.
    """
    text_of = np.repeat(np.arange(len(tokens), dtype=np.int64), tokens.lengths)
    seen = np.unique(text_of * vocabulary + tokens.ids) % vocabulary
    holders = np.bincount(seen, minlength=vocabulary)
    return np.asarray(np.log((1 + len(tokens)) / (1 + holders)) + 1, dtype=np.float32)
