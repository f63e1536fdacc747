"""What stands for a label besides a vector of its own: its text, and the texts of labels near it in the graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.nn.frugal.blocks import Gated, Scaled, steady_linear, through
from longtail.nn.frugal.drop import drop


class TextAndOwn(nn.Module):
    """σ(α) ∘ u + σ(β) ∘ block(text): the classifier of DECAF. α and β are of each dimension and begin at 0."""

    def __init__(self, width: int, dropout: float, out: int | None = None) -> None:
        super().__init__()
        self.lift = None if out in (None, width) else nn.Linear(width, out or width)
        self.block = Gated(out or width, dropout)
        self.own, self.text = (nn.Parameter(torch.zeros(out or width)) for _ in range(2))

    def forward(self, own: Tensor, bags: Sequence[Tensor]) -> Tensor:
        """Vectors (labels, out) from the labels' own and the bags (labels, width) of their texts."""
        (text,) = bags if self.lift is None else (through(self.lift, vectors) for vectors in bags)
        shares = [torch.sigmoid(share).to(own.dtype) for share in (self.own, self.text)]
        found: Tensor = shares[0] * own + shares[1] * self.block(text)
        return found


class ThreeWays(nn.Module):
    """The label's text, the texts around it and its own vector, each label with shares of its own: ECLARE.

    The shares are a softmax over three numbers, which a layer reads off all three vectors, each seen through a layer of
    its own. Nothing stands between the two, so their products are made first: (3, width) instead of (width, width).
    """

    def __init__(self, width: int, dropout: float, out: int | None = None) -> None:
        super().__init__()
        out = out or width
        self.dropout = dropout
        self.lift = None if out == width else nn.Linear(width, out)
        self.blocks = nn.ModuleList(Scaled(out, dropout) for _ in range(2))
        self.looks = nn.ModuleList(steady_linear(out) for _ in range(3))
        self.shares = steady_linear(3 * out, 3)

    def forward(self, own: Tensor, bags: Sequence[Tensor]) -> Tensor:
        lifted = bags if self.lift is None else [through(self.lift, vectors) for vectors in bags]
        ways = [*(block(vectors) for block, vectors in zip(self.blocks, lifted, strict=True)), own]
        seen: Tensor = self.shares.bias
        for way, look, read in zip(ways, self.looks, self.shares.weight.chunk(3, dim=1), strict=True):
            assert isinstance(look, nn.Linear)
            part = F.relu(drop(way, self.dropout, self.training))
            seen = seen + F.linear(part, (read @ look.weight).to(way.dtype)).float() + read @ look.bias
        shares = torch.softmax(seen, dim=1).to(own.dtype)  # (labels, 3)
        mixed: Tensor = ways[0] * shares[:, :1]
        for number, way in enumerate(ways[1:], 1):
            mixed = torch.addcmul(mixed, way, shares[:, number : number + 1])
        return mixed
