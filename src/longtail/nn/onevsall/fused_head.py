"""The work on one chunk of labels as Triton kernels: one from scores to their gradients, one from these to new weights.

Score gradients have the shape (labels in chunk, rows). A block of weights is read from memory once and multiplied with
all rows of the batch, which stay in the cache. Weights and gradients pass through the tensor memory accelerator, which
reads zeros outside a matrix and drops writes there, so no size needs to be a multiple of a block.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from longtail.nn.onevsall.batch_targets import ChunkTargets
from longtail.nn.onevsall.step_numbers import rounding_seed

# The fastest tiles on an H200. Each multiprocessor runs AT_ONCE programs. A program works through several tiles and
# fetches the first blocks of the next while it finishes the last one.
WIDE = {"num_warps": 8, "num_stages": 3, "AT_ONCE": 1}
NARROW = {"num_warps": 4, "num_stages": 4, "AT_ONCE": 2}
SMALL = {"num_warps": 4, "num_stages": 2, "AT_ONCE": 2}
GROUP = 128  # labels of which `maxima` keeps the largest score
GRADIENTS_TILE = {"BLOCK_L": GROUP, "BLOCK_B": 256, "BLOCK_D": 64, **WIDE}
UPDATE_TILE = {"BLOCK_L": 128, "BLOCK_D": 128, "BLOCK_B": 64, **NARROW}
SMALL_GRADIENTS = {"BLOCK_L": GROUP, "BLOCK_B": 64, "BLOCK_D": 64, **SMALL}  # for few rows
SMALL_UPDATE = {"BLOCK_L": 64, "BLOCK_D": 64, "BLOCK_B": 64, **SMALL}
FEW = 128  # rows


def score_gradients(
    weights: Tensor, bias: Tensor | None, vectors: Tensor, part: ChunkTargets, begin: int, loss: str, found: Tensor
) -> None:
    """Compute the derivative of the loss by each score of a chunk.

    Args:
        weights: (labels in chunk, width) bf16.
        bias: (labels in chunk,), or None.
        vectors: (rows, width) bf16 of the batch.
        part: targets of the chunk; those of other labels are left out.
        begin: first label of the chunk.
        loss: `bce`, or the squared `hinge`.
        found: out, (labels in chunk, rows) bf16.
    """
    labels, rows = len(weights), len(vectors)
    tile = dict(GRADIENTS_TILE if rows > FEW else SMALL_GRADIENTS)
    block = (tile["BLOCK_L"], tile["BLOCK_B"], tile["BLOCK_D"])
    grid = _programs(triton.cdiv(labels, block[0]) * triton.cdiv(rows, block[1]), tile)
    _score_gradients[grid](
        _described(weights, block[0], block[2]), _described(vectors, block[1], block[2]),
        _described(found, block[0], block[1]), weights if bias is None else bias, labels, rows, vectors.shape[1],
        HINGE=loss == "hinge", HAS_BIAS=bias is not None, **tile,
    )  # fmt: skip
    if len(part.rows):
        _entries[(len(part.rows),)](
            weights, weights if bias is None else bias, vectors, found, *part,
            begin, labels, found.stride(0), vectors.shape[1], HINGE=loss == "hinge", HAS_BIAS=bias is not None,
            BLOCK=triton.next_power_of_2(vectors.shape[1]), num_warps=4,
        )  # fmt: skip


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to `total` in place, in float32.

    Args:
        total: (rows, columns) float32.
        left: (rows, inner).
        right: (inner, columns).
    """
    total.add_(torch.mm(left, right, out_dtype=torch.float32))


class HeadChunk(NamedTuple):
    """What a head stores of a chunk of labels; see `OneVsAllHead`. `update` writes to it."""

    weights: Tensor  # (labels in chunk, width) bf16, or fp8 times the head's scale
    bias: Tensor | None  # (labels in chunk,)
    velocity: Tensor | None  # (labels in chunk, width)
    slots: Tensor | None  # (labels in chunk,)
    lost: Tensor | None  # (compensated labels, width)


