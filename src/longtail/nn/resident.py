"""Tokens that stay on the device: batches are cut there, so that no step waits for texts."""

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
from longtail.nn.layouts import Packed
from longtail.nn.tokens import Tokens

SHARE = 0.25  # of the free memory that tokens may take
ROUND = 256  # what a number of texts is rounded up to
Texts = tuple[Tensor, Tensor]  # token ids (rows, places) int64 and which places hold one, bool


@dataclass(frozen=True, eq=False)
class ResidentTokens:
    """The tokens of one side. They are copied to the device once where they fit there, else read batch by batch."""

    tokens: Tokens
    device: torch.device
    longest: int

    @cached_property
    def lengths(self) -> Longs:
        return np.minimum(self.tokens.lengths, self.longest)

    @cached_property
    def _held(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Token ids, where each text begins, and its length; None where they do not fit."""
        # Ids of a small vocabulary take half the room; torch can do little with numbers that have no sign.
        kind = np.dtype(np.int16 if np.asarray(self.tokens.ids).max(initial=0) < 1 << 15 else np.int32)
        if kind.itemsize * len(self.tokens.ids) + 16 * len(self.tokens) > SHARE * free_bytes(self.device):
            return None
        ids = torch.from_numpy(np.asarray(self.tokens.ids).astype(kind))
        begins, lengths = torch.from_numpy(self.tokens.offsets[:-1].copy()), torch.from_numpy(self.tokens.lengths)
        return ids.to(self.device), begins.to(self.device), lengths.to(self.device)

    def pieces(self, rows: Longs, number: int, chunk: int | None = None) -> tuple[list[Texts], Tensor | None]:
        """These texts in at most `number` pieces of like length, or in pieces of `chunk` texts, each padded to its own
        longest; and where each row of the batch stands among the pieces, None where they are in order."""
        order = np.argsort(self.lengths[rows], kind="stable")
        widths = -(-self.lengths[rows[order]] // 8)
        cuts = cut_by_width(widths, number) if chunk is None else range(chunk, len(rows), chunk)
        if len(cuts) == 0:
            return [self.batch(rows)], None
        parts = [self.batch(rows[part]) for part in np.split(order, cuts)]
        back = np.empty(len(rows), dtype=np.int64)
        back[order] = np.arange(len(rows))
        return parts, self._sent(back)

    def batch(self, rows: Longs) -> Texts:
        """Padded to a multiple of 8 places. The width is known on the host, so the device is not asked for it."""
        if self._held is None or int(self.tokens.lengths[rows].max(initial=1)) > self.longest:
            ids, mask = self.tokens.batch(rows, self.longest)
            return ids.to(self.device, non_blocking=True), mask.to(self.device, non_blocking=True)
        ids, begins, lengths = self._held
        places = torch.arange(self.bound(rows), device=self.device)
        picked = self._sent(rows)
        mask = places < lengths[picked, None]
        where = torch.where(mask, begins[picked, None] + places, 0)
        return torch.where(mask, ids[where].long(), self.tokens.pad), mask

    def held(self, rows: Longs) -> Tensor | None:
        """All token ids, where they lie on the device and none of these texts must be cut."""
        if self._held is None or int(self.tokens.lengths[rows].max(initial=1)) > self.longest:
            return None
        return self._held[0]

    def bound(self, rows: Longs) -> int:
        """No text of these is longer; a multiple of 8, so that few bounds occur."""
        return -(-int(self.lengths[rows].max(initial=1)) // 8) * 8

    def _sent(self, rows: Longs) -> Tensor:
        return sent(rows, self.device)


def packed(parts: Sequence[tuple[ResidentTokens, Longs]], rounded: bool = False) -> tuple[Tensor, Packed] | None:
    """The texts of several sides as one run, to be read in one go; None where some do not lie on the device.

    `rounded` rounds up the numbers of tokens and texts and the bound on their length, so that few shapes occur: texts
    that nobody asked for stand behind the others, the last of them empty.
    """
    helds = [held for side, rows in parts if (held := side.held(rows)) is not None]
    if len(helds) < len(parts):
        return None
    lengths = np.concatenate([side.lengths[rows] for side, rows in parts])
    begins = np.concatenate([side.tokens.offsets[rows] for side, rows in parts])
    tokens = [int(side.lengths[rows].sum()) for side, rows in parts]
    longest, total, filling = int(lengths.max(initial=1)), sum(tokens), 0
    bound = -(-longest // 8) * 8
    if rounded:
        bound = max(1 << (longest - 1).bit_length(), 16)
        filling = -total % max(1 << total.bit_length() >> 5, 256)
        more = np.full(-(-filling // longest), longest)
        more[-1:] -= -filling % longest
        lengths = np.concatenate([lengths, more, np.zeros(-(len(lengths) + len(more)) % ROUND, np.int64)])
    there = sent(np.concatenate([begins, lengths]), helds[0].device)
    layout = Packed.of(there[len(begins) :], total + filling, bound)
    where = there[layout.text_of[:total]] + layout.places[:total]
    ids = [held[some] for held, some in zip(helds, where.split(tokens), strict=True)]
    return torch.cat([*ids, ids[0].new_zeros(filling)]).long(), layout


def sent(numbers: Longs, device: torch.device) -> Tensor:
    """To the device without waiting for it."""
    tensor = torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.int64))
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def cut_by_width(widths: Longs, number: int) -> list[int]:
    """Where to cut rows in order of their width into at most `number` pieces, so that little is padded: of all widths,
    the one that costs least is joined to the next wider, again and again."""
    values, counts = np.unique(widths, return_counts=True)
    groups = list(zip(values.tolist(), counts.tolist(), strict=True))
    while len(groups) > number:
        costs = [(wider - width) * count for (width, count), (wider, _) in pairwise(groups)]
        least = costs.index(min(costs))
        (_, joined), (width, count) = groups[least : least + 2]
        groups[least : least + 2] = [(width, joined + count)]
    return list(accumulate(count for _, count in groups))[:-1]


def free_bytes(device: torch.device) -> int:
    """Memory that can still be taken on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_bytes()
