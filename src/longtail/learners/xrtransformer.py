"""XR-Transformer: an encoder trained on a label tree's levels, coarse to fine, then trees over words and vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.trees.tree_plan import kept_weights, plan_trees
from longtail.nn.dual.dual_settings import Size
from longtail.nn.extra import require
from longtail.nn.label_tree.resolution_scorer import ResolutionScorer
from longtail.nn.label_tree.tree_settings import TreeNetSettings
from longtail.papers import XR_TRANSFORMER, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class XrTransformer(TreeNetSettings):
    """Fine-tune one encoder on ever finer clusters of labels, then train label trees on words and its vectors.

    Each level begins with the encoder of the level above and linear classifiers solved on its vectors. An example's
    candidates are the children of its own clusters, then of those that the level above takes for it. A cluster weighs
    as many labels of the example it holds. The level classifiers are thrown away: the answers are those of the trees,
    `parabel`'s, over tf-idf and the unit vector side by side, with every weight of the vector and the large ones of the
    words.

    Published form: three encoders whose ranks are averaged (use `fuse`); a linear model on words and vectors predicts
    the clusters between levels; the pooler's output is read; the trees' last level ignores the path. Levels of more
    than 32,768 nodes are not trained on.
    Control: `levels_of_training=0` leaves the encoder as it comes.
    Needs: texts of examples. Soft targets are weights of positives.
    Costs: epochs x levels of training the encoder, a solve between levels, and `parabel` with dense columns.
    Prefer instead: `bonsai` without a GPU; `renee` for more of the tail.
    Example: longtail train wordnet "xrtransformer(encoder='bag', epochs=1)" --out model
    """

    epochs: int = 3  # of each level
    dropout: float = 0.1  # on the vectors
    schedule: Literal["linear", "cosine", "none"] = "linear"
    max_leaf_labels: int = 16  # labels of a cluster of the last level of clusters
    branches: int = 16  # clusters below a cluster, a power of 2
    beam: int = 20  # clusters of each level whose children are candidates
    levels_of_training: int = 10  # levels of clusters, from the last one up, at most; 0: the encoder is not trained
    head_init_candidates: int = 128  # nodes of an example that a level's first classifiers are solved on
    feature_weight: float = 0.5  # share of the vector beside the words
    trees: int = 1  # label trees at the end
    tree_leaf_labels: int = 100  # labels of their leaves
    tree_beam: int = 20  # nodes kept on each of their levels in prediction
    cost: float = 1.5  # C of their classifiers
    weight_threshold: float = 0.1  # weights of words below this are dropped
    hard_negatives: int = 3  # wrong nodes of each level that an example also trains, as in the published form

    head_factor: ClassVar[float] = 1.0
    summary: ClassVar[str] = "an encoder trained coarse to fine, then trees on its vectors"
    papers: ClassVar[tuple[Paper, ...]] = (XR_TRANSFORMER,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "encoder": "google-bert/bert-base-uncased",
                "max_tokens": 128,
                "batch_size": 256,
                "learning_rate": 5e-5,
                "max_leaf_labels": 16,
                "branches": 16,
                "bias_init": 0.0,
                "cost": 1.0,
                "weight_threshold": 0.001,
                "tree_beam": 75,
            },
            "the published settings, EURLex-4K",
            differs="epochs stand for its steps a level: 600, 800 and 1,200 of 256 examples",
        )
    }
    scorer: ClassVar[type[Scorer]] = ResolutionScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        least = {"levels_of_training": 0, "head_init_candidates": 1, "trees": 1, "tree_leaf_labels": 2, "tree_beam": 1}
        least |= {"hard_negatives": 0, "weight_threshold": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise RecipeError(f"setting '{name}' of xrtransformer is at least {bound}, got {getattr(self, name)}")
        if not 0 < self.feature_weight < 1 or self.cost <= 0:
            raise RecipeError(
                "xrtransformer takes a feature_weight between 0 and 1 and a cost above 0, got "
                f"feature_weight={self.feature_weight:g}, cost={self.cost:g}"
            )
        if self.branches < 2 or self.branches & (self.branches - 1):
            raise RecipeError(f"setting 'branches' of xrtransformer is a power of 2 such as 16, got {self.branches}")

    @property
    def cluster_levels(self) -> int:
        """See `TreeNetSettings.cluster_levels`."""
        return max(self.levels_of_training, 1)

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ResolutionScorer:
        """See `Learner.fit`."""
        require("xrtransformer")
        from longtail.nn.label_tree.resolution_fit import ResolutionFit

        fit = ResolutionFit.begin(self, train, valid, parts)
        if self.levels_of_training:
            fit.learn()
        return fit.scorer()

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`: the larger of the two stages, and the time of both."""
        net = super().plan(facts)
        leaf_labels, weights = 0.75 * self.tree_leaf_labels, 23 * kept_weights(self.weight_threshold)
        width = Size.of(self.encoder, self.dimension, facts).width
        facts = replace(
            facts,
            terms=facts.terms + width,
            terms_per_row=facts.terms_per_row + width,
            mean_terms=facts.mean_terms + facts.labels * width,
            dense_columns=width,
        )
        tree = plan_trees(facts, self.trees, leaf_labels, 16, 8, self.tree_beam, weights)
        return replace(
            net,
            train_bytes=max(net.train_bytes, tree.train_bytes),
            model_bytes=net.model_bytes + tree.model_bytes,
            train_seconds=3 * net.train_seconds + tree.train_seconds,
            predict_seconds=net.predict_seconds + tree.predict_seconds,
        )
