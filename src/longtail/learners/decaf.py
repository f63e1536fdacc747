"""A bag of word vectors under classifiers that are partly made of the labels' texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.frugal.scorer import FrugalScorer
from longtail.nn.frugal.settings import FrugalSettings, TextNet
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Decaf(TextNet, FrugalSettings):
    """The word vectors of a label's text, through a block of their own, make half of its classifier; the other half is
    free.

    Words are learned by rows and labels together, so a word that only labels use still finds its place. Where every row
    can be compared with every label there are no clusters. Else clusters of labels are learned beside them, each row's
    best clusters say which labels stand in a batch's pool, and a label's chance is that of its cluster times its own.

    Paper: Mittal et al., DECAF: deep extreme classification with label features (WSDM 2021). One tree, not three.
    Needs: texts of rows and labels. Soft targets are exact.
    Costs: as `astec`, and in each step one product with a (dimension, dimension) matrix for every label.
    Prefer instead: `eclare`, which also reads the texts of labels that occur together; `astec + gandalf`, which costs
    less.
    Example: longtail train wordnet "decaf(dimension=64, epochs=5)" --out model
    """

    dimension: int = 300
    batch: int = 1024
    epochs: int = 30
    beam: int = 100  # clusters of a row whose labels stand in the pool

    summary: ClassVar[str] = "astec whose classifiers are partly made of label texts"
    scorer: ClassVar[type[Scorer]] = FrugalScorer

    @property
    def body(self) -> dict[str, Any]:
        return {"kind": "frugal bag", "width": self.dimension, "block": "gated", "dropout": self.dropout}

    @property
    def layers(self) -> float:
        return 1.0

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> FrugalScorer:
        require("decaf")
        from longtail.nn.frugal.fit import FrugalFit
        from longtail.nn.frugal.label_side import TextAndOwn

        net = FrugalFit.begin(self, train, valid, parts, self.body)
        texts = net.label_runs()
        net.make_labels(net.bags(texts), lambda: TextAndOwn(self.dimension, self.dropout), (texts,))
        if not net.against_all:
            net.make_meta()
        net.learn(net.pool(self.beam))
        found: FrugalScorer = net.scorer()
        return found
