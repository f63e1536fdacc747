"""The k best of many vectors for each query, by comparing with all of them.

Scores come from matrix products over pieces that stay in the cache; a scan keeps what beats the worst of the best so
far, so the whole (queries, vectors) matrix never exists. Needs only NumPy and Numba; half precision and other devices
need torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numba import njit

from longtail.arrays import AnyArray, Floats, Ints
from longtail.errors import DataError, MissingExtra
from longtail.progress import stage
from longtail.search import device as other
from longtail.search.lone import lone_products
from longtail.search.select import Best, ordered
from longtail.threads import over_rows, thread_count

Precision = Literal["fp32", "bf16"]
Part = tuple[int, tuple[Ints, Floats]]  # where some queries begin, and their rows and scores
QUERIES, VECTORS = 1024, 4096  # one piece of scores: 16 MiB in fp32, 8 in bf16
FEW, WIDE = 64, 1 << 16  # a few queries look at longer pieces, since each product waits for the slowest of its threads


def top_k(
    queries: AnyArray, vectors: AnyArray, k: int, precision: Precision = "fp32", device: str = "cpu"
) -> tuple[Ints, Floats]:
    """Rows and inner products (queries, min(k, rows)) of the best vectors of each query, best first.

    Equal scores stand in order of the row. See `Exact`, which keeps the prepared vectors for the next call.
    """
    return Exact(vectors, precision, device).top(queries, k)


@dataclass(frozen=True, eq=False)
class Exact:
    """Vectors ready to be searched by inner product.

    With `bf16`, a shortlist of 2k + 32 is found in half precision, then scored and ordered in float32: twice as fast,
    with the scores of fp32, and it misses a vector only where rounding moves it past the whole margin. float16
    vectors and memory maps are read piece by piece. `device` other than cpu holds the vectors there; a tensor that lies
    there already is searched as it is.
    """

    vectors: Any  # (rows, dimension), an array or a tensor of the device
    precision: Precision = "fp32"
    device: str = "cpu"
    held: Any = field(default=None, init=False, repr=False)  # a bf16 copy, or the tensors on the device

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2:
            raise DataError(f"vectors must be a (rows, dimension) matrix, got shape {self.vectors.shape}")
        if self.precision not in ("fp32", "bf16"):
            raise DataError(f"search precision is 'fp32' or 'bf16', not {self.precision!r}")
        if isinstance(self.vectors, np.ndarray):  # a tensor is looked at where it lies
            _refuse_infinite("vectors", self.vectors)
        if self.device != "cpu":
            object.__setattr__(self, "held", other.hold(self.vectors, self.precision == "bf16", self.device))
        elif self.precision == "bf16":
            object.__setattr__(self, "held", _half(self.vectors))

    def top(self, queries: AnyArray, k: int) -> tuple[Ints, Floats]:
        """Rows and scores (queries, min(k, rows)), best first, equal scores in order of the row."""
        if queries.ndim != 2 or queries.shape[1] != self.vectors.shape[1]:
            raise DataError(
                f"queries of shape {queries.shape} do not fit vectors of shape {self.vectors.shape}: "
                "both need one row each and the same dimension"
            )
        if k < 1:
            raise DataError(f"k must be at least 1, got {k}")
        _refuse_infinite("queries", queries)
        k = min(k, len(self.vectors))
        # More than is asked: half precision puts close scores in the wrong order.
        wide = min(2 * k + 32, len(self.vectors)) if self.precision == "bf16" else k
        rows = np.empty((len(queries), k), dtype=np.int32)
        scores = np.empty((len(queries), k), dtype=np.float32)
        threads = thread_count()
        alone = self.device == "cpu" and self.precision == "fp32" and threads > 1 and len(queries) >= threads * FEW
        with stage("searching", total=len(queries)) as advance, lone_products() if alone else nullcontext(False) as can:
            parts = self._in_threads(queries, k, threads) if can else self._in_turn(queries, k, wide)
            for begin, (found, products) in parts:
                end = begin + len(found)
                rows[begin:end], scores[begin:end] = found, products
                advance(len(found))
        return rows, scores

    def _in_turn(self, queries: AnyArray, k: int, wide: int) -> Iterator[Part]:
        for begin in range(0, len(queries) if k else 0, QUERIES):
            some = np.ascontiguousarray(queries[begin : begin + QUERIES], dtype=np.float32)
            if self.device != "cpu":
                yield begin, other.search(self.held, some, k, wide)
            elif self.precision == "bf16":
                yield begin, self._rescored(some, self._half_top(some, wide), k)
            else:
                yield begin, self._single_top(some, k)

    def _in_threads(self, queries: AnyArray, k: int, threads: int) -> Iterator[Part]:
        """Each thread searches for queries of its own, products included, so that none waits for another."""
        number = threads * -(-len(queries) // (threads * QUERIES)) if k else 0
        bounds = [len(queries) * part // max(number, 1) for part in range(number + 1)]

        def work(begin: int, end: int) -> tuple[Ints, Floats]:
            return self._single_top(np.ascontiguousarray(queries[begin:end], dtype=np.float32), k, shared=False)

        pool = ThreadPoolExecutor(threads)
        try:
            tasks = [pool.submit(work, *pair) for pair in pairwise(bounds)]
            for begin, task in zip(bounds, tasks, strict=False):
                yield begin, task.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _single_top(self, queries: Floats, k: int, shared: bool = True) -> tuple[Ints, Floats]:
        best = Best.none(len(queries), k, np.int32, shared)
        piece_rows = WIDE if len(queries) <= FEW else VECTORS
        room = np.empty((len(queries), piece_rows), dtype=np.float32)
        for begin, piece in _pieces(self.vectors, piece_rows):
            scores = np.matmul(queries, piece.T, out=room[:, : len(piece)])
            best.keep(scores.view(np.int32), begin)
        return ordered(*best.cut())

    def _half_top(self, queries: Floats, wide: int) -> Ints:
        import torch

        best = Best.none(len(queries), wide, np.int16)
        asked = torch.tensor(queries, dtype=torch.bfloat16)  # a copy: torch dislikes what it may not write
        piece_rows = WIDE if len(queries) <= FEW else VECTORS
        for begin in range(0, len(self.vectors), piece_rows):
            scores = torch.mm(asked, self.held[begin : begin + piece_rows].T)
            best.keep(scores.view(torch.int16).numpy(), begin)
        return best.cut()[0]

    def _rescored(self, queries: Floats, rows: Ints, k: int) -> tuple[Ints, Floats]:
        """The best k of a shortlist that stands in order of the row, by their scores in float32."""
        scores = products(queries, self.vectors, rows)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def products(queries: AnyArray, vectors: AnyArray, rows: Ints) -> Floats:
    """The inner product of each query with its own few vectors: (queries, places), 0 where the row is -1."""
    asked = np.ascontiguousarray(queries, dtype=np.float32)
    scores = np.zeros(rows.shape, dtype=np.float32)
    if vectors.dtype == np.float32:
        over_rows(partial(_products, asked, np.asarray(vectors), rows, scores), len(rows), least=16)
    else:
        for row, some in enumerate(rows):
            scores[row] = np.where(some < 0, 0, vectors[some].astype(np.float32) @ asked[row])
    return scores


def _half(vectors: AnyArray) -> Any:
    """A bfloat16 copy as a tensor."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "nn", "searching in bf16") from None
    copy = torch.empty(vectors.shape, dtype=torch.bfloat16)
    for begin, piece in _pieces(vectors, WIDE):
        copy[begin : begin + len(piece)] = torch.tensor(piece)
    return copy


def _pieces(vectors: AnyArray, rows: int) -> Iterator[tuple[int, Floats]]:
    """The vectors in float32, some rows at a time, each piece with where it begins."""
    for begin in range(0, len(vectors), rows):
        yield begin, np.ascontiguousarray(vectors[begin : begin + rows], dtype=np.float32)


def _refuse_infinite(name: str, vectors: AnyArray) -> None:
    ones = np.ones(vectors.shape[1], dtype=np.float32)
    for begin, piece in _pieces(vectors, WIDE):
        bad = np.flatnonzero(~np.isfinite(piece @ ones))  # one product finds a NaN at the speed of memory
        if len(bad):
            raise DataError(f"{name}: row {begin + int(bad[0])} holds a number that is not finite; encode it again")


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _products(queries, vectors, rows, scores, low, high):  # type: ignore[no-untyped-def]
    for row in range(low, high):
        query = queries[row]
        for place in range(rows.shape[1]):
            if rows[row, place] < 0:
                continue
            vector = vectors[rows[row, place]]
            total = np.float32(0)
            for column in range(len(query)):
                total += query[column] * vector[column]
            scores[row, place] = total
