"""InceptionXML whose classifiers read label texts and the texts around them in a label graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.frugal.scorer import FrugalScorer
from longtail.nn.frugal.settings import Convolutions, FrugalSettings, GraphNet, TextNet
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class InceptionXmlLf(GraphNet, TextNet, Convolutions, FrugalSettings):
    """The encoder and the two sets of classifiers of `inceptionxml`; a label's classifier is mixed of its text, of the
    texts around it in the label graph and of a free vector, as in `eclare`.

    Paper: Kharbanda et al., InceptionXML (SIGIR 2023), its extension by label features, as Gandalf's authors use it.
    Needs: texts of rows and labels. Soft targets are exact.
    Costs: as `inceptionxml`, and in each step two products with a (features, features) and two with a (dimension,
    features) matrix for every label.
    Prefer instead: `inceptionxml + gandalf`, which brings texts and graph in as training rows and costs less.
    Example: longtail train wordnet "inceptionxml-lf(dimension=64, epochs=5)" --out model
    """

    batch: int = 1024

    summary: ClassVar[str] = "inceptionxml with label texts and a label graph in its classifiers"
    scorer: ClassVar[type[Scorer]] = FrugalScorer

    @property
    def layers(self) -> float:
        return 2 + 2 * self.dimension / self.features

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> FrugalScorer:
        require("inceptionxml-lf")
        from longtail.nn.frugal.fit import FrugalFit
        from longtail.nn.frugal.label_side import ThreeWays
        from longtail.nn.frugal.runs import Runs

        net = FrugalFit.begin(self, train, valid, parts, self.body)
        texts = net.label_runs()
        around = Runs.of_matrix(net.make_graph(self) @ texts.matrix(net.tokenizer.size))
        net.make_labels(None, lambda: ThreeWays(self.dimension, self.dropout, net.encoder.dimension), (texts, around))
        if self.meta or not net.against_all:
            net.make_meta(alone=round(self.alone * self.epochs))
        net.learn(net.pool(self.beam))
        found: FrugalScorer = net.scorer()
        return found
