"""How the tokens of several texts lie in memory. Only attention and pooling depend on it.

`Padded` is a rectangle, texts x places, with a mask. `Packed` is the tokens of all texts one after another, without
padding. `Grouped` is several rectangles one after another, each of texts of similar length: on a CPU, attention with a
mask over texts of different lengths costs more than the little padding that is left here, and matrix products run over
all tokens at once. None of them waits for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.nn.encoders.encoder_names import POOLINGS as POOLINGS


@dataclass(frozen=True, eq=False)
class Padded:
    """A rectangle (texts, places)."""

    mask: Tensor | None  # (texts, places) which places hold a token; None: all
    bias: Tensor | None  # (texts, 1, 1, places) 0 or -inf, added to attention scores; broadcast over heads and queries

    @classmethod
    def of(cls, mask: Tensor | None, precision: torch.dtype) -> Padded:
        """Make the layout of a mask (texts, places), with the attention bias in this precision."""
        if mask is None:
            return cls(None, None)
        return cls(mask, torch.zeros_like(mask, dtype=precision).masked_fill_(~mask, -torch.inf)[:, None, None, :])

    def attend(self, split: Tensor, dropout: float) -> Tensor:
        """Attend within each text.

        Args:
            split: Queries, keys and values (texts, places, 3, heads, size).
            dropout: Of the attention probabilities.

        Returns:
            (texts, places, heads, size).
        """
        queries, keys, values = split.permute(2, 0, 3, 1, 4).unbind(0)  # each (texts, heads, places, size)
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=self.bias, dropout_p=dropout)
        return mixed.transpose(1, 2)

    def pool(self, states: Tensor, how: str) -> Tensor:
        """Pool the states of each text.

        Args:
            states: (texts, places, width).
            how: One of POOLINGS.

        Returns:
            (texts, width) float32.
        """
        if how == "cls":
            return states[:, 0].float()
        mask = self.mask
        if how == "max":
            return (states if mask is None else states.masked_fill(~mask[..., None], -torch.inf)).amax(1).float()
        if mask is None:
            return states.float().mean(1)
        weights = mask.to(torch.float32)
        return (states.float() * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp_min(1)


@dataclass(frozen=True, eq=False)
class Packed:
    """A run (tokens,): the tokens of the first text, then those of the second, and so on."""

    lengths: Tensor  # (texts,) int64, each at least 1
    ends: Tensor  # (texts + 1,) int32: 0, and where each text ends
    text_of: Tensor  # (tokens,) the text of each token
    places: Tensor  # (tokens,) its place in that text
    longest: int  # an upper bound of the lengths

    @classmethod
    def of(cls, lengths: Tensor, tokens: int, longest: int) -> Packed:
        """Make the layout of texts.

        Args:
            lengths: (texts,) int64, on the device.
            tokens: The sum of the lengths: passed in, so that the host need not wait for the device.
            longest: An upper bound of the lengths.

        Returns:
            The layout.
        """
        texts = torch.arange(len(lengths), device=lengths.device)
        ends = F.pad(lengths.cumsum(0), (1, 0))
        text_of = torch.repeat_interleave(texts, lengths, output_size=tokens)
        places = torch.arange(tokens, device=lengths.device) - ends[text_of]
        return cls(lengths, ends.to(torch.int32), text_of, places, longest)

    @property
    def mask(self) -> Tensor:
        """Which places hold a token in the padded rectangle: (texts, longest) bool."""
        return torch.arange(self.longest, device=self.lengths.device) < self.lengths[:, None]

    def pad(self, values: Tensor) -> Tensor:
        """Pad values (tokens, ...) with zeros to (texts, longest, ...)."""
        flat = values.new_zeros(len(self.lengths) * self.longest, *values.shape[1:])
        filled = flat.index_copy(0, self.text_of * self.longest + self.places, values)
        return filled.view(len(self.lengths), self.longest, *values.shape[1:])

    def attend(self, split: Tensor, dropout: float) -> Tensor:
        """Attend within each text.

        Args:
            split: Queries, keys and values (tokens, 3, heads, size).
            dropout: Of the attention probabilities.

        Returns:
            (tokens, heads, size).
        """
        if split.is_cuda and split.dtype in (torch.bfloat16, torch.float16) and split.shape[-1] % 8 == 0:
            queries, keys, values = split.unbind(1)
            # The flash kernel takes texts of different lengths; scaled_dot_product_attention does not expose that.
            mixed: Tensor = torch.ops.aten._flash_attention_forward(
                *(queries, keys, values, self.ends, self.ends, self.longest, self.longest, dropout, False, False)
            )[0]
            return mixed
        padded = Padded.of(self.mask, split.dtype).attend(self.pad(split), dropout)
        return padded.flatten(0, 1)[self.text_of * self.longest + self.places]

    def pool(self, states: Tensor, how: str) -> Tensor:
        """Pool the states of each text.

        Args:
            states: (tokens, width).
            how: One of POOLINGS.

        Returns:
            (texts, width) float32.
        """
        if how == "cls":
            return states[self.ends[:-1].long()].float()
        return torch.segment_reduce(states.float(), how, lengths=self.lengths, unsafe=True)


@dataclass(frozen=True, eq=False)
class Grouped:
    """A run (tokens,), padding included: the rectangle of the first group, text by text, then of the second, ..."""

    masks: tuple[Tensor, ...]  # of each group: (texts, places) which places hold a token; every text has at least one
    places: Tensor  # (tokens,) the place of each token in its text
    longest: int  # an upper bound of the texts' lengths

    @classmethod
    def of(cls, masks: Sequence[Tensor]) -> Grouped:
        """Make the layout of the masks (texts, places) of the groups."""
        places = torch.cat([torch.arange(mask.shape[1], device=mask.device).repeat(len(mask)) for mask in masks])
        return cls(tuple(masks), places, max(mask.shape[1] for mask in masks))

    def attend(self, split: Tensor, dropout: float) -> Tensor:
        """See `Packed.attend`."""
        mixed = [
            Padded.of(_partial(mask), split.dtype)
            .attend(part.view(*mask.shape, *part.shape[1:]), dropout)
            .flatten(0, 1)
            for mask, part in zip(self.masks, self._parts(split), strict=True)
        ]
        return torch.cat(mixed)

    def pool(self, states: Tensor, how: str) -> Tensor:
        """See `Packed.pool`."""
        pooled = [
            Padded(_partial(mask), None).pool(part.unflatten(0, mask.shape), how)
            for mask, part in zip(self.masks, self._parts(states), strict=True)
        ]
        return torch.cat(pooled)

    def _parts(self, values: Tensor) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = values.split([mask.numel() for mask in self.masks])
        return parts


def _partial(mask: Tensor) -> Tensor | None:
    """The mask, or None where all places hold a token: attention without a mask is faster."""
    return None if bool(mask.all()) else mask
