"""Approximate nearest-neighbour search through faiss (HNSW or IVF), with its recall measured against exact search."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from longtail.arrays import AnyArray, Floats, Ints
from longtail.errors import DataError, MissingExtra
from longtail.progress import stage
from longtail.search.exact import Exact

Kind = Literal["hnsw", "ivf"]
LINKS = 32  # neighbours of a vector in the graph (M); each takes 8 bytes
BUILD_EFFORT = 100  # candidates compared while a vector finds its neighbours (efConstruction)
EFFORTS = {"hnsw": (32, 64, 128, 256, 512), "ivf": (1, 2, 4, 8, 16, 32, 64, 128)}  # efSearch, nprobe
RECALL_QUERIES = 500  # queries on which the recall is measured


@dataclass(frozen=True, eq=False)
class Approximate:
    """An inner-product index over vectors, with its measured recall. Build it with `build`."""

    kind: Kind
    index: Any  # a faiss index
    effort: int  # how much a query searches: efSearch for HNSW, nprobe for IVF
    recall: float  # share of the exact top `places` that it finds, mean over the measured queries
    places: int
    measured_on: str  # in words
    min_recall: float  # the recall that was asked for

    def top(self, queries: AnyArray, k: int) -> tuple[Ints, Floats]:
        """Find the best vectors for each query.

        Args:
            queries: (queries, dimension).
            k: number of vectors for each query.

        Returns:
            Rows (int32) and scores (float32), each (queries, min(k, rows)), best first, ties in order of the row;
            -1 and -inf where the index finds fewer.

        Raises:
            DataError: the dimension does not match, or k is below 1.
        """
        if queries.ndim != 2 or queries.shape[1] != self.index.d:
            raise DataError(f"queries of shape {queries.shape} do not fit an index of dimension {self.index.d}")
        if k < 1:
            raise DataError(f"k must be at least 1, got {k}")
        return _search(self.index, self.kind, np.ascontiguousarray(queries, dtype=np.float32), k, self.effort)

    def __str__(self) -> str:
        how = {"hnsw": "a graph of neighbours", "ivf": "cells of near vectors"}[self.kind]
        short = "" if self.recall >= self.min_recall else f", short of the {self.min_recall:.3f} asked"
        return (
            f"{self.kind}, {how} over {self.index.ntotal:,} vectors: finds {self.recall:.3f} of the exact top "
            f"{self.places} of {self.measured_on} (effort {self.effort}){short}"
        )


def build(
    vectors: AnyArray,
    kind: Kind = "hnsw",
    queries: AnyArray | None = None,
    recall: float = 0.95,
    places: int = 10,
    seed: int = 0,
) -> Approximate:
    """Index the vectors, with the smallest search effort that reaches the recall.

    Where no effort reaches it, the largest is kept, and `str(index)` says so. `hnsw` answers single queries faster, but
    takes long to build, and its graph depends on thread timing; `ivf` builds fast and is deterministic.

    Args:
        vectors: (rows, dimension).
        kind: `hnsw` or `ivf`.
        queries: (queries, dimension) on which the recall is measured, such as held-out documents. None takes a sample
            of the vectors, which are easier to find than new queries.
        recall: share of the exact top `places` that must be found.
        places: the k at which the recall is measured.
        seed: of the sample of queries, and of IVF's cells.

    Returns:
        The index, with the recall that it reached.

    Raises:
        DataError: the vectors are not a non-empty matrix of finite numbers, or the kind is unknown.
        MissingExtra: faiss is not installed.
    """
    if vectors.ndim != 2 or not len(vectors):
        raise DataError(f"vectors must be a (rows, dimension) matrix with rows, got shape {vectors.shape}")
    if kind not in EFFORTS:
        raise DataError(f"approximate search is 'hnsw' or 'ivf', not {kind!r}")
    _faiss()  # a missing faiss is reported before the work
    rng = np.random.default_rng(seed)
    source, name = (vectors, "its own vectors") if queries is None else (queries, "the queries given")
    sample = np.sort(rng.choice(len(source), min(RECALL_QUERIES, len(source)), replace=False))
    measured = np.ascontiguousarray(source[sample], dtype=np.float32)
    places = min(places, len(vectors))
    truth = Exact(vectors).top(measured, places)[0]  # refuses NaN and infinity, before the long part
    index = _build(np.ascontiguousarray(vectors, dtype=np.float32), kind, seed)
    reached = 0.0
    for effort in EFFORTS[kind]:
        rows, _ = _search(index, kind, measured, places, effort)
        reached = float((rows[:, :, None] == truth[:, None, :]).any(1).mean())
        if reached >= recall:
            break
    return Approximate(kind, index, effort, reached, places, f"{len(measured):,} of {name}", recall)


def _faiss() -> Any:
    try:
        return import_module("faiss")
    except ImportError:
        raise MissingExtra("faiss-cpu", "search", "approximate search") from None


def _build(vectors: Floats, kind: Kind, seed: int) -> Any:
    faiss = _faiss()
    rows, dimension = vectors.shape
    with stage(f"building {kind}", total=rows) as advance:
        if kind == "hnsw":
            index = faiss.IndexHNSWFlat(dimension, LINKS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = BUILD_EFFORT
        else:
            cells = max(1, min(int(4 * rows**0.5), rows // 39))  # faiss wants 39 training vectors a cell
            index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, cells, faiss.METRIC_INNER_PRODUCT)
            index.cp.seed, index.cp.min_points_per_centroid = seed + 1, 1
            index.train(vectors)
        for start in range(0, rows, 1 << 15):
            piece = vectors[start : start + (1 << 15)]
            index.add(piece)
            advance(len(piece))
    return index


def _search(index: Any, kind: Kind, queries: Floats, k: int, effort: int) -> tuple[Ints, Floats]:
    faiss = _faiss()
    k = min(k, index.ntotal)
    # The effort is a parameter of the call, not of the index, so that threads can search with different efforts.
    if kind == "hnsw":
        parameters = faiss.SearchParametersHNSW(efSearch=max(effort, k))
    else:
        parameters = faiss.SearchParametersIVF(nprobe=effort)
    scores, rows = index.search(queries, k, params=parameters)
    scores = np.where(rows >= 0, scores, -np.inf)
    order = np.lexsort((rows, -scores), axis=1)
    ordered = np.take_along_axis(rows, order, axis=1).astype(np.int32)
    return ordered, np.take_along_axis(scores, order, axis=1).astype(np.float32)
