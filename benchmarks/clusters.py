"""Claim: two million vectors of 384 numbers fall into equal clusters within minutes on two cores, in seconds on a GPU.

    python benchmarks/clusters.py [ROWS] [--size 128] [--device cpu]     # 2,000,000 rows take 3.1 GB

Prints the seconds, the peak memory over the vectors themselves, and how near rows are to their cluster's centre, beside
random clusters of the same sizes and, up to 200,000 rows, the clusters of the plain method that looks at every member
in every round.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from typing import Any

import numpy as np

from longtail.nn import clusters
from longtail.nn.clusters import balanced_clusters

DIMENSION = 384


def draw(rows: int, seed: int = 0) -> Any:
    """Groups of about fifty around centres that themselves stand in groups, in a space whose directions fade."""
    chance = np.random.default_rng(seed)
    fading = np.arange(1, DIMENSION + 1, dtype=np.float32) ** -0.4
    large = chance.standard_normal((64, DIMENSION), dtype=np.float32)
    small = large[chance.integers(0, 64, rows // 50 + 1)]
    small += chance.standard_normal(small.shape, dtype=np.float32)
    vectors = np.empty((rows, DIMENSION), dtype=np.float32)
    for begin in range(0, rows, 1 << 16):
        piece = vectors[begin : begin + (1 << 16)]
        chance.standard_normal(out=piece, dtype=np.float32)
        piece += small[chance.integers(0, len(small), len(piece))]
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


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="?", default=200_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    balanced_clusters(draw(40_000), size=given.size, device=given.device)  # compile
    vectors = draw(given.rows)
    before, begun, begin = peak(), time.process_time(), time.perf_counter()
    cluster = balanced_clusters(vectors, size=given.size, device=given.device)
    clock, work = time.perf_counter() - begin, time.process_time() - begun
    more = peak() - before
    sizes = np.bincount(cluster)
    print(f"{given.rows:,} x {DIMENSION} on {given.device}: {len(sizes):,} clusters of {sizes.min()} to {sizes.max()}")
    cores = len(os.sched_getaffinity(0))
    print(f"  {clock:.1f} s by the clock, {work:.1f} s of work on {cores} cores; {more:.2f} GiB more memory")
    mixed = np.random.default_rng(0).permutation(cluster)
    told = [f"ours {nearness(vectors, cluster):.4f}", f"random {nearness(vectors, mixed):.4f}"]
    if given.rows <= 200_000 and given.device == "cpu":
        clusters.WHOLE = given.rows
        begin = time.perf_counter()
        plain = balanced_clusters(vectors, size=given.size)
        told.append(f"every member in every round {nearness(vectors, plain):.4f} ({time.perf_counter() - begin:.1f} s)")
    print("  mean cosine to the centre: " + ", ".join(told))


if __name__ == "__main__":
    main()
