"""Claim: on a processor, a training step of the streaming head reaches 60% or more of the speed of torch's own
products.

    python benchmarks/ova_head_cpu.py [--labels 17000] [--dimension 384] [--batch 256] [--repeats 15]

A step is three products (scores, gradient of the vectors, gradient of the weights) and all between them: gradients of
the scores, sparse soft targets, the update in place. The floor is torch's time for the three products alone, over all
labels at once, into memory that is already allocated, in the same run and in turns with the step. Prints a table with
the floor, the step without and with momentum, and the same step by autograd: milliseconds, GFLOP/s, the share of the
floor, and the memory at its peak.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy import sparse

from longtail.memory import measure_peak, resident_bytes
from shared.command import parser_for
from shared.tables import table


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
    parser = parser_for(__doc__)
    parser.add_argument("--labels", type=int, default=17_000, help="classifiers")
    parser.add_argument("--dimension", type=int, default=384, help="of the vectors")
    parser.add_argument("--batch", type=int, default=256, help="rows of a step")
    parser.add_argument("--positives", type=int, default=4, help="labels of a row")
    parser.add_argument("--repeats", type=int, default=15, help="steps; the median counts")
    options = parser.parse_args()
    import torch

    from longtail.nn.onevsall.batch_targets import TrainingTargets
    from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead

    cpu = torch.device("cpu")
    labels, dimension, batch = options.labels, options.dimension, options.batch
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(batch), options.positives)
    picked = rng.integers(0, labels, len(owner))
    matrix = sparse.csr_array((np.ones(len(owner), np.float32), (owner, picked)), (batch, labels))
    matrix.data[:] = 1
    targets, vectors = TrainingTargets(matrix), torch.randn(batch, dimension)
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
        head = OneVsAllHead(labels, dimension, settings, cpu)
        works[name] = lambda head=head: head.step(vectors, targets.batch(np.arange(batch), cpu), 1e-3)  # type: ignore[misc]
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
    rows = []
    for name, seconds in taken.items():
        share = taken["three products"] / seconds
        rate = operations / seconds / 1e9
        rows.append([name, f"{1000 * seconds:.1f}", f"{rate:.0f}", f"{share:.0%}", f"{peaks[name] / 1e6:.0f}"])
    print(table(["step", "ms", "GFLOP/s", "of the products", "more memory at its peak, MB"], rows))


if __name__ == "__main__":
    main()
