"""What stands between the two halves of a feed-forward block."""

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
        share, slope = _share(number, FORM)
        back = tl.load(to_found + at, inside, 0.0).to(tl.float32) * (share + number * slope)
        tl.store(to_found + at, back.to(to_found.dtype.element_ty), inside)
        total += back
    tl.store(sums + tl.program_id(0) * WIDTH + column, tl.sum(total, 0), column < WIDTH)


@triton.jit
def _share(number, FORM: tl.constexpr):
    """What an activation multiplies a number with, and the slope of that."""
    if FORM == "relu":
        share = tl.where(number > 0, 1.0, 0.0)
        slope = 0.0 * number
    elif FORM == "tanh":  # (1 + tanh z) / 2 = sigmoid(2 z)
        share = tl.sigmoid(1.5957691216057308 * (number + 0.044715 * number * number * number))
        slope = share * (1 - share) * 1.5957691216057308 * (1 + 0.134145 * number * number)
    else:
        # The chance that a standard normal number is smaller. Its density is needed for the slope anyway, and a
        # polynomial times it gives the chance to 1e-7 (Abramowitz and Stegun 7.1.26): half the work of erf.
        density = tl.exp(-0.5 * number * number)
        near = 1.0 / (1.0 + 0.2316418883 * tl.abs(number))
        tail = near * (
            0.254829592 + near * (-0.284496736 + near * (1.421413741 + near * (-1.453152027 + near * 1.061405429)))
        )
        tail *= 0.5 * density
        share = tl.where(number > 0, 1.0 - tail, tail)
        slope = 0.3989422804014327 * density
    return share, slope


def activate(given: Tensor, form: str) -> Tensor:
    """(rows, width), of the form `none` (the exact GELU), `tanh` or `relu`."""
    rows, width = given.shape
    found = torch.empty_like(given)
    _forward[(triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS))](given, found, rows, width, form, ROWS, COLUMNS)
    return found


def activate_back(given: Tensor, to_found: Tensor, sums: Tensor, form: str) -> None:
    """Turns `to_found` into the gradient at `given`, in place; its sum over the rows is left in parts, to be summed:
    `sums` (parts, width), float32."""
    rows, width = given.shape
    _backward[(len(sums), triton.cdiv(width, COLUMNS))](given, to_found, sums, rows, width, form, ROWS, COLUMNS)


def parts(rows: int) -> int:
    """Of the sums that `activate_back` leaves."""
    return min(PROGRAMS, -(-rows // ROWS))
