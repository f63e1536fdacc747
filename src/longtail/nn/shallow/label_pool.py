"""The labels that a batch is compared with, where there are too many for all: a pool that its rows share.

The pool holds every positive of the batch's rows, hard negatives, and random labels. One matrix product compares all
rows with the whole pool, so a row needs no list of its own to be cut or padded, and no positive counts as a negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Ints, Longs
from longtail.nn.onevsall.batch_targets import BatchTargets
from longtail.nn.shallow.label_head import LabelHead


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of labels: cluster c holds order[bounds[c]:bounds[c + 1]]."""

    order: Ints
    bounds: Longs

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def of(self) -> Longs:
        """The cluster of each label: (labels,)."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.repeat(np.arange(len(self)), np.diff(self.bounds))
        return found

    def members(self, clusters: Longs) -> Longs:
        """List the labels of clusters.

        Args:
            clusters: their numbers.

        Returns:
            Labels, cluster by cluster.
        """
        starts, sizes = self.bounds[clusters], np.diff(self.bounds)[clusters]
        ends = np.cumsum(sizes)
        return self.order[np.repeat(starts - ends + sizes, sizes) + np.arange(int(sizes.sum()))].astype(np.int64)


@dataclass(eq=False)
class Pool:
    """Chooses the labels of a batch. Hard negatives come from the best clusters of each row, or from shortlists."""

    labels: int
    random: int  # labels drawn at random
    meta: LabelHead | None = None  # classifiers of the clusters
    clusters: Clusters | None = None
    beam: int = 0  # clusters of a row
    nearest: Ints | None = None  # (rows, size) shortlist of each training row, -1 where it is shorter
    seed: int = 0

    def __post_init__(self) -> None:
        self.needs_vectors = self.clusters is not None

    def choose(self, batch: Longs, encode: Callable[[Longs], Tensor] | None, positives: Longs) -> Longs:
        """Choose the pool of a batch.

        Args:
            batch: numbers of the training rows.
            encode: rows to vectors (rows, dimension), for the beam over clusters.
            positives: labels of the batch's rows.

        Returns:
            Labels in rising order, without duplicates.
        """
        kept = np.zeros(self.labels, dtype=bool)
        kept[positives] = True
        if self.nearest is not None:
            near = self.nearest[batch]
            kept[near[near >= 0]] = True
        if self.clusters is not None and self.meta is not None and encode is not None:
            vectors = encode(batch)
            scores = vectors @ self.meta.own.weight.T + self.meta.bias.weight
            best = scores.topk(min(self.beam, scores.shape[1]), dim=1).indices
            kept[self.clusters.members(np.unique(best.cpu().numpy()))] = True
        rng = np.random.default_rng([self.seed, int(batch[0]), int(batch[-1]), len(batch)])
        kept[rng.integers(0, self.labels, self.random)] = True
        return np.flatnonzero(kept)


def renumbered(targets: BatchTargets, pool: Longs) -> BatchTargets:
    """Number the labels of targets by their place in a pool.

    Args:
        targets: of a batch.
        pool: labels in rising order, with all labels of the targets.

    Returns:
        The same targets with new label numbers.
    """
    places = np.searchsorted(pool, targets.sorted)
    return replace(targets, labels=torch.from_numpy(places).to(targets.labels.device), sorted=places)
