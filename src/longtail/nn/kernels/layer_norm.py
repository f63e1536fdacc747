"""What follows a matrix product in a transformer: bias, dropout, the residual sum, and its layer norm."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from longtail.nn.kernels.dropout_mask import kept

ROWS = 2  # of a tile of the backward pass
PROGRAMS = 1056  # of the backward pass: each sums the gradients of scale, shift and bias over its tiles


@triton.jit
def normalised(total, real, column, scale, shift, epsilon, WIDTH: tl.constexpr):
    """Layer norm of the rows of a tile, with their means and inverse standard deviations.

    Args:
        total: (rows, BLOCK).
        real: (1, BLOCK) which columns are below WIDTH.
        column: (1, BLOCK) the columns' numbers.
        scale: Pointer to (WIDTH,).
        shift: Pointer to (WIDTH,).
        epsilon: Added to the variance.
        WIDTH: Of a row.
    """
    mean = tl.sum(total, 1) / WIDTH
    centred = tl.where(real, total - mean[:, None], 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / WIDTH + epsilon)
    found = centred * inverse[:, None] * tl.load(scale + column, real, 0.0) + tl.load(shift + column, real, 0.0)
    return found, mean, inverse


@triton.jit
def normalised_back(given, total, inside, scales, mean, inverse, WIDTH: tl.constexpr):
    """The gradient of a layer norm's input, and its rows normalised, before scale and shift.

    Args:
        given: (rows, BLOCK) the gradient of the output.
        total: (rows, BLOCK) the input.
        inside: (rows, BLOCK) which numbers are inside the matrix.
        scales: (1, BLOCK) the layer norm's scale.
        mean: (rows,) of the input.
        inverse: (rows,) inverse standard deviation of the input.
        WIDTH: Of a row.
    """
    unit = tl.where(inside, (total - mean[:, None]) * inverse[:, None], 0.0)
    scaled = given * scales
    along = tl.sum(scaled * unit, 1) / WIDTH
    back = (scaled - tl.sum(scaled, 1)[:, None] / WIDTH - unit * along[:, None]) * inverse[:, None]
    return tl.where(inside, back, 0.0), unit


@triton.jit(do_not_specialize=["rows", "seed"])
def _forward(
    states, added, bias, scale, shift, normed, means, inverses, rows, seed, epsilon,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)[None, :]
    real = column < WIDTH
    inside = (row < rows)[:, None] & real
    at = row.to(tl.int64)[:, None] * WIDTH + column
    more = tl.load(added + at, inside, 0.0).to(tl.float32) + tl.load(bias + column, real, 0.0)
    if DROPOUT > 0:
        more *= kept(tl.load(seed), at, DROPOUT)
    total = tl.load(states + at, inside, 0.0).to(tl.float32) + more
    found, mean, inverse = normalised(total, real, column, scale, shift, epsilon, WIDTH)
    tl.store(added + at, total.to(added.dtype.element_ty), inside)
    tl.store(normed + at, found.to(normed.dtype.element_ty), inside)
    tl.store(means + row, mean, row < rows)
    tl.store(inverses + row, inverse, row < rows)


@triton.jit(do_not_specialize=["rows", "seed"])
def _backward(
    to_normed, total, scale, means, inverses, to_total, to_added, sums, rows, seed,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)[None, :]
    real = column < WIDTH
    scales = tl.load(scale + column, real, 0.0)
    to_scale = tl.zeros((ROWS, BLOCK), tl.float32)
    to_shift = tl.zeros((ROWS, BLOCK), tl.float32)
    to_bias = tl.zeros((ROWS, BLOCK), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & real
        at = row.to(tl.int64)[:, None] * WIDTH + column
        given = tl.load(to_normed + at, inside, 0.0).to(tl.float32)
        mean, inverse = tl.load(means + row, row < rows, 0.0), tl.load(inverses + row, row < rows, 0.0)
        before = tl.load(total + at, inside, 0.0).to(tl.float32)
        back, unit = normalised_back(given, before, inside, scales, mean, inverse, WIDTH)
        to_scale += given * unit
        to_shift += given
        tl.store(to_total + at, back.to(to_total.dtype.element_ty), inside)
        if DROPOUT > 0:
            back *= kept(tl.load(seed), at, DROPOUT)
            tl.store(to_added + at, back.to(to_added.dtype.element_ty), inside)
        to_bias += back
    at = sums + tl.program_id(0) * (3 * WIDTH) + tl.arange(0, BLOCK)
    real = tl.arange(0, BLOCK) < WIDTH
    tl.store(at, tl.sum(to_scale, 0), real)
    tl.store(at + WIDTH, tl.sum(to_shift, 0), real)
    tl.store(at + 2 * WIDTH, tl.sum(to_bias, 0), real)


def add_norm(
    states: Tensor, added: Tensor, bias: Tensor, scale: Tensor, shift: Tensor,
    epsilon: float, dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute layer_norm(states + dropout(added + bias)).

    Args:
        states: (rows, width) the residual input.
        added: (rows, width); overwritten with the sum, which the backward pass needs.
        bias: (width,) added to `added`.
        scale: (width,) of the layer norm.
        shift: (width,) of the layer norm.
        epsilon: Of the layer norm.
        dropout: Of added + bias.
        seed: Of the dropout: an int32 on the device.

    Returns:
        (rows, width), and the mean and inverse standard deviation of each row (rows,), float32.
    """
    rows, width = states.shape
    normed = torch.empty_like(states)
    means, inverses = states.new_empty((2, rows), dtype=torch.float32).unbind(0)
    _forward[(rows,)](
        states, added, bias, scale, shift, normed, means, inverses, rows, seed, epsilon,
        width, triton.next_power_of_2(width), 1, dropout, num_warps=warps(width, 1),
    )  # fmt: skip
    return normed, means, inverses


def add_norm_back(
    to_normed: Tensor, total: Tensor, scale: Tensor, means: Tensor, inverses: Tensor, sums: Tensor,
    dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute the gradients of `add_norm`.

    Args:
        to_normed: (rows, width) the gradient of its output.
        total: (rows, width) the sum that it left in `added`.
        scale: As given to `add_norm`.
        means: As returned by `add_norm`.
        inverses: As returned by `add_norm`.
        sums: (parts, 3 x width) float32; partial sums over the rows are written to it, whose sum is the gradients of
            scale, shift and bias.
        dropout: As given to `add_norm`.
        seed: As given to `add_norm`.

    Returns:
        The gradients of states and of added, each (rows, width).
    """
    rows, width = total.shape
    to_total = torch.empty_like(total)
    to_added = torch.empty_like(total) if dropout > 0 else to_total
    _backward[(len(sums),)](
        to_normed, total, scale, means, inverses, to_total, to_added, sums, rows, seed,
        width, triton.next_power_of_2(width), ROWS, dropout, num_warps=warps(width, ROWS),
    )  # fmt: skip
    return to_total, to_added


def parts(rows: int) -> int:
    """How many partial sums `add_norm_back` writes.

    Args:
        rows: Of its input.

    Returns:
        The length of `sums`.
    """
    return min(PROGRAMS, -(-rows // ROWS))


def warps(width: int, rows: int) -> int:
    """Choose the number of warps, so that a thread holds 16 numbers.

    Args:
        width: Of a row.
        rows: Of a tile.

    Returns:
        From 1 to 8.
    """
    return int(min(max(triton.next_power_of_2(width) * rows // 512, 1), 8))
