"""The first and the last step of a transformer: token ids to normalised states, and mean pooling of a text's states."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from longtail.nn.kernels.dropout_mask import kept
from longtail.nn.kernels.layer_norm import normalised, normalised_back, warps

ROWS = 2  # of a tile
PROGRAMS = 1056  # of the backward pass: each sums the gradients of scale and shift over its tiles
GROUP = 32  # texts over which a program sums the gradient of one position


@triton.jit(do_not_specialize=["rows", "seed"])
def _embed(
    ids, places, words, positions, scale, shift, states, means, inverses, rows, seed, epsilon,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)[None, :]
    real = column < WIDTH
    inside = (row < rows)[:, None] & real
    word, place = tl.load(ids + row, row < rows, 0)[:, None], tl.load(places + row, row < rows, 0)[:, None]
    total = tl.load(words + word * WIDTH + column, inside, 0.0)
    total += tl.load(positions + place * WIDTH + column, inside, 0.0)
    found, mean, inverse = normalised(total, real, column, scale, shift, epsilon, WIDTH)
    at = row.to(tl.int64)[:, None] * WIDTH + column
    if DROPOUT > 0:
        found *= kept(tl.load(seed), at, DROPOUT)
    tl.store(states + at, found.to(states.dtype.element_ty), inside)
    tl.store(means + row, mean, row < rows)
    tl.store(inverses + row, inverse, row < rows)


@triton.jit(do_not_specialize=["rows", "seed"])
def _embed_back(
    to_states, ids, places, words, positions, scale, means, inverses, to_total, sums, rows, seed,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)[None, :]
    real = column < WIDTH
    scales = tl.load(scale + column, real, 0.0)
    to_scale = tl.zeros((ROWS, BLOCK), tl.float32)
    to_shift = tl.zeros((ROWS, BLOCK), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & real
        at = row.to(tl.int64)[:, None] * WIDTH + column
        given = tl.load(to_states + at, inside, 0.0).to(tl.float32)
        if DROPOUT > 0:
            given *= kept(tl.load(seed), at, DROPOUT)
        word, place = tl.load(ids + row, row < rows, 0)[:, None], tl.load(places + row, row < rows, 0)[:, None]
        total = tl.load(words + word * WIDTH + column, inside, 0.0)
        total += tl.load(positions + place * WIDTH + column, inside, 0.0)
        mean, inverse = tl.load(means + row, row < rows, 0.0), tl.load(inverses + row, row < rows, 0.0)
        back, unit = normalised_back(given, total, inside, scales, mean, inverse, WIDTH)
        tl.store(to_total + at, back, inside)
        to_scale += given * unit
        to_shift += given
    at = sums + tl.program_id(0) * (2 * WIDTH) + tl.arange(0, BLOCK)
    real = tl.arange(0, BLOCK) < WIDTH
    tl.store(at, tl.sum(to_scale, 0), real)
    tl.store(at + WIDTH, tl.sum(to_shift, 0), real)


@triton.jit(do_not_specialize=["texts", "longest"])
def _by_place(values, ends, sums, texts, longest, WIDTH: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    """Sums over the tokens at the same place of their texts."""
    place, group, column = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for text in range(group * GROUP, tl.minimum(group * GROUP + GROUP, texts)):
        row = tl.load(ends + text).to(tl.int64) + place
        there = row < tl.load(ends + text + 1)
        total += tl.load(values + row * WIDTH + column, there & (column < WIDTH), 0.0)
    tl.store(sums + (group * longest + place) * WIDTH + column, total, column < WIDTH)


@triton.jit(do_not_specialize=["longest"])
def _mean(states, ends, pooled, longest, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    text, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    begin, end = tl.load(ends + text).to(tl.int64), tl.load(ends + text + 1)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, longest, ROWS):
        row = begin + first + tl.arange(0, ROWS)[:, None]
        inside = (row < end) & (column < WIDTH)[None, :]
        total += tl.load(states + row * WIDTH + column[None, :], inside, 0.0).to(tl.float32)
    tl.store(pooled + text * WIDTH + column, tl.sum(total, 0) / tl.maximum(end - begin, 1), column < WIDTH)


@triton.jit(do_not_specialize=["longest"])
def _mean_back(to_pooled, ends, to_states, longest, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    text, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    begin, end = tl.load(ends + text).to(tl.int64), tl.load(ends + text + 1)
    share = tl.load(to_pooled + text * WIDTH + column, column < WIDTH, 0.0) / (end - begin)
    share = tl.broadcast_to(share[None, :], (ROWS, BLOCK)).to(to_states.dtype.element_ty)
    for first in range(0, longest, ROWS):
        row = begin + first + tl.arange(0, ROWS)[:, None]
        inside = (row < end) & (column < WIDTH)[None, :]
        tl.store(to_states + row * WIDTH + column[None, :], share, inside)


def embed(
    ids: Tensor, places: Tensor, words: Tensor, positions: Tensor, scale: Tensor, shift: Tensor,
    epsilon: float, dropout: float, seed: Tensor, lower: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Embed tokens: dropout(layer_norm(words[ids] + positions[places])).

    Args:
        ids: (tokens,) token ids.
        places: (tokens,) the place of each token in its text.
        words: (vocabulary, width) float32.
        positions: (places, width) float32.
        scale: (width,) of the layer norm.
        shift: (width,) of the layer norm.
        epsilon: Of the layer norm.
        dropout: Of the result.
        seed: Of the dropout: an int32 on the device.
        lower: dtype of the states.

    Returns:
        States (tokens, width), and the mean and inverse standard deviation of each token (tokens,), float32.
    """
    rows, width = len(ids), words.shape[1]
    states = words.new_empty((rows, width), dtype=lower)
    means, inverses = words.new_empty((2, rows), dtype=torch.float32).unbind(0)
    _embed[(rows,)](
        ids, places, words, positions, scale, shift, states, means, inverses, rows, seed, epsilon,
        width, triton.next_power_of_2(width), 1, dropout, num_warps=warps(width, 1),
    )  # fmt: skip
    return states, means, inverses


