"""AttentionXML: each label looks at the words of a text that matter to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.label_tree.attention_scorer import AttentionScorer
from longtail.nn.label_tree.tree_settings import TreeNetSettings
from longtail.papers import ATTENTIONXML, Paper, Preset
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class AttentionXml(TreeNetSettings):
    """A recurrent net reads the words, and each label sums their states by an attention of its own.

    A label may also look at nothing. One small network, shared by all labels, scores what it saw. `predict --why` shows
    the words that each label looked at. Up to `max_flat_labels` labels are all scored; beyond, a tree of clusters that
    look at words themselves chooses which, level by level, and a label's probability is multiplied by those of all
    clusters above it.

    Published form: an LSTM with pretrained word vectors; beyond 31,000 labels a net for each level of the tree, each
    begun as the one above it; three of them with different trees. Here one net (a GRU by default) learns its words and
    serves all levels, which are trained together. `fuse` or `ensemble` combine several.
    Needs: texts of examples. Soft targets are exact; a cluster has the largest target of its labels.
    Costs: per example, tokens x scored labels x dimension; one vector a label.
    Prefer instead: `renee` or `unidec` for short texts; `bonsai` without a GPU.
    Example: longtail train wordnet "attentionxml(dimension=64, epochs=3, batch_size=64)" --out model
    """

    encoder: str = "gru"  # gru, bag, tiny, or a BERT-like transformer, whose tokens are attended
    dimension: int | None = None  # of the states of gru and bag; none: 512, and the width of a transformer
    max_tokens: int = 128  # tokens of a text; the rest is cut off
    schedule: Literal["linear", "cosine", "none"] = "linear"
    dropout: float = 0.5  # on the states
    hidden: int = 128  # of the network that scores what was seen
    max_flat_labels: int = 30_000  # labels up to which there is no tree
    max_leaf_labels: int = 16  # labels of a cluster
    beam: int = 32  # clusters of each level whose children are scored
    branches: int = 8  # clusters below a cluster, a power of 2
    levels_of_clusters: int = 2  # at most

    head_factor: ClassVar[float] = 1.0
    summary: ClassVar[str] = "an attention over the words for each label; shows which words"
    papers: ClassVar[tuple[Paper, ...]] = (ATTENTIONXML,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "dimension": 512,
                "max_tokens": 500,
                "batch_size": 40,
                "epochs": 30,
                "learning_rate": 1e-3,
                "schedule": "none",
                "warmup": 0.0,
                "weight_decay": 0.0,
                "hidden": 256,
                "bias_init": 0.0,
                "average_from": 10,
            },
            "the published code, EURLex-4K",
        )
    }
    scorer: ClassVar[type[Scorer]] = AttentionScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden < 1 or self.max_flat_labels < 0 or self.levels_of_clusters < 1:
            raise RecipeError(
                "attentionxml takes hidden and levels_of_clusters of at least 1 and max_flat_labels of at least 0, got "
                f"hidden={self.hidden}, levels_of_clusters={self.levels_of_clusters}, "
                f"max_flat_labels={self.max_flat_labels}"
            )
        if self.branches < 2 or self.branches & (self.branches - 1):
            raise RecipeError(f"setting 'branches' of attentionxml is a power of 2 such as 8, got {self.branches}")

    @property
    def cluster_levels(self) -> int:
        """See `TreeNetSettings.cluster_levels`."""
        return self.levels_of_clusters

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> AttentionScorer:
        """See `Learner.fit`."""
        require("attentionxml")
        from longtail.nn.label_tree.attention_fit import AttentionFit

        fit = AttentionFit.begin(self, train, valid, parts)
        fit.learn()
        return fit.scorer()
