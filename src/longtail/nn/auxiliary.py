"""Vectors that labels share: what stands for a label in training besides its text (DEXA)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from longtail.arrays import Bools, Floats, Longs
from longtail.nn.clusters import balanced_clusters
from longtail.nn.precision import best_device
from longtail.nn.towers import unit
from longtail.search.exact import top_k

ROUNDS = 15  # of k-means


class SharedVectors(nn.Module):
    """A label is normalise(its text's vector + the vector of its cluster); the labels of the head have one each.

    The vectors begin at zero, so that training begins at the text alone.
    """

    cluster: Tensor

    def __init__(
        self, spaces: Floats, head: Bools, number: int, grouping: Grouping, refresh: int, speed: float, seed: int
    ) -> None:
        super().__init__()
        self.head, self.number, self.grouping = head, number, grouping
        self.refresh, self.speed, self.seed = refresh, speed, seed
        self.register_buffer("cluster", torch.from_numpy(self._clusters(spaces, seed)))
        self.shared = nn.Embedding(int(head.sum()) + number, spaces.shape[1])
        nn.init.zeros_(self.shared.weight)

    def vectors(self, label_rows: Tensor, encoded: Tensor) -> Tensor:
        moved: Tensor = _Moved.apply(encoded, self.shared.weight, self.cluster.index_select(0, label_rows))  # type: ignore[no-untyped-call]
        return moved

    def groups(self, rate: float) -> list[dict[str, Any]]:
        return [{"params": list(self.shared.parameters()), "lr": self.speed * rate, "weight_decay": 0.0}]

    def begin_epoch(self, epoch: int, encode: Callable[[], Floats]) -> None:
        """Cluster anew by the texts' vectors as they are now; a new cluster begins at its labels' mean."""
        if self.refresh == 0 or epoch == 0 or epoch % self.refresh:
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
        """The vector of each label: first the head's own, then the clusters'."""
        found = np.empty(len(vectors), dtype=np.int64)
        own = int(self.head.sum())
        found[self.head] = np.arange(own)
        if self.number:
            rest = vectors[~self.head]
            device = str(best_device())
            grouped = self.grouping == "balanced"
            made = balanced_clusters(rest, number=self.number, seed=seed, device=device) if grouped else kmeans(
                rest, self.number, seed, device
            )  # fmt: skip
            found[~self.head] = own + made
        return found


class _Moved(torch.autograd.Function):
    """normalise(encoded + shared[places]), in a third of the launches that autograd would make of it: small ones that
    a small encoder's step waits for."""

    @staticmethod
    def forward(ctx: Any, encoded: Tensor, shared: Tensor, places: Tensor) -> Tensor:
        whole = shared.index_select(0, places).add_(encoded)
        scale = torch.linalg.vector_norm(whole, dim=1, keepdim=True).clamp_(min=1e-12).reciprocal_()
        moved = whole.mul_(scale)
        ctx.save_for_backward(moved, scale, places)
        ctx.number = len(shared)
        return moved

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None]:
        (slope,) = slopes
        moved, scale, places = ctx.saved_tensors
        along = torch.linalg.vecdot(slope, moved)[:, None]
        found = torch.addcmul(slope, moved, along, value=-1).mul_(scale)
        pull = found.new_zeros(ctx.number, found.shape[1]).index_add_(0, places, found)
        return found, pull, None


Grouping = Literal["balanced", "kmeans"]


def kmeans(vectors: Floats, number: int, seed: int, device: str) -> Longs:
    """Spherical k-means from random rows; a cluster that loses all its rows stays where it was."""
    centres = unit(vectors[np.random.default_rng(seed).permutation(len(vectors))[:number]])
    found = np.zeros(len(vectors), dtype=np.int64)
    for _ in range(ROUNDS):
        nearest = top_k(vectors, centres, 1, device=device)[0][:, 0].astype(np.int64)
        if np.array_equal(nearest, found):
            break
        found = nearest
        sums = np.zeros_like(centres)
        np.add.at(sums, found, vectors)
        some = np.bincount(found, minlength=number) > 0
        centres[some] = unit(sums[some])
    return found
