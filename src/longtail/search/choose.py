"""Exact or approximate search: which costs less for these sizes, with the reason in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from longtail.arrays import AnyArray
from longtail.search.approximate import Approximate, build
from longtail.search.exact import Exact, Precision
from longtail.threads import thread_count

# Measured by benchmarks/search.py. The choice needs them within a factor of two only.
FLOPS = 6e10  # operations a second and core in large batches; a multiply-add counts as two
BYTES = 8e9  # bytes a second from memory, where a single query reads every vector
GRAPH = 2e-6  # seconds and core to add a vector to the graph, for each of its dimensions
WALK = 4e-4  # seconds and core for a query of the graph
PATIENCE = 0.05  # seconds that a service may spend on searching for one query
FEW = 20_000  # up to this many vectors, exact search always wins


@dataclass(frozen=True)
class Choice:
    """Which search to use, and why."""

    kind: Literal["exact", "hnsw"]
    reason: str


def choose(vectors: int, dimension: int, queries: int | None, device: str = "cpu") -> Choice:
    """Choose the search that costs less.

    Exact search needs no building and misses nothing, so it is taken wherever it is affordable.

    Args:
        vectors: number of vectors.
        dimension: of a vector.
        queries: number of queries; None for a service, which is judged by the latency of one query.
        device: where the search runs; on a GPU, exact search always wins.

    Returns:
        The kind of search and the reason.
    """
    what = f"{vectors:,} vectors of {dimension}"
    if vectors <= FEW:
        return Choice("exact", f"exact search: {what} are few enough to compare with all")
    if device != "cpu":
        return Choice("exact", f"exact search: {device} compares with all {what} faster than an index could be built")
    cores = thread_count()
    building = GRAPH * dimension * vectors / cores
    if queries is None:
        latency = 4 * vectors * dimension / BYTES
        estimate = f"one query over {what} takes about {_time(latency)}"
        if latency <= PATIENCE:
            return Choice("exact", f"exact search: {estimate}, within the {_time(PATIENCE)} that a service may take")
        return _graph(f"{estimate}, more than the {_time(PATIENCE)} that a service may take", building)
    exact = 2 * queries * vectors * dimension / (FLOPS * cores)
    estimate = f"{queries:,} queries over {what} take about {_time(exact)}"
    approximate = building + queries * WALK / cores
    if exact <= approximate:
        return Choice("exact", f"exact search: {estimate}; building a graph first would take {_time(approximate)}")
    return _graph(f"{estimate} by exact search and {_time(approximate)} with a graph", building)


def index_for(
    vectors: AnyArray,
    queries: int | None,
    sample: AnyArray | None = None,
    precision: Precision = "fp32",
    device: str = "cpu",
    recall: float = 0.95,
    seed: int = 0,
) -> tuple[Exact | Approximate, str]:
    """Build the index that `choose` picks.

    Args:
        vectors: (rows, dimension).
        queries: number of queries; None for a service.
        sample: (queries, dimension) on which the recall of an approximate index is measured.
        precision: of exact search.
        device: of exact search.
        recall: that an approximate index must reach.
        seed: of an approximate index.

    Returns:
        The index and the reason for it; the reason of an approximate one includes its measured recall.
    """
    choice = choose(len(vectors), vectors.shape[1] if vectors.ndim == 2 else 0, queries, device)
    if choice.kind == "exact":
        return Exact(vectors, precision, device), choice.reason
    index = build(vectors, choice.kind, sample, recall, seed=seed)
    return index, f"{choice.reason}; {index}"


def _graph(reason: str, building: float) -> Choice:
    if find_spec("faiss") is None:
        return Choice(
            "exact", f"exact search: {reason}, but faiss is not installed: pip install 'longtail[search]' for a graph"
        )
    return Choice("hnsw", f"approximate search: {reason}; the graph takes about {_time(building)} to build")


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
