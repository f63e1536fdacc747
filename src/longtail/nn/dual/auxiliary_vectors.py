"""Auxiliary vectors that labels of a cluster share: what a label's vector has in training besides its text (DEXA)."""

from __future__ import annotations

from collections.abc import Callable
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
Clustering = Literal["balanced", "kmeans"]


class SharedVectors(nn.Module):
    """A label tower: a label's vector is normalise(its text's vector + the vector of its cluster). Each head label is
    a cluster of its own.

    The shared vectors are initialised with zeros, so training starts from the texts alone.
    """

    cluster: Tensor

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
        self.shared = nn.Embedding(int(head.sum()) + clusters, vectors.shape[1])
        nn.init.zeros_(self.shared.weight)

    def vectors(self, label_rows: Tensor, encoded: Tensor) -> Tensor:
        """See `LabelTower.vectors`."""
        clusters = self.cluster.index_select(0, label_rows)
        moved: Tensor = _AddAndNormalise.apply(encoded, self.shared.weight, clusters)  # type: ignore[no-untyped-call]
        return moved

    def groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """See `LabelTower.groups`."""
        scaled = self.learning_rate_scale * learning_rate
        return [{"params": list(self.shared.parameters()), "lr": scaled, "weight_decay": 0.0}]

    def begin_epoch(self, epoch: int, encode: Callable[[], Floats]) -> None:
        """See `LabelTower.begin_epoch`: clusters the labels again by their texts' vectors. A new cluster's vector
        starts from the mean of its labels' vectors."""
        if self.refresh_every == 0 or epoch == 0 or epoch % self.refresh_every:
            return
        device = self.cluster.device
        fresh = torch.from_numpy(self._clusters(encode(), self.seed + epoch)).to(device)
        with torch.no_grad():
            old = self.shared(self.cluster)  # (labels, dimension)
            sums = torch.zeros_like(self.shared.weight).index_add_(0, fresh, old)
            sizes = torch.bincount(fresh, minlength=len(sums)).clamp(min=1)
            self.shared.weight.copy_(sums / sizes[:, None])
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
