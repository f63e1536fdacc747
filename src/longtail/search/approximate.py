"""The k nearest of many vectors without looking at all of them, through faiss, with how many it finds."""

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
LINKS = 32  # neighbours of a vector in the graph (M); memory: 8 bytes each
CARE = 100  # candidates looked at while a vector finds its neighbours (efConstruction)
EFFORTS = {"hnsw": (32, 64, 128, 256, 512), "ivf": (1, 2, 4, 8, 16, 32, 64, 128)}  # efSearch, nprobe
TRIED = 500  # queries on which the recall is measured


@dataclass(frozen=True, eq=False)
class Approximate:
    """An index over vectors, by inner product, and what share of the true best it finds."""

    kind: Kind
    index: Any  # a faiss index
    effort: int  # how much it looks at for a query: efSearch of a graph, nprobe of cells
    recall: float  # share of the exact top `places` found, mean over `tried` queries
    places: int
    tried: str  # in words
    wanted: float

    def top(self, queries: AnyArray, k: int) -> tuple[Ints, Floats]:
        """Rows and scores (queries, min(k, rows)), best first, equal scores by row; -1 and -inf where none is found."""
        if queries.ndim != 2 or queries.shape[1] != self.index.d:
            raise DataError(f"queries of shape {queries.shape} do not fit an index of dimension {self.index.d}")
        if k < 1:
            raise DataError(f"k must be at least 1, got {k}")
        return _search(self.index, self.kind, np.ascontiguousarray(queries, dtype=np.float32), k, self.effort)

    def __str__(self) -> str:
        how = {"hnsw": "a graph of neighbours", "ivf": "cells of near vectors"}[self.kind]
        short = "" if self.recall >= self.wanted else f", short of the {self.wanted:.3f} asked"
        return (
            f"{self.kind}, {how} over {self.index.ntotal:,} vectors: finds {self.recall:.3f} of the exact top "
            f"{self.places} of {self.tried} (effort {self.effort}){short}"
        )


def build(
    vectors: AnyArray,
    kind: Kind = "hnsw",
    queries: AnyArray | None = None,
    recall: float = 0.95,
    places: int = 10,
    seed: int = 0,
) -> Approximate:
    """Index the vectors, and find the least effort whose recall at `places` is at least `recall`.

    `queries` are what it is measured on, such as held-out rows; without them it is some of the vectors, which are
    easier than strangers. Where no effort is enough, the largest is kept and the words of the index say so. `hnsw`
    is the better one for single queries and takes long to build, and its graph depends on the timing of threads;
    `ivf` builds fast and the same each time.
    """
    if vectors.ndim != 2 or not len(vectors):
        raise DataError(f"vectors must be a (rows, dimension) matrix with rows, got shape {vectors.shape}")
    if kind not in EFFORTS:
        raise DataError(f"approximate search is 'hnsw' or 'ivf', not {kind!r}")
    _faiss()  # a missing extra is told before the work
    chance = np.random.default_rng(seed)
    source, tried = (vectors, "its own vectors") if queries is None else (queries, "the queries given")
    sample = np.sort(chance.choice(len(source), min(TRIED, len(source)), replace=False))
    asked = np.ascontiguousarray(source[sample], dtype=np.float32)
    places = min(places, len(vectors))
    truth = Exact(vectors).top(asked, places)[0]  # refuses what is not finite, before the long part
    index = _built(np.ascontiguousarray(vectors, dtype=np.float32), kind, seed)
    found = 0.0
    for effort in EFFORTS[kind]:
        rows, _ = _search(index, kind, asked, places, effort)
        found = float((rows[:, :, None] == truth[:, None, :]).any(1).mean())
        if found >= recall:
            break
    return Approximate(kind, index, effort, found, places, f"{len(asked):,} of {tried}", recall)


def _faiss() -> Any:
    try:
        return import_module("faiss")
    except ImportError:
        raise MissingExtra("faiss-cpu", "search", "approximate search") from None


def _built(vectors: Floats, kind: Kind, seed: int) -> Any:
    faiss = _faiss()
    rows, dimension = vectors.shape
    with stage(f"building {kind}", total=rows) as advance:
        if kind == "hnsw":
            index = faiss.IndexHNSWFlat(dimension, LINKS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = CARE
        else:
            cells = max(1, min(int(4 * rows**0.5), rows // 39))  # faiss asks for 39 vectors a cell to learn it
            index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, cells, faiss.METRIC_INNER_PRODUCT)
            index.cp.seed, index.cp.min_points_per_centroid = seed + 1, 1
            index.train(vectors)
        for begin in range(0, rows, 1 << 15):
            piece = vectors[begin : begin + (1 << 15)]
            index.add(piece)
            advance(len(piece))
    return index


def _search(index: Any, kind: Kind, queries: Floats, k: int, effort: int) -> tuple[Ints, Floats]:
    faiss = _faiss()
    k = min(k, index.ntotal)
    # A setting of the call, not of the index, so that threads may ask with different efforts.
    if kind == "hnsw":
        how = faiss.SearchParametersHNSW(efSearch=max(effort, k))
    else:
        how = faiss.SearchParametersIVF(nprobe=effort)
    scores, rows = index.search(queries, k, params=how)
    scores = np.where(rows >= 0, scores, -np.inf)
    order = np.lexsort((rows, -scores), axis=1)
    ordered = np.take_along_axis(rows, order, axis=1).astype(np.int32)
    return ordered, np.take_along_axis(scores, order, axis=1).astype(np.float32)
