"""A bag of word vectors under classifiers made of the labels' texts and of the texts around them in a label graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.frugal.scorer import FrugalScorer
from longtail.nn.frugal.settings import FrugalSettings, GraphNet, TextNet
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Eclare(GraphNet, TextNet, FrugalSettings):
    """A label's classifier is a mixture of three vectors, in shares that each label has of its own: of its text, of the
    texts of labels that random walks reach from it, and one that is free. At prediction half of a label's chance comes
    from its neighbours in that graph.

    Clusters are there as in `decaf`, where not every row can be compared with every label.

    Paper: Mittal et al., ECLARE: extreme classification with label graph correlations (WWW 2021). One tree, not three.
    Needs: texts of rows and labels. Soft targets are exact.
    Costs: as `astec`, and in each step two products with a (dimension, dimension) matrix for every label.
    Prefer instead: `astec + gandalf`, which brings the label graph in as training rows and costs less.
    Example: longtail train wordnet "eclare(dimension=64, epochs=5)" --out model
    """

    dimension: int = 300
    batch: int = 1024
    epochs: int = 15
    dropout: float = 0.2
    beam: int = 50  # clusters of a row whose labels stand in the pool

    summary: ClassVar[str] = "decaf with texts from a label graph, and scores that flow along it"
    scorer: ClassVar[type[Scorer]] = FrugalScorer

    @property
    def body(self) -> dict[str, Any]:
        return {"kind": "frugal bag", "width": self.dimension, "block": "scaled", "dropout": self.dropout}

    @property
    def layers(self) -> float:
        return 2.0

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> FrugalScorer:
        require("eclare")
        from longtail.nn.frugal.fit import FrugalFit
        from longtail.nn.frugal.label_side import ThreeWays
        from longtail.nn.frugal.runs import Runs

        net = FrugalFit.begin(self, train, valid, parts, self.body)
        texts = net.label_runs()
        around = Runs.of_matrix(net.make_graph(self) @ texts.matrix(net.tokenizer.size))
        net.make_labels(net.bags(around), lambda: ThreeWays(self.dimension, self.dropout), (texts, around))
        if not net.against_all:
            net.make_meta()
        net.learn(net.pool(self.beam))
        found: FrugalScorer = net.scorer()
        return found
