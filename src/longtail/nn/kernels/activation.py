"""The activation between the two matrix products of a feed-forward block."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 8, 256  # of a tile
PROGRAMS = 132  # down the rows of the backward pass: each sums the bias's gradient over its tiles


@triton.jit
def _forward(given, found, rows, WIDTH: tl.constexpr, FORM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < rows)[:, None] & (column < WIDTH)[None, :]
    at = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    number = tl.load(given + at, inside, 0.0).to(tl.float32)
    share, _ = _share(number, FORM)
    tl.store(found + at, (number * share).to(found.dtype.element_ty), inside)


@triton.jit
def _backward(
    given, to_found, sums, rows,
    WIDTH: tl.constexpr, FORM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < WIDTH)[None, :]
        at = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
        number = tl.load(given + at, inside, 0.0).to(tl.float32)
        share, derivative = _share(number, FORM)
        back = tl.load(to_found + at, inside, 0.0).to(tl.float32) * (share + number * derivative)
        tl.store(to_found + at, back.to(to_found.dtype.element_ty), inside)
        total += back
    tl.store(sums + tl.program_id(0) * WIDTH + column, tl.sum(total, 0), column < WIDTH)


@triton.jit
def _share(number, FORM: tl.constexpr):
    """The factor that an activation multiplies a number with, and the derivative of that factor."""
    if FORM == "relu":
        share = tl.where(number > 0, 1.0, 0.0)
        derivative = 0.0 * number
    elif FORM == "tanh":  # (1 + tanh z) / 2 = sigmoid(2 z)
        share = tl.sigmoid(1.5957691216057308 * (number + 0.044715 * number * number * number))
        derivative = share * (1 - share) * 1.5957691216057308 * (1 + 0.134145 * number * number)
    else:
        # The normal distribution function. Its density is needed for the derivative anyway, and a polynomial times the
        # density gives the function to 1e-7 (Abramowitz and Stegun 7.1.26): half the work of erf.
        density = tl.exp(-0.5 * number * number)
        near = 1.0 / (1.0 + 0.2316418883 * tl.abs(number))
        tail = near * (
            0.254829592 + near * (-0.284496736 + near * (1.421413741 + near * (-1.453152027 + near * 1.061405429)))
        )
        tail *= 0.5 * density
        share = tl.where(number > 0, 1.0 - tail, tail)
        derivative = 0.3989422804014327 * density
    return share, derivative


def activate(given: Tensor, form: str) -> Tensor:
    """Apply an activation.

    Args:
        given: (rows, width).
        form: `none` (the exact GELU), `tanh` or `relu`.

    Returns:
        (rows, width).
    """
    rows, width = given.shape
    found = torch.empty_like(given)
    _forward[(triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS))](given, found, rows, width, form, ROWS, COLUMNS)
    return found


def activate_back(given: Tensor, to_found: Tensor, sums: Tensor, form: str) -> None:
    """Replace the gradient of the output by that of the input, in place.

    Args:
        given: (rows, width) the input of `activate`.
        to_found: (rows, width) the gradient of its output; overwritten.
        sums: (parts, width) float32; partial sums over the rows are written to it, whose sum is the bias's gradient.
        form: As in `activate`.
    """
    rows, width = given.shape
    _backward[(len(sums), triton.cdiv(width, COLUMNS))](given, to_found, sums, rows, width, form, ROWS, COLUMNS)


def parts(rows: int) -> int:
    """How many partial sums `activate_back` writes.

    Args:
        rows: Of its input.

    Returns:
        The length of `sums`.
    """
    return min(PROGRAMS, -(-rows // ROWS))
