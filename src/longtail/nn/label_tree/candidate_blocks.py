"""Scores of the children of each example's clusters.

The candidates of an example are whole clusters, and the children of a cluster are a run of rows of the weights. So the
pairs of example and cluster are sorted by cluster and cut into tiles of a few examples of one cluster: each tile is one
small product with a run of weights that is read once, where a gather would read it for every pair. Only the weights of
some tiles are copied at a time, and copied again for the gradients, so that no step holds all of them.

A GPU scores all nodes where those are few: one large product, of which the candidates are taken, is faster than sorting
pairs, and it need not wait for the host, which would have to learn how many tiles there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.autograd.function import once_differentiable

from longtail.nn.extra import has_kernels

MAX_HEIGHT = 32  # examples of a tile
WHOLE = {"cpu": 0, "cuda": 1 << 27}  # scores of a batch, all nodes counted, up to which all are computed
COPIED = {"cpu": 1 << 20, "cuda": 1 << 26}  # numbers of weights copied at a time


class CandidateBlocks(NamedTuple):
    """The candidates of a batch."""

    nodes: Tensor  # (examples, clusters of an example, width) int64; where `real` is False, any node
    real: Tensor  # the same shape, bool: False behind the last child of a smaller cluster


def blocks_of(begins: Tensor, parents: Tensor, width: int) -> CandidateBlocks:
    """List the children of clusters.

    Args:
        begins: (clusters + 1,) int64, where the children of each cluster begin.
        parents: (examples, clusters of an example) int64.
        width: the most children of a cluster.

    Returns:
        The children.
    """
    nodes = begins[parents].unsqueeze(-1) + torch.arange(width, device=begins.device)
    real = nodes < begins[parents + 1].unsqueeze(-1)
    return CandidateBlocks(torch.minimum(nodes, begins[-1] - 1), real)


def block_scores(
    vectors: Tensor, weights: Tensor, bias: Tensor | None, begins: Tensor, parents: Tensor, width: int
) -> Tensor:
    """Score the children of each example's clusters.

    Args:
        vectors: (examples, dimension).
        weights: (children of all clusters, dimension).
        bias: (children,), or None.
        begins: (clusters + 1,) int64, where the children of each cluster begin.
        parents: (examples, clusters of an example) int64.
        width: the most children of a cluster.

    Returns:
        (examples, clusters of an example, width) products; those behind a cluster's last child mean nothing. Carries
        gradients to vectors, weights and bias.
    """
    examples, each = parents.shape
    if examples * len(weights) <= WHOLE.get(vectors.device.type, 0):
        nodes = _children(begins[parents.flatten(1)], width, len(weights)).flatten(1)
        return F.linear(vectors, weights, bias).gather(1, nodes).view(examples, each, width)
    flat = parents.reshape(-1)
    cluster, pairs = torch.sort(flat, stable=True)
    if uses_kernels(vectors):
        bounds = torch.searchsorted(cluster, torch.arange(len(begins), device=flat.device))
        found: Tensor = _FusedProducts.apply(  # type: ignore[no-untyped-call]
            vectors.contiguous(), weights, bias, begins, pairs, bounds, each, width
        )
        return found.view(examples, each, width)
    place = torch.arange(len(flat), device=flat.device)
    within = place - torch.searchsorted(cluster, cluster)  # of the pairs of its cluster
    height = _height(len(flat), int((within == 0).sum()))
    starts = within % height == 0
    tile = torch.cumsum(starts, 0) - 1
    clusters = cluster[starts]  # of each tile
    slot = tile * height + within % height
    dimension = vectors.shape[1]
    rows = vectors.new_zeros(len(clusters) * height, dimension).index_copy(0, slot, vectors[pairs // each])
    first = begins[clusters]
    tiles = rows.view(len(clusters), height, dimension)
    scores: Tensor = _TileProducts.apply(tiles, weights, first, width)  # type: ignore[no-untyped-call]
    if bias is not None:
        scores = scores + bias[_children(first, width, len(bias))].unsqueeze(1)
    back = torch.empty_like(pairs)
    back[pairs] = slot
    return scores.reshape(-1, width)[back].view(examples, each, width)


def uses_kernels(vectors: Tensor) -> bool:
    """Decide whether the kernels of `nn/kernels/block_products.py` score.

    Args:
        vectors: of the examples.

    Returns:
        Whether they lie on a GPU for which Triton is installed, in float32.
    """
    return vectors.is_cuda and vectors.dtype == torch.float32 and has_kernels()


class _FusedProducts(torch.autograd.Function):
    """What tiles compute, by kernels that read a run of weights where it lies."""

    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, weights: Tensor, bias: Tensor | None, begins: Tensor, pairs: Tensor, bounds: Tensor,
        each: int, width: int,
    ) -> Tensor:  # fmt: skip
        """See `block_products.scores`."""
        from longtail.nn.kernels.block_products import scores

        ctx.save_for_backward(vectors, weights, begins, pairs, bounds)
        ctx.each, ctx.biased = each, bias is not None
        return scores(vectors, weights, bias, begins, pairs, bounds, each, width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """See `block_products.gradients`."""
        from longtail.nn.kernels.block_products import gradients

        vectors, weights, begins, pairs, bounds = ctx.saved_tensors
        found = gradients(gradient.contiguous(), vectors, weights, begins, pairs, bounds, ctx.each, ctx.biased)
        return (*found, None, None, None, None, None)


class _TileProducts(torch.autograd.Function):
    """The product of each tile's examples with its run of weights."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weights: Tensor, first: Tensor, width: int) -> Tensor:
        """Products (tiles, height, width) of rows (tiles, height, dimension) with the runs that begin at `first`."""
        ctx.save_for_backward(rows, weights, first)
        ctx.width = width
        found = rows.new_empty(*rows.shape[:2], width)
        for some, _, run in _runs(weights, first, width):
            torch.bmm(rows[some], run.transpose(1, 2), out=found[some])
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Gradients of rows and weights."""
        rows, weights, first = ctx.saved_tensors
        of_rows, of_weights = torch.empty_like(rows), torch.zeros_like(weights)
        for some, children, run in _runs(weights, first, ctx.width):
            torch.bmm(gradient[some], run, out=of_rows[some])
            of_run = torch.bmm(gradient[some].transpose(1, 2), rows[some], out=run)
            of_weights.index_add_(0, children, of_run.flatten(0, 1))
        return of_rows, of_weights, None, None


def _runs(weights: Tensor, first: Tensor, width: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Some tiles at a time, with their children and the weights of those: (tiles, width, dimension)."""
    many = max(COPIED.get(weights.device.type, COPIED["cpu"]) // (width * weights.shape[1]), 1)
    for begin in range(0, len(first), many):
        some = slice(begin, begin + many)
        children = _children(first[some], width, len(weights)).flatten()
        yield some, children, weights.index_select(0, children).view(-1, width, weights.shape[1])


def _children(first: Tensor, width: int, number: int) -> Tensor:
    return (first.unsqueeze(-1) + torch.arange(width, device=first.device)).clamp_(max=number - 1)


def _height(pairs: int, clusters: int) -> int:
    """Examples of a tile: as many as a cluster has on average, so that few places stay empty."""
    mean = -(-pairs // max(clusters, 1))
    return min(1 << (mean - 1).bit_length(), MAX_HEIGHT)


def block_targets(parents: Tensor, begins: Tensor, parent_of: Tensor, entries: Entries, width: int) -> Tensor:
    """The targets of the candidates. A target outside an example's clusters is none of its candidates, and is left out.

    Args:
        parents: (examples, clusters of an example) int64.
        begins: (clusters + 1,) int64.
        parent_of: (children,) the cluster of each child.
        entries: the targets of the children.
        width: the most children of a cluster.

    Returns:
        (examples, clusters of an example, width); the largest where a child has several targets.
    """
    size = parents.numel() * width
    found = entries.values.new_zeros(size + 1)  # the last place takes what is no candidate
    above = parent_of[entries.nodes]
    is_there = parents[entries.examples] == above.unsqueeze(-1)  # (entries, clusters of an example)
    inside = is_there.any(-1)
    which = is_there.int().argmax(-1)
    place = (entries.examples * parents.shape[1] + which) * width + entries.nodes - begins[above]
    found.scatter_reduce_(0, torch.where(inside, place, size), entries.values, "amax")
    return found[:size].view(*parents.shape, width)


class Entries(NamedTuple):
    """Targets above 0 of a batch, on one level."""

    examples: Tensor  # (entries,) int64, the place in the batch
    nodes: Tensor  # (entries,) int64
    values: Tensor  # (entries,) float32
