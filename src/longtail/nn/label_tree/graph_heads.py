"""Classifiers of clusters and labels that a graph connects, in probabilities: cluster x link x label.

All of it is computed in logarithms and in fp32, so that a probability near 0 still has a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from longtail.arrays import Ints
from longtail.nn.label_tree import candidate_blocks
from longtail.nn.label_tree.candidate_blocks import Entries
from longtail.nn.label_tree.cluster_graph import ClusterGraph

MORE = 5  # clusters of an example that training scores beyond the beam, where it has so many of its own
NEVER = -60.0  # logarithm of the probability of what is no candidate
WHOLE = 4  # labels for each candidate up to which scoring all labels is cheaper than gathering
FEW = 2  # labels for each link that is followed up to which a place for every label is cheaper than sorting
SURE = 1 - 1e-6  # the largest probability in the loss


class GraphHeads(nn.Module):
    """One vector a cluster and one a label, and the links between them."""

    def __init__(
        self,
        graph: ClusterGraph,
        labels: int,
        dimension: int,
        *,
        learned: bool,
        cluster_scale: float,
        link_scale: float,
        beam: int,
        shortlist: int,
        dropout: float = 0.0,
        shortlist_weight: float = 0.0,
        bias: float = 0.0,
        log_links: Tensor | None = None,
    ) -> None:
        """Random weights.

        Args:
            graph: the links.
            labels: how many there are.
            dimension: of the encoder's vectors.
            learned: whether links have strengths that are learned; false: all have strength 1.
            cluster_scale: alpha: about so many clusters can be fully on at once.
            link_scale: beta: about so many labels of a cluster can be fully on at once.
            beam: clusters of an example.
            shortlist: labels of an example that are scored.
            dropout: on the vectors.
            shortlist_weight: lambda: weight of the loss of the shortlist's own scores.
            bias: of every label at first.
            log_links: (clusters, links) of a trained model.
        """
        super().__init__()
        clusters, links = graph.members.shape
        self.cluster_scale, self.link_scale, self.learned = cluster_scale, link_scale, learned
        self.beam, self.shortlist = min(beam, clusters), min(shortlist, labels)
        self.dropout, self.shortlist_weight = dropout, shortlist_weight
        self.clusters = nn.Parameter(nn.init.xavier_uniform_(torch.empty(clusters, dimension)))
        self.weights = nn.Parameter(nn.init.xavier_uniform_(torch.empty(labels, dimension)))
        self.bias = nn.Parameter(torch.full((labels,), bias))
        self.strength = nn.Parameter(torch.rand(clusters, links) if learned else torch.zeros(0))
        self.strength.requires_grad_(learned)
        self.members: Tensor
        self.parent: Tensor
        self.register_buffer("members", torch.from_numpy(graph.members.astype(np.int64)), persistent=False)
        self.register_buffer("parent", torch.from_numpy(graph.parent.astype(np.int64)))
        self.fixed: Tensor
        fixed = torch.where(self.members >= 0, 0.0, NEVER) if log_links is None else log_links
        self.register_buffer("fixed", fixed, persistent=False)

    @property
    def of_labels(self) -> Tensor:
        """(labels, dimension) the labels' classifiers."""
        return self.weights

    def log_links(self) -> Tensor:
        """Logarithms (clusters, links) of the links' strengths, at most 0; what is no link never counts."""
        if not self.learned:
            return self.fixed
        real = self.members >= 0
        scores = F.log_softmax(self.strength.masked_fill(~real, -math.inf), dim=1)
        return (scores + math.log(self.link_scale)).clamp(max=0.0).masked_fill(~real, NEVER)

    @torch.no_grad()
    def renew_parents(self) -> None:
        """Let the labels of examples ask for the cluster with their strongest link."""
        real = self.members >= 0
        labels, strength = self.members[real], self.log_links()[real]
        cluster = torch.arange(len(self.members), device=labels.device).unsqueeze(1).expand_as(self.members)[real]
        best = strength.new_full((len(self.parent),), -math.inf).scatter_reduce_(0, labels, strength, "amax")
        is_best = strength == best[labels]
        many = len(self.members)
        first = torch.full_like(self.parent, many).scatter_reduce_(0, labels[is_best], cluster[is_best], "amin")
        self.parent.copy_(torch.where(first < many, first, self.parent))

    def loss(self, vectors: Tensor, entries: Sequence[Entries]) -> Tensor:
        """Cross-entropy of the labels' probabilities, and of the shortlist's scores of the right labels.

        Args:
            vectors: (examples, dimension) of the encoder.
            entries: targets of the labels, as the last of the list.

        Returns:
            A number with a gradient.
        """
        right = entries[-1]
        seen = F.dropout(vectors.float(), self.dropout, self.training)
        log_clusters = self._log_clusters(seen)
        guide = log_clusters.detach().exp()
        own = self.parent[right.nodes]
        asked = torch.zeros_like(guide).index_put_((right.examples, own), torch.ones_like(own, dtype=guide.dtype))
        chosen = torch.topk(guide + asked, min(self.beam + MORE, len(self.clusters)), dim=1)[1]
        kept = torch.arange(chosen.shape[1], device=chosen.device) < asked.sum(1, keepdim=True).clamp(min=self.beam)
        labels, logs = self._paths(log_clusters, chosen, kept)
        targets = targets_of(labels, right, len(self.weights))
        labels, logs, targets, near = self._shortlisted(labels, logs, targets)
        log_p = logs + F.logsigmoid(self._scores(seen, labels))
        p = log_p.exp().clamp(max=SURE)
        real = labels >= 0
        losses = -(targets * log_p + (1 - targets) * torch.log1p(-p))
        total = (losses * real).sum() / real.sum().clamp(min=1)
        return total + self.shortlist_weight * near

    @torch.inference_mode()
    def search(self, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Find the best labels.

        Args:
            vectors: (examples, dimension) of the encoder.
            k: labels of an example.

        Returns:
            Labels (examples, k), -1 behind the last candidate, and log odds (examples, k), best first.
        """
        log_clusters = self._log_clusters(vectors.float())
        labels, logs = self._paths(log_clusters, torch.topk(log_clusters, self.beam, dim=1)[1])
        logs, places = torch.topk(logs, min(self.shortlist, logs.shape[1]), dim=1)
        labels = labels.gather(1, places)
        log_p = (logs + F.logsigmoid(self._scores(vectors.float(), labels))).masked_fill(labels < 0, -math.inf)
        best, places = torch.topk(log_p, min(k, log_p.shape[1]), dim=1)
        labels = torch.where(torch.isfinite(best), labels.gather(1, places), -1)
        best = best.clamp(min=-80.0)
        odds = best - torch.log((-torch.expm1(best)).clamp(min=1e-7))
        return F.pad(labels, (0, k - labels.shape[1]), value=-1), F.pad(odds, (0, k - odds.shape[1]), value=-100.0)

    @property
    def row_bytes(self) -> int:
        """About how much memory a search takes for a row: its clusters, the paths from them, and the vectors of its
        shortlist."""
        clusters, links = self.members.shape
        labels, dimension = self.weights.shape
        scored = min(self.shortlist * (dimension + 8), 8 * labels)
        return int(16 * clusters + 96 * self.beam * links + 4 * scored)

    @torch.inference_mode()
    def best_clusters(self, vectors: Tensor) -> tuple[Ints, Tensor]:
        """The best clusters of each example and their probabilities, both (examples, beam)."""
        values, places = torch.topk(self._log_clusters(vectors.float()).exp(), self.beam, dim=1)
        return places.int().cpu().numpy(), values

    def _log_clusters(self, vectors: Tensor) -> Tensor:
        return (F.log_softmax(F.linear(vectors, self.clusters), dim=1) + math.log(self.cluster_scale)).clamp(max=0.0)

    def _paths(self, log_clusters: Tensor, chosen: Tensor, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Each label once, by its best path: labels (examples, paths), -1 where there is none, and their logarithms.
        Only clusters that are `kept` count."""
        logs = log_clusters.gather(1, chosen).unsqueeze(-1) + self.log_links()[chosen]
        members = self.members[chosen]
        if kept is not None:
            members = members.masked_fill(~kept.unsqueeze(-1), -1)
        if self._are_few(len(chosen)) or len(self.weights) <= FEW * members[0].numel():
            return self._reached(members.flatten(1), logs.flatten(1))
        labels, order = torch.sort(members.flatten(1), dim=1, stable=True)
        logs = logs.flatten(1).gather(1, order)
        is_new = F.pad(labels[:, 1:] != labels[:, :-1], (1, 0), value=True)
        group = torch.cumsum(is_new, 1) - 1
        best = torch.full_like(logs, 2 * NEVER).scatter_reduce(1, group, logs, "amax", include_self=False)
        named = torch.full_like(labels, -1).scatter(1, group, labels)
        return named, torch.where(named >= 0, best, 2 * NEVER)

    def _reached(self, members: Tensor, logs: Tensor) -> tuple[Tensor, Tensor]:
        """As `_paths`, in a place for every label, which needs no sorting."""
        number = len(self.weights)
        best = logs.new_full((len(members), number + 1), -math.inf)  # the last place takes what is no label
        best = best.scatter_reduce(1, torch.where(members >= 0, members, number), logs, "amax")[:, :number]
        is_there = torch.isfinite(best)
        labels = torch.where(is_there, torch.arange(number, device=members.device), -1)
        return labels, torch.where(is_there, best, 2 * NEVER)

    def _are_few(self, examples: int) -> bool:
        """Whether a device has memory for a number of every label and example."""
        whole: int = candidate_blocks.WHOLE.get(self.weights.device.type, 0)
        return examples * len(self.weights) <= whole

    def _shortlisted(self, labels: Tensor, logs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The best of the candidates, and the loss of the right ones among all: their mean where each example counts as
        many as the one that has most."""
        right = targets > 0
        near = -torch.where(right, targets * logs, 0.0).sum() / (len(right) * right.sum(1).amax()).clamp(min=1)
        if labels.shape[1] > self.shortlist:
            logs, places = torch.topk(logs, self.shortlist, dim=1)
            labels, targets = labels.gather(1, places), targets.gather(1, places)
        return labels, logs, targets, near

    def _scores(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Products of vectors with labels' classifiers: (examples, candidates)."""
        known = labels.clamp(min=0)
        if self._are_few(len(vectors)) or len(self.weights) <= WHOLE * labels.shape[1]:
            return F.linear(vectors, self.weights, self.bias).gather(1, known)
        return torch.einsum("ed,ekd->ek", vectors, self.weights[known]) + self.bias[known]


def targets_of(labels: Tensor, right: Entries, number: int) -> Tensor:
    """Look up the targets of candidates.

    Args:
        labels: (examples, candidates), -1 for none.
        right: targets above 0.
        number: of labels.

    Returns:
        (examples, candidates) float32.
    """
    if len(right.values) == 0:
        return torch.zeros_like(labels, dtype=torch.float32)
    keys, order = torch.sort(right.examples * number + right.nodes)
    asked = torch.arange(len(labels), device=labels.device).unsqueeze(1) * number + labels
    place = torch.searchsorted(keys, asked).clamp_(max=len(keys) - 1)
    is_right = (keys[place] == asked) & (labels >= 0)
    return torch.where(is_right, right.values[order][place], 0.0)
