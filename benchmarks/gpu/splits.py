"""What the benchmarks of this folder share: the splits of a data set, read once a process, and a model re-ranked."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def splits(data: str, rows: int | None) -> tuple[Any, Any, Any]:
    """train, valid and test, or the first rows of each."""
    import longtail

    whole = longtail.load(data)
    train, valid, test = (
        part if rows is None else part.take(range(min(rows, len(part))))
        for part in (whole.train, whole.valid, whole.test)
    )
    return train, valid, test


def reranked(model: Any) -> Any:
    """The model as `+ rerank` would have it, which looks at the labels alone and trains nothing."""
    from longtail.tail.rerank import Rerank

    return model.with_reranker(Rerank().fit_reranker(model))
