"""Claim: ancestors in a graph as large as Wikipedia's categories are found many times faster than by a plain search.

    python benchmarks/hierarchy.py [SCALE]     # 1: 2.0 million nodes, 5.8 million edges; default 0.1

Generates a graph of categories, builds the data set whose labels are the ancestors up to depth 3, and compares with a
breadth-first search over Python sets. Prints sizes, seconds, peak memory and the ratio.
"""

from __future__ import annotations

import resource
import time

import numpy as np

from longtail.data.hierarchy import Hierarchy, build
from longtail.progress import listening
from shared.command import parser_for
from shared.timing import Stages

NODES, EDGES, LABELS = 1_993_526, 5_781_016, 976_214  # LF-WikiHierarchy-1M
SAMPLE = 20_000  # documents of the plain search


def graph(scale: float, seed: int = 0) -> Hierarchy:
    """Categories with few parents; a parent is usually near in age and sometimes one of a popular few."""
    rng = np.random.default_rng(seed)
    nodes, edges, labels = (max(100, int(number * scale)) for number in (NODES, EDGES, LABELS))
    child = np.concatenate([np.arange(1, nodes), rng.integers(1, nodes, edges - nodes + 1)])
    near = (child * (labels / nodes)).astype(np.int64) - rng.geometric(1 / 2000, len(child))
    popular = (labels * rng.random(len(child)) ** 4).astype(np.int64)
    parent = np.clip(np.where(rng.random(len(child)) < 0.7, near, popular), 0, labels - 1)
    names = [f"category {node}" for node in range(nodes)]
    return Hierarchy(name="generated", ids=names, names=names, texts=names, child=child, parent=parent)


def plain_search(hierarchy: Hierarchy, documents: list[int], depth: int = 3) -> float:
    """Seconds of a set-based breadth-first search per document, its adjacency lists given."""
    parents: list[set[int]] = [set() for _ in range(len(hierarchy))]
    for child, parent in zip(hierarchy.child.tolist(), hierarchy.parent.tolist(), strict=True):
        if child != parent:
            parents[child].add(parent)
    start = time.perf_counter()
    for document in documents:
        seen: set[int] = set()
        frontier = {document}
        for _ in range(depth):
            frontier = set().union(*(parents[node] for node in frontier)) - seen
            seen |= frontier
        seen.discard(document)
    return time.perf_counter() - start


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("scale", type=float, nargs="?", default=0.1, help="of the graph of Wikipedia's categories")
    hierarchy = graph(parser.parse_args().scale)
    before = peak_memory()
    stages = Stages()
    start = time.perf_counter()
    with listening(stages):
        corpus = build(hierarchy)
    seconds = time.perf_counter() - start
    peak = peak_memory()
    search = stages.seconds["finding ancestors"]
    splits = (corpus.train, corpus.valid, corpus.test)
    documents, pairs = sum(len(split) for split in splits), sum(split.targets.nnz for split in splits)
    print(f"graph      {len(hierarchy):,} nodes, {len(hierarchy.child):,} edges ({before:.2f} GiB with its names)")
    print(f"corpus     {documents:,} documents, {len(corpus.labels):,} labels, {pairs:,} pairs")
    for note in corpus.notes:
        print(f"           {note}")
    print(f"longtail   {seconds:.1f} s, of which {search:.1f} s for the ancestors; peak memory {peak:.2f} GiB")
    sample = np.random.default_rng(1).integers(0, len(hierarchy), SAMPLE).tolist()
    plain = plain_search(hierarchy, sample) * documents / SAMPLE
    print(f"plain      {plain:.1f} s for the ancestors in sets of Python (from {SAMPLE:,} documents)")
    print(f"ratio      {plain / search:.1f} times faster")


if __name__ == "__main__":
    main()
