"""InceptionXML-LF: its classifiers use label texts and those of their neighbours in a label graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from longtail.data.dataset import Dataset
from longtail.nn.extra import require
from longtail.nn.shallow.shallow_scorer import ShallowScorer
from longtail.nn.shallow.shallow_settings import Convolutions, GraphNet, ShallowSettings, TextNet
from longtail.papers import GANDALF, INCEPTIONXML, Paper
from longtail.seams import Scorer, TailMethod


@dataclass(frozen=True)
class InceptionXmlLf(GraphNet, TextNet, Convolutions, ShallowSettings):
    """The encoder and the two sets of classifiers of `inceptionxml`. A label's classifier mixes its text, the texts of
    its neighbours in the label graph and a free vector, as in `eclare`.

    Published form: the extension by label features, as Gandalf's authors use it.
    Needs: texts of documents and labels. Soft targets are exact.
    Costs: as `inceptionxml`, and in each step two products with a (features, features) and two with a (dimension,
    features) matrix for every label.
    Prefer instead: `inceptionxml + gandalf`, which brings texts and graph in as training examples and costs less.
    Example: longtail train wordnet "inceptionxml-lf(dimension=64, epochs=5)" --out model
    """

    batch_size: int = 1024

    summary: ClassVar[str] = "inceptionxml with label texts and a label graph"
    papers: ClassVar[tuple[Paper, ...]] = (
        INCEPTIONXML,
        GANDALF,
    )
    scorer: ClassVar[type[Scorer]] = ShallowScorer

    @property
    def layers(self) -> float:
        """See `ShallowSettings.layers`."""
        return 2 + 2 * self.dimension / self.features

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ShallowScorer:
        """See `Learner.fit`."""
        require("inceptionxml-lf")
        from longtail.nn.encoders.word_runs import Runs
        from longtail.nn.shallow.label_mixtures import ThreeWays
        from longtail.nn.shallow.shallow_fit import ShallowFit

        net = ShallowFit.begin(self, train, valid, parts, self.body)
        texts = net.label_runs()
        around = Runs.of_matrix(net.make_graph(self) @ texts.matrix(net.tokenizer.size))
        net.make_labels(None, lambda: ThreeWays(self.dimension, self.dropout, net.encoder.dimension), (texts, around))
        if self.meta_labels or not net.against_all:
            net.make_meta(alone=round(self.meta_only_share * self.epochs))
        net.learn(net.pool(self.beam))
        found: ShallowScorer = net.scorer()
        return found
