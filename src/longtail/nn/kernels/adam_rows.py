"""Adam on some rows of a table in one pass: each updated row is read once and written once, in place."""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

SIZE = 1024  # numbers of a program


@triton.jit
def _adam_update(
    weight, first, second, gradient, places, same, clock, factor, width, learning_rate, weight_decay, epsilon,
    KEPT_FIRST: tl.constexpr, KEPT_SECOND: tl.constexpr, LOG_FIRST: tl.constexpr, LOG_SECOND: tl.constexpr,
    CHOSEN: tl.constexpr, ONCE: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    parts = tl.cdiv(width, SIZE)
    row = (tl.program_id(0) // parts).to(tl.int64)
    column = (tl.program_id(0) % parts).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    inside = column < width
    if ONCE:  # a row that occurs twice is updated where it occurs first
        inside = inside & (tl.load(same + row) == row)
    at = column
    if CHOSEN:
        at = tl.load(places + row).to(tl.int64) * width + column
    # In double precision: in float32, 1 - 0.999 has only four correct digits.
    steps = tl.load(clock).to(tl.float64) + 1.0
    of_first = (1.0 - tl.exp(steps * LOG_FIRST)).to(tl.float32)
    of_second = (1.0 - tl.exp(steps * LOG_SECOND)).to(tl.float32)
    step = learning_rate * tl.load(factor)
    grad = tl.load(gradient + row * width + column, inside, 0.0).to(tl.float32)
    mean = tl.load(first + at, inside, 0.0)
    square = tl.load(second + at, inside, 0.0)
    updated = tl.load(weight + at, inside, 0.0)
    mean += (1 - KEPT_FIRST) * (grad - mean)
    square = KEPT_SECOND * square + (1 - KEPT_SECOND) * grad * grad
    updated -= step * weight_decay * updated
    updated -= step / of_first * mean / (tl.sqrt(square) / tl.sqrt(of_second) + epsilon)
    tl.store(first + at, mean, inside)
    tl.store(second + at, square, inside)
    tl.store(weight + at, updated, inside)


def adam_step(
    tables: list[Tensor], gradient: Tensor, places: Tensor | None, same: Tensor | None,
    clock: Tensor, factor: Tensor,
    learning_rate: float, weight_decay: float, betas: tuple[float, float], epsilon: float,
) -> None:  # fmt: skip
    """Update weights and their two running means, in place.

    Args:
        tables: Weights, first and second moments, each (rows, width) float32.
        gradient: Of the updated rows.
        places: (places,) the rows to update; None: all.
        same: (places,) where each row occurs first among `places`, which may repeat rows; None: all differ.
        clock: Steps done before this one: a scalar on the device.
        factor: On the learning rate: a scalar on the device.
        learning_rate: Of the table.
        weight_decay: The share of the learning rate by which weights shrink.
        betas: Of the two moments.
        epsilon: Of Adam.
    """
    weight, first, second = tables
    gradient = gradient.contiguous()
    width = weight.numel() if places is None else weight[0].numel()
    rows = 1 if places is None else len(places)
    _adam_update[(rows * triton.cdiv(width, SIZE),)](
        weight, first, second, gradient, clock if places is None else places, clock if same is None else same,
        clock, factor, width, learning_rate, weight_decay, epsilon,
        KEPT_FIRST=betas[0], KEPT_SECOND=betas[1], LOG_FIRST=math.log(betas[0]), LOG_SECOND=math.log(betas[1]),
        CHOSEN=places is not None, ONCE=same is not None, SIZE=min(SIZE, triton.next_power_of_2(width)), num_warps=4,
    )  # fmt: skip
