"""The classifiers of every level of a label tree: one vector a node, the loss that trains them, and beam search.

In training an example's own clusters always come first among those whose children are scored (teacher forcing); in
prediction they are not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.arrays import Ints
from longtail.nn.label_tree.candidate_blocks import Entries, block_scores, block_targets, blocks_of
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.training.thread_invariant import softplus

TINY = 1e-30  # smaller probabilities are raised to this
CANDIDATE_BYTES = 32  # that a search takes for a candidate


class LevelFeature(NamedTuple):
    """What a level's classifiers see of the encoder's vector."""

    first: int  # column
    last: int  # behind the last column
    mapped: int | None  # numbers after a linear layer of its own; None: no layer
    dropout: float


class LevelHeads(nn.Module):
    """One vector, and perhaps a bias, for each node of each level; the last level's nodes are the labels."""

    whole_path = False  # a node's probability is multiplied by those of all nodes above it, not of its parent alone

    def __init__(
        self, levels: LabelLevels, features: Sequence[LevelFeature], biased: Sequence[bool], beam: int, by_parent: bool
    ) -> None:
        """Random weights, biases of 0.

        Args:
            levels: the tree.
            features: of each level.
            biased: whether a level's nodes have biases.
            beam: clusters of each level whose children are scored.
            by_parent: whether a label's probability is multiplied by its cluster's.
        """
        super().__init__()
        self.order: Tensor
        self.levels, self.features, self.by_parent = levels, tuple(features), by_parent
        self.beams = beams_of(levels, beam)
        self.weights, self.bias, self.maps = nn.ParameterList(), nn.ParameterDict(), nn.ModuleDict()
        for level, feature in enumerate(features):
            nodes, width = levels.nodes(level), feature.mapped or feature.last - feature.first
            self.weights.append(nn.init.xavier_uniform_(torch.empty(nodes, width)))
            if biased[level]:
                self.bias[str(level)] = torch.zeros(nodes)
            if feature.mapped is not None:
                self.maps[str(level)] = nn.Linear(feature.last - feature.first, feature.mapped)
        for level, begins in enumerate(levels.begins):
            self.register_buffer(f"begins{level}", torch.from_numpy(np.asarray(begins)).clone(), persistent=False)
            parents = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
            self.register_buffer(f"parents{level}", torch.from_numpy(parents), persistent=False)
        self.register_buffer("order", torch.from_numpy(levels.order.astype(np.int64)), persistent=False)

    @property
    def of_labels(self) -> Tensor:
        """(nodes of the last level, width) the labels' classifiers, in the order of their nodes."""
        weights: Tensor = self.weights[-1]
        return weights

    def begin_at(self, positives: float) -> None:
        """Start every bias at the log odds of a candidate.

        Args:
            positives: labels of an example, on average.
        """
        for level in range(self.levels.count):
            if str(level) in self.bias:
                candidates = float(self.levels.nodes(0))
                if level:
                    candidates = self.beams[level - 1] * self.levels.nodes(level) / self.levels.nodes(level - 1)
                share = min(max(positives / candidates, 1e-6), 0.5)
                nn.init.constant_(self.bias[str(level)], math.log(share / (1 - share)))

    @torch.no_grad()
    def begin_with(self, vectors: Tensor) -> None:
        """Start every label's classifier at a vector, as its level sees it, and every cluster's at the mean of its
        labels'; all have norm 1.

        Args:
            vectors: (labels, dimension) of the encoder.
        """
        for level, feature in enumerate(self.features):
            seen = vectors[:, feature.first : feature.last]
            if str(level) in self.maps:
                seen = self.maps[str(level)](seen)
            self.weights[level].copy_(mean_directions(seen, self.levels.node_of_label[level], self.levels.nodes(level)))

    def loss(self, vectors: Any, entries: Sequence[Entries]) -> Tensor:
        """The sum over the levels of the mean binary cross-entropy of the candidates.

        Args:
            vectors: (examples, dimension) of the encoder; a subclass may take something else.
            entries: the targets of each level's nodes.

        Returns:
            A number with a gradient.
        """
        scores = self._score(vectors, 0, None)
        targets = entries[0].values.new_zeros(scores.shape)
        targets.view(-1).scatter_reduce_(
            0, entries[0].examples * scores.shape[1] + entries[0].nodes, entries[0].values, "amax"
        )
        total = cross_entropy(scores, targets).mean()
        guide, nodes = torch.sigmoid(scores.detach()) + (targets > 0), None
        for level in range(1, self.levels.count):
            parents = self._best(guide, nodes, self.beams[level - 1])[0]
            begins, parent_of = self._buffer("begins", level - 1), self._buffer("parents", level - 1)
            nodes, real = blocks_of(begins, parents, self.levels.widest(level - 1))
            scores = self._score(vectors, level, parents)
            targets = block_targets(parents, begins, parent_of, entries[level], scores.shape[2])
            total = total + (cross_entropy(scores, targets) * real).sum() / real.sum()
            guide = torch.sigmoid(scores.detach()) + (targets > 0)
            guide = guide.masked_fill(~real, -1.0)
        return total

    @torch.inference_mode()
    def search(self, vectors: Any, k: int) -> tuple[Tensor, Tensor]:
        """Find the best labels by beam search.

        Args:
            vectors: (examples, dimension) of the encoder.
            k: labels of an example.

        Returns:
            Labels (examples, k), -1 behind the last candidate, and log odds (examples, k), best first.
        """
        scores, nodes, parents = self._score(vectors, 0, None), None, None
        probability = logs = F.logsigmoid(scores)
        for level in range(1, self.levels.count):
            parents, logs = self._best(probability, nodes, self.beams[level - 1])
            nodes, real = blocks_of(self._buffer("begins", level - 1), parents, self.levels.widest(level - 1))
            probability = F.logsigmoid(self._score(vectors, level, parents)).masked_fill(~real, -math.inf)
            if self.whole_path and level < self.levels.count - 1:
                probability = probability + logs.unsqueeze(-1)
        if self.by_parent and nodes is not None:
            probability = probability + logs.unsqueeze(-1)
        held = probability.flatten(1)
        best, places = torch.topk(held, min(k, held.shape[1]), dim=1)
        labels = self.order[places if nodes is None else nodes.flatten(1).gather(1, places)]
        labels = torch.where(torch.isfinite(best), labels, -1)
        best = best.clamp(min=math.log(TINY))
        odds = best - torch.log((-torch.expm1(best)).clamp(min=1e-7))
        return F.pad(labels, (0, k - labels.shape[1]), value=-1), F.pad(odds, (0, k - odds.shape[1]), value=-100.0)

    @property
    def row_bytes(self) -> int:
        """About how much memory a search takes for a row: its candidates, and its vector once for each cluster."""
        most = self.levels.nodes(0)
        for level, beam in enumerate(self.beams):
            feature = self.features[level + 1]
            width = feature.mapped or feature.last - feature.first
            most = max(most, beam * (self.levels.widest(level) + width // 4))
        return CANDIDATE_BYTES * most

    def _score(self, vectors: Any, level: int, parents: Tensor | None) -> Tensor:
        feature = self.features[level]
        seen = F.dropout(vectors[:, feature.first : feature.last], feature.dropout, self.training)
        if str(level) in self.maps:
            seen = self.maps[str(level)](seen)
        weights, bias = self.weights[level], self.bias.get(str(level))
        if parents is None:
            return F.linear(seen, weights, bias)
        begins = self._buffer("begins", level - 1)
        return block_scores(seen, weights, bias, begins, parents, self.levels.widest(level - 1))

    def _best(self, guide: Tensor, nodes: Tensor | None, beam: int) -> tuple[Tensor, Tensor]:
        """The best nodes of each example and their values; `nodes` None: `guide` holds every node of the level."""
        values, places = torch.topk(guide.flatten(1), beam, dim=1)
        return (places if nodes is None else nodes.flatten(1).gather(1, places)), values

    def _buffer(self, name: str, level: int) -> Tensor:
        found: Tensor = self.get_buffer(f"{name}{level}")
        return found


def beams_of(levels: LabelLevels, beam: int) -> tuple[int, ...]:
    """Clusters of each level whose children are scored: never more than a level has, or than are candidates there.

    Args:
        levels: the tree.
        beam: the setting.

    Returns:
        A number for each level of clusters.
    """
    if not levels.begins:
        return ()
    found = [min(beam, levels.nodes(0))]
    for level in range(1, len(levels.begins)):
        found.append(min(beam, found[-1] * levels.narrowest(level - 1)))
    return tuple(found)


def mean_directions(vectors: Tensor, node_of: Ints, nodes: int) -> Tensor:
    """The mean direction of the vectors of each node.

    Args:
        vectors: (vectors, dimension).
        node_of: (vectors,) the node of each.
        nodes: how many there are.

    Returns:
        (nodes, dimension), of norm 1; 0 for a node without vectors.
    """
    sums = vectors.new_zeros(nodes, vectors.shape[1])
    sums.index_add_(0, torch.from_numpy(node_of.astype(np.int64)), F.normalize(vectors))
    return F.normalize(sums)


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """Binary cross-entropy of soft targets, number by number.

    Args:
        scores: of any shape, before the sigmoid.
        targets: from 0 to 1, of the same shape.

    Returns:
        Losses of the same shape, with their gradient.
    """
    return softplus(scores) - targets * scores
