"""What reads texts in the frugal nets: weighted bags of word vectors with a block, and convolutions."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.errors import DataError
from longtail.nn.frugal.blocks import Added, Gated, Inception, Scaled
from longtail.nn.frugal.drop import drop
from longtail.nn.frugal.products import multiplied
from longtail.nn.frugal.rows import has_kernels
from longtail.nn.frugal.runs import Run
from longtail.nn.frugal.settings import NARROWEST

Block = Literal["none", "added", "gated", "scaled"]


def bag(run: Run, table: Tensor, turned: Run | None = None) -> Tensor:
    """The weighted sum of each text's word vectors: (texts, width). `turned` are the texts of each word, where somebody
    has them: the gradient of the words is then a sum of the same kind, and nothing is sorted."""
    if (turned or run.turned) is not None:
        found: Tensor = _Bagged.apply(table, run, turned or run.turned)  # type: ignore[no-untyped-call]
        return found
    return F.embedding_bag(run.words, table, run.begins, mode="sum", per_sample_weights=run.weights)


class _Bagged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, run: Run, turned: Run) -> Tensor:
        ctx.turned = turned
        return _summed(run, table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _summed(ctx.turned, gradients[0].contiguous()), None, None


def _summed(run: Run, table: Tensor) -> Tensor:
    """What stands behind the last text is not read: it may be much, and one text would be summed for a long time."""
    if table.is_cuda and has_kernels():
        from longtail.nn.kernels.bag import summed

        return summed(table, run.words, run.weights, run.begins, run.lengths)
    ends = torch.cat([run.begins, run.begins[-1:] + run.lengths[-1:]])
    weights = run.weights
    return F.embedding_bag(run.words, table, ends, mode="sum", per_sample_weights=weights, include_last_offset=True)


class Words(nn.Module):
    """Word vectors and their idf. The vectors are moved by the training itself, so they gather no gradient here."""

    idf: Tensor

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)  # so that a text's vector begins near length 1
        self.words.weight.requires_grad_(False)
        self.register_buffer("idf", torch.ones(vocabulary))

    @property
    def table(self) -> Tensor:
        return self.words.weight


class FrugalBag(Words):
    """A bag and its block. Astec's: ReLU, dropout, then x + S x; DECAF's and ECLARE's: block, ReLU, dropout."""

    def __init__(self, vocabulary: int, width: int, block: Block, dropout: float) -> None:
        super().__init__(vocabulary, width)
        self.width, self.dropout = width, dropout
        blocks = {"added": Added, "gated": Gated, "scaled": Scaled}
        self.early = block in ("none", "added")  # ReLU and dropout stand before the block
        self.block = None if block == "none" else blocks[block](width, dropout)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        weights = self.idf[ids]  # (texts, places)
        if mask is not None:
            weights = weights * mask
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-9)
        return self._blocked(F.embedding_bag(ids, self.table, mode="sum", per_sample_weights=weights))

    def read(self, run: Run, table: Tensor) -> Tensor:
        """Vectors of these texts by a table of word vectors that gathers a gradient: (texts, width)."""
        return self._blocked(bag(run, table))

    def coarse(self, run: Run, table: Tensor) -> Tensor:
        """Before the block: what a shortlist is found by."""
        return F.relu(bag(run, table))

    def _blocked(self, summed: Tensor) -> Tensor:
        if self.early:
            vectors = drop(F.relu(summed), self.dropout, self.training)
            return vectors if self.block is None else self.block(vectors)
        assert self.block is not None
        return drop(F.relu(self.block(summed)), self.dropout, self.training)


class FrugalInception(Words):
    """Convolutions along the vectors of a text's first words."""

    def __init__(self, vocabulary: int, vectors: int, places: int, channels: int, dropout: float, last: float) -> None:
        if vectors < NARROWEST or vectors % 4:
            raise DataError(
                f"convolutions slide along word vectors of at least {NARROWEST} numbers in steps of 4, got {vectors}"
            )
        super().__init__(vocabulary, vectors)
        self.places, self.last, self.kind = places, last, torch.float32  # the numbers that are multiplied in training
        self.network = Inception(places, vectors, channels, dropout)
        self.width = self.network.features

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        held = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        kept = ids[:, : self.places], held[:, : self.places]
        more = self.places - kept[0].shape[1]
        return self._read(F.pad(kept[0], (0, more)), F.pad(kept[1], (0, more)), self.table)

    def read(self, run: Run, table: Tensor) -> Tensor:
        """Vectors of these texts by a table of word vectors that gathers a gradient: (texts, features)."""
        places = torch.arange(self.places, device=run.words.device)
        mask = places < run.lengths[:, None]
        where = torch.where(mask, run.begins[:, None] + places, 0)
        if table.device.type == "cpu":
            return self._multiplied(run.words[where[mask]], mask, table)
        return self._read(run.words[where], mask, table)

    def _read(self, ids: Tensor, mask: Tensor, table: Tensor) -> Tensor:
        """A place that holds no word is known by the mask, whatever number stands there."""
        vectors = F.embedding(ids, table) * mask[:, :, None].to(table.dtype)
        found = self.network(drop(vectors, self.network.dropout, self.training))
        return drop(found, self.last, self.training)

    def _multiplied(self, words: Tensor, mask: Tensor, table: Tensor) -> Tensor:
        """The same of the words that the mask marks: on a processor, empty places are neither looked up nor dropped."""
        vectors = drop(F.embedding(words, table).to(self.kind), self.network.dropout, self.training)
        rows = vectors.new_zeros((mask.numel(), vectors.shape[1])).index_copy(
            0, mask.flatten().nonzero()[:, 0], vectors
        )
        found = multiplied(self.network, rows.view(*mask.shape, -1)).float()
        return drop(found, self.last, self.training)
