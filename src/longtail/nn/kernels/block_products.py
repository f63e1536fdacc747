"""Products of examples with the runs of weights that belong to their clusters, and their gradients.

The pairs of example and cluster come sorted by cluster. A program takes one cluster: its run of weights is read where
it lies and never copied, and the gradient of the run is summed and written once, so that its bits are always the same.
Products are sums of three on tensor cores (tf32x3), about as exact as float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PAIRS = 16  # of a cluster, at once
SPLIT = 4  # programs that share the pairs of a cluster
COLUMNS = 64  # at once


@triton.jit
def _scores(
    vectors, weights, bias, begins, pairs, bounds, found, width, dimension, each,
    BIASED: tl.constexpr, PAIRS: tl.constexpr, SPLIT: tl.constexpr, CHILDREN: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    cluster = tl.program_id(0)
    start, end = tl.load(bounds + cluster), tl.load(bounds + cluster + 1)
    begin = tl.load(begins + cluster)
    count = tl.load(begins + cluster + 1) - begin
    child = tl.program_id(1) * CHILDREN + tl.arange(0, CHILDREN)
    is_child = child < count
    for at in range(start + PAIRS * tl.program_id(2), end, PAIRS * SPLIT):
        place = at + tl.arange(0, PAIRS)
        is_pair = place < end
        pair = tl.load(pairs + place, is_pair, 0)
        total = tl.zeros((PAIRS, CHILDREN), tl.float32)
        for first in range(0, dimension, COLUMNS):
            column = first + tl.arange(0, COLUMNS)
            inside = (column < dimension)[None, :]
            left = tl.load(
                vectors + (pair // each)[:, None] * dimension + column[None, :], is_pair[:, None] & inside, 0.0
            )
            right = tl.load(
                weights + (begin + child)[:, None] * dimension + column[None, :], is_child[:, None] & inside, 0.0
            )
            total += tl.dot(left, tl.trans(right), input_precision="tf32x3")
        if BIASED:
            total += tl.load(bias + begin + child, is_child, 0.0)[None, :]
        tl.store(found + pair[:, None] * width + child[None, :], total, is_pair[:, None] & (child < width)[None, :])


@triton.jit
def _of_vectors(
    gradient, weights, begins, pairs, bounds, found, width, dimension,
    PAIRS: tl.constexpr, SPLIT: tl.constexpr, CHILDREN: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    cluster = tl.program_id(0)
    start, end = tl.load(bounds + cluster), tl.load(bounds + cluster + 1)
    begin = tl.load(begins + cluster)
    count = tl.load(begins + cluster + 1) - begin
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (column < dimension)[None, :]
    for at in range(start + PAIRS * tl.program_id(2), end, PAIRS * SPLIT):
        place = at + tl.arange(0, PAIRS)
        is_pair = (place < end)[:, None]
        pair = tl.load(pairs + place, place < end, 0)[:, None]
        total = tl.zeros((PAIRS, COLUMNS), tl.float32)
        for first in range(0, count, CHILDREN):
            child = first + tl.arange(0, CHILDREN)
            left = tl.load(gradient + pair * width + child[None, :], is_pair & (child < count)[None, :], 0.0)
            right = tl.load(
                weights + (begin + child)[:, None] * dimension + column[None, :], (child < count)[:, None] & inside, 0.0
            )
            total += tl.dot(left, right, input_precision="tf32x3")
        tl.store(found + pair * dimension + column[None, :], total, is_pair & inside)


@triton.jit
def _of_weights(
    gradient, vectors, begins, pairs, bounds, found, of_bias, width, dimension, each,
    BIASED: tl.constexpr, PAIRS: tl.constexpr, CHILDREN: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    cluster = tl.program_id(0)
    start, end = tl.load(bounds + cluster), tl.load(bounds + cluster + 1)
    begin = tl.load(begins + cluster)
    count = tl.load(begins + cluster + 1) - begin
    child = tl.program_id(1) * CHILDREN + tl.arange(0, CHILDREN)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    is_child, inside = child < count, (column < dimension)[None, :]
    total = tl.zeros((CHILDREN, COLUMNS), tl.float32)
    summed = tl.zeros((CHILDREN,), tl.float32)
    for at in range(start, end, PAIRS):
        place = at + tl.arange(0, PAIRS)
        is_pair = (place < end)[:, None]
        pair = tl.load(pairs + place, place < end, 0)[:, None]
        left = tl.load(gradient + pair * width + child[None, :], is_pair & is_child[None, :], 0.0)
        right = tl.load(vectors + (pair // each) * dimension + column[None, :], is_pair & inside, 0.0)
        total += tl.dot(tl.trans(left), right, input_precision="tf32x3")
        summed += tl.sum(left, axis=0)
    tl.store(found + (begin + child)[:, None] * dimension + column[None, :], total, is_child[:, None] & inside)
    if BIASED:  # noqa: SIM102  # known when the kernel is compiled
        if tl.program_id(2) == 0:
            tl.store(of_bias + begin + child, summed, is_child)


def scores(
    vectors: Tensor, weights: Tensor, bias: Tensor | None, begins: Tensor, pairs: Tensor, bounds: Tensor,
    each: int, width: int,
) -> Tensor:  # fmt: skip
    """Score the children of each pair's cluster.

    Args:
        vectors: (examples, dimension) float32.
        weights: (children of all clusters, dimension) float32.
        bias: (children,), or None.
        begins: (clusters + 1,) int64, where the children of each cluster begin.
        pairs: (pairs,) int64, sorted by cluster; pair p is of example p // each.
        bounds: (clusters + 1,) int64, where the pairs of each cluster begin.
        each: clusters of an example.
        width: the most children of a cluster.

    Returns:
        (pairs, width), in the order of the examples; 0 behind a cluster's last child.
    """
    found = vectors.new_empty(len(pairs), width)
    clusters, children = len(begins) - 1, _children(width)
    _scores[(clusters, triton.cdiv(width, children), SPLIT)](
        vectors, weights, vectors if bias is None else bias, begins, pairs, bounds, found, width, vectors.shape[1],
        each, BIASED=bias is not None, PAIRS=PAIRS, SPLIT=SPLIT, CHILDREN=children, COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    return found


def gradients(
    gradient: Tensor, vectors: Tensor, weights: Tensor, begins: Tensor, pairs: Tensor, bounds: Tensor,
    each: int, biased: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """Compute the gradients of what `scores` took.

    Args:
        gradient: (pairs, width) float32 of the scores, contiguous.
        vectors: as `scores` took them.
        weights: as `scores` took them.
        begins: as `scores` took them.
        pairs: as `scores` took them.
        bounds: as `scores` took them.
        each: clusters of an example.
        biased: whether there is a bias.

    Returns:
        Of vectors, of weights, and of the bias where there is one.
    """
    width, dimension, clusters = gradient.shape[1], vectors.shape[1], len(begins) - 1
    children, columns = _children(width), triton.cdiv(dimension, COLUMNS)
    of_pairs, of_weights = vectors.new_empty(len(pairs), dimension), torch.empty_like(weights)
    of_bias = weights.new_empty(len(weights)) if biased else None
    _of_vectors[(clusters, columns, SPLIT)](
        gradient, weights, begins, pairs, bounds, of_pairs, width, dimension,
        PAIRS=PAIRS, SPLIT=SPLIT, CHILDREN=children, COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    _of_weights[(clusters, triton.cdiv(width, children), columns)](
        gradient, vectors, begins, pairs, bounds, of_weights, vectors if of_bias is None else of_bias, width, dimension,
        each, BIASED=biased, PAIRS=PAIRS, CHILDREN=children, COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    return of_pairs.view(len(vectors), each, dimension).sum(1), of_weights, of_bias


def _children(width: int) -> int:
    return min(max(int(triton.next_power_of_2(width)), 16), 128)
