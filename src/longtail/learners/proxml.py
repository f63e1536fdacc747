"""Robust sparse classifiers, one a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longtail.arrays import Floats, Matrix
from longtail.data.dataset import Dataset
from longtail.errors import RecipeError
from longtail.linear.beam import ForestMaker
from longtail.linear.forest import ForestScorer
from longtail.linear.lasso import fit_sparse
from longtail.linear.reading import Reading
from longtail.linear.tree import CHUNK, InTurn, chunk_of
from longtail.plan import Facts, Plan
from longtail.progress import stage
from longtail.seams import Scorer, TailMethod
from longtail.threads import in_threads, thread_count


@dataclass(frozen=True)
class Proxml(Reading):
    """One linear classifier a label whose L1 penalty makes it robust to small changes of the rows, which is what
    rare labels with few, unlike rows need.

    Paper: Babbar and Schölkopf, ProXML (Machine Learning 2019). Solved by proximal coordinate descent for many labels
    at once, rather than hundreds of proximal gradient steps for each.
    Needs: texts or features. A soft target t is a yes of weight t and a no of weight 1 - t.
    Costs: more than `dismec` to train, less to predict: the weights are sparse.
    Prefer instead: `parabel` or `bonsai` for more than some ten thousand labels.
    Example: longtail train wordnet "proxml" --out model
    """

    penalty: float = 0.1  # λ
    passes: int = 20  # over the features
    limit: float = 0.01  # a step below this ends the training
    together: int = 64  # labels trained side by side

    summary: ClassVar[str] = "one-vs-all linear classifiers with an L1 penalty, robust for rare labels"
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1 or not 1 <= self.together <= CHUNK or self.penalty < 0 or self.limit < 0:
            raise RecipeError(
                f"proxml takes passes of 1 or more, together from 1 to {CHUNK}, penalty and limit of 0 or more"
            )

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        features, rows = self.read(train)
        labels = len(train.labels)
        firsts = list(range(0, labels, self.together))
        maker = ForestMaker()
        maker.tree(np.arange(labels, dtype=np.int32), [np.array([0, labels], dtype=np.int64)])
        in_turn = InTurn(maker.keep)
        by_feature = rows.tocsc()
        plain = (by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32), by_feature.data)
        by_label = train.targets.tocsc()

        with stage("training classifiers", total=len(firsts)) as advance:

            def work(number: int) -> None:
                first = firsts[number]
                targets = _dense(by_label, first, min(first + self.together, labels))
                weights = fit_sparse(*plain, targets, np.float32(self.penalty), np.float32(self.limit), self.passes)
                in_turn.put(number, chunk_of(0, 0, first, weights))
                advance(1)

            in_threads(work, range(len(firsts)))
        return ForestScorer(features, maker.made(), beam=1)

    def plan(self, facts: Facts) -> Plan:
        facts = self.seen(facts)
        weights = 95 * facts.positives  # about nine weights a positive pass the penalty
        scratch = 4 * thread_count() * self.together * (3 * facts.rows + facts.terms)  # scores, targets twice; weights
        by_feature = int(12 * facts.row_terms)
        work = self.passes * facts.row_terms * facts.labels
        return Plan(
            train_bytes=max(facts.reading_bytes, facts.kept_bytes + by_feature + scratch + weights),
            model_bytes=20 * facts.terms + weights + 90 * facts.labels,
            train_seconds=facts.reading_seconds + 6e-10 * work + 0.5,
            predict_seconds=1000 * (1e-4 + 2e-9 * facts.labels * facts.terms_per_row),
            steps=(("word counts", facts.reading_bytes), ("rows by word", by_feature), ("scores", scratch)),
        )


def _dense(by_label: Matrix, first: int, last: int) -> Floats:
    """Targets of a few labels over all rows: (rows, labels)."""
    dense: Floats = np.ascontiguousarray(by_label[:, first:last].toarray(), dtype=np.float32)
    return dense
