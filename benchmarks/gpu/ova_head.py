"""One training step of the streaming head, its memory, and its top-k, against what the chip can do in the same run.

PYTHONPATH=src python benchmarks/gpu/ova_head.py [--tune] [--tiny]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch.nn.functional import binary_cross_entropy_with_logits

from longtail.nn.heads import fused
from longtail.nn.heads.entries import Targets
from longtail.nn.heads.head import Head, HeadSettings
from longtail.nn.heads.top import top

GPU = torch.device("cuda")
STEPS = 4  # timed together, as in training, where the processor prepares a step while the GPU works on the last


def timed(work: Callable[[], Any], repeats: int = 10, warm: int = 3) -> float:
    """Median milliseconds."""
    for _ in range(warm):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def zipf_targets(rows: int, labels: int, each: int = 5) -> sparse.csr_array:
    chance = np.random.default_rng(0)
    drawn = np.minimum(labels ** chance.random((rows, each)), labels) - 1  # log-uniform: a few labels are everywhere
    drawn = np.sort(drawn.astype(np.int64), axis=1)
    matrix = sparse.csr_array(
        (np.ones(drawn.size, np.float32), drawn.ravel(), np.arange(0, drawn.size + 1, each)), shape=(rows, labels)
    )
    matrix.sum_duplicates()
    matrix.data[:] = chance.uniform(0.1, 1, len(matrix.data))
    return matrix


def step_case(labels: int, rows: int, dimension: int, **settings: Any) -> tuple[Head, Callable[[], Any]]:
    head = Head(labels, dimension, HeadSettings(**settings), GPU, counts=np.arange(labels))
    entries = Targets(zipf_targets(rows, labels)).batch(np.arange(rows), GPU)
    vectors = torch.randn(rows, dimension, device=GPU, dtype=torch.bfloat16) / dimension**0.5
    return head, lambda: head.step(vectors, entries, 1e-3)


def measured_step(labels: int, rows: int, dimension: int, **settings: Any) -> tuple[float, float]:
    """Milliseconds, and GiB of head and step."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _, work = step_case(labels, rows, dimension, **settings)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    milliseconds = timed(lambda: [work() for _ in range(STEPS)]) / STEPS
    return milliseconds, (torch.cuda.max_memory_allocated() - before) / 2**30


