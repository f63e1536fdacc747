"""Attention within each of many short texts that lie one after another without padding.

A short text fits into the registers of a core as a whole, so the forward pass stores nothing for the backward pass: the
attention probabilities are computed again there, and every gradient is written once, by one program, in the same order
every time.

A text costs the square of its block size. Labels of four words lie beside documents of forty, so texts are grouped by
the block size they fit in, instead of all taking that of the longest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from longtail.nn.kernels.dropout_mask import kept

BLOCKS = (16, 32, 64, 128)  # block sizes in tokens
GROUP, PARTS = 4, 512  # fewest texts for a program, most programs for a head: each program sums over its texts
FEW = 1024  # texts; below, launching a kernel for each block size takes longer than using the largest for all


@dataclass(frozen=True, eq=False)
class ByBlock:
    """The texts of a batch, grouped by the block size they fit in."""

    ends: Tensor  # (texts + 1,) int32: 0, and where each text ends
    order: Tensor  # (texts,) the texts, those of the smallest block size first
    bounds: Tensor  # (blocks + 1,) where the texts of each block size begin in `order`
    blocks: tuple[int, ...]  # the block sizes in use

    @classmethod
    def of(cls, ends: Tensor, longest: int) -> ByBlock:
        """Group texts, on the device and without waiting for it; a CUDA graph that replays it groups the new texts.

        Args:
            ends: (texts + 1,) int32: 0, and where each text ends.
            longest: An upper bound of the lengths.

        Returns:
            The groups.
        """
        blocks, texts = BLOCKS[: sum(block < longest for block in BLOCKS) + 1], len(ends) - 1
        if texts < FEW or len(blocks) == 1:
            blocks = blocks[-1:]
            numbers = torch.arange(max(texts, 2), device=ends.device)
            return cls(ends, numbers[:texts], numbers[:2] * texts, blocks)
        lengths, kinds = ends.diff(), torch.zeros(texts, dtype=torch.uint8, device=ends.device)
        for block in blocks[:-1]:
            kinds += lengths > block
        kinds, order = kinds.sort(stable=True)
        wanted = torch.arange(len(blocks) + 1, dtype=torch.uint8, device=ends.device)
        return cls(ends, order, torch.searchsorted(kinds, wanted), blocks)

    @property
    def parts(self) -> int:
        """Programs for each head and block size."""
        return min(-(-len(self.order) // GROUP), PARTS)


@triton.jit
def _probabilities(queries, keys, inside, scale):
    """Softmax over the keys of the text: (BLOCK, BLOCK) float32, 0 outside the text, also for an empty text."""
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
    scores = tl.where(inside[None, :], scores, float("-inf"))
    probabilities = tl.exp(scores - tl.max(scores, 1)[:, None])
    return tl.where(inside[:, None], probabilities / tl.sum(probabilities, 1)[:, None], 0.0)


@triton.jit
def _kept(seed, text, head, HEADS: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr, DROPOUT: tl.constexpr):
    """The dropout mask, the same for every block size; `WHOLE` is the largest block size of the batch."""
    places = tl.arange(0, BLOCK)
    return kept(seed, ((text * HEADS + head) * WHOLE + places[:, None]) * WHOLE + places[None, :], DROPOUT)


@triton.jit(do_not_specialize=["seed"])
def _forward(
    split, ends, order, bounds, mixed, seed, scale,
    KIND: tl.constexpr, HEADS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
    DROPOUT: tl.constexpr,
):  # fmt: skip
    part, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS  # heads of a text are neighbours in memory
    numbers = head * SIZE + tl.arange(0, SIZE)[None, :]
    last = tl.load(bounds + KIND + 1).to(tl.int32)
    for place in range(tl.load(bounds + KIND).to(tl.int32) + part, last, tl.num_programs(0) // HEADS):
        text = tl.load(order + place).to(tl.int32)
        begin = tl.load(ends + text).to(tl.int64)
        inside = tl.arange(0, BLOCK) < tl.load(ends + text + 1) - begin
        rows = begin + tl.arange(0, BLOCK)[:, None]
        at = split + rows * (3 * HEADS * SIZE) + numbers
        queries = tl.load(at, inside[:, None], 0.0)
        keys = tl.load(at + HEADS * SIZE, inside[:, None], 0.0)
        values = tl.load(at + 2 * HEADS * SIZE, inside[:, None], 0.0)
        probabilities = _probabilities(queries, keys, inside, scale)
        if DROPOUT > 0:
            probabilities *= _kept(tl.load(seed), text, head, HEADS, BLOCK, WHOLE, DROPOUT)
        found = tl.dot(probabilities.to(values.dtype), values, input_precision="ieee")
        tl.store(mixed + rows * (HEADS * SIZE) + numbers, found.to(mixed.dtype.element_ty), inside[:, None])


@triton.jit(do_not_specialize=["seed"])
def _backward(
    split, ends, order, bounds, to_mixed, to_split, sums, seed, scale,
    KIND: tl.constexpr, HEADS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr,
    DROPOUT: tl.constexpr,
):  # fmt: skip
    part, head, parts = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS, tl.num_programs(0) // HEADS
    numbers = head * SIZE + tl.arange(0, SIZE)[None, :]
    width: tl.constexpr = HEADS * SIZE
    query_sum = tl.zeros((SIZE,), tl.float32)
    key_sum = tl.zeros((SIZE,), tl.float32)
    value_sum = tl.zeros((SIZE,), tl.float32)
    last = tl.load(bounds + KIND + 1).to(tl.int32)
    for place in range(tl.load(bounds + KIND).to(tl.int32) + part, last, parts):
        text = tl.load(order + place).to(tl.int32)
        begin = tl.load(ends + text).to(tl.int64)
        inside = tl.arange(0, BLOCK) < tl.load(ends + text + 1) - begin
        rows = begin + tl.arange(0, BLOCK)[:, None]
        at = split + rows * (3 * width) + numbers
        queries = tl.load(at, inside[:, None], 0.0)
        keys = tl.load(at + width, inside[:, None], 0.0)
        values = tl.load(at + 2 * width, inside[:, None], 0.0)
        to_found = tl.load(to_mixed + rows * width + numbers, inside[:, None], 0.0)
        probabilities = _probabilities(queries, keys, inside, scale)
        to_probabilities = tl.dot(to_found, tl.trans(values), input_precision="ieee")
        used = probabilities
        if DROPOUT > 0:
            keep = _kept(tl.load(seed), text, head, HEADS, BLOCK, WHOLE, DROPOUT)
            used = probabilities * keep
            to_probabilities *= keep
        to_scores = probabilities * (to_probabilities - tl.sum(probabilities * to_probabilities, 1)[:, None]) * scale
        to_scores = to_scores.to(keys.dtype)
        to_queries = tl.dot(to_scores, keys, input_precision="ieee")
        to_keys = tl.dot(tl.trans(to_scores), queries, input_precision="ieee")
        to_values = tl.dot(tl.trans(used.to(keys.dtype)), to_found, input_precision="ieee")
        at = to_split + rows * (3 * width) + numbers
        kind = to_split.dtype.element_ty
        tl.store(at, to_queries.to(kind), inside[:, None])
        tl.store(at + width, to_keys.to(kind), inside[:, None])
        tl.store(at + 2 * width, to_values.to(kind), inside[:, None])
        query_sum += tl.sum(to_queries, 0)
        key_sum += tl.sum(to_keys, 0)
        value_sum += tl.sum(to_values, 0)
    at = sums + (KIND * parts + part) * (3 * width) + head * SIZE + tl.arange(0, SIZE)
    tl.store(at, query_sum)
    tl.store(at + width, key_sum)
    tl.store(at + 2 * width, value_sum)


def attend(split: Tensor, texts: ByBlock, heads: int, dropout: float, seed: Tensor) -> Tensor:
    """Attend within each text.

    Args:
        split: Queries, keys and values (tokens, 3 x width).
        texts: Where each text lies.
        heads: Of the attention.
        dropout: Of the attention probabilities.
        seed: Of the dropout: an int32 on the device.

    Returns:
        (tokens, width).
    """
    size = split.shape[1] // 3 // heads
    mixed = split.new_empty(len(split), heads * size)
    for kind, block in enumerate(texts.blocks):
        _forward[(texts.parts * heads,)](
            split, texts.ends, texts.order, texts.bounds, mixed, seed, size**-0.5,
            kind, heads, size, block, texts.blocks[-1], dropout, num_warps=_warps(block), num_stages=_stages(block),
        )  # fmt: skip
    return mixed


def attend_back(
    split: Tensor, texts: ByBlock, to_mixed: Tensor, sums: Tensor, heads: int, dropout: float, seed: Tensor
) -> Tensor:
    """Compute the gradient of `split`.

    Args:
        split: As given to `attend`.
        texts: As given to `attend`.
        to_mixed: (tokens, width) the gradient of its output.
        sums: (blocks x parts, 3 x width) float32; partial sums over the tokens are written to it, whose sum is the
            bias's gradient.
        heads: As given to `attend`.
        dropout: As given to `attend`.
        seed: As given to `attend`.

    Returns:
        (tokens, 3 x width).
    """
    size, to_split = split.shape[1] // 3 // heads, torch.empty_like(split)
    for kind, block in enumerate(texts.blocks):
        _backward[(texts.parts * heads,)](
            split, texts.ends, texts.order, texts.bounds, to_mixed, to_split, sums, seed, size**-0.5,
            kind, heads, size, block, texts.blocks[-1], dropout, num_warps=_warps(block), num_stages=_stages(block),
        )  # fmt: skip
    return to_split


def _warps(block: int) -> int:
    return block // 16


def _stages(block: int) -> int:
    return 3 if block <= 32 else 1  # prefetched texts must fit into the core's memory