def update(chunk: HeadChunk, found: Tensor, vectors: Tensor, numbers: Tensor, begin: int, momentum: float) -> None:
    """Update the weights and biases of a chunk by one step of SGD.

    Args:
        chunk: to update.
        found: (labels in chunk, rows) score gradients.
        vectors: (rows, width) of the batch.
        numbers: of the step, on the device; see `step_numbers`.
        begin: first label of the chunk.
        momentum: factor on the velocity.
    """
    weights, velocity = chunk.weights, chunk.velocity
    tile = dict(UPDATE_TILE if len(vectors) > FEW else SMALL_UPDATE)
    block = (tile["BLOCK_L"], tile["BLOCK_B"], tile["BLOCK_D"])
    labels, rows, width = len(weights), len(vectors), vectors.shape[1]
    grid = _programs(triton.cdiv(labels, block[0]) * triton.cdiv(width, block[2]), tile)
    _update[grid](
        _described(found, block[0], block[1]), _described(vectors, block[1], block[2]),
        _described(weights, block[0], block[2]),
        weights if velocity is None else velocity,
        weights if chunk.slots is None else chunk.slots,
        weights if chunk.lost is None else chunk.lost,
        numbers, labels, rows, width, momentum, rounding_seed(0, 0, begin),
        MOMENTUM=velocity is not None, COMPENSATED=chunk.lost is not None,
        FP8=weights.dtype.itemsize == 1, **tile,
    )  # fmt: skip
    if chunk.bias is not None:
        _update_bias[(triton.cdiv(labels, 16),)](
            found, chunk.bias, numbers, labels, rows, found.stride(0), BLOCK_L=16, BLOCK_B=256
        )


def maxima(weights: Tensor, bias: Tensor | None, vectors: Tensor) -> Tensor:
    """Compute the largest score of each row in each group of GROUP labels.

    Args:
        weights: (labels, width).
        bias: (labels,), or None.
        vectors: (rows, width).

    Returns:
        (groups, rows) float32.
    """
    labels, rows = len(weights), len(vectors)
    tile = dict(GRADIENTS_TILE if rows > FEW else SMALL_GRADIENTS)
    block = (tile["BLOCK_L"], tile["BLOCK_B"], tile["BLOCK_D"])
    groups = triton.cdiv(labels, block[0])
    found = torch.empty((groups, rows), dtype=torch.float32, device=weights.device)
    _maxima[_programs(groups * triton.cdiv(rows, block[1]), tile)](
        _described(weights, block[0], block[2]), _described(vectors, block[1], block[2]), found,
        weights if bias is None else bias, labels, rows, vectors.shape[1], HAS_BIAS=bias is not None, **tile,
    )  # fmt: skip
    return found


def group_scores(weights: Tensor, bias: Tensor | None, vectors: Tensor, groups: Tensor) -> Tensor:
    """Compute the scores of all labels in each row's own groups.

    Args:
        weights: (labels, width).
        bias: (labels,), or None.
        vectors: (rows, width).
        groups: (rows, groups of a row) int64.

    Returns:
        (rows, groups of a row x GROUP) float32.
    """
    size, labels = GROUP, len(weights)
    found = torch.empty((*groups.shape, size), dtype=torch.float32, device=weights.device)
    _group_scores[groups.shape](
        weights, weights if bias is None else bias, vectors, groups, found, labels, vectors.shape[1], groups.shape[1],
        HAS_BIAS=bias is not None, SIZE=size, BLOCK_D=128, num_warps=4,
    )  # fmt: skip
    return found.flatten(1)


def _described(matrix: Tensor, rows: int, columns: int) -> Any:
    return TensorDescriptor.from_tensor(matrix, [rows, columns])


def _programs(tiles: int, tile: dict[str, Any]) -> tuple[int]:
    """The grid: as many programs as run at once; each works through several tiles."""
    return (min(tiles, tile.pop("AT_ONCE") * _processors()),)


def whole_turns(labels: int) -> int:
    """Round a number of labels so that all programs work through the same number of tiles.

    Args:
        labels: of a chunk.

    Returns:
        The nearest multiple of a tile for each multiprocessor; the number itself where that is more than twice as far.
    """
    turn = GROUP * _processors()
    return max(round(labels / turn), 1) * turn if labels * 2 >= turn else labels


@cache
def _processors() -> int:
    return int(torch.cuda.get_device_properties().multi_processor_count)


@triton.jit
def _float(numbers, place: tl.constexpr):
    return tl.load(numbers + place).to(tl.float32, bitcast=True)


@triton.jit
def _reciprocal(values):
    """1 / x to 23 bits, in one instruction; infinity gives 0."""
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [values], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _negative_gradient(scores, HINGE: tl.constexpr):
    if HINGE:
        return 2 * tl.maximum(scores + 1, 0.0)
    return _reciprocal(1 + tl.exp2(scores * -1.4426950408889634))


@triton.jit
def _positive_gradient(scores, HINGE: tl.constexpr):
    if HINGE:
        return -2 * tl.maximum(1 - scores, 0.0)
    return -_reciprocal(1 + tl.exp2(scores * 1.4426950408889634))


