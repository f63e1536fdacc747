"""Claim: on a processor, a training step of the streaming head runs at 60% or more of what torch's own products reach.

    PYTHONPATH=src python benchmarks/ova_head_cpu.py [--labels 17000] [--dimension 384] [--batch 256] [--repeats 15]

A step is three products (scores, gradient of the vectors, gradient of the weights) and all between them: slopes, sparse
soft targets, update in place. The floor is torch's time for the three products alone, each at once over all labels and
into memory that is there, in the same run and in turn with the step. Also: the step by autograd, with its peak memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse

from longtail.memory import measure_peak, resident_bytes
from longtail.nn.heads.entries import Targets
from longtail.nn.heads.head import Head, HeadSettings

CPU = torch.device("cpu")


def in_turn(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, one after the other again and again, so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 2):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            if repeat >= 2:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=17_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--positives", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    labels, dimension, batch = options.labels, options.dimension, options.batch
    chance = np.random.default_rng(0)
    rows = np.repeat(np.arange(batch), options.positives)
    picked = chance.integers(0, labels, len(rows))
    matrix = sparse.csr_array((np.ones(len(rows), np.float32), (rows, picked)), (batch, labels))
    matrix.data[:] = 1
    targets, vectors = Targets(matrix), torch.randn(batch, dimension)
    weights, scores = torch.randn(labels, dimension) * 0.02, torch.empty(labels, batch)
    wide, gradient = torch.empty(batch, dimension), torch.empty(labels, dimension)
    parameter = torch.nn.Parameter(weights.clone())
    dense = torch.from_numpy(matrix.toarray())

    def products() -> None:
        torch.mm(weights, vectors.T, out=scores)
        torch.mm(scores.T, weights, out=wide)
        torch.mm(scores, vectors, out=gradient)

    def autograd() -> None:
        asked = vectors.clone().requires_grad_()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(asked @ parameter.T, dense, reduction="sum")
        loss.backward()
        with torch.no_grad():
            parameter.sub_(parameter.grad, alpha=1e-3)
        parameter.grad = None

    heads = {
        "streaming head": HeadSettings(precision="fp32", bias=-6.0),
        "with momentum": HeadSettings(precision="fp32", bias=-6.0, momentum=0.9),
    }
    works: dict[str, Callable[[], object]] = {"three products": products}
    for name, settings in heads.items():
        head = Head(labels, dimension, settings, CPU)
        works[name] = lambda head=head: head.step(vectors, targets.batch(np.arange(batch), CPU), 1e-3)  # type: ignore[misc]
    works["autograd, dense targets"] = autograd
    peaks = {}
    for name, work in works.items():
        work()
        before = resident_bytes()
        with measure_peak(0.001) as peak:
            work()
        peaks[name] = max(peak.bytes - before, 0)
    taken = in_turn(works, options.repeats)
    operations = 6 * batch * labels * dimension
    print(f"{labels:,} labels, dimension {dimension}, batch {batch}, {torch.get_num_threads()} threads, fp32\n")
    print("| step | ms | GFLOP/s | of the products | more memory at its peak, MB |")
    print("| --- | --: | --: | --: | --: |")
    for name, seconds in taken.items():
        share = taken["three products"] / seconds
        rate = operations / seconds / 1e9
        print(f"| {name} | {1000 * seconds:.1f} | {rate:.0f} | {share:.0%} | {peaks[name] / 1e6:.0f} |")


if __name__ == "__main__":
    main()
