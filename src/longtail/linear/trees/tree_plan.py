"""Memory and time of label trees, before they are trained. The numbers are fitted to measured runs."""

from __future__ import annotations

from dataclasses import replace

from longtail.linear.trees.train_tree import BLOCK
from longtail.plan import DataFacts, Plan
from longtail.threads import thread_count

HEAP = 20_000_000  # bytes that short-lived arrays of two threads leave behind


def plan_trees(
    facts: DataFacts,
    trees: int,
    leaf_labels: float,
    branches: int,
    max_iter: int,
    beam: int,
    weights_per_label: float,
    hard_negatives: int = 0,
) -> Plan:
    """Memory and time of label trees.

    Args:
        facts: sizes of the data.
        trees: number of trees.
        leaf_labels: labels of a mean leaf.
        branches: children of the root.
        max_iter: passes over a node's rows.
        beam: nodes kept on each level in prediction.
        weights_per_label: as in `packed_bytes`, for one tree.
        hard_negatives: leaves that a row trains besides its own.

    Returns:
        The plan.
    """
    labels = max(facts.labels, 1)
    leaf_labels = min(leaf_labels, labels)
    sparse = replace(facts, mean_terms=max(facts.mean_terms - facts.labels * facts.dense_columns, 1))
    tables = 2.2 * trees * labels * (1 - facts.empty) * facts.dense_columns  # 2 bytes; a tenth more for forks above
    weights = packed_bytes(sparse, trees * weights_per_label) + int(tables)
    # The fullest leaf has three times the words and rows of a mean one. There, a child takes its weights, the packed
    # part of them, and a dual variable for each row. The root has all words, on one thread.
    words = min(3 * facts.mean_terms * leaf_labels / labels, facts.terms)
    visits = facts.positives + hard_negatives * facts.rows  # of leaves by rows
    rows = min(3 * visits * leaf_labels / labels, facts.rows)
    in_leaves = 4 * thread_count() * min(leaf_labels, BLOCK) * (2 * words + rows)
    in_root = 4 * min(branches, BLOCK) * (facts.terms + facts.rows)
    scratch = int(max(in_leaves, in_root))
    clusters = 34 * facts.mean_terms  # vectors of labels while they are scaled, or with copies of trees in work
    # Clusters that are often hard negatives are three times as large as a mean leaf.
    met = visits + 2 * hard_negatives * facts.rows
    meetings = trees * max_iter * (facts.positives * branches + met * leaf_labels)  # of a row and a classifier
    search = facts.reading_seconds / max(facts.rows, 1) + 1e-8 * trees * beam * (leaf_labels + facts.terms_per_row / 3)
    return Plan(
        train_bytes=max(facts.reading_bytes, facts.read_bytes + clusters, facts.kept_bytes + HEAP + weights + scratch),
        model_bytes=20 * facts.terms + weights + 90 * facts.labels,
        train_seconds=facts.reading_seconds + meetings * (3.9e-9 + 9.4e-11 * facts.terms_per_row) + 0.5,
        predict_seconds=1000 * (1e-5 + search),
        steps=(
            ("word counts", facts.reading_bytes),
            ("label groups", clusters),
            ("weights", weights),
            ("classifiers in training", scratch),
        ),
    )


def packed_bytes(facts: DataFacts, weights_per_label: float) -> int:
    """Bytes of the pruned weights and of the features they belong to.

    Args:
        facts: sizes of the data.
        weights_per_label: weights that a label of one word keeps; a label of n words keeps about sqrt(n) times as many,
            one without examples next to none.

    Returns:
        Bytes.
    """
    trained = max(facts.labels * (1 - facts.empty), 1.0)
    return int(5.2 * weights_per_label * trained * (facts.mean_terms / trained) ** 0.48)


def kept_weights(weight_threshold: float) -> float:
    """How many weights a threshold keeps, relative to a threshold of 0.1.

    Args:
        weight_threshold: smaller weights are dropped; few are smaller than 0.003.

    Returns:
        The ratio.
    """
    return float((0.1 / max(weight_threshold, 0.003)) ** 0.65)
