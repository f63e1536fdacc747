"""From texts to an encoder and a learned graph of clusters and labels, in two stages (ELIAS)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from longtail.arrays import AnyArray
from longtail.linear.solvers.platt_scaling import PlattScaling
from longtail.nn.encoders.text_encoder import TextEncoder
from longtail.nn.label_tree.cluster_graph import ClusterGraph, partition, strongest_links
from longtail.nn.label_tree.graph_heads import GraphHeads
from longtail.nn.label_tree.graph_scorer import GraphScorer
from longtail.nn.label_tree.level_heads import mean_directions
from longtail.nn.label_tree.tree_fit import TreeFit
from longtail.nn.label_tree.tree_task import TreeTask


@runtime_checkable
class GraphSettings(Protocol):
    """The settings of the graph."""

    @property
    def cluster_epochs(self) -> int: ...
    @property
    def cluster_scale(self) -> float: ...
    @property
    def link_scale(self) -> float: ...
    @property
    def links(self) -> int: ...
    @property
    def shortlist(self) -> int: ...
    @property
    def shortlist_weight(self) -> float: ...
    @property
    def graph_learning_rate(self) -> float | None: ...
    @property
    def cluster_learning_rate(self) -> float | None: ...
    @property
    def keep_labels(self) -> bool: ...


@dataclass(eq=False)
class GraphTask(TreeTask):
    """The second stage, in which the classifiers of clusters may have a learning rate of their own."""

    cluster_learning_rate: float | None = None  # None: as the labels' classifiers

    def groups(self) -> list[dict[str, Any]]:
        """See `Task.groups`."""
        found, clusters = super().groups(), self.heads.clusters
        if self.cluster_learning_rate is None:
            return found
        for group in found:
            group["params"] = [parameter for parameter in group["params"] if parameter is not clusters]
        own = {"params": [clusters], "lr": self.cluster_learning_rate, "weight_decay": self.head_weight_decay}
        return [*found, own]


@dataclass(eq=False)
class GraphFit(TreeFit):
    """An encoder, cluster and label classifiers in training: over a partition first, then over the graph it finds."""

    graph: ClusterGraph | None = None  # of the second stage

    def make_heads(self) -> GraphHeads:
        """See `TreeFit.make_heads`. The second stage goes on with the first one's clusters, and with its labels where
        the settings keep them."""
        own, settings = self.settings, self.settings
        assert isinstance(settings, GraphSettings)
        graph = partition(self.levels) if self.graph is None else self.graph
        labels = len(self.train.labels)
        candidates = min(own.beam * graph.members.shape[1], settings.shortlist, labels)
        share = min(max(self.train.targets.nnz / max(len(self.train), 1) / candidates, 1e-6), 0.5)
        heads = GraphHeads(
            graph,
            labels,
            self.encoder.dimension,
            learned=self.graph is not None,
            cluster_scale=settings.cluster_scale,
            link_scale=settings.link_scale,
            beam=own.beam,
            shortlist=settings.shortlist,
            dropout=own.dropout,
            shortlist_weight=settings.shortlist_weight,
            bias=math.log(share / (1 - share)) if own.bias_init == "auto" else float(own.bias_init),
        )
        goes_on = self.heads is not None
        with torch.no_grad():
            if self.starts_at_texts and not (goes_on and settings.keep_labels):
                vectors = torch.from_numpy(self.text_vectors())
                heads.weights.copy_(vectors)
                heads.clusters.copy_(mean_directions(vectors, self.levels.node_of_label[0], self.levels.nodes(0)))
            if goes_on:
                for name in ("clusters", "weights", "bias") if settings.keep_labels else ("clusters",):
                    getattr(heads, name).copy_(getattr(self.heads, name))
        return heads

    def learn(self, epochs: int | None = None, task: Callable[..., TreeTask] = GraphTask, **changes: Any) -> None:
        """See `TreeFit.learn`: both stages."""
        settings = self.settings
        assert isinstance(settings, GraphSettings)
        labels = {"node_of_label": (np.arange(len(self.train.labels), dtype=np.int32),)}
        if settings.cluster_epochs:
            super().learn(settings.cluster_epochs, task, name="clusters", average_from=None, **labels, **changes)
        # Links from the clusters that random classifiers find would mean nothing.
        self.graph = self.found_graph() if settings.cluster_epochs else partition(self.levels)
        second: dict[str, Any] = {
            "learning_rate": settings.graph_learning_rate or self.learning_rate,
            "cluster_learning_rate": settings.cluster_learning_rate,
            "before_epoch": lambda: self.heads.renew_parents(),
        }
        super().learn(epochs, task, name="cluster graph", **second, **labels, **changes)

    def found_graph(self) -> ClusterGraph:
        """The graph of the clusters that the first stage sends the training rows to."""
        settings, heads = self.settings, self.heads
        assert isinstance(settings, GraphSettings)
        vectors = self.encode_tokens(self.documents, "documents")
        parts: list[tuple[AnyArray, AnyArray]] = []
        for first in range(0, len(vectors), settings.batch_size):
            found, values = heads.best_clusters(
                torch.from_numpy(vectors[first : first + settings.batch_size]).to(self.device)
            )
            parts.append((found, values.cpu().numpy()))
        found, values = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        home = self.levels.node_of_label[0]
        return strongest_links(found, values, self.train.targets, self.levels.nodes(0), settings.links, home)

    def scorer(self) -> GraphScorer:
        """The trained model, calibrated on valid."""
        assert self.graph is not None
        encoder, heads = TextEncoder.of(self.encoder, self.tokenizer, self.max_tokens), self.heads
        clusters, weights, bias, logs = (
            value.detach().float().cpu().numpy().copy()
            for value in (heads.clusters, heads.weights, heads.bias, heads.log_links())
        )
        scorer = GraphScorer(
            encoder, self.graph.members, logs, clusters, weights, bias,
            heads.cluster_scale, heads.beam, heads.shortlist, PlattScaling(1.0, 0.0),
        )  # fmt: skip
        return self.calibrated(scorer, encoder.unnormalised)
