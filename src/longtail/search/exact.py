"""Exact search: the k vectors with the largest inner product for each query, by comparing with all of them.

Scores come from matrix products over pieces that fit the cache. A scan keeps the k best so far, so the whole
(queries, vectors) matrix never exists. Needs only NumPy and Numba; bf16 and other devices need torch.
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
from longtail.search import device as torch_search
from longtail.search.blas_threads import single_threaded_blas
from longtail.search.select import Best, ordered
from longtail.threads import over_rows, thread_count

Precision = Literal["fp32", "bf16"]
Part = tuple[int, tuple[Ints, Floats]]  # the number of the first query, and the rows and scores from it on
QUERIES, VECTORS = 1024, 4096  # one piece of scores: 16 MiB in fp32, 8 in bf16
FEW, WIDE = 64, 1 << 16  # few queries take longer pieces, since each product waits for the slowest of its threads


def top_k(
    queries: AnyArray, vectors: AnyArray, k: int, precision: Precision = "fp32", device: str = "cpu"
) -> tuple[Ints, Floats]:
    """Find the vectors with the largest inner product for each query. `Exact` keeps prepared vectors for more calls.

    Args:
        queries: (queries, dimension).
        vectors: (rows, dimension).
        k: number of vectors for each query.
        precision: `fp32` or `bf16`, see `Exact`.
        device: `cpu`, or as torch names it.

    Returns:
        Rows (int32) and inner products (float32), each (queries, min(k, rows)), best first, ties in order of the row.
    """
    return Exact(vectors, precision, device).top(queries, k)


@dataclass(frozen=True, eq=False)
class Exact:
    """Vectors that are ready for exact search by inner product.

    With `bf16`, half precision finds a shortlist of 2k + 32, which is then scored and sorted in float32. That is twice
    as fast, returns the scores of fp32, and misses a vector only where rounding moves it past the whole margin. float16
    vectors and memory maps are read piece by piece. With a `device` other than cpu, the vectors are copied there; a
    tensor that is there already is not copied.
    """

    vectors: Any  # (rows, dimension), an array, or a tensor on the device
    precision: Precision = "fp32"
    device: str = "cpu"
    held: Any = field(default=None, init=False, repr=False)  # a bf16 copy, or the tensors on the device

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2:
            raise DataError(f"vectors must be a (rows, dimension) matrix, got shape {self.vectors.shape}")
        if self.precision not in ("fp32", "bf16"):
            raise DataError(f"search precision is 'fp32' or 'bf16', not {self.precision!r}")
        if isinstance(self.vectors, np.ndarray):  # a tensor is checked on its device, in `vectors_on`
            _refuse_infinite("vectors", self.vectors)
        if self.device != "cpu":
            on_device = torch_search.vectors_on(self.vectors, self.precision == "bf16", self.device)
            object.__setattr__(self, "held", on_device)
        elif self.precision == "bf16":
            object.__setattr__(self, "held", _half(self.vectors))

    def top(self, queries: AnyArray, k: int) -> tuple[Ints, Floats]:
        """Find the best vectors for each query.

        Args:
            queries: (queries, dimension).
            k: number of vectors for each query.

        Returns:
            Rows (int32) and scores (float32), each (queries, min(k, rows)), best first, ties in order of the row.

        Raises:
            DataError: the dimensions do not match, k is below 1, or a query holds NaN or infinity.
        """
        if queries.ndim != 2 or queries.shape[1] != self.vectors.shape[1]:
            raise DataError(
                f"queries of shape {queries.shape} do not fit vectors of shape {self.vectors.shape}: "
                "both need one row each and the same dimension"
            )
        if k < 1:
            raise DataError(f"k must be at least 1, got {k}")
        _refuse_infinite("queries", queries)
        k = min(k, len(self.vectors))
        # Half precision puts close scores in the wrong order, so its shortlist is longer than k.
        wide = min(2 * k + 32, len(self.vectors)) if self.precision == "bf16" else k
        rows = np.empty((len(queries), k), dtype=np.int32)
        scores = np.empty((len(queries), k), dtype=np.float32)
        threads = thread_count()
        many = self.device == "cpu" and self.precision == "fp32" and threads > 1 and len(queries) >= threads * FEW
        with (
            stage("searching", total=len(queries)) as advance,
            single_threaded_blas() if many else nullcontext(False) as own_threads,
        ):
            parts = self._in_threads(queries, k, threads) if own_threads else self._in_turn(queries, k, wide)
            for start, (found, products) in parts:
                end = start + len(found)
                rows[start:end], scores[start:end] = found, products
                advance(len(found))
        return rows, scores

    def _in_turn(self, queries: AnyArray, k: int, wide: int) -> Iterator[Part]:
        for start in range(0, len(queries) if k else 0, QUERIES):
            piece = np.ascontiguousarray(queries[start : start + QUERIES], dtype=np.float32)
            if self.device != "cpu":
                yield start, torch_search.search(self.held, piece, k, wide)
            elif self.precision == "bf16":
                yield start, self._rescored(piece, self._half_top(piece, wide), k)
            else:
                yield start, self._single_top(piece, k)

    def _in_threads(self, queries: AnyArray, k: int, threads: int) -> Iterator[Part]:
        """Each thread takes its own queries, matrix products included, so that no thread waits for another."""
        number = threads * -(-len(queries) // (threads * QUERIES)) if k else 0
        bounds = [len(queries) * part // max(number, 1) for part in range(number + 1)]

        def work(start: int, end: int) -> tuple[Ints, Floats]:
            return self._single_top(np.ascontiguousarray(queries[start:end], dtype=np.float32), k, shared=False)

        pool = ThreadPoolExecutor(threads)
        try:
            tasks = [pool.submit(work, *pair) for pair in pairwise(bounds)]
            for start, task in zip(bounds, tasks, strict=False):
                yield start, task.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _single_top(self, queries: Floats, k: int, shared: bool = True) -> tuple[Ints, Floats]:
        best = Best.none(len(queries), k, np.int32, shared)
        piece_rows = WIDE if len(queries) <= FEW else VECTORS
        room = np.empty((len(queries), piece_rows), dtype=np.float32)
        for start, piece in _pieces(self.vectors, piece_rows):
            scores = np.matmul(queries, piece.T, out=room[:, : len(piece)])
            best.keep(scores.view(np.int32), start)
        return ordered(*best.cut())

    def _half_top(self, queries: Floats, wide: int) -> Ints:
        import torch

        best = Best.none(len(queries), wide, np.int16)
        half = torch.tensor(queries, dtype=torch.bfloat16)
        piece_rows = WIDE if len(queries) <= FEW else VECTORS
        for start in range(0, len(self.vectors), piece_rows):
            scores = torch.mm(half, self.held[start : start + piece_rows].T)
            best.keep(scores.view(torch.int16).numpy(), start)
        return best.cut()[0]

    def _rescored(self, queries: Floats, rows: Ints, k: int) -> tuple[Ints, Floats]:
        """The best k of a shortlist, by their scores in float32. The shortlist must be in order of the row."""
        scores = products(queries, self.vectors, rows)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def products(queries: AnyArray, vectors: AnyArray, rows: Ints) -> Floats:
    """Multiply each query with the few vectors of its own shortlist.

    Args:
        queries: (queries, dimension).
        vectors: (rows, dimension).
        rows: (queries, places) int32, -1 for padding.

    Returns:
        Inner products (queries, places) float32, 0 where the row is -1.
    """
    asked = np.ascontiguousarray(queries, dtype=np.float32)
    scores = np.zeros(rows.shape, dtype=np.float32)
    if vectors.dtype == np.float32:
        over_rows(partial(_products, asked, np.asarray(vectors), rows, scores), len(rows), least=16)
    else:
        for query, shortlist in enumerate(rows):
            scores[query] = np.where(shortlist < 0, 0, vectors[shortlist].astype(np.float32) @ asked[query])
    return scores


def _half(vectors: AnyArray) -> Any:
    """A bfloat16 copy as a tensor."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "nn", "searching in bf16") from None
    copy = torch.empty(vectors.shape, dtype=torch.bfloat16)
    for start, piece in _pieces(vectors, WIDE):
        copy[start : start + len(piece)] = torch.tensor(piece)
    return copy


def _pieces(vectors: AnyArray, rows: int) -> Iterator[tuple[int, Floats]]:
    """The vectors in float32, `rows` at a time, each piece with the number of its first row."""
    for start in range(0, len(vectors), rows):
        yield start, np.ascontiguousarray(vectors[start : start + rows], dtype=np.float32)


def _refuse_infinite(name: str, vectors: AnyArray) -> None:
    ones = np.ones(vectors.shape[1], dtype=np.float32)
    for start, piece in _pieces(vectors, WIDE):
        bad = np.flatnonzero(~np.isfinite(piece @ ones))  # a row with NaN or infinity has no finite sum
        if len(bad):
            raise DataError(f"{name}: row {start + int(bad[0])} holds a number that is not finite; encode it again")


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _products(queries, vectors, rows, scores, low, high):  # type: ignore[no-untyped-def]
    # Safe: rows come from a search over these vectors; `Exact.top` compares the dimensions.
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
