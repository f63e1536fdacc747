"""Tokens that stay on the device: batches are made there, so that no training step waits for texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Longs
from longtail.memory import available_bytes
from longtail.nn.encoders.layouts import Packed
from longtail.nn.encoders.tokens import Tokens
from longtail.nn.training.to_device import to_device

SHARE = 0.25  # of the free memory that tokens may take
ROUND = 256  # the number of texts is rounded up to a multiple of this
Texts = tuple[Tensor, Tensor]  # token ids (rows, places) int64; mask (rows, places) bool, which places hold a token


@dataclass(frozen=True, eq=False)
class DeviceTokens:
    """The tokens of one side, documents or labels. They are copied to the device once where they fit there, else batch
    by batch."""

    tokens: Tokens
    device: torch.device
    max_tokens: int

    @cached_property
    def lengths(self) -> Longs:
        """Tokens of each text after cutting: (texts,)."""
        return np.minimum(self.tokens.lengths, self.max_tokens)

    @cached_property
    def _held(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """On the device: token ids, where each text begins, and its length. None where they do not fit."""
        # Ids of a small vocabulary take half the memory. Signed, because torch can do little with unsigned integers.
        kind = np.dtype(np.int16 if np.asarray(self.tokens.ids).max(initial=0) < 1 << 15 else np.int32)
        if kind.itemsize * len(self.tokens.ids) + 16 * len(self.tokens) > SHARE * free_bytes(self.device):
            return None
        ids = torch.from_numpy(np.asarray(self.tokens.ids).astype(kind))
        begins, lengths = torch.from_numpy(self.tokens.offsets[:-1].copy()), torch.from_numpy(self.tokens.lengths)
        return ids.to(self.device), begins.to(self.device), lengths.to(self.device)

    def pieces(self, rows: Longs, number: int, chunk: int | None = None) -> tuple[list[Texts], Tensor | None]:
        """Make several padded batches of texts, each padded to its own longest text.

        Args:
            rows: (rows,) the texts.
            number: At most so many batches, each of texts of similar length.
            chunk: Texts in each batch, instead of `number`.

        Returns:
            The batches; and (rows,) where each of the rows is among the texts of all batches, None where the order is
            kept.
        """
        order = np.argsort(self.lengths[rows], kind="stable")
        widths = -(-self.lengths[rows[order]] // 8)
        cuts = cut_by_width(widths, number) if chunk is None else range(chunk, len(rows), chunk)
        if len(cuts) == 0:
            return [self.batch(rows)], None
        parts = [self.batch(rows[part]) for part in np.split(order, cuts)]
        back = np.empty(len(rows), dtype=np.int64)
        back[order] = np.arange(len(rows))
        return parts, to_device(back, self.device)

    def batch(self, rows: Longs) -> Texts:
        """Make one padded batch of texts, on the device.

        Args:
            rows: (rows,) the texts.

        Returns:
            Token ids and mask (rows, places); places are a multiple of 8, computed on the host without waiting for the
            device.
        """
        if self._held is None or int(self.tokens.lengths[rows].max(initial=1)) > self.max_tokens:
            ids, mask = self.tokens.batch(rows, self.max_tokens)
            return ids.to(self.device, non_blocking=True), mask.to(self.device, non_blocking=True)
        ids, begins, lengths = self._held
        places = torch.arange(self.bound(rows), device=self.device)
        chosen = to_device(rows, self.device, np.int64)
        mask = places < lengths[chosen, None]
        where = torch.where(mask, begins[chosen, None] + places, 0)
        return torch.where(mask, ids[where].long(), self.tokens.pad), mask

    def held(self, rows: Longs) -> Tensor | None:
        """Find all token ids on the device, to read texts from where they lie.

        Args:
            rows: (rows,) the texts that will be read.

        Returns:
            (tokens,); None where the tokens do not fit on the device, or where one of these texts must be cut.
        """
        if self._held is None or int(self.tokens.lengths[rows].max(initial=1)) > self.max_tokens:
            return None
        return self._held[0]

    def bound(self, rows: Longs) -> int:
        """Bound the lengths of texts.

        Args:
            rows: (rows,) the texts.

        Returns:
            A multiple of 8, so that few different bounds occur; at least the tokens of the longest text.
        """
        return -(-int(self.lengths[rows].max(initial=1)) // 8) * 8


def packed(parts: Sequence[tuple[DeviceTokens, Longs]], rounded: bool = False) -> tuple[Tensor, Packed] | None:
    """Join texts of several sides without padding, to be encoded at once.

    Args:
        parts: The tokens of each side, and (rows,) which of its texts.
        rounded: Round up the number of tokens, the number of texts and the bound of their lengths, so that few shapes
            occur. Padding texts then follow the others, the last of them empty.

    Returns:
        Token ids (tokens,) int64 and where each text lies; None where some tokens are not on the device.
    """
    ids_of_sides = [held for side, rows in parts if (held := side.held(rows)) is not None]
    if len(ids_of_sides) < len(parts):
        return None
    lengths = np.concatenate([side.lengths[rows] for side, rows in parts])
    begins = np.concatenate([side.tokens.offsets[rows] for side, rows in parts])
    tokens = [int(side.lengths[rows].sum()) for side, rows in parts]
    longest, total, padding = int(lengths.max(initial=1)), sum(tokens), 0
    bound = -(-longest // 8) * 8
    if rounded:
        bound = max(1 << (longest - 1).bit_length(), 16)
        padding = -total % max(1 << total.bit_length() >> 5, 256)
        more = np.full(-(-padding // longest), longest)
        more[-1:] -= -padding % longest
        lengths = np.concatenate([lengths, more, np.zeros(-(len(lengths) + len(more)) % ROUND, np.int64)])
    on_device = to_device(np.concatenate([begins, lengths]), ids_of_sides[0].device, np.int64)
    layout = Packed.of(on_device[len(begins) :], total + padding, bound)
    where = on_device[layout.text_of[:total]] + layout.places[:total]
    ids = [held[chosen] for held, chosen in zip(ids_of_sides, where.split(tokens), strict=True)]
    return torch.cat([*ids, ids[0].new_zeros(padding)]).long(), layout


def cut_by_width(widths: Longs, number: int) -> list[int]:
    """Divide rows into groups so that little is padded: the width whose padding to the next wider one costs least is
    joined to it, again and again.

    Args:
        widths: (rows,) in increasing order.
        number: At most so many groups.

    Returns:
        Where each group but the first begins.
    """
    values, counts = np.unique(widths, return_counts=True)
    groups = list(zip(values.tolist(), counts.tolist(), strict=True))
    while len(groups) > number:
        costs = [(wider - width) * count for (width, count), (wider, _) in pairwise(groups)]
        cheapest = costs.index(min(costs))
        (_, joined), (width, count) = groups[cheapest : cheapest + 2]
        groups[cheapest : cheapest + 2] = [(width, joined + count)]
    return list(accumulate(count for _, count in groups))[:-1]


def free_bytes(device: torch.device) -> int:
    """Measure the free memory of a device.

    Args:
        device: A GPU, or the CPU.

    Returns:
        Bytes.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_bytes()
