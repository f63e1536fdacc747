"""LightXML: clusters of labels and their labels, scored from the last layers of an encoder side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.label_tree.tree_scorer import TreeNetScorer
from longtail.nn.label_tree.tree_settings import TreeNetSettings
from longtail.papers import LIGHTXML, Paper, Preset
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class LightXml(TreeNetSettings):
    """One level of clusters, then labels; both see the last layers of the encoder side by side.

    Negatives are dynamic: the labels of the clusters that the net itself takes for right at that step. A label's
    probability is multiplied by its cluster's. Labels have no bias, and see the vector through a layer of `hidden`
    numbers.

    Published form: also `dropout_until`: the released code leaves dropout off for the rest of an epoch once it has
    evaluated within it, which its authors say speeds training. Weights averaged: `average_from`. Classifiers begin at
    random there (`head_init='random'`).
    Needs: texts of examples. Soft targets are exact; a cluster has the largest target of its labels.
    Costs: per example, the clusters and beam x leaf labels products of `hidden` numbers.
    Prefer instead: `cascadexml` for more levels; `renee`, which scores all labels.
    Example: longtail train wordnet "lightxml(encoder='bag', epochs=5)" --out model
    """

    layers: int = 5  # last layers of the encoder that are read, at most
    hidden: int = 300  # numbers of a label's vector
    beam: int = 32  # clusters whose labels are scored
    schedule: Literal["linear", "cosine", "none"] = "none"
    # initial classifiers: random, or the vectors of label texts, of a cluster their mean; auto: texts where the encoder
    # is pretrained
    head_init: Literal["auto", "random", "texts"] = "auto"
    dropout_until: float = 1.0  # share of each epoch that is trained with dropout

    summary: ClassVar[str] = "clusters, then labels, from the last layers of an encoder"
    papers: ClassVar[tuple[Paper, ...]] = (LIGHTXML,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "encoder": "google-bert/bert-base-uncased",
                "epochs": 15,
                "batch_size": 16,
                "learning_rate": 1e-4,
                "head_learning_rate": 1e-4,
                "warmup": 0.0,
                "max_tokens": 128,
                "hidden": 400,
                "beam": 75,
                "bias_init": 0.0,
                "head_init": "random",
                "average_from": 4,
                "average_every": 3000,
            },
            "the published code, Amazon-670K",
        )
    }
    offers: ClassVar[frozenset[str]] = TreeNetSettings.offers | {"free_classifiers"}
    scorer: ClassVar[type[Scorer]] = TreeNetScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_texts(self.head_init)
        if min(self.layers, self.hidden) < 1 or not 0 < self.dropout_until <= 1:
            raise RecipeError(
                "lightxml takes layers and hidden of at least 1 and dropout_until above 0 and at most 1, got "
                f"layers={self.layers}, hidden={self.hidden}, dropout_until={self.dropout_until:g}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> TreeNetScorer:
        """See `Learner.fit`."""
        require("lightxml")
        from longtail.nn.label_tree.level_fit import LightFit

        fit = LightFit.begin(self, train, valid, parts)
        fit.learn(dropout_until=self.dropout_until)
        return fit.scorer()