def naive(labels: int, rows: int, dimension: int) -> tuple[float, float]:
    """Autograd over the dense loss, bf16 weights and targets."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    weight = torch.nn.Parameter(torch.randn(labels, dimension, device=GPU, dtype=torch.bfloat16) * 0.02)
    vectors = torch.randn(rows, dimension, device=GPU, dtype=torch.bfloat16, requires_grad=True)
    matrix = zipf_targets(rows, labels).tocoo()
    where = tuple(torch.from_numpy(part.astype(np.int64)).cuda() for part in matrix.coords)
    values = torch.from_numpy(matrix.data).cuda().bfloat16()

    def work() -> None:
        targets = torch.zeros(rows, labels, device=GPU, dtype=torch.bfloat16)
        targets[where] = values
        binary_cross_entropy_with_logits(vectors @ weight.T, targets, reduction="sum").backward()
        with torch.no_grad():
            weight.sub_(weight.grad, alpha=1e-3)
        weight.grad = vectors.grad = None

    torch.cuda.reset_peak_memory_stats()
    milliseconds = timed(lambda: [work() for _ in range(STEPS)], 5, 2) / STEPS
    return milliseconds, (torch.cuda.max_memory_allocated() - before) / 2**30


def ceiling() -> tuple[float, float, float]:
    """TFLOP/s of a large product in bf16 and in fp8, TB/s of a copy."""
    a, b = (torch.randn(8192, 8192, device=GPU, dtype=torch.bfloat16) for _ in range(2))
    flops = 2 * 8192**3 / timed(lambda: a @ b) / 1e9
    small, other, one = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).T, torch.ones((), device=GPU)
    fast = timed(lambda: torch._scaled_mm(small, other, one, one, out_dtype=torch.bfloat16, use_fast_accum=True))
    data = torch.empty(1 << 30, device=GPU, dtype=torch.uint8)
    target = torch.empty_like(data)
    return flops, 2 * 8192**3 / fast / 1e9, 2 * len(data) / timed(lambda: target.copy_(data)) / 1e9


def tune(rows: int, dimension: int, chunk: int) -> None:
    """Each kernel alone, over tiles."""
    head, _ = step_case(chunk, rows, dimension)
    vectors = torch.randn(rows, dimension, device=GPU, dtype=torch.bfloat16)
    entries = Targets(sparse.csr_array((rows, chunk), dtype=np.float32)).batch(np.arange(rows), GPU)
    found = torch.empty(chunk, rows, device=GPU, dtype=torch.bfloat16)
    total = torch.zeros(rows, dimension, device=GPU)
    work = 2 * rows * chunk * dimension / 1e9

    def say(name: str, milliseconds: float) -> None:
        print(
            f"rows {rows} chunk {chunk:7d} {name:48s} {milliseconds * 1e3:8.1f} us {work / milliseconds:7.1f} TFLOP/s"
        )

    say("cublas scores bf16", timed(lambda: [torch.mm(head.weight, vectors.T, out=found) for _ in range(8)]) / 8)
    say(
        "cublas gradient of vectors",
        timed(lambda: [fused.add_product(total, found.T, head.weight) for _ in range(8)]) / 8,
    )
    say("cublas gradient of weights fp32", timed(lambda: torch.mm(found, vectors, out_dtype=torch.float32)))
    wide, narrow = (fused.WIDE, fused.NARROW)
    tiles = [(128, 256, 64, wide), (256, 128, 64, wide), (128, 128, 64, narrow), (128, 128, 128, narrow)]
    for which, (first, second, depth, more) in product(("slopes", "update"), tiles):
        if which == "slopes":
            fused.SLOPES_TILE.update(BLOCK_L=first, BLOCK_B=second, BLOCK_D=depth, **more)
            run = lambda: fused.slopes(head.weight, None, vectors, entries.between(0, 0), 0, "bce", found)  # noqa: E731
        else:
            fused.UPDATE_TILE.update(BLOCK_L=first, BLOCK_D=second, BLOCK_B=depth, **more)
            run = lambda: fused.update(head, 0, chunk, found, vectors, 1e-3)  # noqa: E731
        name = f"{which} {first}x{second}x{depth} {more}"
        try:
            say(name, timed(lambda run=run: [run() for _ in range(8)]) / 8)
        except Exception as error:  # a tile may ask for more shared memory than there is
            print(f"{name}: {str(error)[:80]!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ceiling", action="store_true", help="only how fast the chip multiplies and copies")
    parser.add_argument("--tune", action="store_true", help="each kernel alone, over tiles")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it runs")
    arguments = parser.parse_args()
    small = 100 if arguments.tiny else 1
    flops, eighth, bandwidth = ceiling()
    print(
        f"{torch.cuda.get_device_name()}: 8192^3 bf16 {flops:.0f} TFLOP/s, fp8 {eighth:.0f}, copy {bandwidth:.2f} TB/s"
    )
    if arguments.ceiling:
        return
    if arguments.tune:
        for rows, chunk in ((1024, 131_072), (512, 131_073)):
            tune(rows, 768, chunk // small)
        return
    lines = []
    for labels, rows in ((1_305_265 // small, 1024), (131_073 // small, 512)):
        floor = 6 * rows * labels * 768 / flops / 1e9
        for name, settings in (
            ("fused", {}), ("plain torch", {"kernels": "plain"}), ("fused fp8 weights", {"precision": "fp8"}),
            ("fused, 20% compensated", {"compensated": 0.2}), ("fused, bias", {"bias": -6.0}),
            ("fused, momentum", {"momentum": 0.9}),
        ):  # fmt: skip
            milliseconds, memory = measured_step(labels, rows, 768, **settings)
            lines.append((labels, rows, name, milliseconds, floor, memory))
        milliseconds, memory = naive(labels, rows, 768)
        lines.append((labels, rows, "naive autograd", milliseconds, floor, memory))
    for labels in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000):
        floor = 6 * 1024 * (labels // small) * 768 / flops / 1e9
        milliseconds, memory = measured_step(labels // small, 1024, 768)
        lines.append((labels // small, 1024, "fused", milliseconds, floor, memory))
    print(f"\n{'labels':>10} {'rows':>5} {'step':24} {'ms':>8} {'floor ms':>9} {'of ceiling':>10} {'GiB':>6}")
    for labels, rows, name, milliseconds, floor, memory in lines:
        share = floor / milliseconds
        print(f"{labels:10,} {rows:5} {name:24} {milliseconds:8.2f} {floor:9.2f} {share:10.0%} {memory:6.2f}")
    labels = 1_305_265 // small
    head = Head(labels, 768, HeadSettings(), GPU)
    vectors = torch.randn(10_000, 768, device=GPU)
    milliseconds = timed(lambda: top(head, vectors, 5))
    floor = 2 * 10_000 * labels * 768 / flops / 1e9
    share = floor / milliseconds
    print(f"\ntop 5 of 10,000 rows over {labels:,} labels: {milliseconds:.1f} ms, {share:.0%} of the ceiling")


if __name__ == "__main__":
    main()
