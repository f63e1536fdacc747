"""Which right answers a model finds, by what the row's text says of them: where label rows and soft targets can act.

    python benchmarks/gpu/gandalf_reached.py DATA [DATA ...]

How many right answers on test are of each kind, and what share of all inverse propensities they have. Answers that
models find are `gandalf.py --part reached`.
"""

from __future__ import annotations

import re
import sys
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


def reach(kept: dict[str, list[dict[str, list[int]]]]) -> tuple[list[str], list[list[str]]]:
    """A table: percent of the right answers of each kind that are found, the mean over the seeds."""
    first = next(iter(kept.values()))[0]
    lines = [["how many", *(f"{pairs:,}" for _, pairs in first.values())]]
    for line, runs in kept.items():
        parts = [[100 * run[kind][0] / max(run[kind][1], 1) for run in runs] for kind in first]
        lines.append([line, *(f"{sum(values) / len(values):.1f}" for values in parts)])
    return ["", *first], lines


def main() -> None:
    import longtail
    from longtail.metrics.propensity import inverse_propensity

    for data in sys.argv[1:]:
        given = longtail.load(data)
        _, labels, kind, rare = kinds(given)
        weights = inverse_propensity(given.labels)[labels]
        for who, of in (("rare", rare), ("others", ~rare)):
            for number, name in enumerate(KINDS):
                some = of & (kind == number)
                share = 100 * weights[some].sum() / weights.sum()
                print(f"{given.name}, {who}: {name}: {some.sum():,} answers, {share:.1f}% of the weight")


if __name__ == "__main__":
    main()
