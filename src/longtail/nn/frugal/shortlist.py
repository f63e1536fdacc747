"""The labels that a batch is compared with, where there are too many for all: a pool that its rows share.

The pool holds every label that some row of the batch has, whatever a beam or a search says; the labels that are hard
to tell from those; and some at random. All rows are compared with the whole pool in one matrix product: no row's list
is cut or filled up, and no label that is right is ever taken as wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from longtail.arrays import Ints, Longs
from longtail.nn.frugal.labels import Labels
from longtail.nn.heads.entries import Entries


@dataclass(frozen=True, eq=False)
class Clusters:
    """Labels in groups: cluster c holds order[bounds[c]:bounds[c + 1]]."""

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

    def members(self, some: Longs) -> Longs:
        """The labels of these clusters."""
        begins, sizes = self.bounds[some], np.diff(self.bounds)[some]
        ends = np.cumsum(sizes)
        return self.order[np.repeat(begins - ends + sizes, sizes) + np.arange(int(sizes.sum()))].astype(np.int64)


@dataclass(eq=False)
class Pool:
    """Where the hard labels come from: the best clusters of each row, or a list made before."""

    labels: int
    random: int  # labels drawn at random
    meta: Labels | None = None
    clusters: Clusters | None = None
    beam: int = 0  # clusters of a row
    nearest: Ints | None = None  # (rows, some) labels of each training row, -1 where there are fewer
    seed: int = 0

    def __post_init__(self) -> None:
        self.asks = self.clusters is not None

    def of(self, batch: Longs, read: Callable[[Longs], Tensor] | None, right: Longs) -> Longs:
        """Labels in order, each once. `right` are those that some row has."""
        kept = np.zeros(self.labels, dtype=bool)
        kept[right] = True
        if self.nearest is not None:
            near = self.nearest[batch]
            kept[near[near >= 0]] = True
        if self.clusters is not None and self.meta is not None and read is not None:
            vectors = read(batch)
            scores = vectors @ self.meta.own.weight.T + self.meta.bias.weight
            best = scores.topk(min(self.beam, scores.shape[1]), dim=1).indices
            kept[self.clusters.members(np.unique(best.cpu().numpy()))] = True
        chance = np.random.default_rng([self.seed, int(batch[0]), int(batch[-1]), len(batch)])
        kept[chance.integers(0, self.labels, self.random)] = True
        return np.flatnonzero(kept)


def renumbered(entries: Entries, pool: Longs) -> Entries:
    """The same entries with labels numbered by their place in the pool, which holds all of them."""
    places = np.searchsorted(pool, entries.sorted)
    return replace(entries, labels=torch.from_numpy(places).to(entries.labels.device), sorted=places)
