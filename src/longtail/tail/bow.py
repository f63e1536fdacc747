"""Label texts as training rows, with labels whose texts share words as soft targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from longtail.arrays import Longs, Matrix
from longtail.data.dataset import Dataset
from longtail.data.label_rows import as_rows, labels_with_input, with_label_rows
from longtail.errors import RecipeError
from longtail.linear.row_plan import more_rows
from longtail.plan import Facts, Plan
from longtail.progress import stage


@dataclass(frozen=True)
class Bow:
    """Add every label's text as a training row whose soft targets are the labels with texts of like words.

    The target of a label is the cosine of the two texts' tf-idf vectors where above `threshold`, for the `nearest`
    labels; the label itself has 1. Nothing is taken from the rows, so labels that few rows have get as many links as
    common ones, but only to labels that are named alike.

    Paper: the bag-of-words control of Buvanesh et al., LEVER (ICLR 2024).
    Needs: label texts, or label features over the columns of the rows; labels without any get no row. Goes on every
    learner.
    Costs: training of rows + labels instead of rows; to find the links, a pass over the pairs of labels that share a
    word. Predicting costs what it did.
    Prefer instead: `lever`, whose links know that different words can mean the same.
    Example: longtail compare wordnet "parabel" "parabel + rows" "parabel + bow(nearest=5)"
    """

    threshold: float = 0.5  # cosines up to it are dropped
    nearest: int = 15  # labels beside itself

    summary: ClassVar[str] = "label texts as training rows, with labels of like words as soft targets"
    needs: ClassVar[frozenset[str]] = frozenset()
    data_needs: ClassVar[frozenset[str]] = frozenset({"label_texts"})

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1 or self.nearest < 0:
            raise RecipeError(
                "bow takes a threshold from 0 to below 1 and nearest of at least 0, "
                f"got threshold={self.threshold:g}, nearest={self.nearest}"
            )

    def augment(self, train: Dataset) -> Dataset:
        labels = labels_with_input(train, "bow")
        with stage("comparing label texts"):
            targets = self.soft_targets(train, labels)
        return with_label_rows(train, labels, targets, "bow")

    def soft_targets(self, train: Dataset, labels: Longs) -> Matrix:
        """The targets of these labels' rows: csr (labels given, labels)."""
        from longtail.linear.text import Features
        from longtail.linear.top import sparse_top

        rows = as_rows(train, labels)
        own = np.arange(len(labels))
        nothing = sparse.csr_array((len(labels), len(train.labels)), dtype=np.float32)
        ids = tuple(map(str, own.tolist()))
        asked = Dataset(labels=train.labels, targets=nothing, ids=ids, texts=rows.texts, features=rows.features)
        _, vectors = Features.learn(asked)
        # One more than asked, because a label is its own nearest, and equals may stand before it.
        columns, cosines = sparse_top(vectors, vectors.T.tocsr(), min(self.nearest + 1, len(labels)))
        linked = (columns >= 0) & (columns != own[:, None]) & (cosines > self.threshold)
        linked[:, -1] &= linked.sum(axis=1) <= self.nearest  # equals can push the label itself out of its list
        row, place = np.nonzero(linked)
        values = np.concatenate([np.minimum(cosines[row, place], 1), np.ones(len(labels), dtype=np.float32)])
        to = np.concatenate([labels[columns[row, place]], labels])
        return sparse.csr_array((values, (np.concatenate([row, own]), to)), shape=nothing.shape, dtype=np.float32)

    def plan_on(self, before: Plan, facts: Facts) -> Plan:
        targets = facts.labels * (self.nearest + 1)
        # Label texts share words as rows do, by their length.
        shared = facts.shared_terms * (facts.terms_per_label / max(facts.terms_per_row, 1)) ** 2
        scratch = facts.labels * (32 * facts.terms_per_label + 24 * (self.nearest + 1))
        seconds = 2e-9 * facts.labels**2 * shared
        return more_rows(before, facts, facts.labels, targets, facts.terms_per_label, seconds=seconds, scratch=scratch)
