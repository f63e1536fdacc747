"""InceptionXML: convolutions along word vectors, and classifiers of labels and of label clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.shallow.shallow_scorer import ShallowScorer
from longtail.nn.shallow.shallow_settings import Convolutions, ShallowSettings
from longtail.papers import INCEPTIONXML, Paper
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class InceptionXml(Convolutions, ShallowSettings):
    """Convolutions of three widths slide along the dimensions of word vectors, with the first words of a text as their
    channels. Classifiers of label clusters and of labels train on the same features at the same time.

    In the first epochs the encoder learns from the clusters alone. A label's probability is that of its cluster times
    its own. Where not every document can be compared with every label, the labels of a document's best clusters are in
    the pool.

    Needs: texts of documents. Soft targets are exact; a cluster's is the largest of its labels'.
    Costs: as `astec` of dimension 480, and some 8 million products a document for attention and convolutions.
    Prefer instead: `astec`, as good where the order of words matters little; `inceptionxml-lf` with label texts.
    Example: longtail train wordnet "inceptionxml(dimension=64, epochs=5)" --out model
    """

    summary: ClassVar[str] = "convolutions along word vectors, label clusters"
    offers: ClassVar[frozenset[str]] = ShallowSettings.offers | {"free_classifiers"}
    papers: ClassVar[tuple[Paper, ...]] = (INCEPTIONXML,)
    scorer: ClassVar[type[Scorer]] = ShallowScorer

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ShallowScorer:
        """See `Learner.fit`."""
        require("inceptionxml")
        from longtail.nn.shallow.shallow_fit import ShallowFit

        net = ShallowFit.begin(self, train, valid, parts, self.body)
        net.make_labels()
        if self.meta_labels or not net.against_all:
            net.make_meta(alone=round(self.meta_only_share * self.epochs))
        net.learn(net.pool(self.beam))
        found: ShallowScorer = net.scorer()
        return found
