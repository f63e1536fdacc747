"""Loading data sets: whole, with a test split where they have none, or the first rows of every split."""

from __future__ import annotations

from functools import cache
from typing import Any


def with_test(data: str) -> Any:
    """The corpus; where it has no test split, a tenth of train becomes one."""
    import longtail

    return longtail.load(data, test_share=0.1)


def evenly_spaced(data: Any, rows: int | None) -> Any:
    """At most so many rows, evenly spaced over the data set; all of them where `rows` is 0 or none."""
    from longtail.data import subsample

    if not rows or rows >= len(data):
        return data
    return data.take(subsample.evenly_spaced(len(data), rows))


@cache
def splits(data: str, rows: int | None) -> tuple[Any, Any, Any]:
    """train, valid and test, or the first rows of each. A process reads a data set once."""
    import longtail

    whole = longtail.load(data)
    train, valid, test = (
        part if rows is None else part.take(range(min(rows, len(part))))
        for part in (whole.train, whole.valid, whole.test)
    )
    return train, valid, test


def reranked(model: Any) -> Any:
    """The model as `+ rerank` makes it. Rerank needs only the label counts, so nothing is trained."""
    from longtail.tail.rerank import Rerank

    return model.with_reranker(Rerank().fit_reranker(model))


def columns_for(texts: Any, known: dict[str, int]) -> list[list[int]]:
    """The distinct words of each text as numbers; words that are not in `known` get the next number."""
    import re

    word = re.compile(r"\w+")
    return [sorted({known.setdefault(each, len(known)) for each in word.findall(text.lower())}) for text in texts]


def word_matrix(rows: list[list[int]], words: int) -> Any:
    """Which words each text holds: csr (texts, words) of ones."""
    import numpy as np
    from scipy import sparse

    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.fromiter((word for row in rows for word in row), np.int64, count=int(starts[-1]))
    return sparse.csr_array((np.ones(len(indices), np.float32), indices, starts), shape=(len(rows), words))
