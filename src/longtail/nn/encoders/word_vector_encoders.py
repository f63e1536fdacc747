"""The encoders of the shallow nets: weighted bags of word vectors with a block, and convolutions."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.errors import DataError
from longtail.nn.encoders.convolution_products import multiplied
from longtail.nn.encoders.encoder_names import MIN_CONVOLUTION_DIMENSION
from longtail.nn.encoders.fast_dropout import drop
from longtail.nn.encoders.residual_blocks import GatedBlock, Inception, ResidualBlock, ScaledBlock
from longtail.nn.encoders.word_runs import Run
from longtail.nn.extra import has_kernels

Block = Literal["none", "added", "gated", "scaled"]


def bag(run: Run, table: Tensor, transposed: Run | None = None) -> Tensor:
    """Compute the weighted sum of each text's word vectors.

    Args:
        run: the texts.
        table: (words, width) word vectors.
        transposed: the texts of each word, where known. The gradient of the table is then a bag too, without a sort.

    Returns:
        (texts, width).
    """
    if (transposed or run.transposed) is not None:
        found: Tensor = _Bag.apply(table, run, transposed or run.transposed)  # type: ignore[no-untyped-call]
        return found
    return F.embedding_bag(run.words, table, run.starts, mode="sum", per_sample_weights=run.weights)


class _Bag(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, run: Run, transposed: Run) -> Tensor:
        ctx.transposed = transposed
        return _summed(run, table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _summed(ctx.transposed, gradients[0].contiguous()), None, None


def _summed(run: Run, table: Tensor) -> Tensor:
    """The bags. Padding behind the last text is not read: it may be long, and would count as part of that text."""
    if table.is_cuda and has_kernels():
        from longtail.nn.kernels.weighted_bag import summed

        return summed(table, run.words, run.weights, run.starts, run.lengths)
    ends = torch.cat([run.starts, run.starts[-1:] + run.lengths[-1:]])
    weights = run.weights
    return F.embedding_bag(run.words, table, ends, mode="sum", per_sample_weights=weights, include_last_offset=True)


class WordVectors(nn.Module):
    """Word vectors and their idf. The training task updates the vectors itself, so they require no gradient."""

    idf: Tensor

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)  # so that the initial vector of a text has a norm near 1
        self.words.weight.requires_grad_(False)
        self.register_buffer("idf", torch.ones(vocabulary))

    @property
    def table(self) -> Tensor:
        """The word vectors (words, width)."""
        return self.words.weight


class BagEncoder(WordVectors):
    """A bag and its block. Astec: ReLU, dropout, then x + S x. DECAF and ECLARE: block, ReLU, dropout."""

    def __init__(self, vocabulary: int, width: int, block: Block, dropout: float) -> None:
        """Build the encoder.

        Args:
            vocabulary: number of words.
            width: of the word vectors.
            block: `added` (Astec), `gated` (DECAF), `scaled` (ECLARE) or `none`.
            dropout: on the vectors and in the block.
        """
        super().__init__(vocabulary, width)
        self.width, self.dropout = width, dropout
        blocks = {"added": ResidualBlock, "gated": GatedBlock, "scaled": ScaledBlock}
        self.early = block in ("none", "added")  # ReLU and dropout come before the block
        self.block = None if block == "none" else blocks[block](width, dropout)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded texts.

        Args:
            ids: (texts, places) words.
            mask: (texts, places), False for padding.

        Returns:
            (texts, width).
        """
        weights = self.idf[ids]  # (texts, places)
        if mask is not None:
            weights = weights * mask
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-9)
        return self._blocked(F.embedding_bag(ids, self.table, mode="sum", per_sample_weights=weights))

    def read(self, run: Run, table: Tensor) -> Tensor:
        """Encode texts in training.

        Args:
            run: the texts.
            table: (words, width) word vectors; collects their gradient.

        Returns:
            (texts, width).
        """
        return self._blocked(bag(run, table))

    def coarse(self, run: Run, table: Tensor) -> Tensor:
        """Encode texts without the block, as shortlists need them.

        Args:
            run: the texts.
            table: (words, width) word vectors.

        Returns:
            (texts, width).
        """
        return F.relu(bag(run, table))

    def _blocked(self, summed: Tensor) -> Tensor:
        if self.early:
            vectors = drop(F.relu(summed), self.dropout, self.training)
            return vectors if self.block is None else self.block(vectors)
        assert self.block is not None
        return drop(F.relu(self.block(summed)), self.dropout, self.training)


class InceptionEncoder(WordVectors):
    """Convolutions along the vectors of a text's first words."""

    def __init__(self, vocabulary: int, vectors: int, places: int, channels: int, dropout: float, last: float) -> None:
        """Build the encoder.

        Args:
            vocabulary: number of words.
            vectors: width of the word vectors.
            places: words of a text that count.
            channels: of each convolution.
            dropout: on the word vectors and inside the network.
            last: dropout on the features.

        Raises:
            DataError: the word vectors are too narrow, or their width is no multiple of 4.
        """
        if vectors < MIN_CONVOLUTION_DIMENSION or vectors % 4:
            raise DataError(
                f"convolutions slide along word vectors of at least {MIN_CONVOLUTION_DIMENSION} numbers in steps of 4, "
                f"got {vectors}"
            )
        super().__init__(vocabulary, vectors)
        self.places, self.last, self.kind = places, last, torch.float32  # kind: precision of products in training
        self.network = Inception(places, vectors, channels, dropout)
        self.width = self.network.features

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded texts.

        Args:
            ids: (texts, places) words.
            mask: (texts, places), False for padding.

        Returns:
            (texts, features).
        """
        filled = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        kept = ids[:, : self.places], filled[:, : self.places]
        more = self.places - kept[0].shape[1]
        return self._read(F.pad(kept[0], (0, more)), F.pad(kept[1], (0, more)), self.table)

    def read(self, run: Run, table: Tensor) -> Tensor:
        """Encode texts in training.

        Args:
            run: the texts.
            table: (words, width) word vectors; collects their gradient.

        Returns:
            (texts, features).
        """
        places = torch.arange(self.places, device=run.words.device)
        mask = places < run.lengths[:, None]
        where = torch.where(mask, run.starts[:, None] + places, 0)
        if table.device.type == "cpu":
            return self._read_by_products(run.words[where[mask]], mask, table)
        return self._read(run.words[where], mask, table)

    def _read(self, ids: Tensor, mask: Tensor, table: Tensor) -> Tensor:
        """The vectors; padding is known by the mask, whatever word number stands there."""
        vectors = F.embedding(ids, table) * mask[:, :, None].to(table.dtype)
        found = self.network(drop(vectors, self.network.dropout, self.training))
        return drop(found, self.last, self.training)

    def _read_by_products(self, words: Tensor, mask: Tensor, table: Tensor) -> Tensor:
        """The same on a CPU, from the unpadded words: padding is neither looked up nor dropped out."""
        vectors = drop(F.embedding(words, table).to(self.kind), self.network.dropout, self.training)
        rows = vectors.new_zeros((mask.numel(), vectors.shape[1])).index_copy(
            0, mask.flatten().nonzero()[:, 0], vectors
        )
        found = multiplied(self.network, rows.view(*mask.shape, -1)).float()
        return drop(found, self.last, self.training)
