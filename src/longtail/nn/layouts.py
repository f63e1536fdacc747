"""How the tokens of several texts lie in memory, for the two things that must know: attention and pooling.

`Padded` is a rectangle, texts x places, with a mask. `Packed` is one run of tokens without padding, text after text;
everything but attention and pooling then works on real tokens only. `Grouped` is several rectangles in one run, each of
texts of like length: on a host, attention over a mixed rectangle costs more than the padding that this leaves. None
asks a GPU anything, so none waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

POOLINGS = ("mean", "cls", "max")


@dataclass(frozen=True, eq=False)
class Padded:
    """(texts, places)."""

    mask: Tensor | None  # which places hold a token; None: all
    bias: Tensor | None  # (texts, 1, 1, places) 0 or -inf: broadcast over heads and queries

    @classmethod
    def of(cls, mask: Tensor | None, precision: torch.dtype) -> Padded:
        if mask is None:
            return cls(None, None)
        return cls(mask, torch.zeros_like(mask, dtype=precision).masked_fill_(~mask, -torch.inf)[:, None, None, :])

    def attend(self, split: Tensor, dropout: float) -> Tensor:
        """Queries, keys and values (texts, places, 3, heads, size) to (texts, places, heads, size)."""
        queries, keys, values = split.permute(2, 0, 3, 1, 4).unbind(0)  # each (texts, heads, places, size)
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=self.bias, dropout_p=dropout)
        return mixed.transpose(1, 2)

    def pool(self, states: Tensor, how: str) -> Tensor:
        """(texts, places, width) to (texts, width), in float32."""
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
    """(tokens,): the tokens of the first text, then those of the second, and so on."""

    lengths: Tensor  # (texts,) int64, each at least 1
    ends: Tensor  # (texts + 1,) int32: 0, and where each text ends
    text_of: Tensor  # (tokens,) the text of each token
    places: Tensor  # (tokens,) its place in that text
    longest: int  # no text is longer

    @classmethod
    def of(cls, lengths: Tensor, tokens: int, longest: int) -> Packed:
        """`tokens` is the sum of the lengths, told so that the device need not be asked."""
        texts = torch.arange(len(lengths), device=lengths.device)
        ends = F.pad(lengths.cumsum(0), (1, 0))
        text_of = torch.repeat_interleave(texts, lengths, output_size=tokens)
        places = torch.arange(tokens, device=lengths.device) - ends[text_of]
        return cls(lengths, ends.to(torch.int32), text_of, places, longest)

    @property
    def mask(self) -> Tensor:
        """Which places of the padded rectangle hold a token: (texts, longest)."""
        return torch.arange(self.longest, device=self.lengths.device) < self.lengths[:, None]

    def pad(self, values: Tensor) -> Tensor:
        """(tokens, ...) to (texts, longest, ...), zeros in the padding."""
        flat = values.new_zeros(len(self.lengths) * self.longest, *values.shape[1:])
        filled = flat.index_copy(0, self.text_of * self.longest + self.places, values)
        return filled.view(len(self.lengths), self.longest, *values.shape[1:])

    def attend(self, split: Tensor, dropout: float) -> Tensor:
        """Queries, keys and values (tokens, 3, heads, size) to (tokens, heads, size)."""
        if split.is_cuda and split.dtype in (torch.bfloat16, torch.float16) and split.shape[-1] % 8 == 0:
            queries, keys, values = split.unbind(1)
            # The kernel below scaled_dot_product_attention for texts of several lengths, which that has no name for.
            mixed: Tensor = torch.ops.aten._flash_attention_forward(
                *(queries, keys, values, self.ends, self.ends, self.longest, self.longest, dropout, False, False)
            )[0]
            return mixed
        padded = Padded.of(self.mask, split.dtype).attend(self.pad(split), dropout)
        return padded.flatten(0, 1)[self.text_of * self.longest + self.places]

    def pool(self, states: Tensor, how: str) -> Tensor:
        """(tokens, width) to (texts, width), in float32."""
        if how == "cls":
            return states[self.ends[:-1].long()].float()
        return torch.segment_reduce(states.float(), how, lengths=self.lengths, unsafe=True)


@dataclass(frozen=True, eq=False)
class Grouped:
    """(tokens,): the rectangle of the first group, row by row, then that of the second, and so on."""

    masks: tuple[Tensor, ...]  # of each group: (texts, places) which hold a token; every row of a group has one
    places: Tensor  # (tokens,) the place of each token in its text
    longest: int  # no text is longer

    @classmethod
    def of(cls, masks: Sequence[Tensor]) -> Grouped:
        places = torch.cat([torch.arange(mask.shape[1], device=mask.device).repeat(len(mask)) for mask in masks])
        return cls(tuple(masks), places, max(mask.shape[1] for mask in masks))

    def attend(self, split: Tensor, dropout: float) -> Tensor:
        """Queries, keys and values (tokens, 3, heads, size) to (tokens, heads, size)."""
        mixed = [
            Padded.of(_partial(mask), split.dtype)
            .attend(part.view(*mask.shape, *part.shape[1:]), dropout)
            .flatten(0, 1)
            for mask, part in zip(self.masks, self._parts(split), strict=True)
        ]
        return torch.cat(mixed)

    def pool(self, states: Tensor, how: str) -> Tensor:
        """(tokens, width) to (texts, width), in float32."""
        pooled = [
            Padded(_partial(mask), None).pool(part.unflatten(0, mask.shape), how)
            for mask, part in zip(self.masks, self._parts(states), strict=True)
        ]
        return torch.cat(pooled)

    def _parts(self, values: Tensor) -> Sequence[Tensor]:
        parts: Sequence[Tensor] = values.split([mask.numel() for mask in self.masks])
        return parts


def _partial(mask: Tensor) -> Tensor | None:
    """The mask, or None where it leaves nothing out, which is cheaper to attend over."""
    return None if bool(mask.all()) else mask