@triton.jit(do_not_specialize=["labels", "rows"])
def _score_gradients(
    weights, vectors, found, bias, labels, rows, dimension,
    HINGE: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    row_blocks = tl.cdiv(rows, BLOCK_B)
    tiles = tl.cdiv(labels, BLOCK_L) * row_blocks
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        first_label = (tile // row_blocks) * BLOCK_L
        first_row = (tile % row_blocks) * BLOCK_B
        scores = tl.zeros((BLOCK_L, BLOCK_B), dtype=tl.float32)
        for place in range(0, dimension, BLOCK_D):
            some = weights.load([first_label, place])
            others = vectors.load([first_row, place])
            scores = tl.dot(some, others.T, scores)
        if HAS_BIAS:
            places = first_label + tl.arange(0, BLOCK_L)
            scores += tl.load(bias + places, mask=places < labels, other=0.0)[:, None]
        found.store([first_label, first_row], _negative_gradient(scores, HINGE).to(found.dtype))


@triton.jit(do_not_specialize=["begin", "labels"])
def _entries(
    weights, bias, vectors, found, rows, entry_labels, positive_weights, negative_weights, begin, labels, stride,
    dimension, HINGE: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    entry = tl.program_id(0)
    row, label = tl.load(rows + entry), tl.load(entry_labels + entry) - begin
    if (label < 0) | (label >= labels):  # of another chunk, or padding
        return
    places = tl.arange(0, BLOCK)
    inside = places < dimension
    some = tl.load(weights + label * dimension + places, mask=inside, other=0.0).to(tl.float32)
    score = tl.sum(some * tl.load(vectors + row * dimension + places, mask=inside, other=0.0).to(tl.float32))
    if HAS_BIAS:
        score += tl.load(bias + label)
    gradient = tl.load(positive_weights + entry) * _positive_gradient(score, HINGE) + tl.load(
        negative_weights + entry
    ) * _negative_gradient(score, HINGE)
    tl.store(found + label * stride + row, gradient.to(found.dtype.element_ty))


@triton.jit
def _hashed(number):
    """Hashes an integer, so that neighbouring integers get unrelated bits."""
    number = (number ^ (number >> 16)) * 0x7FEB352D
    number = (number ^ (number >> 15)) * 0x846CA68B
    return number ^ (number >> 16)


@triton.jit
def _round_bf16(values, random_bits):
    """Rounds stochastically to bf16."""
    bits = values.to(tl.uint32, bitcast=True) + (random_bits >> 16)
    return (bits & 0xFFFF0000).to(tl.float32, bitcast=True)


@triton.jit
def _round_fp8(values, random_bits):
    """Rounds stochastically to fp8 e4m3; below 2^-6 its steps no longer shrink."""
    values = tl.minimum(tl.maximum(values, -448.0), 448.0)
    twenty = random_bits >> 12
    bits = (values.to(tl.uint32, bitcast=True) + twenty) & 0xFFF00000
    normal = tl.minimum(tl.maximum(bits.to(tl.float32, bitcast=True), -448.0), 448.0)
    small = tl.floor(values * 512 + twenty.to(tl.float32) / 1048576) / 512
    return tl.where(tl.abs(values) < 0.015625, small, normal)


@triton.jit(do_not_specialize=["labels", "rows", "offset"])
def _update(
    found, vectors, weights, velocity, slots, lost,
    numbers, labels, rows, width, momentum, offset,
    MOMENTUM: tl.constexpr, COMPENSATED: tl.constexpr, FP8: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    learning_rate, decay = _float(numbers, 0), _float(numbers, 1)
    seed = (tl.load(numbers + 3) + offset) & 0x7FFFFFFF
    blocks = tl.cdiv(width, BLOCK_D)
    tiles = tl.cdiv(labels, BLOCK_L) * blocks
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        first_label = (tile // blocks) * BLOCK_L
        first_place = (tile % blocks) * BLOCK_D
        gradient = tl.zeros((BLOCK_L, BLOCK_D), dtype=tl.float32)
        for row in range(0, rows, BLOCK_B):
            gradient = tl.dot(found.load([first_label, row]), vectors.load([row, first_place]), gradient)
        chunk_labels = first_label + tl.arange(0, BLOCK_L)
        places = first_place + tl.arange(0, BLOCK_D)
        # Labels and places are hashed well on their own, so a cheap mix of the two hashes gives good random bits.
        random_bits = _hashed(chunk_labels.to(tl.uint32) + seed)[:, None] ^ _hashed(
            places.to(tl.uint32) * 0x9E3779B1 + seed
        )
        random_bits = random_bits * 0x85EBCA77
        inside = (chunk_labels < labels)[:, None] & (places < width)[None, :]
        where = chunk_labels[:, None].to(tl.int64) * width + places[None, :]
        if MOMENTUM:
            gradient += momentum * tl.load(velocity + where, mask=inside, other=0.0).to(tl.float32)
            tl.store(
                velocity + where, _round_bf16(gradient, random_bits * 5).to(velocity.dtype.element_ty), mask=inside
            )
        before = weights.load([first_label, first_place]).to(tl.float32)
        change = before * (decay - 1) - learning_rate * gradient
        after = _round_fp8(before + change, random_bits) if FP8 else _round_bf16(before + change, random_bits)
        if COMPENSATED:
            slot = tl.load(slots + chunk_labels, mask=chunk_labels < labels, other=-1)
            held = (slot >= 0)[:, None] & inside
            kept = slot[:, None].to(tl.int64) * width + places[None, :]
            wanted = change + tl.load(lost + kept, mask=held, other=0.0).to(tl.float32)
            nearest = (before + wanted).to(weights.dtype).to(tl.float32)
            tl.store(lost + kept, (wanted - (nearest - before)).to(lost.dtype.element_ty), mask=held)
            after = tl.where((slot >= 0)[:, None], nearest, after)
        weights.store([first_label, first_place], after.to(weights.dtype))


@triton.jit(do_not_specialize=["labels", "rows"])
def _update_bias(
    found, bias, numbers, labels, rows, stride, BLOCK_L: tl.constexpr, BLOCK_B: tl.constexpr
):  # fmt: skip
    chunk_labels = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    known = chunk_labels < labels
    total = tl.zeros((BLOCK_L, BLOCK_B), dtype=tl.float32)
    for row in range(0, rows, BLOCK_B):
        columns = row + tl.arange(0, BLOCK_B)
        where = chunk_labels[:, None].to(tl.int64) * stride + columns[None, :]
        total += tl.load(found + where, mask=known[:, None] & (columns < rows)[None, :], other=0.0).to(tl.float32)
    own = tl.load(bias + chunk_labels, mask=known, other=0.0)
    tl.store(bias + chunk_labels, own - _float(numbers, 2) * tl.sum(total, axis=1), mask=known)


@triton.jit(do_not_specialize=["labels", "rows"])
def _maxima(
    weights, vectors, found, bias, labels, rows, dimension, HAS_BIAS: tl.constexpr,
    BLOCK_L: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    row_blocks = tl.cdiv(rows, BLOCK_B)
    tiles = tl.cdiv(labels, BLOCK_L) * row_blocks
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        group = tile // row_blocks
        first_row = (tile % row_blocks) * BLOCK_B
        scores = tl.zeros((BLOCK_L, BLOCK_B), dtype=tl.float32)
        for place in range(0, dimension, BLOCK_D):
            some = weights.load([group * BLOCK_L, place])
            others = vectors.load([first_row, place])
            scores = tl.dot(some, others.T, scores)
        places = group * BLOCK_L + tl.arange(0, BLOCK_L)
        if HAS_BIAS:
            scores += tl.load(bias + places, mask=places < labels, other=0.0)[:, None]
        best = tl.max(tl.where((places < labels)[:, None], scores, float("-inf")), axis=0)
        columns = first_row + tl.arange(0, BLOCK_B)
        tl.store(found + group.to(tl.int64) * rows + columns, best, mask=columns < rows)


@triton.jit
def _group_scores(
    weights, bias, vectors, groups, found, labels, dimension, some,
    HAS_BIAS: tl.constexpr, SIZE: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    row, place = tl.program_id(0).to(tl.int64), tl.program_id(1)
    own = tl.load(groups + row * some + place).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    known = own < labels
    scores = tl.zeros((SIZE,), dtype=tl.float32)
    for begin in range(0, dimension, BLOCK_D):
        columns = begin + tl.arange(0, BLOCK_D)
        inside = columns < dimension
        vector = tl.load(vectors + row * dimension + columns, mask=inside, other=0.0).to(tl.float32)
        block = tl.load(
            weights + own[:, None] * dimension + columns[None, :], mask=known[:, None] & inside[None, :], other=0.0
        )
        scores += tl.sum(block.to(tl.float32) * vector[None, :], axis=1)
    if HAS_BIAS:
        scores += tl.load(bias + own, mask=known, other=0.0)
    scores = tl.where(known, scores, float("-inf"))
    tl.store(found + (row * some + place) * SIZE + tl.arange(0, SIZE), scores)
