"""Convolutions along word vectors, under classifiers of labels and of clusters of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.frugal.scorer import FrugalScorer
from longtail.nn.frugal.settings import Convolutions, FrugalSettings
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class InceptionXml(Convolutions, FrugalSettings):
    """The first words of a text are channels, and convolutions of three widths slide along the dimensions of their
    vectors; the same features go to classifiers of clusters and of labels, which learn at the same time.

    At first only the clusters teach the encoder; a label's chance is that of its cluster times its own. Where not every
    row can be compared with every label, a row's best clusters say which labels stand in its batch's pool.

    Paper: Kharbanda et al., InceptionXML: a lightweight framework with synchronized negative sampling for short text
    extreme classification (SIGIR 2023).
    Needs: texts of rows. Soft targets are exact; a cluster's is the largest of its labels'.
    Costs: as `astec` of dimension 480, and some 8 million products a row for attention and convolutions.
    Prefer instead: `astec`, which is as good where the order of words says little; `inceptionxml-lf` with label texts.
    Example: longtail train wordnet "inceptionxml(dimension=64, epochs=5)" --out model
    """

    summary: ClassVar[str] = "convolutions along word vectors, classifiers of labels and of their clusters"
    scorer: ClassVar[type[Scorer]] = FrugalScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> FrugalScorer:
        require("inceptionxml")
        from longtail.nn.frugal.fit import FrugalFit

        net = FrugalFit.begin(self, train, valid, parts, self.body)
        net.make_labels()
        if self.meta or not net.against_all:
            net.make_meta(alone=round(self.alone * self.epochs))
        net.learn(net.pool(self.beam))
        found: FrugalScorer = net.scorer()
        return found
