"""The model of a shallow net with meta-labels or a label graph. Loads torch only to encode texts and score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Floats, Ints, Longs, Matrix
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.predictions import ranked
from longtail.seams import Array, Contents, Declaration, Misfit, State

PIECE = 1 << 23  # scores held at once
BEAM = 100  # labels whose probabilities are passed on along the graph


@dataclass(frozen=True, eq=False)
class MetaRows:
    """Classifiers of label clusters (meta-labels), and the cluster of each label."""

    weights: Floats  # (clusters, dimension)
    bias: Floats  # (clusters,)
    cluster: Longs  # (labels,)


def _declared_rows(settings: Mapping[str, Any]) -> Declaration:
    """The classifiers are as long as the encoder's vectors."""
    dimension = dimension_of(settings)
    return Declaration(
        {
            "weights": Array("float32", f"labels, {dimension}"),
            "meta.weights": Array("float32", f"clusters, {dimension}", optional=True),
        }
    )


def _check_whole(stored: Contents) -> None:
    """Clusters and the graph are there with all their arrays, or not at all."""
    for group in (("meta.weights", "meta.bias", "cluster"), ("graph.data", "graph.indices", "graph.indptr")):
        missing = [name for name in group if name not in stored.tensors]
        if 0 < len(missing) < len(group):
            raise Misfit(missing[0], "is missing")


