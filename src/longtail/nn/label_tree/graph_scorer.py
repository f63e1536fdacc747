"""The model of a learned graph of clusters and labels. Loads torch only to predict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from longtail.arrays import Floats, Ints
from longtail.data.dataset import Rows
from longtail.errors import DataError
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.encoder_declared import ENCODER, dimension_of
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.label_tree.cluster_graph import ClusterGraph
from longtail.nn.onevsall.onevsall_scorer import separated
from longtail.predictions import ranked
from longtail.seams import Array, Contents, Declaration, Misfit, Number, State, Whole

if TYPE_CHECKING:
    from longtail.nn.label_tree.graph_heads import GraphHeads

ROWS = 64  # at once


def _is_there_a_link(stored: Contents) -> None:
    if stored.tensors["members"].size == 0:
        raise Misfit("members", "has no cluster, or clusters without a link")


@dataclass(frozen=True, eq=False)
class GraphScorer:
    """Finds clusters, follows their links to labels, and scores those. Scores are probabilities, calibrated on held-out
    data, in the same order."""

    encoder: TextEncoder
    members: Ints  # (clusters, links) labels, -1 for none
    log_links: Floats  # (clusters, links), at most 0
    clusters: Floats  # (clusters, dimension)
    weights: Floats  # (labels, dimension)
    bias: Floats  # (labels,)
    cluster_scale: float
    beam: int
    shortlist: int
    calibration: PlattScaling
    kind: ClassVar[str] = "clustergraph.v1"
    probabilities: ClassVar[bool] = True
    declared: ClassVar[Declaration] = ENCODER + Declaration(
        {
            "members": Array("int32", "clusters, links", least=-1, below="labels"),
            "log_links": Array("float32", "clusters, links", most=0),
            "bias": Array("float32", "labels"),
        },
        {"cluster_scale": Number(above=0), "beam": Whole(1), "shortlist": Whole(1)},
        checks=(_is_there_a_link,),
        then=(
            lambda given: Declaration(
                {
                    "clusters": Array("float32", f"clusters, {dimension_of(given)}"),
                    "weights": Array("float32", f"labels, {dimension_of(given)}"),
                }
            ),
        ),
    )

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        if rows.texts is None:
            raise DataError("this model reads texts; pass documents with texts, not only features")
        k = min(k, len(self.weights))
        if k < 1 or len(rows) == 0:
            return np.zeros((len(rows), 0), dtype=np.int32), np.zeros((len(rows), 0), dtype=np.float32)
        found, scores = self.nearest(self.encoder.unnormalised(rows.texts), k)
        probabilities = np.where(found >= 0, separated(self.calibration.of(scores), scores), np.float32(0))
        return ranked(found, probabilities.astype(np.float32))

    def nearest(self, vectors: Floats, k: int) -> tuple[Ints, Floats]:
        """Find the top labels of vectors.

        Args:
            vectors: (rows, dimension) float32, of the encoder.
            k: number of labels for each row.

        Returns:
            Labels (int32), -1 behind the last candidate, and log odds (float32), each (rows, k), best first.
        """
        import torch

        from longtail.nn.label_tree.tree_fit import searched

        asked = torch.from_numpy(np.ascontiguousarray(vectors)).to(self._heads.bias.device)
        return searched(self._heads, asked, k, ROWS)

    def row_norms(self) -> Floats:
        """See `HasClassifierRows.row_norms`."""
        found: Floats = np.sqrt(np.einsum("ld,ld->l", self.weights, self.weights))
        return found

    @cached_property
    def _heads(self) -> GraphHeads:
        import torch

        from longtail.nn.label_tree.graph_heads import GraphHeads
        from longtail.nn.training.precision import best_device

        labels, dimension = self.weights.shape
        graph = ClusterGraph(self.members, np.zeros(labels, dtype=np.int32))
        heads = GraphHeads(
            graph, labels, dimension, learned=False, cluster_scale=self.cluster_scale, link_scale=1.0, beam=self.beam,
            shortlist=self.shortlist, log_links=torch.from_numpy(np.array(self.log_links)),
        )  # fmt: skip
        with torch.no_grad():
            for name in ("clusters", "weights", "bias"):
                getattr(heads, name).copy_(torch.from_numpy(np.array(getattr(self, name))))
        return heads.to(best_device()).eval()

    def state(self) -> State:
        """See `Scorer.state`."""
        settings = {
            "encoder": self.encoder.settings,
            "max_tokens": self.encoder.max_tokens,
            "calibration": [self.calibration.scale, self.calibration.offset],
            "cluster_scale": self.cluster_scale,
            "beam": self.beam,
            "shortlist": self.shortlist,
        }
        arrays = {name: getattr(self, name) for name in ("members", "log_links", "clusters", "weights", "bias")}
        return State(settings, {**self.encoder.tensors(), **arrays})

    @classmethod
    def restore(cls, state: State) -> GraphScorer:
        """See `Scorer.restore`."""
        settings, tensors = state.settings, state.tensors
        return cls(
            TextEncoder.restore(settings["encoder"], settings["max_tokens"], None, tensors),
            tensors["members"],
            tensors["log_links"],
            tensors["clusters"],
            tensors["weights"],
            tensors["bias"],
            float(settings["cluster_scale"]),
            int(settings["beam"]),
            int(settings["shortlist"]),
            PlattScaling(*(float(value) for value in settings["calibration"])),
        )
