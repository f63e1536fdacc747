"""DECAF: a bag of word vectors, and classifiers that are partly made of the labels' texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.shallow.shallow_scorer import ShallowScorer
from longtail.nn.shallow.shallow_settings import ShallowSettings, TextNet
from longtail.papers import DECAF, Paper
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Decaf(TextNet, ShallowSettings):
    """A label's classifier is half a free vector and half its text: word vectors through a block of their own.

    Rows and labels train the words together, so a word that only labels use is trained too. Where every row can be
    compared with every label there are no clusters. Else classifiers of label clusters are trained as well: the labels
    of each row's best clusters are in the batch's pool, and a label's probability is that of its cluster times its own.

    Published form: three trees; this is one.
    Needs: texts of rows and labels. Soft targets are exact.
    Costs: as `astec`, and in each step one product with a (dimension, dimension) matrix for every label.
    Prefer instead: `eclare`, which also reads the texts of labels that occur together; `astec + gandalf`, which costs
    less.
    Example: longtail train wordnet "decaf(dimension=64, epochs=5)" --out model
    """

    dimension: int = 300
    batch_size: int = 1024
    epochs: int = 30
    beam: int = 100  # clusters of a row whose labels are in the pool

    ignores_word_order: ClassVar[bool] = True
    summary: ClassVar[str] = "astec whose classifiers are partly made of label texts"
    papers: ClassVar[tuple[Paper, ...]] = (DECAF,)
    scorer: ClassVar[type[Scorer]] = ShallowScorer

    @property
    def body(self) -> dict[str, Any]:
        """Settings of the encoder for `build_encoder`, without the vocabulary."""
        return {"kind": "weighted bag", "width": self.dimension, "block": "gated", "dropout": self.dropout}

    @property
    def layers(self) -> float:
        """See `ShallowSettings.layers`."""
        return 1.0

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ShallowScorer:
        """See `Learner.fit`."""
        require("decaf")
        from longtail.nn.shallow.label_mixtures import TextAndOwn
        from longtail.nn.shallow.shallow_fit import ShallowFit

        net = ShallowFit.begin(self, train, valid, parts, self.body)
        texts = net.label_runs()
        net.make_labels(net.bags(texts), lambda: TextAndOwn(self.dimension, self.dropout), (texts,))
        if not net.against_all:
            net.make_meta()
        net.learn(net.pool(self.beam))
        found: ShallowScorer = net.scorer()
        return found