@dataclass(frozen=True, eq=False)
class ShallowScorer:
    """Ranks labels by their probability, times that of their cluster where there are clusters; half of it comes from
    the label's neighbours where there is a graph. Scores are then calibrated on held-out data, in the same order."""

    encoder: TextEncoder
    weights: Floats  # (labels, dimension)
    bias: Floats  # (labels,)
    calibration: PlattScaling
    meta: MetaRows | None = None
    graph: Matrix | None = None  # csr (labels, labels)
    kind: ClassVar[str] = "shallow.v2"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = ENCODER + Declaration(
        {
            "bias": Array("float32", "labels"),
            "meta.bias": Array("float32", "clusters", optional=True),
            "cluster": Array("int64", "labels", least=0, below="clusters", optional=True),
            "graph.data": Array("float32", "links", least=0, optional=True),
            "graph.indices": Array("int32 int64", "links", least=0, below="labels", optional=True),
            "graph.indptr": Array("int32 int64", "labels + 1", points_to="links", optional=True),
        },
        then=(_declared_rows,),
        checks=(_check_whole,),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("this model reads texts; give documents with texts, not only features")
        k = min(k, len(self.weights))
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self.encoder.unnormalised(rows.texts), k)
        return ranked(found, np.where(found < 0, np.float32(0), self.calibration.of(scores)))

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """Find the top labels of vectors.

        Args:
            vectors: (rows, dimension) float32.
            k: number of labels for each row.

        Returns:
            Labels (int32) and log-probabilities before calibration (float32), each (rows, k), best first; -1 where
            there are fewer labels.
        """
        k = min(k, len(self.weights))
        wide = k if self.graph is None else min(max(k, BEAM), len(self.weights))
        step = max(PIECE // max(len(self.weights), 1), 1)
        pieces = [self._best(vectors[start : start + step], wide) for start in range(0, len(vectors), step)]
        found = np.concatenate([piece[0] for piece in pieces] or [np.zeros((0, wide), np.int32)])
        scores = np.concatenate([piece[1] for piece in pieces] or [np.zeros((0, wide), np.float32)])
        if self.graph is not None:
            found, scores = propagate(self.graph, found, scores)
        found, scores = ranked(found, scores)
        return found[:, :k], scores[:, :k]

    def _best(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        import torch

        weights, bias, *meta = self._on_device
        with torch.inference_mode():
            queries = torch.from_numpy(np.ascontiguousarray(vectors)).to(weights.device)
            scores = torch.nn.functional.logsigmoid(torch.addmm(bias, queries, weights.T))
            if meta:  # `declared` holds a cluster for each label, among those that have weights
                scores += torch.nn.functional.logsigmoid(torch.addmm(meta[1], queries, meta[0].T))[:, meta[2]]
            best, labels = scores.topk(k, dim=1)
            return labels.int().cpu().numpy(), best.float().cpu().numpy()

    @cached_property
    def _on_device(self) -> list[Any]:
        """The classifiers on the device that computes the scores."""
        import torch

        from longtail.nn.training.precision import best_device

        arrays: list[AnyArray] = [self.weights, self.bias]
        if self.meta is not None:
            arrays += [self.meta.weights, self.meta.bias, self.meta.cluster]
        return [torch.from_numpy(array).to(best_device()) for array in arrays]

    def row_norms(self) -> Floats:
        """See `HasClassifierRows.row_norms`."""
        norms: Floats = np.sqrt(np.einsum("ld,ld->l", self.weights, self.weights))
        return norms

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "encoder": self.encoder.settings,
            "max_tokens": self.encoder.max_tokens,
            "calibration": [self.calibration.scale, self.calibration.offset],
        }
        tensors: dict[str, AnyArray] = {**self.encoder.tensors(), "weights": self.weights, "bias": self.bias}
        if self.meta is not None:
            tensors |= {"meta.weights": self.meta.weights, "meta.bias": self.meta.bias, "cluster": self.meta.cluster}
        if self.graph is not None:
            tensors |= {f"graph.{name}": getattr(self.graph, name) for name in ("data", "indices", "indptr")}
        return State(settings, tensors)

    @classmethod
    def restore(cls, state: State) -> ShallowScorer:
        """See `Scorer.restore`."""
        tensors, settings = state.tensors, state.settings
        encoder = TextEncoder.restore(settings["encoder"], settings["max_tokens"], None, tensors)
        weights, bias = tensors["weights"], tensors["bias"]
        meta = graph = None
        if "cluster" in tensors:
            meta = MetaRows(tensors["meta.weights"], tensors["meta.bias"], tensors["cluster"])
        if "graph.data" in tensors:
            parts = [tensors[f"graph.{name}"] for name in ("data", "indices", "indptr")]
            graph = sparse.csr_array(tuple(parts), shape=(len(bias), len(bias)))
        calibration = PlattScaling(*(float(value) for value in settings["calibration"]))
        return cls(encoder, weights, bias, calibration, meta, graph)


def propagate(graph: Matrix, found: Ints, scores: Floats) -> tuple[Ints, Floats]:
    """Pass probabilities on along a label graph G: ½ S + ½ top(S G), where S holds those of the labels found.

    Args:
        graph: G, csr (labels, labels).
        found: (rows, places) labels.
        scores: (rows, places) their log-probabilities.

    Returns:
        Labels (int32) and log-probabilities (float32), each (rows, places), in order of the label; -1 where there are
        fewer.
    """
    from longtail.linear.graph.cooccurrence import strongest

    # `ShallowScorer.declared` holds the links of a loaded graph among the labels: SciPy's product checks none.

    rows, wide = found.shape
    starts = np.arange(0, found.size + 1, wide)
    probabilities = sparse.csr_array((np.exp(scores).ravel(), found.flatten(), starts), shape=(rows, graph.shape[0]))
    probabilities.sort_indices()
    mixed = (0.5 * probabilities + 0.5 * strongest((probabilities @ graph).tocsr(), wide)).tocsr()
    mixed.sort_indices()
    sizes = np.diff(mixed.indptr)
    places = np.arange(int(sizes.max(initial=0)))
    filled = places < sizes[:, None]
    labels = np.full(filled.shape, -1, dtype=np.int32)
    values = np.zeros(filled.shape, dtype=np.float32)
    labels[filled], values[filled] = mixed.indices, np.log(np.maximum(mixed.data, 1e-30))
    return labels, values
