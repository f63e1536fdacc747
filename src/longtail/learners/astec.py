"""Astec: a bag of word vectors and one classifier per label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.nn.extra import require
from longtail.nn.onevsall.onevsall_scorer import OneVsAllScorer
from longtail.nn.shallow.shallow_settings import ShallowSettings
from longtail.papers import DEEPXML, Paper, Preset
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Astec(ShallowSettings):
    """A tf-idf weighted sum of word vectors, ReLU, a residual block, and one classifier per label.

    Where every document can be compared with every label, words, block and classifiers are trained together. Where
    there are too many labels, words are first trained on clusters of labels (the surrogate task) and then frozen. Block
    and classifiers train on pools: the labels of a batch's documents, the labels whose mean examples are nearest to
    them, labels of similar training examples, and random ones. All documents of a batch share its pool, so no positive
    counts as a negative.

    Needs: texts of documents. Soft targets are exact: the gradient of a score is σ(s) - t.
    Costs: epochs x examples x labels x dimension x 6 operations; three numbers in memory for each weight of a word or
    label.
    Prefer instead: `renee`, where a pretrained encoder fits; `decaf` or `eclare` where labels have texts.
    Example: longtail train wordnet "astec(dimension=64, epochs=5)" --out model
    """

    residual: bool = True  # the residual block; false: the classifiers take the sum as it is
    shortlist: int = 50  # hard negatives of a document in a pool
    vote_weight: float = (
        0.075  # in a shortlist, of labels of similar examples; the rest is the cosine to a label's mean
    )

    ignores_word_order: ClassVar[bool] = True
    offers: ClassVar[frozenset[str]] = ShallowSettings.offers | {"free_classifiers"}
    summary: ClassVar[str] = "bag of word vectors, residual block, classifiers"
    papers: ClassVar[tuple[Paper, ...]] = (DEEPXML,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {
                "dimension": 300,
                "dropout": 0.5,
                "batch_size": 255,
                "epochs": 20,
                "learning_rate": 1e-3,
                "warmup": 0.0,
                "head_weight_decay": 0.0,
                "loss_over": "pool",
                "shortlist": 500,
                "random_negatives": 200,
                "vote_weight": 0.075,
            },
            "the published configuration of LF-AmazonTitles-131K",
            differs="there word vectors start from fastText (give `word_vectors`), words are trained at a rate of 0.03 "
            "that is halved once, an example has a shortlist of its own, and a second net re-ranks",
        )
    }
    scorer: ClassVar[type[Scorer]] = OneVsAllScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortlist < 1 or not 0 <= self.vote_weight <= 1:
            raise RecipeError(
                "astec needs a shortlist of at least 1 and a vote_weight in [0, 1], got "
                f"shortlist={self.shortlist}, vote_weight={self.vote_weight:g}"
            )

    @property
    def body(self) -> dict[str, Any]:
        """Settings of the encoder for `build_encoder`, without the vocabulary."""
        block = "added" if self.residual else "none"
        return {"kind": "weighted bag", "width": self.dimension, "block": block, "dropout": self.dropout}

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> OneVsAllScorer:
        """See `Learner.fit`."""
        require("astec")
        from longtail.nn.shallow.shallow_fit import ShallowFit
        from longtail.nn.shallow.shortlists import shortlists

        net = ShallowFit.begin(self, train, valid, parts, self.body)
        if net.against_all:
            net.make_labels()
            net.learn(None)
        else:
            net.learn_surrogate()
            near = shortlists(net.coarse_vectors(), train.targets, self.shortlist, self.vote_weight, str(net.device))
            net.make_labels()
            net.learn(net.pool(nearest=near), frozen=True)
        found: OneVsAllScorer = net.scorer()
        return found
