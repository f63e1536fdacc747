"""What a net with meta-labels or a label graph leaves behind. Loads torch only to read texts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.nn.blend import Odds
from longtail.nn.towers import Reader
from longtail.predictions import ranked
from longtail.seams import State

PIECE = 1 << 23  # scores held at once
BEAM = 100  # labels whose scores flow along the graph


@dataclass(frozen=True, eq=False)
class MetaRows:
    """Classifiers of clusters, and the cluster of each label."""

    weights: Floats  # (clusters, dimension)
    bias: Floats  # (clusters,)
    cluster: Longs  # (labels,)


@dataclass(frozen=True, eq=False)
class FrugalScorer:
    """The chance of a label, times that of its cluster where there are clusters; half of it from its neighbours where
    there is a graph. Scores are chances, learned on held-out rows, in the same order."""

    reader: Reader
    weights: Floats  # (labels, dimension)
    bias: Floats  # (labels,)
    odds: Odds
    meta: MetaRows | None = None
    graph: Matrix | None = None  # csr (labels, labels)
    kind: ClassVar[str] = "frugal.v1"

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        if rows.texts is None:
            raise DataError("this model reads texts; give rows with texts, not only features")
        k = min(k, len(self.weights))
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self.reader.lengthy(rows.texts), k)
        return ranked(found, np.where(found < 0, np.float32(0), self.odds.of(scores)))

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """The k best labels of each vector (rows, dimension), and the logarithms of their scores."""
        k = min(k, len(self.weights))
        wide = k if self.graph is None else min(max(k, BEAM), len(self.weights))
        step = max(PIECE // max(len(self.weights), 1), 1)
        pieces = [self._best(vectors[begin : begin + step], wide) for begin in range(0, len(vectors), step)]
        found = np.concatenate([piece[0] for piece in pieces] or [np.zeros((0, wide), np.int32)])
        scores = np.concatenate([piece[1] for piece in pieces] or [np.zeros((0, wide), np.float32)])
        if self.graph is not None:
            found, scores = along(self.graph, found, scores)
        found, scores = ranked(found, scores)
        return found[:, :k], scores[:, :k]

    def _best(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        import torch

        weights, bias, *meta = self._held
        with torch.inference_mode():
            asked = torch.from_numpy(np.ascontiguousarray(vectors)).to(weights.device)
            scores = torch.nn.functional.logsigmoid(torch.addmm(bias, asked, weights.T))
            if meta:
                scores += torch.nn.functional.logsigmoid(torch.addmm(meta[1], asked, meta[0].T))[:, meta[2]]
            best, labels = scores.topk(k, dim=1)
            return labels.int().cpu().numpy(), best.float().cpu().numpy()

    @cached_property
    def _held(self) -> list[Any]:
        """The classifiers where the scores are computed."""
        import torch

        from longtail.nn.precision import best_device

        given: list[AnyArray] = [self.weights, self.bias]
        if self.meta is not None:
            given += [self.meta.weights, self.meta.bias, self.meta.cluster]
        return [torch.from_numpy(array).to(best_device()) for array in given]

    def row_norms(self) -> Floats:
        lengths: Floats = np.sqrt(np.einsum("ld,ld->l", self.weights, self.weights))
        return lengths

    def state(self) -> State:
        settings = {
            "encoder": self.reader.settings,
            "longest": self.reader.longest,
            "odds": [self.odds.slope, self.odds.offset],
        }
        tensors: dict[str, AnyArray] = {**self.reader.tensors(), "weights": self.weights, "bias": self.bias}
        if self.meta is not None:
            tensors |= {"meta.weights": self.meta.weights, "meta.bias": self.meta.bias, "cluster": self.meta.cluster}
        if self.graph is not None:
            tensors |= {f"graph.{name}": getattr(self.graph, name) for name in ("data", "indices", "indptr")}
        return State(settings, tensors)

    @classmethod
    def restore(cls, state: State) -> FrugalScorer:
        tensors, settings = state.tensors, state.settings
        reader = Reader.restore(settings["encoder"], settings["longest"], None, tensors)
        weights, bias = tensors["weights"], tensors["bias"]
        meta = graph = None
        checked = [(weights, bias)]
        if "cluster" in tensors:
            meta = MetaRows(tensors["meta.weights"], tensors["meta.bias"], tensors["cluster"])
            checked.append((meta.weights, meta.bias))
            if meta.cluster.shape != bias.shape or meta.cluster.min() < 0 or meta.cluster.max() >= len(meta.bias):
                raise ValueError("labels that belong to no cluster")
        for rows, numbers in checked:
            if rows.ndim != 2 or rows.dtype != np.float32 or not np.isfinite(rows).all():
                raise ValueError("the weights are not one finite vector a label")
            if numbers.shape != rows.shape[:1] or not np.isfinite(numbers).all():
                raise ValueError("the biases are not one finite number a label")
        if "graph.data" in tensors:
            parts = [tensors[f"graph.{name}"] for name in ("data", "indices", "indptr")]
            graph = sparse.csr_array(tuple(parts), shape=(len(bias), len(bias)))
            graph.check_format(full_check=True)
        slope, offset = (float(value) for value in settings["odds"])
        return cls(reader, weights, bias, Odds(slope, offset), meta, graph)


def along(graph: Matrix, found: Ints, scores: Floats) -> tuple[Ints, Floats]:
    """½ S + ½ top(S G), where S holds the chances of the labels found: labels and logarithms, -1 where there are
    fewer."""
    from longtail.linear.cooccurrence import strongest

    rows, wide = found.shape
    starts = np.arange(0, found.size + 1, wide)
    chances = sparse.csr_array((np.exp(scores).ravel(), found.flatten(), starts), shape=(rows, graph.shape[0]))
    chances.sort_indices()
    mixed = (0.5 * chances + 0.5 * strongest((chances @ graph).tocsr(), wide)).tocsr()
    mixed.sort_indices()
    sizes = np.diff(mixed.indptr)
    places = np.arange(int(sizes.max(initial=0)))
    held = places < sizes[:, None]
    labels = np.full(held.shape, -1, dtype=np.int32)
    values = np.zeros(held.shape, dtype=np.float32)
    labels[held], values[held] = mixed.indices, np.log(np.maximum(mixed.data, 1e-30))
    return labels, values
