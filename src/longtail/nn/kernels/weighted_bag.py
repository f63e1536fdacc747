"""Weighted sums of a table's rows, one sum for each list of rows.

Many rows of a list are read at once: common words have long lists, and one row after another would each wait for
memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 32, 64  # of a tile


@triton.jit
def _sum(
    table, numbers, weights, begins, lengths, found, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    here = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    begin, length = tl.load(begins + here), tl.load(lengths + here)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, length, ROWS):
        place = first + tl.arange(0, ROWS)
        held = place < length
        number = tl.load(numbers + begin + place, held, 0).to(tl.int64)
        weight = tl.load(weights + begin + place, held, 0.0)
        rows = tl.load(table + number[:, None] * width + column[None, :], held[:, None] & inside[None, :], 0.0)
        total += rows * weight[:, None]
    tl.store(found + here * width + column, tl.sum(total, 0), inside)


def summed(table: Tensor, numbers: Tensor, weights: Tensor, begins: Tensor, lengths: Tensor) -> Tensor:
    """Sum rows of a table.

    Args:
        table: (rows, width) float32.
        numbers: The rows of all lists, one list after another.
        weights: Of the same length, float32.
        begins: (lists,) where each list begins in `numbers`.
        lengths: (lists,) how many rows each list has.

    Returns:
        (lists, width) float32.
    """
    width = table.shape[1]
    found = torch.empty((len(begins), width), dtype=torch.float32, device=table.device)
    _sum[(len(begins), triton.cdiv(width, COLUMNS))](
        table.contiguous(), numbers, weights, begins, lengths, found, width, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4
    )
    return found
