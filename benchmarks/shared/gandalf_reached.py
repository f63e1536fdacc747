"""Which right labels a model finds, by what the text of the row holds of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from shared.splits import columns_for, word_matrix

KINDS = ("all words", "some words", "no word, but a linked label's text", "none of these")
RARE = 9  # training rows of a rare label, at most
THRESHOLD = 0.1


def kinds(given: Any) -> tuple[Any, Any, Any, Any]:
    """Of each right label on test: its row, its label, its kind, and whether the label is rare."""
    from longtail.linear.graph.cooccurrence import cooccurrence

    known: dict[str, int] = {}
    found = [columns_for(texts, known) for texts in (given.labels.texts, given.test.texts)]
    labels, texts = (word_matrix(rows, len(known)) for rows in found)
    shared = sparse.coo_array(texts @ labels.T)
    whole = shared.data >= np.diff(labels.indptr)[shared.col]
    ones = np.ones(int(whole.sum()), np.float32)
    named = sparse.csr_array((ones, (shared.row[whole], shared.col[whole])), shape=shared.shape)
    right = sparse.coo_array(given.test.targets)
    graph = sparse.coo_array(cooccurrence(given.train.targets, THRESHOLD))
    apart = graph.row != graph.col
    links = sparse.csr_array((np.ones(int(apart.sum()), np.float32), (graph.row[apart], graph.col[apart])), graph.shape)
    asked = sparse.csr_array((np.ones(right.nnz, np.float32), (right.row, right.col)), right.shape)
    at = (right.row, right.col)
    every, some, linked = (
        np.asarray(sparse.csr_array(each.multiply(asked))[at]).ravel() > 0
        for each in (named, sparse.csr_array(shared), named @ links)
    )
    kind = np.where(every, 0, np.where(some, 1, np.where(linked, 2, 3)))
    return right.row, right.col, kind, np.asarray(given.labels.counts)[right.col] <= RARE


def reached(pairs: tuple[Any, Any, Any, Any], found: Any) -> dict[str, list[int]]:
    """How many labels of each kind were predicted, and how many there are; rare labels and the others apart."""
    rows, labels, kind, rare = pairs
    hit = (found.indices[rows] == labels[:, None]).any(axis=1)
    return {
        f"{who}: {name}": [int(hit[some].sum()), int(some.sum())]
        for who, of in (("rare", rare), ("others", ~rare))
        for number, name in enumerate(KINDS)
        for some in [of & (kind == number)]
    }


def reach(kept: dict[str, list[dict[str, list[int]]]]) -> tuple[list[str], list[list[str]]]:
    """A table: percent of the right labels of each kind that are found, the mean over the seeds."""
    first = next(iter(kept.values()))[0]
    lines = [["how many", *(f"{pairs:,}" for _, pairs in first.values())]]
    for line, runs in kept.items():
        parts = [[100 * run[kind][0] / max(run[kind][1], 1) for run in runs] for kind in first]
        lines.append([line, *(f"{sum(values) / len(values):.1f}" for values in parts)])
    return ["", *first], lines
