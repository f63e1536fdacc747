"""Attention among the tokens of short texts that follow one another without padding.

A short text fits a core's registers whole, so nothing is kept for the way back: the chances
are computed again there, and every gradient is written once, by one program, in the same order every time.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from longtail.nn.kernels.chance import kept

GROUP = 4  # texts a program of the backward pass goes through: it sums the bias's gradient over them


@triton.jit
def _chances(queries, keys, inside, scale):
    """Softmax over the keys of the text: (LONGEST, LONGEST) float32, 0 outside the text, also where it is empty."""
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
    scores = tl.where(inside[None, :], scores, float("-inf"))
    chances = tl.exp(scores - tl.max(scores, 1)[:, None])
    return tl.where(inside[:, None], chances / tl.sum(chances, 1)[:, None], 0.0)


@triton.jit
def _kept(seed, text, head, HEADS: tl.constexpr, LONGEST: tl.constexpr, DROPOUT: tl.constexpr):
    places = tl.arange(0, LONGEST)
    return kept(seed, ((text * HEADS + head) * LONGEST + places[:, None]) * LONGEST + places[None, :], DROPOUT)


@triton.jit(do_not_specialize=["seed"])
def _forward(
    split, ends, mixed, seed, scale,
    HEADS: tl.constexpr, SIZE: tl.constexpr, LONGEST: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    text, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS  # heads of a text are neighbours in memory
    begin = tl.load(ends + text).to(tl.int64)
    inside = tl.arange(0, LONGEST) < tl.load(ends + text + 1) - begin
    rows, numbers = begin + tl.arange(0, LONGEST)[:, None], head * SIZE + tl.arange(0, SIZE)[None, :]
    at = split + rows * (3 * HEADS * SIZE) + numbers
    queries = tl.load(at, inside[:, None], 0.0)
    keys = tl.load(at + HEADS * SIZE, inside[:, None], 0.0)
    values = tl.load(at + 2 * HEADS * SIZE, inside[:, None], 0.0)
    chances = _chances(queries, keys, inside, scale)
    if DROPOUT > 0:
        chances *= _kept(tl.load(seed), text, head, HEADS, LONGEST, DROPOUT)
    found = tl.dot(chances.to(values.dtype), values, input_precision="ieee")
    tl.store(mixed + rows * (HEADS * SIZE) + numbers, found.to(mixed.dtype.element_ty), inside[:, None])


@triton.jit(do_not_specialize=["seed", "texts"])
def _backward(
    split, ends, to_mixed, to_split, sums, seed, scale, texts,
    HEADS: tl.constexpr, SIZE: tl.constexpr, LONGEST: tl.constexpr, DROPOUT: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    group, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    numbers = head * SIZE + tl.arange(0, SIZE)[None, :]
    width: tl.constexpr = HEADS * SIZE
    query_sum = tl.zeros((SIZE,), tl.float32)
    key_sum = tl.zeros((SIZE,), tl.float32)
    value_sum = tl.zeros((SIZE,), tl.float32)
    for text in range(group * GROUP, tl.minimum(group * GROUP + GROUP, texts)):
        begin = tl.load(ends + text).to(tl.int64)
        inside = tl.arange(0, LONGEST) < tl.load(ends + text + 1) - begin
        rows = begin + tl.arange(0, LONGEST)[:, None]
        at = split + rows * (3 * width) + numbers
        queries = tl.load(at, inside[:, None], 0.0)
        keys = tl.load(at + width, inside[:, None], 0.0)
        values = tl.load(at + 2 * width, inside[:, None], 0.0)
        to_found = tl.load(to_mixed + rows * width + numbers, inside[:, None], 0.0)
        chances = _chances(queries, keys, inside, scale)
        to_chances = tl.dot(to_found, tl.trans(values), input_precision="ieee")
        used = chances
        if DROPOUT > 0:
            keep = _kept(tl.load(seed), text, head, HEADS, LONGEST, DROPOUT)
            used = chances * keep
            to_chances *= keep
        to_scores = chances * (to_chances - tl.sum(chances * to_chances, 1)[:, None]) * scale
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
    at = sums + group * (3 * width) + head * SIZE + tl.arange(0, SIZE)
    tl.store(at, query_sum)
    tl.store(at + width, key_sum)
    tl.store(at + 2 * width, value_sum)


def attend(split: Tensor, ends: Tensor, heads: int, longest: int, dropout: float, seed: Tensor) -> Tensor:
    """Queries, keys and values (tokens, 3 x width) to (tokens, width)."""
    size = split.shape[1] // 3 // heads
    mixed = split.new_empty(len(split), heads * size)
    block = _block(longest)
    _forward[((len(ends) - 1) * heads,)](
        split, ends, mixed, seed, size**-0.5, heads, size, block, dropout, num_warps=_warps(block)
    )  # fmt: skip
    return mixed


def attend_back(
    split: Tensor, ends: Tensor, to_mixed: Tensor, sums: Tensor, heads: int, longest: int, dropout: float, seed: Tensor
) -> Tensor:
    """The gradient at `split`; its sum over the tokens is left in parts, to be summed: `sums` (parts, 3 x width),
    float32."""
    texts, size, block = len(ends) - 1, split.shape[1] // 3 // heads, _block(longest)
    to_split = torch.empty_like(split)
    _backward[(len(sums) * heads,)](
        split, ends, to_mixed, to_split, sums, seed, size**-0.5, texts, heads, size, block, dropout, GROUP,
        num_warps=_warps(block), num_stages=3 if block <= 32 else 1,  # texts fetched ahead must fit the core's memory
    )  # fmt: skip
    return to_split


def _block(longest: int) -> int:
    return int(max(triton.next_power_of_2(longest), 16))


def _warps(block: int) -> int:
    return {16: 1, 32: 2, 64: 4}.get(block, 8)


def parts(texts: int) -> int:
    """Of the sums that `attend_back` leaves."""
    return -(-texts // GROUP)
