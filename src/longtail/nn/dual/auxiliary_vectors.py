"""Auxiliary vectors that labels of a cluster share: what a label's vector has in training besides its text (DEXA)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Bools, Floats, Longs
from longtail.nn.dual.balanced_clusters import balanced_clusters
from longtail.nn.encoders.text_encoder import normalised
from longtail.nn.training.precision import best_device
from longtail.search.exact import top_k

MAX_ITERATIONS = 15  # of k-means
BETAS = (0.9, 0.999)  # of AdamW, as the encoder's
EPSILON = 1e-6
Clustering = Literal["balanced", "kmeans"]


class SharedVectors(nn.Module):
    """A label tower: a label's vector is normalise(its text's vector + the vector of its cluster). Each head label is
    a cluster of its own.

    The shared vectors are initialised with zeros, so training starts from the texts alone. A step reads and updates
    only the vectors of its labels, by AdamW whose moments are bias-corrected by a vector's own updates, so it costs the
    same for any number of clusters. The moments are no part of the state dict: a copy of the best weights is no larger
    than the weights.
    """

    cluster: Tensor
    shared: Tensor
    first: Tensor
    second: Tensor
    updates: Tensor

    def __init__(
        self,
        vectors: Floats,
        head: Bools,
        clusters: int,
        clustering: Clustering,
        refresh_every: int,
        learning_rate_scale: float,
        seed: int,
    ) -> None:
        """Cluster the labels.

        Args:
            vectors: (labels, dimension) unit vectors that labels are clustered by.
            head: (labels,) the labels that share their vector with no other.
            clusters: of the other labels.
            clustering: how they are clustered.
            refresh_every: epochs between two clusterings; 0: never again.
            learning_rate_scale: the vectors' learning rate, as a multiple of the encoder's.
            seed: of the clustering.
        """
        super().__init__()
        self.head, self.clusters, self.clustering = head, clusters, clustering
        self.refresh_every, self.learning_rate_scale, self.seed = refresh_every, learning_rate_scale, seed
        self.register_buffer("cluster", torch.from_numpy(self._clusters(vectors, seed)))
        rows = int(head.sum()) + clusters + 1  # the last is where unused places of a step point to
        for name in ("shared", "first", "second"):
            self.register_buffer(name, torch.zeros(rows, vectors.shape[1]), persistent=name == "shared")
        self.register_buffer("updates", torch.zeros(rows, dtype=torch.int32), persistent=False)
        self._used: list[tuple[Tensor, Tensor]] = []  # rows of this step's batches, and their vectors as leaves

    @classmethod
    def free(cls, init: Floats) -> SharedVectors:
        """A vector of its own for each label.

        Args:
            init: (labels, dimension) what the vectors start from.

        Returns:
            The tower, whose vectors have the encoder's learning rate.
        """
        tower = cls(init, np.ones(len(init), dtype=bool), 0, "balanced", 0, 1.0, 0)
        tower.shared[:-1] = torch.from_numpy(init)
        return tower

    def vectors(self, label_rows: Tensor, encoded: Tensor) -> Tensor:
        """See `LabelTower.vectors`."""
        rows, places = self._distinct(self.cluster.index_select(0, label_rows))
        taken = self.shared.index_select(0, rows)
        if torch.is_grad_enabled():
            self._used.append((rows, taken.requires_grad_()))
        vectors: Tensor = _AddAndNormalise.apply(encoded, taken, places)  # type: ignore[no-untyped-call]
        return vectors

    def _distinct(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The distinct rows, as many places as before, and the place of each row. No shape depends on the values, so
        the device need not be waited for; places left over hold the last row of the table."""
        ordered, order = rows.sort()
        new = torch.ones_like(ordered, dtype=torch.bool)
        new[1:] = ordered[1:] != ordered[:-1]
        place = new.cumsum(0) - 1
        distinct = torch.full_like(rows, len(self.shared) - 1).scatter_(0, place, ordered)
        return distinct, torch.empty_like(rows).scatter_(0, order, place)

    def groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """See `LabelTower.groups`: the vectors update themselves."""
        return []

    def begin_step(self) -> None:
        """See `LabelTower.begin_step`."""
        self._used = []

    @torch.no_grad()
    def end_step(self, learning_rate: float) -> None:
        """See `LabelTower.end_step`: one step of AdamW on the vectors that the step has used."""
        used = [(rows, leaf.grad) for rows, leaf in self._used if leaf.grad is not None]
        self._used = []
        if not used:
            return
        named = torch.cat([rows for rows, _ in used])
        rows, places = self._distinct(named)
        gradients = torch.cat([gradient for _, gradient in used if gradient is not None])
        gradient = torch.zeros_like(gradients).index_add_(0, places, gradients)
        first, second = (table.index_select(0, rows) for table in (self.first, self.second))
        updates = self.updates.index_select(0, rows) + 1
        times = updates.double()[:, None]  # in float32, 1 - 0.999 has only four correct digits
        first.lerp_(gradient, 1 - BETAS[0])
        second.lerp_(gradient.square(), 1 - BETAS[1])
        step = (self.learning_rate_scale * learning_rate / (1 - BETAS[0] ** times)).float()
        deviation = (second / (1 - BETAS[1] ** times).float()).sqrt_().add_(EPSILON)
        vectors = self.shared.index_select(0, rows).sub_(step * first / deviation)
        # Rows that are named twice are places left over: the last row of the table, which stands for no label.
        for table, values in ((self.shared, vectors), (self.first, first), (self.second, second)):
            table.index_copy_(0, rows, values)
        self.updates.index_copy_(0, rows, updates)

    def state(self) -> dict[str, Tensor]:
        """See `LabelTower.state`: the moments."""
        return {"first": self.first, "second": self.second, "updates": self.updates}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `LabelTower.load_state`."""
        for name, tensor in state.items():
            getattr(self, name).copy_(tensor)

    def begin_epoch(self, epoch: int, encode: Callable[[], Floats]) -> None:
        """See `LabelTower.begin_epoch`: clusters the labels again by their texts' vectors. A new cluster's vector
        starts from the mean of its labels' vectors, and so do its moments."""
        if self.refresh_every == 0 or epoch == 0 or epoch % self.refresh_every:
            return
        device = self.cluster.device
        fresh = torch.from_numpy(self._clusters(encode(), self.seed + epoch)).to(device)
        sizes = torch.bincount(fresh, minlength=len(self.shared)).clamp(min=1)[:, None]
        for table in (self.shared, self.first, self.second):
            table.copy_(torch.zeros_like(table).index_add_(0, fresh, table[self.cluster]) / sizes)
        counts = self.updates[self.cluster].double()
        means = torch.zeros(len(sizes), dtype=counts.dtype, device=device).index_add_(0, fresh, counts) / sizes[:, 0]
        self.updates.copy_(means.round().clamp(min=0))
        self.cluster.copy_(fresh)

    def _clusters(self, vectors: Floats, seed: int) -> Longs:
        """(labels,) the shared vector of each label: first those of head labels, then those of clusters."""
        found = np.empty(len(vectors), dtype=np.int64)
        own = int(self.head.sum())
        found[self.head] = np.arange(own)
        if self.clusters:
            rest = vectors[~self.head]
            device = str(best_device())
            if self.clustering == "balanced":
                made = balanced_clusters(rest, number=self.clusters, seed=seed, device=device)
            else:
                made = kmeans(rest, self.clusters, seed, device)
            found[~self.head] = own + made
        return found


