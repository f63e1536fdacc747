"""Training of one level of a label tree (XR-Transformer): an encoder and the classifiers of that level's nodes, each
example with the children of its own clusters and of those that the level above took for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from scipy import sparse
from torch import Tensor, nn

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.nn.label_tree.candidate_blocks import Entries, block_scores, block_targets, blocks_of
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.label_tree.tree_task import TreeTask
from longtail.nn.training.to_device import to_device


class LevelBatch(NamedTuple):
    """What the classifiers of a level are trained on."""

    right: Entries  # labels of an example below a node, counted
    parents: Tensor | None  # (examples, clusters of an example); None: all nodes are candidates


@dataclass(eq=False)
class ResolutionTask(TreeTask):
    """Trains one level. `targets` are counts of the level's nodes: csr (rows, nodes)."""

    parents: Ints | None = None  # (rows, clusters of a row) of the level above; None on the first level

    def entries(self, rows: Longs) -> LevelBatch:  # type: ignore[override]  # what `ResolutionHead.loss` takes
        """The targets and candidates of rows."""
        right = super().entries(rows)[0]
        return LevelBatch(right, None if self.parents is None else to_device(self.parents[rows], self.device, np.int64))


class ResolutionHead(nn.Module):
    """A vector and a bias for each node of one level; see `ResolutionTask`."""

    def __init__(self, levels: LabelLevels, level: int, weights: Floats, bias: Floats, dropout: float) -> None:
        """Begin at classifiers that are there already.

        Args:
            levels: the tree.
            level: the number of the level.
            weights: (nodes, dimension).
            bias: (nodes,).
            dropout: on the vectors.
        """
        super().__init__()
        self.dropout, self.width = dropout, levels.widest(level - 1) if level else 0
        self.weights = nn.Parameter(torch.from_numpy(np.array(weights, dtype=np.float32)))
        self.bias = nn.Parameter(torch.from_numpy(np.array(bias, dtype=np.float32)))
        begins = levels.begins[level - 1] if level else np.zeros(1, dtype=np.int64)
        self.begins: Tensor
        self.parent_of: Tensor
        self.register_buffer("begins", torch.from_numpy(np.asarray(begins)).clone(), persistent=False)
        parent_of = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        self.register_buffer("parent_of", torch.from_numpy(parent_of), persistent=False)

    def loss(self, vectors: Tensor, entries: LevelBatch) -> Tensor:
        """Squared hinge with margin 1, the mean over an example's candidates; a positive weighs as its count.

        Args:
            vectors: (examples, dimension) of the encoder.
            entries: of the batch.

        Returns:
            A number with a gradient.
        """
        seen = F.dropout(vectors, self.dropout, self.training)
        right, parents = entries
        if parents is None:
            scores = F.linear(seen, self.weights, self.bias)
            targets = torch.zeros_like(scores)
            targets.view(-1).scatter_(0, right.examples * scores.shape[1] + right.nodes, right.values)
            real = torch.ones_like(scores, dtype=torch.bool)
        else:
            scores = block_scores(seen, self.weights, self.bias, self.begins, parents, self.width)
            targets = block_targets(parents, self.begins, self.parent_of, right, self.width)
            real = blocks_of(self.begins, parents, self.width).real
        positive = targets > 0
        margins = torch.where(positive, 1 - scores, 1 + scores).clamp(min=0) ** 2
        losses = margins * torch.where(positive, targets, 1.0) * real
        dims = tuple(range(1, losses.ndim))
        mean: Tensor = (losses.sum(dims) / real.sum(dims)).mean()
        return mean

    @torch.inference_mode()
    def best(self, vectors: Tensor, parents: Tensor | None, k: int) -> Tensor:
        """The best nodes of each example.

        Args:
            vectors: (examples, dimension).
            parents: (examples, clusters of an example) whose children are asked for; None: all nodes.
            k: nodes of an example.

        Returns:
            (examples, k) nodes, best first.
        """
        if parents is None:
            return torch.topk(F.linear(vectors, self.weights, self.bias), k, dim=1)[1]
        scores = block_scores(vectors, self.weights, self.bias, self.begins, parents, self.width)
        nodes, real = blocks_of(self.begins, parents, self.width)
        places = torch.topk(scores.masked_fill(~real, -torch.inf).flatten(1), k, dim=1)[1]
        return nodes.flatten(1).gather(1, places)


def node_counts(targets: Matrix, node_of_label: Ints, nodes: int) -> Matrix:
    """How many labels of each row lie below each node of a level; soft targets count as what they are.

    Args:
        targets: csr (rows, labels).
        node_of_label: (labels,) on that level.
        nodes: of that level.

    Returns:
        csr (rows, nodes).
    """
    labels = len(node_of_label)
    below = sparse.csr_array((np.ones(labels, np.float32), (np.arange(labels), node_of_label)), shape=(labels, nodes))
    found = sparse.csr_array(targets @ below, dtype=np.float32)
    found.sort_indices()
    return found


def own_first(counts: Matrix, predicted: AnyArray, width: int) -> Ints:
    """A row's own nodes, then the predicted ones, each once: none of its own is dropped for a predicted one.

    Args:
        counts: csr (rows, nodes), above 0 where a node is the row's own.
        predicted: (rows, k) nodes, each once, best first.
        width: nodes of a row, at most k.

    Returns:
        (rows, width) nodes; of a row with more nodes of its own, those with the largest counts.
    """
    rows, k = predicted.shape
    nodes = counts.shape[1]
    own_rows, own_nodes = np.repeat(np.arange(rows), np.diff(counts.indptr)), counts.indices.astype(np.int64)
    row = np.append(own_rows, np.repeat(np.arange(rows), k))
    node = np.append(own_nodes, predicted.ravel().astype(np.int64))
    rank = np.append(-counts.data.astype(np.float64) - 1e6, np.tile(np.arange(k, dtype=np.float64), rows))
    order = np.lexsort((rank, node, row))
    keys = (row * nodes + node)[order]
    order = order[np.flatnonzero(np.diff(keys, prepend=-1))]  # of a node that is named twice, the better place
    order = order[np.lexsort((rank[order], row[order]))]
    starts = np.searchsorted(row[order], np.arange(rows))
    found: Ints = node[order][starts[:, None] + np.arange(width)].astype(np.int32)
    return found
