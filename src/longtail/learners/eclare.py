"""ECLARE: a bag of word vectors, and classifiers made of label texts and of their neighbours' in a label graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.shallow.shallow_scorer import ShallowScorer
from longtail.nn.shallow.shallow_settings import GraphNet, ShallowSettings, TextNet
from longtail.papers import ECLARE, Paper
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class Eclare(GraphNet, TextNet, ShallowSettings):
    """A label's classifier mixes three vectors, with learned shares per label: of its text, of the texts of labels that
    random walks reach from it, and a free one. At prediction half of a label's probability comes from its neighbours in
    that graph.

    Where not every row can be compared with every label, there are clusters as in `decaf`.

    Published form: three trees; this is one.
    Needs: texts of rows and labels. Soft targets are exact.
    Costs: as `astec`, and in each step two products with a (dimension, dimension) matrix for every label.
    Prefer instead: `astec + gandalf`, which brings the label graph in as training rows and costs less.
    Example: longtail train wordnet "eclare(dimension=64, epochs=5)" --out model
    """

    dimension: int = 300
    batch_size: int = 1024
    epochs: int = 15
    dropout: float = 0.2
    beam: int = 50  # clusters of a row whose labels are in the pool

    ignores_word_order: ClassVar[bool] = True
    summary: ClassVar[str] = "decaf with texts and scores from a label graph"
    papers: ClassVar[tuple[Paper, ...]] = (ECLARE,)
    scorer: ClassVar[type[Scorer]] = ShallowScorer

    @property
    def body(self) -> dict[str, Any]:
        """Settings of the encoder for `build_encoder`, without the vocabulary."""
        return {"kind": "weighted bag", "width": self.dimension, "block": "scaled", "dropout": self.dropout}

    @property
    def layers(self) -> float:
        """See `ShallowSettings.layers`."""
        return 2.0

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ShallowScorer:
        """See `Learner.fit`."""
        require("eclare")
        from longtail.nn.encoders.word_runs import Runs
        from longtail.nn.shallow.label_mixtures import ThreeWays
        from longtail.nn.shallow.shallow_fit import ShallowFit

        net = ShallowFit.begin(self, train, valid, parts, self.body)
        texts = net.label_runs()
        around = Runs.of_matrix(net.make_graph(self) @ texts.matrix(net.tokenizer.size))
        net.make_labels(net.bags(around), lambda: ThreeWays(self.dimension, self.dropout), (texts, around))
        if not net.against_all:
            net.make_meta()
        net.learn(net.pool(self.beam))
        found: ShallowScorer = net.scorer()
        return found
