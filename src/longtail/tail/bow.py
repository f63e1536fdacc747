"""Label texts as training examples, with labels whose texts share words as soft targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.data.label_rows import as_rows, labels_with_input, with_label_rows
from longtail.errors import RecipeError
from longtail.linear.features.added_rows_plan import more_rows
from longtail.papers import LEVER, Paper
from longtail.plan import DataFacts, Plan
from longtail.progress import stage


@dataclass(frozen=True)
class Bow:
    """Add every label's text as a training example whose soft targets are the labels with similar texts.

    The target of another label is the cosine of the two texts' tf-idf vectors, for the nearest `neighbours` labels
    above `threshold`; the label itself has 1. The training examples play no part, so rare labels get as many links as
    common ones, but only to labels with the same words.

    Published form: the bag-of-words control of LEVER.
    Needs: label texts, or label features over the columns of the documents' features; a label without either adds no
    example. Goes on every learner.
    Costs: one more training example for each label; to find the links, a pass over the pairs of labels that share a
    word. Predicting costs what it did.
    Prefer instead: `lever`, whose links know that different words can mean the same.
    Example: longtail compare wordnet "parabel" "parabel + rows" "parabel + bow(neighbours=5)"
    """

    threshold: float = 0.5  # cosines up to it are dropped
    neighbours: int = 15  # labels beside itself

    summary: ClassVar[str] = "label texts as examples, labels with similar texts as targets"
    papers: ClassVar[tuple[Paper, ...]] = (LEVER,)
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1 or self.neighbours < 0:
            raise RecipeError(
                "bow takes a threshold from 0 to below 1 and neighbours of at least 0, "
                f"got threshold={self.threshold:g}, neighbours={self.neighbours}"
            )

    def augment(self, train: Dataset) -> Dataset:
        """See `Augments.augment`."""
        labels = labels_with_input(train, "bow")
        with stage("comparing label texts"):
            targets = self.soft_targets(train, labels)
        return with_label_rows(train, labels, targets, "bow")

    def soft_targets(self, train: Dataset, labels: Longs) -> Matrix:
        """Compute the targets of label rows.

        Args:
            train: with label texts, or label features.
            labels: (labels with input,) the labels whose texts become rows.

        Returns:
            csr (labels with input, labels) float32.
        """
        from longtail.linear.features.sparse_features import Features
        from longtail.linear.features.sparse_top import sparse_top

        rows = as_rows(train, labels)
        own = np.arange(len(labels))
        nothing = sparse.csr_array((len(labels), len(train.labels)), dtype=np.float32)
        ids = tuple(map(str, own.tolist()))
        label_rows = Dataset(labels=train.labels, targets=nothing, ids=ids, texts=rows.texts, features=rows.features)
        _, vectors = Features.learn(label_rows)
        # One more than `neighbours`, because a label is its own nearest, and labels of the same text may come first.
        columns, cosines = sparse_top(vectors, vectors.T.tocsr(), min(self.neighbours + 1, len(labels)))
        linked = (columns >= 0) & (columns != own[:, None]) & (cosines > self.threshold)
        linked[:, -1] &= (
            linked.sum(axis=1) <= self.neighbours
        )  # labels of the same text can push it out of its own list
        row, place = np.nonzero(linked)
        values = np.concatenate([np.minimum(cosines[row, place], 1), np.ones(len(labels), dtype=np.float32)])
        to = np.concatenate([labels[columns[row, place]], labels])
        return sparse.csr_array((values, (np.concatenate([row, own]), to)), shape=nothing.shape, dtype=np.float32)

    def plan_on(self, before: Plan, facts: DataFacts) -> Plan:
        """See `AddsCost.plan_on`."""
        targets = facts.labels * (self.neighbours + 1)
        # Two label texts share words as two rows do, in proportion to how many words each has.
        shared = facts.shared_terms * (facts.terms_per_label / max(facts.terms_per_row, 1)) ** 2
        scratch = facts.labels * (32 * facts.terms_per_label + 24 * (self.neighbours + 1))
        seconds = 2e-9 * facts.labels**2 * shared
        return more_rows(before, facts, facts.labels, targets, facts.terms_per_label, seconds=seconds, scratch=scratch)
