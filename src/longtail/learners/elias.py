"""ELIAS: which labels a cluster holds is learned, and a label may stand in several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.label_tree.graph_scorer import GraphScorer
from longtail.nn.label_tree.tree_settings import TreeNetSettings
from longtail.papers import ELIAS, Paper, Preset
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Elias(TreeNetSettings):
    """An encoder, cluster scores, and a learned graph from clusters to labels.

    A label's probability is the largest product of a cluster's probability and its link to the label, times the label's
    own. The first stage trains clusters over a fixed partition; the examples it sends to each cluster make the graph,
    whose link strengths the second stage learns. Each label keeps its strongest cluster however rare it is. All
    products are computed as logarithms in fp32.

    Published form: labels are clustered again with the first stage's vectors, which is then repeated; the second stage
    begins its labels' classifiers anew (`keep_labels=false`), at random (`head_init='random'`); heads step on sums over
    several batches; answers pass a sparse ranker (`+ sparserank`).
    Needs: texts of examples. Soft targets are exact.
    Costs: two trainings; an example follows beam x links links and scores `shortlist` labels.
    Prefer instead: `renee`, which scores all labels, up to a million labels on one GPU; `cascadexml` for one training.
    Example: longtail train wordnet "elias(encoder='bag', cluster_epochs=2, epochs=3)" --out model
    """

    cluster_epochs: int = 5  # of the first stage; 0: link strengths are learned within the partition
    cluster_scale: float = 10.0  # alpha: about so many clusters of an example can be fully on
    link_scale: float = 150.0  # beta: about so many labels of a cluster can be fully on
    links: int = 1000  # kappa: labels that a cluster keeps
    beam: int = 20  # b: clusters of an example
    shortlist: int = 2000  # K: labels of an example that are scored
    shortlist_weight: float = 0.05  # lambda: weight of the loss of the shortlist's own scores
    graph_learning_rate: float | None = None  # of the encoder in the second stage; none: `learning_rate`
    cluster_learning_rate: float | None = None  # of the clusters' classifiers there; none: as the labels'
    # initial classifiers: random, or the vectors of label texts, of a cluster their mean; auto: texts where the encoder
    # is pretrained
    head_init: Literal["auto", "random", "texts"] = "auto"
    keep_labels: bool = True  # go on with the first stage's label classifiers; false: begin them anew

    summary: ClassVar[str] = "clusters of labels, and a learned graph from them to labels"
    papers: ClassVar[tuple[Paper, ...]] = (ELIAS,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "encoder": "distilbert/distilbert-base-uncased",
                "max_tokens": 32,
                "cluster_epochs": 20,
                "epochs": 50,
                "batch_size": 420,
                "learning_rate": 2e-4,
                "head_learning_rate": 5e-3,
                "graph_learning_rate": 3e-5,
                "cluster_learning_rate": 1e-4,
                "keep_labels": False,
                "schedule": "linear",
                "bias_init": 0.0,
                "head_init": "random",
                "average_from": 8,
                "average_every": 500,
            },
            "the published code, LF-AmazonTitles-131K",
        )
    }
    offers: ClassVar[frozenset[str]] = TreeNetSettings.offers | {"free_classifiers"}
    scorer: ClassVar[type[Scorer]] = GraphScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_texts(self.head_init)
        for name, least in (("cluster_epochs", 0), ("links", 1), ("shortlist", 1), ("shortlist_weight", 0)):
            if getattr(self, name) < least:
                raise RecipeError(f"setting '{name}' of elias is at least {least}, got {getattr(self, name)}")
        for name in ("cluster_scale", "link_scale", "graph_learning_rate", "cluster_learning_rate"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise RecipeError(f"setting '{name}' of elias is above 0, got {getattr(self, name):g}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> GraphScorer:
        """See `Learner.fit`."""
        require("elias")
        from longtail.nn.label_tree.graph_fit import GraphFit

        fit = GraphFit.begin(self, train, valid, parts)
        fit.learn()
        return fit.scorer()