def embed_back(
    to_states: Tensor, ids: Tensor, places: Tensor, ends: Tensor, longest: int, words: Tensor, positions: Tensor,
    scale: Tensor, means: Tensor, inverses: Tensor, dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute the gradients of `embed`.

    Args:
        to_states: (tokens, width) the gradient of the states.
        ids: As given to `embed`.
        places: As given to `embed`.
        ends: (texts + 1,) int32: 0, and where each text ends.
        longest: An upper bound of the texts' lengths.
        words: As given to `embed`.
        positions: As given to `embed`.
        scale: As given to `embed`.
        means: As returned by `embed`.
        inverses: As returned by `embed`.
        dropout: As given to `embed`.
        seed: As given to `embed`.

    Returns:
        The gradients of words, positions, scale and shift, float32.
    """
    rows, width = to_states.shape
    block, programs = triton.next_power_of_2(width), min(PROGRAMS, triton.cdiv(rows, ROWS))
    to_total = words.new_empty((rows, width))
    sums = words.new_empty((programs, 2, width))
    _embed_back[(programs,)](
        to_states, ids, places, words, positions, scale, means, inverses, to_total, sums, rows, seed,
        width, block, ROWS, dropout, num_warps=warps(width, ROWS),
    )  # fmt: skip
    texts, longest = len(ends) - 1, min(longest, len(positions))  # the bound may be larger than the table
    groups = triton.cdiv(texts, GROUP)
    by_place = words.new_empty((groups, longest, width))
    _by_place[(longest, groups)](to_total, ends, by_place, texts, longest, width, block, GROUP)
    to_positions = torch.zeros_like(positions)
    to_positions[:longest] = by_place.sum(0)
    to_words = torch.ops.aten.embedding_dense_backward(to_total, ids, len(words), -1, False)
    to_scale, to_shift = sums.sum(0).unbind(0)
    return to_words, to_positions, to_scale, to_shift


def mean(states: Tensor, ends: Tensor, longest: int) -> Tensor:
    """Average the states of each text.

    Args:
        states: (tokens, width).
        ends: (texts + 1,) int32: 0, and where each text ends.
        longest: An upper bound of the texts' lengths.

    Returns:
        (texts, width) float32; zeros for a text without tokens.
    """
    width = states.shape[1]
    pooled = states.new_empty((len(ends) - 1, width), dtype=torch.float32)
    _mean[(len(pooled),)](states, ends, pooled, longest, width, triton.next_power_of_2(width), ROWS)
    return pooled


def mean_back(to_pooled: Tensor, ends: Tensor, longest: int, tokens: int, lower: torch.dtype) -> Tensor:
    """Compute the gradient of `mean`.

    Args:
        to_pooled: (texts, width) the gradient of its output.
        ends: As given to `mean`.
        longest: As given to `mean`.
        tokens: How many states there are.
        lower: dtype of the states.

    Returns:
        (tokens, width).
    """
    width = to_pooled.shape[1]
    to_states = to_pooled.new_empty((tokens, width), dtype=lower)
    _mean_back[(len(to_pooled),)](to_pooled, ends, to_states, longest, width, triton.next_power_of_2(width), ROWS)
    return to_states