class _AddAndNormalise(torch.autograd.Function):
    """normalise(encoded + shared[clusters]). Autograd would launch three times as many kernels, small ones that a small
    encoder's step waits for."""

    @staticmethod
    def forward(ctx: Any, encoded: Tensor, shared: Tensor, clusters: Tensor) -> Tensor:
        total = shared.index_select(0, clusters).add_(encoded)
        scale = torch.linalg.vector_norm(total, dim=1, keepdim=True).clamp_(min=1e-12).reciprocal_()
        moved = total.mul_(scale)
        ctx.save_for_backward(moved, scale, clusters)
        ctx.rows = len(shared)
        return moved

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = gradients
        moved, scale, clusters = ctx.saved_tensors
        along = torch.linalg.vecdot(gradient, moved)[:, None]
        to_encoded = torch.addcmul(gradient, moved, along, value=-1).mul_(scale)
        to_shared = to_encoded.new_zeros(ctx.rows, to_encoded.shape[1]).index_add_(0, clusters, to_encoded)
        return to_encoded, to_shared, None


def kmeans(vectors: Floats, number: int, seed: int, device: str) -> Longs:
    """Spherical k-means. A cluster that loses all its rows keeps its centre.

    Args:
        vectors: (rows, dimension) unit vectors.
        number: of clusters.
        seed: chooses the rows that are the first centres.
        device: where to search for the nearest centre.

    Returns:
        (rows,) the cluster of each row.
    """
    centres = normalised(vectors[np.random.default_rng(seed).permutation(len(vectors))[:number]])
    found = np.zeros(len(vectors), dtype=np.int64)
    for _ in range(MAX_ITERATIONS):
        nearest = top_k(vectors, centres, 1, device=device)[0][:, 0].astype(np.int64)
        if np.array_equal(nearest, found):
            break
        found = nearest
        sums = np.zeros_like(centres)
        np.add.at(sums, found, vectors)
        filled = np.bincount(found, minlength=number) > 0
        centres[filled] = normalised(sums[filled])
    return found
