"""Claim: two million vectors of 384 numbers are clustered into equal sizes in minutes on two cores, in seconds on a
GPU.

    python benchmarks/clusters.py [ROWS] [--size 128] [--device cpu]     # 2,000,000 rows take 3.1 GB

Prints the seconds, the memory used beyond the vectors, and the mean cosine of rows to the centre of their cluster. For
comparison: the same for random clusters of the same sizes and, up to 200,000 rows on a processor, for the plain method
that reads every member of a group in every round of 2-means, where ours reads a sample of a large group.
"""

from __future__ import annotations

import os
import resource
import time
from typing import Any

import numpy as np

from shared.command import parser_for

DIMENSION = 384


def draw(rows: int, seed: int = 0) -> Any:
    """Groups of about fifty around centres that are grouped themselves; later dimensions have a smaller variance."""
    rng = np.random.default_rng(seed)
    fading = np.arange(1, DIMENSION + 1, dtype=np.float32) ** -0.4
    large = rng.standard_normal((64, DIMENSION), dtype=np.float32)
    small = large[rng.integers(0, 64, rows // 50 + 1)]
    small += rng.standard_normal(small.shape, dtype=np.float32)
    vectors = np.empty((rows, DIMENSION), dtype=np.float32)
    for begin in range(0, rows, 1 << 16):
        piece = vectors[begin : begin + (1 << 16)]
        rng.standard_normal(out=piece, dtype=np.float32)
        piece += small[rng.integers(0, len(small), len(piece))]
        piece *= fading
    return vectors


def nearness(vectors: Any, cluster: Any) -> float:
    """The mean cosine of rows to the centre of their cluster."""
    order = np.argsort(cluster, kind="stable")
    starts = np.searchsorted(cluster[order], np.arange(cluster.max() + 1))
    total = 0.0
    for first in range(0, len(starts), 1024):
        last = starts[first + 1024] if first + 1024 < len(starts) else len(order)
        rows = vectors[order[starts[first] : last]]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        total += float(
            np.linalg.norm(np.add.reduceat(rows, starts[first : first + 1024] - starts[first]), axis=1).sum()
        )
    return total / len(vectors)


def plain_clusters(vectors: Any, size: int, seed: int = 0) -> Any:
    """What `balanced_clusters` does with a small group, done with all rows: 2-means that reads every member."""
    from longtail.nn.dual.balanced_clusters import _descend, _unit_rows

    rows, number = len(vectors), -(-len(vectors) // size)
    place = np.arange(rows)
    _descend(_unit_rows(vectors, place), place, 0, number, rows, number, seed)
    cluster = np.empty(rows, dtype=np.int64)
    cluster[place] = np.repeat(np.arange(number), np.diff(np.arange(number + 1) * rows // number))
    return cluster


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=200_000, help="vectors")
    parser.add_argument("--size", type=int, default=128, help="rows of a cluster")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    given = parser.parse_args()
    from longtail.nn.dual.balanced_clusters import balanced_clusters

    balanced_clusters(draw(40_000), size=given.size, device=given.device)  # compile
    vectors = draw(given.rows)
    before, begun, begin = peak(), time.process_time(), time.perf_counter()
    cluster = balanced_clusters(vectors, size=given.size, device=given.device)
    clock, work = time.perf_counter() - begin, time.process_time() - begun
    more = peak() - before
    sizes = np.bincount(cluster)
    print(f"{given.rows:,} x {DIMENSION} on {given.device}: {len(sizes):,} clusters of {sizes.min()} to {sizes.max()}")
    cores = len(os.sched_getaffinity(0))
    print(f"  {clock:.1f} s by the clock, {work:.1f} CPU seconds on {cores} cores; {more:.2f} GiB more memory")
    mixed = np.random.default_rng(0).permutation(cluster)
    found = [f"ours {nearness(vectors, cluster):.4f}", f"random {nearness(vectors, mixed):.4f}"]
    if given.rows <= 200_000 and given.device == "cpu":
        begin = time.perf_counter()
        plain = plain_clusters(vectors, given.size)
        found.append(
            f"every member in every round {nearness(vectors, plain):.4f} ({time.perf_counter() - begin:.1f} s)"
        )
    print("  mean cosine to the centre: " + ", ".join(found))


if __name__ == "__main__":
    main()
