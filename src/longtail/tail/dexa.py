"""Auxiliary vectors that similar labels share, beside their texts.

It acts inside a dual encoder, so it imports `nn`, as the learner does. Through the seam `label_tower` it gives the
trainer a module that moves the label vectors; neither knows the other's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from longtail.arrays import Floats
from longtail.data.labels import LabelSet
from longtail.errors import DataError, RecipeError
from longtail.papers import DEXA, Paper, Preset
from longtail.plan import DataFacts, Plan

WIDTH = 384  # assumed dimension of the vectors, which a plan does not know
REFRESHES = 6  # of a training, where clusters are refreshed


@dataclass(frozen=True)
class Dexa:
    """Labels with similar texts share a vector that is trained with the encoder, for what their texts do not say.

    In training a label's vector is normalise(text + vector of its cluster), so the encoder need not distort texts to
    bring them near documents with more information. Labels with many documents have a vector of their own. After
    training the shared vectors are added into the label vectors: the model is as large and as fast as without them.

    Needs: a learner with a label tower, such as `ngame` (the paper's) or `dpr`.
    Costs: one vector per cluster with AdamW's two moments while training, of which a step updates those of its labels;
    a clustering of the labels before it.
    Published form: `dexa:paper`.
    Prefer instead: the learner alone where most labels have enough documents for classifiers, or complete texts.
    Example: longtail compare wordnet "dpr(encoder='bag')" "dpr(encoder='bag') + dexa"
    """

    clusters: int | None = None  # K, without those of the head; none: one for four labels
    head_min_count: int | None = 50  # documents from which a label has a vector of its own; none: no label has (K̂)
    clustering: Literal["balanced", "kmeans"] = "balanced"  # balanced 2-means, or k-means
    cluster_by: Literal["texts", "rows"] = "texts"  # vectors that labels are clustered by; rows: their documents' mean
    refresh_every: int = 0  # epochs between two clusterings; 0: once, before training
    learning_rate_scale: float = 1.0  # of the vectors' learning rate, as a multiple of the encoder's

    summary: ClassVar[str] = "auxiliary vectors that labels with similar texts share"
    # The paper's names of settings.
    symbols: ClassVar[Mapping[str, str]] = {"K": "clusters"}
    papers: ClassVar[tuple[Paper, ...]] = (DEXA,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "clusters": 65_536,
                "head_min_count": 50,
                "clustering": "balanced",
                "cluster_by": "texts",
                "refresh_every": 0,
                "learning_rate_scale": 1.0,
            },
            "the published configuration",
            {"head_min_count": "section 4: labels of at least 50 training points"},
            differs="with fewer labels than clusters, set `clusters`",
        )
    }
    needs: ClassVar[frozenset[str]] = frozenset({"label_tower"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if self.clusters is not None and self.clusters < 1:
            raise RecipeError(f"setting 'clusters' of dexa is at least 1, got {self.clusters}")
        if self.head_min_count is not None and self.head_min_count < 1:
            raise RecipeError(
                f"setting 'head_min_count' of dexa is at least 1, or none for no label, got {self.head_min_count}"
            )
        if self.refresh_every < 0:
            raise RecipeError(f"setting 'refresh_every' of dexa is at least 0, got {self.refresh_every}")
        if self.learning_rate_scale <= 0:
            raise RecipeError(f"setting 'learning_rate_scale' of dexa is above 0, got {self.learning_rate_scale:g}")
        if self.refresh_every and self.cluster_by == "rows":
            raise RecipeError(
                "dexa can cluster again only by the labels' texts: with refresh_every above 0 use cluster_by='texts'"
            )

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`: the table with its moments, and the labels' vectors while they are clustered."""
        own = 0 if self.head_min_count is None else min(facts.labels, facts.positives // self.head_min_count)
        clusters = max(facts.labels // 4, 1) if self.clusters is None else min(self.clusters, facts.labels)
        table, clustering = 12 * WIDTH * (own + clusters), 8 * WIDTH * facts.labels
        refreshes = 1 if self.refresh_every == 0 else REFRESHES
        speed = 5e13 if Path("/dev/nvidia0").exists() else 5e10  # operations a second
        halvings = max(np.log2(max(clusters, 2)), 1)
        seconds = refreshes * halvings * 20 * 2 * WIDTH * facts.labels / speed
        return replace(
            before,
            train_bytes=before.train_bytes + table + clustering,
            train_seconds=before.train_seconds + float(seconds),
            steps=(*before.steps, ("shared vectors and their moments", table), ("clustering labels", clustering)),
        )

    def label_tower(self, labels: LabelSet, texts: Floats, means: Callable[[], Floats], seed: int) -> Any:
        """See `MovesLabels.label_tower`: the shared vectors.

        Raises:
            DataError: there are more clusters than labels to cluster.
        """
        from longtail.nn.dual.auxiliary_vectors import SharedVectors

        head = (
            np.zeros(len(labels), dtype=bool) if self.head_min_count is None else labels.counts >= self.head_min_count
        )
        rest = int((~head).sum())
        clusters = max(rest // 4, 1) if self.clusters is None else self.clusters
        clusters = clusters if rest else 0
        if clusters > rest:
            raise DataError(
                f"dexa cannot make {clusters:,} clusters of {rest:,} labels ({len(labels):,} without the "
                f"{int(head.sum()):,} that have a vector of their own): set clusters to {rest:,} or less"
            )
        vectors = texts if self.cluster_by == "texts" else means()
        return SharedVectors(
            vectors, head, clusters, self.clustering, self.refresh_every, self.learning_rate_scale, seed
        )
