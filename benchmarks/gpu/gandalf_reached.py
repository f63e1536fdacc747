"""Which right answers a model finds, by what the row's text says of them: where label rows and soft targets can act."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

WORD = re.compile(r"\w+")
KINDS = ("all words", "some words", "no word, but a linked label's text", "none of these")
RARE = 9  # training rows of a rare label, at most
THRESHOLD = 0.1


def words_of(texts: Sequence[str], known: dict[str, int]) -> list[list[int]]:
    return [sorted({known.setdefault(word, len(known)) for word in WORD.findall(text.lower())}) for text in texts]


def matrix(rows: list[list[int]], width: int) -> Any:
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    places = np.fromiter((word for row in rows for word in row), np.int64, count=int(starts[-1]))
    return sparse.csr_array((np.ones(len(places), np.float32), places, starts), shape=(len(rows), width))


def kinds(given: Any) -> tuple[Any, Any, Any, Any]:
    """Of each right answer on test: its row, its label, its kind, and whether the label is rare."""
    from longtail.linear.cooccurrence import cooccurrence

    known: dict[str, int] = {}
    read = [words_of(texts, known) for texts in (given.labels.texts, given.test.texts)]
    labels, texts = (matrix(rows, len(known)) for rows in read)
    shared = sparse.coo_array(texts @ labels.T)
    whole = shared.data >= np.diff(labels.indptr)[shared.col]
    ones = np.ones(int(whole.sum()), np.float32)
    said = sparse.csr_array((ones, (shared.row[whole], shared.col[whole])), shape=shared.shape)
    right = sparse.coo_array(given.test.targets)
    graph = sparse.coo_array(cooccurrence(given.train.targets, THRESHOLD))
    apart = graph.row != graph.col
    links = sparse.csr_array((np.ones(int(apart.sum()), np.float32), (graph.row[apart], graph.col[apart])), graph.shape)
    asked = sparse.csr_array((np.ones(right.nnz, np.float32), (right.row, right.col)), right.shape)
    at = (right.row, right.col)
    every, some, linked = (
        np.asarray(sparse.csr_array(each.multiply(asked))[at]).ravel() > 0
        for each in (said, sparse.csr_array(shared), said @ links)
    )
    kind = np.where(every, 0, np.where(some, 1, np.where(linked, 2, 3)))
    return right.row, right.col, kind, np.asarray(given.labels.counts)[right.col] <= RARE


def reached(pairs: tuple[Any, Any, Any, Any], found: Any) -> dict[str, list[int]]:
    """How many of each kind stand among the answers, and how many there are; of rare labels and of the others."""
    rows, labels, kind, rare = pairs
    hit = (found.indices[rows] == labels[:, None]).any(axis=1)
    return {
        f"{who}: {name}": [int(hit[some].sum()), int(some.sum())]
        for who, of in (("rare", rare), ("others", ~rare))
        for number, name in enumerate(KINDS)
        for some in [of & (kind == number)]
    }
