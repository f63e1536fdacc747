"""One sparse, robust classifier for each label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.linear.solvers.lasso import fit_sparse
from longtail.linear.trees.beam_search import ForestMaker
from longtail.linear.trees.label_forest import ForestScorer
from longtail.linear.trees.train_tree import CHUNK, InOrder, chunk_of
from longtail.papers import PROXML, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage
from longtail.seams import Scorer, TailMethod
from longtail.threads import in_threads, thread_count


@dataclass(frozen=True)
class Proxml(TfidfSettings):
    """One linear classifier for each label. Its L1 penalty makes it robust to small changes of the examples, which rare
    labels with few and different examples need.

    Published form: hundreds of proximal gradient steps for each label; here proximal coordinate descent solves many
    labels at once.
    Needs: texts or features. A soft target t is a positive of weight t and a negative of weight 1 - t.
    Costs: more than `dismec` to train, less to predict: the weights are sparse.
    Prefer instead: `parabel` or `bonsai` for more than about ten thousand labels.
    Example: longtail train wordnet "proxml" --out model
    """

    penalty: float = 0.1  # λ
    max_iter: int = 20  # passes over the features
    tol: float = 0.01  # training ends when no weight changes by more
    label_block: int = 64  # labels trained side by side

    summary: ClassVar[str] = "one-vs-all linear classifiers with an L1 penalty"
    papers: ClassVar[tuple[Paper, ...]] = (PROXML,)
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_iter < 1 or not 1 <= self.label_block <= CHUNK or self.penalty < 0 or self.tol < 0:
            raise RecipeError(
                f"proxml takes max_iter of at least 1, label_block from 1 to {CHUNK}, penalty and tol of at least 0, "
                f"got max_iter={self.max_iter}, label_block={self.label_block}, penalty={self.penalty:g}, "
                f"tol={self.tol:g}"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        """See `Learner.fit`."""
        features, rows = self.read(train)
        labels = len(train.labels)
        firsts = list(range(0, labels, self.label_block))
        maker = ForestMaker()
        maker.begin_tree(np.arange(labels, dtype=np.int32), [np.array([0, labels], dtype=np.int64)])
        in_order = InOrder(maker.keep)
        by_feature = rows.tocsc()
        arrays = (by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32), by_feature.data)
        by_label = train.targets.tocsc()

        with stage("training classifiers", total=len(firsts)) as advance:

            def work(number: int) -> None:
                first = firsts[number]
                targets = _dense(by_label, first, min(first + self.label_block, labels))
                weights = fit_sparse(*arrays, targets, np.float32(self.penalty), np.float32(self.tol), self.max_iter)
                in_order.put(number, chunk_of(0, 0, first, weights))
                advance(1)

            in_threads(work, range(len(firsts)))
        return ForestScorer(features, maker.finish(), beam=1)

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        weights = 95 * facts.positives  # about nine weights for each positive are not 0
        # Scores and, twice, targets of a block of labels; its weights.
        scratch = 4 * thread_count() * self.label_block * (3 * facts.rows + facts.terms)
        by_feature = int(12 * facts.row_terms)
        work = self.max_iter * facts.row_terms * facts.labels
        return Plan(
            train_bytes=max(facts.reading_bytes, facts.kept_bytes + by_feature + scratch + weights),
            model_bytes=20 * facts.terms + weights + 90 * facts.labels,
            train_seconds=facts.reading_seconds + 6e-10 * work + 0.5,
            predict_seconds=1000 * (1e-4 + 2e-9 * facts.labels * facts.terms_per_row),
            steps=(("word counts", facts.reading_bytes), ("examples by word", by_feature), ("scores", scratch)),
        )


def _dense(by_label: Matrix, first: int, last: int) -> Floats:
    """Targets of a few labels over all rows: (rows, labels)."""
    dense: Floats = np.ascontiguousarray(by_label[:, first:last].toarray(), dtype=np.float32)
    return dense
