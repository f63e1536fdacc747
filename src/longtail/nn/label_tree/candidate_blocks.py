"""Scores of the children of each example's clusters.

The candidates of an example are whole clusters, and the children of a cluster are a run of rows of the weights. So the
pairs of example and cluster are sorted by cluster and cut into tiles of a few examples of one cluster: each tile is one
small product with a run of weights that is read once, where a gather would read it for every pair.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MAX_HEIGHT = 32  # examples of a tile


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
    return CandidateBlocks(nodes.clamp_(max=int(begins[-1]) - 1), real)


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
    flat = parents.reshape(-1)
    cluster, pairs = torch.sort(flat, stable=True)
    place = torch.arange(len(flat), device=flat.device)
    within = place - torch.searchsorted(cluster, cluster)  # of the pairs of its cluster
    height = _height(len(flat), int((within == 0).sum()))
    starts = within % height == 0
    tile = torch.cumsum(starts, 0) - 1
    clusters = cluster[starts]  # of each tile
    slot = tile * height + within % height
    dimension = vectors.shape[1]
    rows = vectors.new_zeros(len(clusters) * height, dimension).index_copy(0, slot, vectors[pairs // each])
    children = (begins[clusters].unsqueeze(-1) + torch.arange(width, device=flat.device)).clamp_(max=len(weights) - 1)
    run = weights.index_select(0, children.reshape(-1)).view(len(clusters), width, dimension)
    scores = torch.bmm(rows.view(len(clusters), height, dimension), run.transpose(1, 2))
    if bias is not None:
        scores = scores + bias[children].unsqueeze(1)
    back = torch.empty_like(pairs)
    back[pairs] = slot
    return scores.reshape(-1, width)[back].view(examples, each, width)


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
    found = entries.values.new_zeros((*parents.shape, width))
    above = parent_of[entries.nodes]
    is_there = parents[entries.examples] == above.unsqueeze(-1)  # (entries, clusters of an example)
    inside = is_there.any(-1)
    which = is_there.int().argmax(-1)
    place = (entries.examples * parents.shape[1] + which) * width + entries.nodes - begins[above]
    found.view(-1).scatter_reduce_(0, place[inside], entries.values[inside], "amax")
    return found


class Entries(NamedTuple):
    """Targets above 0 of a batch, on one level."""

    examples: Tensor  # (entries,) int64, the place in the batch
    nodes: Tensor  # (entries,) int64
    values: Tensor  # (entries,) float32
