"""Shallow, wide label trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from scipy import sparse

from longtail.arrays import Ints, Longs, Matrix
from longtail.data.corpus import held_out
from longtail.data.dataset import Dataset
from longtail.data.subsample import evenly_spaced
from longtail.errors import RecipeError
from longtail.jobs import without_jobs
from longtail.linear.features.tfidf_settings import TfidfSettings
from longtail.linear.trees.label_clusters import cooccurrence_vectors, kmeans_tree, label_vectors
from longtail.linear.trees.label_forest import ForestScorer, fit_forest
from longtail.linear.trees.train_tree import Training
from longtail.linear.trees.tree_plan import kept_weights, plan_trees
from longtail.metrics.evaluate import evaluate
from longtail.papers import BONSAI, Paper, Preset
from longtail.plan import DataFacts, Plan
from longtail.predictions import Predictions
from longtail.progress import note, stage
from longtail.seams import Scorer, TailMethod

DEFAULT = 3  # hard negatives, where they are better or nothing tells
TRIED_ROWS = 20_000  # examples that the trees of hard_negatives="auto" train on, at most
TRIED_TREES = 2  # of each choice: two forks gain more by another tree than one fork does
LARGE_CLUSTER = 100  # labels of a cluster, in the mean, from which on a second fork is tried
MEASURED_ROWS = 4000  # and are measured on
HELD_OUT = 0.05  # of the training examples, where there is no valid split to choose on
KS = (1, 3, 5)


@dataclass(frozen=True)
class Bonsai(TfidfSettings):
    """A wide tree of one or two forks: rare labels form their own clusters instead of filling up balanced halves.

    Published form: `bonsai:paper`; `bonsai(hard_negatives=0, max_iter=8)` is as good. With hard negatives a cluster
    also trains on examples that the search takes for its own, as in PECOS (Yu et al., JMLR 2022): mostly more
    precision, also in the tail, but less where the labels of an example depend on each other. A second fork, as the
    published form has on large label sets, helps where labels come in many small groups of their own words, such as
    products, and costs precision elsewhere. So two trees each way are trained on some of the examples first: with hard
    negatives, without, and without but with two forks where clusters are large. What is better in P + PSP at 1, 3 and 5
    on valid is kept, or on a twentieth of train where there is none; `hard_negatives=3` and `=0` fix the answer.
    Needs: texts or features. A soft target t is a positive of weight t and a negative of weight 1 - t.
    Costs: more than `parabel`, since every example meets all children of the root and the labels of wrong clusters.
    Prefer instead: `parabel` where training time or memory is short.
    Example: longtail train wordnet "bonsai" --out model
    """

    trees: int = 3
    branches: int = 100  # clusters of a node
    # Forks above the leaves. 0: 2 where clusters would have over 10 x branches labels, else 1, or what is better on
    # held-out examples where `hard_negatives` is chosen too.
    depth: int = 0
    cluster_by: Literal["features", "cooccurrence", "both"] = "features"  # vectors of the labels
    cost: float = 1.0  # C
    max_iter: int = 5  # passes; with hard negatives, more take longer and are no more precise
    weight_threshold: float = 0.1  # weights below this are dropped
    beam: int = 10  # clusters kept on each level in prediction
    # Wrong clusters that an example also trains; the published form has 0. auto: 3 or 0, chosen on held-out examples.
    hard_negatives: int | Literal["auto"] = "auto"
    seed: int = 0

    summary: ClassVar[str] = "shallow, wide k-means label trees with linear classifiers"
    papers: ClassVar[tuple[Paper, ...]] = (BONSAI,)
    presets: ClassVar[Mapping[str, Preset]] = {
        "paper": Preset(
            {"hard_negatives": 0, "branches": 100, "trees": 3, "cost": 1.0, "max_iter": 20, "beam": 10},
            "the authors' code and its run script",
            differs="the code discounts a parent's score by 0.98; here it is not discounted",
        )
    }
    offers: ClassVar[frozenset[str]] = frozenset({"soft_targets", "classifier_rows"})
    data_needs: ClassVar[frozenset[str]] = frozenset()
    scorer: ClassVar[type[Scorer]] = ForestScorer
    runs_in_jobs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            min(self.trees, self.max_iter, self.beam) < 1
            or self.branches < 2
            or self.cost <= 0
            or self.weight_threshold < 0
        ):
            raise RecipeError(
                "bonsai takes trees, max_iter and beam of at least 1, branches of at least 2, cost above 0 and "
                f"weight_threshold of at least 0, got trees={self.trees}, max_iter={self.max_iter}, beam={self.beam}, "
                f"branches={self.branches}, cost={self.cost:g}, weight_threshold={self.weight_threshold:g}"
            )
        if not isinstance(self.hard_negatives, str) and self.hard_negatives < 0:
            raise RecipeError(f"setting 'hard_negatives' of bonsai is at least 0, got {self.hard_negatives}")

    def fit(self, train: Dataset, valid: Dataset, parts: tuple[TailMethod, ...]) -> ForestScorer:
        """See `Learner.fit`."""
        if isinstance(self.hard_negatives, str):
            return self._chosen(train, valid).fit(train, valid, parts)
        features, rows = self.read(train)
        training = Training(
            cost=self.cost,
            max_iter=self.max_iter,
            weight_threshold=self.weight_threshold,
            path_weight=3 / (3 + self.hard_negatives),  # a leaf with more hard negatives needs its path's scores less
            seed=self.seed,
        )

        def cluster(vectors: Matrix, seed: int) -> tuple[Ints, list[Longs]]:
            return kmeans_tree(vectors, self.branches, self._depth(len(train.labels)), seed)

        describe = partial(self._vectors, train, rows)
        shape = (self.trees, self.beam, self.hard_negatives)
        return fit_forest(features, rows, train.targets, describe, cluster, training, *shape)

    def _chosen(self, train: Dataset, valid: Dataset) -> Bonsai:
        """With hard negatives or without, with one fork or two, by small trees of each on a share of the examples."""
        choices = self._choices(len(train.labels))
        seen, measured = train, valid
        if valid.targets.nnz == 0:
            away = held_out(train.ids, HELD_OUT, "bonsai")
            seen, measured = train.take(np.flatnonzero(~away)), train.take(np.flatnonzero(away))
        if measured.targets.nnz == 0 or seen.targets.nnz == 0:
            note("bonsai: too few examples to choose hard_negatives on, so they are the default")
            return choices[0]
        seen = seen.take(evenly_spaced(len(seen), TRIED_ROWS))
        measured = measured.take(evenly_spaced(len(measured), MEASURED_ROWS))
        values = []
        for one in choices:
            words = self._words(one)
            with stage(f"trying {words}"), without_jobs():  # too small to be worth jobs
                scorer = replace(one, trees=min(self.trees, TRIED_TREES)).fit(seen, measured, ())
                places = min(KS[-1] + _most_excluded(measured), len(measured.labels))
                found = Predictions(measured.labels, *scorer.top(measured.rows, places)).without(measured.excluded)
                measures = evaluate(found, measured, ks=KS)
            values.append(sum(measures[f"{name}@{k}"] for name in ("P", "PSP") for k in KS))
            figures = ", ".join(f"{name} {measures[name]:.1f}" for name in ("P@1", "PSP@1", "PSP@5"))
            note(f"bonsai: {words}: {figures}")
        best = choices[int(np.argmax(values))]  # of equals the first
        note(f"bonsai: chosen {self._words(best)}")
        return best

    def _choices(self, labels: int) -> list[Bonsai]:
        """What `hard_negatives="auto"` tries."""
        without = replace(self, hard_negatives=0, max_iter=max(self.max_iter, 8))
        found = [replace(self, hard_negatives=DEFAULT), without]
        if self.depth == 0 and self._depth(labels) == 1 and labels >= LARGE_CLUSTER * self.branches:
            found.append(replace(without, depth=2))
        return found

    def _words(self, choice: Bonsai) -> str:
        depth = "" if choice.depth == self.depth else f", depth={choice.depth}"
        return f"hard_negatives={choice.hard_negatives}{depth}"

    def _depth(self, labels: int) -> int:
        return self.depth or (1 if labels <= 10 * self.branches**2 else 2)

    def _vectors(self, train: Dataset, rows: Matrix) -> Matrix:
        if self.cluster_by == "features":
            return label_vectors(train.targets, rows)
        if self.cluster_by == "cooccurrence":
            return cooccurrence_vectors(train.targets)
        return sparse.hstack([label_vectors(train.targets, rows), cooccurrence_vectors(train.targets)], format="csr")

    def plan(self, facts: DataFacts) -> Plan:
        """See `Learner.plan`."""
        facts = self.seen(facts)
        leaf_labels = max(facts.labels // self.branches ** self._depth(facts.labels), 1)
        weights = 19 * kept_weights(self.weight_threshold)
        auto = isinstance(self.hard_negatives, str)
        negatives = DEFAULT if isinstance(self.hard_negatives, str) else self.hard_negatives

        def planned(trees: int) -> Plan:
            return plan_trees(facts, trees, leaf_labels, self.branches, self.max_iter, self.beam, weights, negatives)

        plan = planned(self.trees)
        if not auto:
            return plan
        share = min(1.0, TRIED_ROWS / max(facts.rows, 1))
        tried = len(self._choices(facts.labels)) * share * planned(min(self.trees, TRIED_TREES)).train_seconds
        return replace(plan, train_seconds=plan.train_seconds + tried)


def _most_excluded(data: Dataset) -> int:
    return 0 if data.excluded is None else int(np.diff(data.excluded.indptr).max(initial=0))
