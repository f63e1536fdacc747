"""CascadeXML: one encoder for all levels of a label tree, each level read from a layer of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.label_tree.tree_scorer import TreeNetScorer
from longtail.nn.label_tree.tree_settings import TreeNetSettings
from longtail.papers import CASCADEXML, Paper, Preset
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class CascadeXml(TreeNetSettings):
    """An encoder whose middle layers score clusters of labels, coarse to fine, and whose last layer scores labels.

    All levels are trained together. The children of the best clusters are the candidates of the next level; in training
    an example's own clusters come first. A label's probability is multiplied by that of its cluster. Layers are placed
    by the depth of the encoder: 7 and 8, 10, 12 of twelve, 2, 2, 3 of three; an encoder of one vector gives it to all.

    Published form: clusters of label features smoothed by random walks, learning rates that fall in the last three
    epochs alone, and momentum that falls while they rise; here clusters of tf-idf means and one cosine schedule.
    Classifiers begin at random there (`head_init='random'`).
    Needs: texts of examples. Soft targets are exact; a cluster has the largest target of its labels.
    Costs: per example, the clusters and beam x leaf labels products; weights and moments of one vector a node.
    Prefer instead: `renee`, which scores all labels, up to a million labels on one GPU; `bonsai` without a GPU.
    Example: longtail train wordnet "cascadexml(encoder='bag', epochs=5)" --out model
    """

    max_leaf_labels: int = 16  # labels of a cluster of the last level of clusters
    levels_of_clusters: int = 2  # at most
    branches: int = 8  # clusters below a cluster, a power of 2
    # initial classifiers: random, or the vectors of label texts, of a cluster their mean; auto: texts where the encoder
    # is pretrained
    head_init: Literal["auto", "random", "texts"] = "auto"
    multiply_parent: bool = True  # multiply a label's probability by its cluster's; false: its own alone

    summary: ClassVar[str] = "one encoder, a layer for each level of a label tree"
    papers: ClassVar[tuple[Paper, ...]] = (CASCADEXML,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "encoder": "google-bert/bert-base-uncased",
                "epochs": 15,
                "batch_size": 64,
                "learning_rate": 1e-4,
                "head_learning_rate": 1e-3,
                "weight_decay": 0.05,
                "head_weight_decay": 0.005,
                "bias_init": 0.0,
                "head_init": "random",
                "beam": 256,
                "max_tokens": 128,
            },
            "LEVER, table 18, and the published code",
        )
    }
    offers: ClassVar[frozenset[str]] = TreeNetSettings.offers | {"free_classifiers"}
    scorer: ClassVar[type[Scorer]] = TreeNetScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_texts(self.head_init)
        if self.branches < 2 or self.branches & (self.branches - 1):
            raise RecipeError(f"setting 'branches' of cascadexml is a power of 2 such as 8, got {self.branches}")
        if self.levels_of_clusters < 1:
            raise RecipeError(
                f"setting 'levels_of_clusters' of cascadexml is at least 1, got {self.levels_of_clusters}"
            )

    @property
    def cluster_levels(self) -> int:
        """See `TreeNetSettings.cluster_levels`."""
        return self.levels_of_clusters

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TreeNetScorer:
        """See `Learner.fit`."""
        require("cascadexml")
        from longtail.nn.label_tree.level_fit import CascadeFit

        fit = CascadeFit.begin(self, train, valid, parts)
        fit.by_parent = self.multiply_parent
        fit.learn()
        return fit.scorer()
