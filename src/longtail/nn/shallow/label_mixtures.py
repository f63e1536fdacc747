"""Classifiers mixed from a free vector, the label's text, and the texts of its neighbours in the label graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.nn.encoders.fast_dropout import drop
from longtail.nn.encoders.residual_blocks import GatedBlock, ScaledBlock, cast_linear, spectral_linear


class TextAndOwn(nn.Module):
    """σ(α) ∘ u + σ(β) ∘ block(text): the classifier of DECAF. α and β are vectors with initial value 0."""

    def __init__(self, width: int, dropout: float, out: int | None = None) -> None:
        """Build the layers.

        Args:
            width: of the bags of word vectors.
            dropout: in the block.
            out: dimension of the classifiers; None is `width`.
        """
        super().__init__()
        self.lift = None if out in (None, width) else nn.Linear(width, out or width)
        self.block = GatedBlock(out or width, dropout)
        self.own, self.text = (nn.Parameter(torch.zeros(out or width)) for _ in range(2))

    def forward(self, own: Tensor, bags: Sequence[Tensor]) -> Tensor:
        """Mix the classifiers.

        Args:
            own: (labels, out) free vectors.
            bags: one bag (labels, width) of the label texts.

        Returns:
            (labels, out).
        """
        (text,) = bags if self.lift is None else (cast_linear(self.lift, vectors) for vectors in bags)
        shares = [torch.sigmoid(share).to(own.dtype) for share in (self.own, self.text)]
        found: Tensor = shares[0] * own + shares[1] * self.block(text)
        return found


class ThreeWays(nn.Module):
    """Mixes the label's text, the texts of its neighbours and a free vector, with shares per label: ECLARE.

    The shares are a softmax over three logits. A layer computes them from the three vectors, each of which first passes
    a layer of its own. The two layers are linear with nothing between them, so their weights are multiplied first:
    (3, width) instead of (width, width).
    """

    def __init__(self, width: int, dropout: float, out: int | None = None) -> None:
        """Build the layers.

        Args:
            width: of the bags of word vectors.
            dropout: in the blocks and before the layers of the shares.
            out: dimension of the classifiers; None is `width`.
        """
        super().__init__()
        out = out or width
        self.dropout = dropout
        self.lift = None if out == width else nn.Linear(width, out)
        self.blocks = nn.ModuleList(ScaledBlock(out, dropout) for _ in range(2))
        # The names `looks` and `shares` are keys of checkpoints.
        self.looks = nn.ModuleList(spectral_linear(out) for _ in range(3))
        self.shares = spectral_linear(3 * out, 3)

    def forward(self, own: Tensor, bags: Sequence[Tensor]) -> Tensor:
        """Mix the classifiers.

        Args:
            own: (labels, out) free vectors.
            bags: two bags (labels, width), of the label's text and of its neighbours' texts.

        Returns:
            (labels, out).
        """
        lifted = bags if self.lift is None else [cast_linear(self.lift, vectors) for vectors in bags]
        ways = [*(block(vectors) for block, vectors in zip(self.blocks, lifted, strict=True)), own]
        logits: Tensor = self.shares.bias
        for way, layer, weight in zip(ways, self.looks, self.shares.weight.chunk(3, dim=1), strict=True):
            assert isinstance(layer, nn.Linear)
            part = F.relu(drop(way, self.dropout, self.training))
            logits = logits + F.linear(part, (weight @ layer.weight).to(way.dtype)).float() + weight @ layer.bias
        shares = torch.softmax(logits, dim=1).to(own.dtype)  # (labels, 3)
        mixed: Tensor = ways[0] * shares[:, :1]
        for number, way in enumerate(ways[1:], 1):
            mixed = torch.addcmul(mixed, way, shares[:, number : number + 1])
        return mixed
