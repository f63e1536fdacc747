"""Forests of label trees: training, and the scorer that they all become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from longtail.arrays import Floats, Ints, Matrix
from longtail.data.dataset import Rows
from longtail.jobs import current_job_runner
from longtail.linear.features.sparse_features import FEATURES, Features, dense_columns
from longtail.linear.trees.beam_search import NO_COLUMNS, ForestMaker, LabelForest, search
from longtail.linear.trees.classifier_norms import leaf_norms
from longtail.linear.trees.dense_kernels import DenseColumns
from longtail.linear.trees.forest_declared import FOREST
from longtail.linear.trees.hard_negatives import hard_negatives_of
from longtail.linear.trees.train_tree import Training, fit_tree
from longtail.linear.trees.tree_jobs import LabelTree, train_in_jobs
from longtail.memory import release
from longtail.progress import stage
from longtail.seams import Declaration, State
from longtail.threads import in_threads

NUMBERS = ("labels", "log_loss", "dense_columns")  # of a `LabelForest`, which are no arrays

Cluster = Callable[[Matrix, int], LabelTree]  # as `balanced_halves`, from vectors and a seed


@dataclass(frozen=True, eq=False)
class ForestScorer:
    """Features and trees. A score is the product of the probabilities down to the label, mean over the trees."""

    features: Features
    forest: LabelForest
    beam: int
    kind: ClassVar[str] = "forest.v5"
    declared: ClassVar[Declaration] = FEATURES + FOREST

    def top(self, rows: Rows, k: int) -> tuple[Ints, Floats]:
        """See `Scorer.top`."""
        return search(self.forest, self.features.of(rows), k, self.beam)

    def row_norms(self) -> Floats:
        """Norms of the labels' classifiers (labels,)."""
        return leaf_norms(self.forest)

    def state(self) -> State:
        """See `Scorer.state`."""
        words = self.features.state()
        trees = {field.name: getattr(self.forest, field.name) for field in fields(LabelForest)}
        numbers = {name: trees.pop(name) for name in NUMBERS}
        tensors = {**words.tensors, **{f"forest.{name}": value for name, value in trees.items()}}
        return State({**words.settings, **numbers, "beam": self.beam}, tensors)

    @classmethod
    def restore(cls, state: State) -> ForestScorer:
        """See `Scorer.restore`."""
        names = [field.name for field in fields(LabelForest) if field.name not in NUMBERS]
        stored: dict[str, Any] = {name: state.tensors[f"forest.{name}"] for name in names}
        forest = LabelForest(**stored, **{name: state.settings[name] for name in NUMBERS})
        return cls(Features.restore(state), forest, state.settings["beam"])


def fit_forest(
    features: Features,
    rows: Matrix,
    targets: Matrix,
    describe: Callable[[], Matrix],
    cluster: Cluster,
    training: Training,
    trees: int,
    beam: int,
    hard_negatives: int = 0,
) -> ForestScorer:
    """Train several trees, each clustered and trained from its own seed.

    Args:
        features: how to read examples.
        rows: vectors of the training examples, csr (rows, features).
        targets: csr (rows, labels).
        describe: makes the vectors of the labels.
        cluster: makes the nodes of a tree from these vectors and a seed.
        training: settings of the classifiers.
        trees: number of trees.
        beam: nodes kept on each level in prediction.
        hard_negatives: wrong nodes of each level that a row also trains.

    Returns:
        The scorer.
    """
    clusters = _clusters(describe, cluster, range(training.seed, training.seed + trees))
    release()
    dense = dense_columns_of(features, rows)
    return ForestScorer(features, train_forest(rows, targets, clusters, training, hard_negatives, dense), beam)


def train_forest(
    rows: Matrix,
    targets: Matrix,
    clusters: list[LabelTree],
    training: Training,
    hard_negatives: int = 0,
    dense: DenseColumns = NO_COLUMNS,
) -> LabelForest:
    """Train the classifiers of trees: here, or inside `using_jobs` in jobs, to the same bits.

    Args:
        rows: vectors of the training examples, csr (rows, features).
        targets: csr (rows, labels).
        clusters: order and levels of each tree, as `fit_tree` takes them.
        training: settings; tree number t is trained with `seed + t`.
        hard_negatives: wrong nodes of each level that a row also trains.
        dense: the last columns of the rows, whose weights are all kept: a table holds them, zeros too.

    Returns:
        The forest.
    """
    training = replace(training, kept_from=dense.first)
    maker = ForestMaker(training.log_loss, dense)
    runner = current_job_runner()
    if runner is not None:
        train_in_jobs(rows, targets, clusters, training, hard_negatives, maker, runner)
        return maker.finish()
    negatives = hard_negatives_of(rows, hard_negatives, dense) if hard_negatives else None
    for number, (order, levels) in enumerate(clusters):
        maker.begin_tree(order, levels)
        settings = replace(training, seed=training.seed + number)
        fit_tree(rows, targets, order, levels, settings, maker.keep, negatives)
        release()
    return maker.finish()


def dense_columns_of(features: Features, rows: Matrix) -> DenseColumns:
    """The columns behind the words, where they are dense: an encoder's vector, whose weights are stored whole.

    Args:
        features: how examples were read.
        rows: vectors of the training examples, csr (rows, features).

    Returns:
        The columns; none where they are many, or more than half of their values are 0.
    """
    first = 0 if features.vocabulary is None else features.vocabulary.columns
    number = dense_columns(rows.shape[1] - first, np.count_nonzero(rows.indices >= first) / max(rows.shape[0], 1))
    return DenseColumns(first, number) if number else NO_COLUMNS


def _clusters(describe: Callable[[], Matrix], cluster: Cluster, seeds: range) -> list[LabelTree]:
    """The nodes of all trees, in threads, because the first splits of one tree keep only one core busy. The vectors are
    freed afterwards."""
    found: dict[int, LabelTree] = {}
    with stage("grouping labels"):
        vectors = describe()
        in_threads(lambda seed: found.update({seed: cluster(vectors, seed)}), seeds)
    # The search goes down all trees together, so a tree with nothing left to split gets levels of only children.
    deepest = max(len(levels) for _, levels in found.values())
    return [(order, levels + levels[-1:] * (deepest - len(levels))) for order, levels in map(found.__getitem__, seeds)]
