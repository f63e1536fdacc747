"""Exact or approximate search: which one costs less here, and why, in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from longtail.arrays import AnyArray
from longtail.search.approximate import Approximate, build
from longtail.search.exact import Exact, Precision
from longtail.threads import thread_count

# Measured by benchmarks/search.py; they need to be right within a factor of two only.
FLOPS = 6e10  # multiply-adds counted as two, a second and core, in large batches
BYTES = 8e9  # read from memory in a second, where a single query looks at every vector
GRAPH = 2e-6  # seconds and core to add a vector to the graph, for each of its dimensions
WALK = 4e-4  # seconds and core for a query of the graph
PATIENCE = 0.05  # seconds that a service may spend on searching for one query
FEW = 20_000  # vectors below which nothing is worth building


@dataclass(frozen=True)
class Choice:
    """How to search, and the reason to show."""

    kind: Literal["exact", "hnsw"]
    reason: str


def choose(vectors: int, dimension: int, queries: int | None, device: str = "cpu") -> Choice:
    """The search that costs less for this many queries; `queries` None: a service, judged by the wait for one query.

    Exact search needs no building and misses nothing, so it is taken wherever it is affordable.
    """
    held = f"{vectors:,} vectors of {dimension}"
    if vectors <= FEW:
        return Choice("exact", f"exact search: {held} are few enough to compare with all")
    if device != "cpu":
        return Choice("exact", f"exact search: {device} compares with all {held} faster than an index could be built")
    cores = thread_count()
    building = GRAPH * dimension * vectors / cores
    if queries is None:
        wait = 4 * vectors * dimension / BYTES
        told = f"one query over {held} takes about {_time(wait)}"
        if wait <= PATIENCE:
            return Choice("exact", f"exact search: {told}, within the {_time(PATIENCE)} that a service may take")
        return _graph(f"{told}, more than the {_time(PATIENCE)} that a service may take", building)
    exact = 2 * queries * vectors * dimension / (FLOPS * cores)
    told = f"{queries:,} queries over {held} take about {_time(exact)}"
    approximate = building + queries * WALK / cores
    if exact <= approximate:
        return Choice("exact", f"exact search: {told}; building a graph first would take {_time(approximate)}")
    return _graph(f"{told} by exact search and {_time(approximate)} with a graph", building)


def index_for(
    vectors: AnyArray,
    queries: int | None,
    sample: AnyArray | None = None,
    precision: Precision = "fp32",
    device: str = "cpu",
    recall: float = 0.95,
    seed: int = 0,
) -> tuple[Exact | Approximate, str]:
    """An index by the choice above, and its reason; an approximate one with its recall, measured on `sample`."""
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
