"""Re-ranking by how near a document is to the mean of each label's examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from longtail.data.dataset import Rows
from longtail.errors import RecipeError
from longtail.linear.features.label_means import MEANS, LabelMeans
from longtail.linear.features.sparse_features import FEATURES, Features
from longtail.papers import PFASTREXML, Paper
from longtail.plan import DataFacts, Plan
from longtail.predictions import CANDIDATES, Predictions
from longtail.progress import stage
from longtail.seams import Declaration, HeldOut, Number, Reranker, State, Whole

SETTINGS = ("centroid_weight", "gamma", "candidates")  # saved with the means


@dataclass(frozen=True, eq=False)
class CentroidReranker:
    """The mean example of each label, and the weight of nearness to it."""

    features: Features
    means: LabelMeans
    centroid_weight: float
    gamma: float
    candidates: int
    kind: ClassVar[str] = "nearness.v2"
    declared: ClassVar[Declaration] = (
        FEATURES
        + MEANS
        + Declaration(settings={"centroid_weight": Number(0, 1), "gamma": Number(0), "candidates": Whole(1)})
    )

    def rerank(self, predictions: Predictions, rows: Rows) -> Predictions:
        """See `Reranker.rerank`."""
        vectors, indices = self.features.of(rows), predictions.indices
        scores = self.means.blend(vectors, indices, predictions.scores, self.centroid_weight, self.gamma)
        return Predictions(predictions.labels, indices, scores).sorted()

    def state(self) -> State:
        """See `Scorer.state`."""
        words = self.features.state()
        settings = {name: getattr(self, name) for name in SETTINGS}
        return State({**words.settings, **settings}, {**words.tensors, **self.means.state()})

    @classmethod
    def restore(cls, state: State) -> CentroidReranker:
        """See `Scorer.restore`."""
        weight, gamma, candidates = (state.settings[name] for name in SETTINGS)
        return cls(Features.restore(state), LabelMeans.restore(state.tensors), weight, gamma, candidates)


@dataclass(frozen=True)
class CentroidTail:
    """Multiply each candidate's score^(1 - w) by its nearness^w: how near the document is to the label's mean.

    w is `centroid_weight`. The label's mean is that of its training examples. Nearness is 1 / (1 + exp(gamma |x -
    mean|^2)) over unit-norm tf-idf vectors. The mean of a few similar examples has a large norm, and a document can
    come near it; the mean of a common label has a small norm and is far from every document. So rare labels rise where
    the document is similar to their examples, and only there.

    Published form: the tail scorer of PfastreXML, with alpha = 1 - centroid_weight.
    Needs: texts or features; goes on every learner. Means come from the training examples as given.
    Costs: one sparse product to train; the model keeps a mean of each label; milliseconds a document at most.
    Prefer instead: `rerank`, which knows the label's frequency but not the document, where memory is short.
    Example: longtail compare wordnet "knn" "knn + centroid(centroid_weight=0.2, gamma=30)"
    """

    centroid_weight: float = 0.2  # 1 - alpha: the exponent of nearness
    gamma: float = 30.0  # how fast nearness falls with the squared distance
    candidates: int = CANDIDATES  # labels of the learner's ranking that may move; more if more are asked for

    summary: ClassVar[str] = "score x nearness to the mean of the label's examples"
    papers: ClassVar[tuple[Paper, ...]] = (PFASTREXML,)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset()
    reranker: ClassVar[type[Reranker]] = CentroidReranker

    def __post_init__(self) -> None:
        if not 0 <= self.centroid_weight <= 1 or self.gamma < 0 or self.candidates < 1:
            raise RecipeError(
                "centroid takes a centroid_weight from 0 to 1, a gamma of at least 0 and at least 1 candidate, "
                f"got centroid_weight={self.centroid_weight:g}, gamma={self.gamma:g}, candidates={self.candidates}"
            )

    def fit_reranker(self, held_out: HeldOut) -> CentroidReranker:
        """See `Reranks.fit_reranker`."""
        with stage("averaging examples"):
            features, vectors = Features.learn(held_out.train)
            means = LabelMeans.learn(vectors, held_out.train.targets)
        return CentroidReranker(features, means, self.centroid_weight, self.gamma, self.candidates)

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`: the words are counted again, and saved again beside the means."""
        averaging = max(facts.reading_bytes, facts.read_bytes + 34 * facts.mean_terms)
        return replace(
            before,
            train_bytes=max(before.train_bytes, before.model_bytes + averaging),
            model_bytes=before.model_bytes + 20 * facts.terms + 8 * facts.mean_terms,
            train_seconds=before.train_seconds + facts.reading_seconds + 5e-8 * facts.positives * facts.terms_per_row,
            predict_seconds=before.predict_seconds + 1000 * facts.reading_seconds / max(facts.rows, 1),
            steps=(*before.steps, ("label means", averaging)),
        )
