"""Shared auxiliary vectors beside the labels' texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from longtail.arrays import Floats
from longtail.data.labels import LabelSet
from longtail.errors import DataError, RecipeError


@dataclass(frozen=True)
class Dexa:
    """Labels with like texts share a vector that is learned with the encoder: what their texts do not say.

    In training a label stands at normalise(text + vector of its cluster), so the encoder need not bend texts towards
    documents that say more than they do. Labels with many rows have a vector of their own. After training the vectors
    are folded into the labels': the model is as large and as fast as without them.

    Paper: Dahiya et al., Deep encoders with auxiliary parameters for extreme classification (KDD 2023).
    Needs: a learner with a label tower, such as `ngame` (the paper's) or `dpr`.
    Costs: one vector a cluster and AdamW's two means of it while training; a clustering of the labels before it.
    Prefer instead: nothing extra where most labels have rows enough for classifiers, or texts that say everything.
    Example: longtail compare wordnet "dpr(encoder='bag')" "dpr(encoder='bag') + dexa"
    """

    clusters: int | None = None  # K without the head's; none: one for four labels
    head: int | None = 50  # rows from which a label has a vector of its own; none: no label has (K̂)
    grouping: Literal["balanced", "kmeans"] = "balanced"
    space: Literal["texts", "rows"] = "texts"  # cluster labels by their texts' vectors, or by the mean of their rows'
    refresh: int = 0  # epochs between two clusterings; 0: once, before training
    speed: float = 1.0  # rate of the vectors, as a multiple of the encoder's

    summary: ClassVar[str] = "auxiliary vectors that labels with like texts share, folded away after training"
    needs: ClassVar[frozenset[str]] = frozenset({"label_tower"})
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if self.clusters is not None and self.clusters < 1:
            raise RecipeError(f"setting 'clusters' of dexa is at least 1, got {self.clusters}")
        if self.head is not None and self.head < 1:
            raise RecipeError(f"setting 'head' of dexa is a number of rows of 1 or more, got {self.head}")
        if self.refresh < 0 or self.speed <= 0:
            raise RecipeError("dexa takes refresh of 0 or more and speed above 0")
        if self.refresh and self.space == "rows":
            raise RecipeError("dexa clusters anew by the labels' texts only; use space='texts' with refresh")

    def label_tower(self, labels: LabelSet, texts: Floats, means: Callable[[], Floats], seed: int) -> Any:
        from longtail.nn.auxiliary import SharedVectors

        head = np.zeros(len(labels), dtype=bool) if self.head is None else labels.counts >= self.head
        rest = int((~head).sum())
        number = max(rest // 4, 1) if self.clusters is None else self.clusters
        number = number if rest else 0
        if number > rest:
            raise DataError(
                f"dexa cannot make {number:,} clusters of {rest:,} labels ({len(labels):,} without the "
                f"{int(head.sum()):,} that have a vector of their own): set clusters to {rest:,} or less"
            )
        space = texts if self.space == "texts" else means()
        return SharedVectors(space, head, number, self.grouping, self.refresh, self.speed, seed)
