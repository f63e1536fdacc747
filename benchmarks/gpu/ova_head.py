"""Claim: a training step of the streaming head reaches most of the speed of the chip, and its memory does not grow with
rows x labels.

    python benchmarks/gpu/ova_head.py [--ceiling | --tune] [--tiny]

Measures, on one GPU and in one run: the speed of a large product in bf16 and fp8 and of a copy; the step over 131,073
and 1,305,265 labels by fused kernels, by plain torch and by autograd; the step over 100,000 to 10,000,000 labels; the
top 5 of 10,000 rows. Prints milliseconds, the floor that the product's speed allows, the share of it, and GiB. `--tune`
prints the time of each kernel for several tiles. `--tiny` takes a hundredth of the labels, to see that it runs.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for

if TYPE_CHECKING:
    from longtail.nn.onevsall.head import OneVsAllHead

STEPS = 4  # timed together, as in training: the processor prepares a step while the GPU works on the one before


def timed(work: Callable[[], Any], repeats: int = 10, warm: int = 3) -> float:
    """Median milliseconds."""
    import torch

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
    rng = np.random.default_rng(0)
    drawn = np.minimum(labels ** rng.random((rows, each)), labels) - 1  # log-uniform: a few labels are very frequent
    drawn = np.sort(drawn.astype(np.int64), axis=1)
    matrix = sparse.csr_array(
        (np.ones(drawn.size, np.float32), drawn.ravel(), np.arange(0, drawn.size + 1, each)), shape=(rows, labels)
    )
    matrix.sum_duplicates()
    matrix.data[:] = rng.uniform(0.1, 1, len(matrix.data))
    return matrix


def step_case(labels: int, rows: int, dimension: int, **settings: Any) -> tuple[OneVsAllHead, Callable[[], Any]]:
    import torch

    from longtail.nn.onevsall.batch_targets import TrainingTargets
    from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead

    head = OneVsAllHead(labels, dimension, HeadSettings(**settings), torch.device("cuda"), counts=np.arange(labels))
    entries = TrainingTargets(zipf_targets(rows, labels)).batch(np.arange(rows), head.weight.device)
    vectors = torch.randn(rows, dimension, device="cuda", dtype=torch.bfloat16) / dimension**0.5
    return head, lambda: head.step(vectors, entries, 1e-3)


def measured_step(labels: int, rows: int, dimension: int, **settings: Any) -> tuple[float, float]:
    """Milliseconds, and GiB of head and step."""
    import torch

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
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    weight = torch.nn.Parameter(torch.randn(labels, dimension, device="cuda", dtype=torch.bfloat16) * 0.02)
    vectors = torch.randn(rows, dimension, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    matrix = zipf_targets(rows, labels).tocoo()
    where = tuple(torch.from_numpy(part.astype(np.int64)).cuda() for part in matrix.coords)
    values = torch.from_numpy(matrix.data).cuda().bfloat16()

    def work() -> None:
        targets = torch.zeros(rows, labels, device="cuda", dtype=torch.bfloat16)
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
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    flops = 2 * 8192**3 / timed(lambda: a @ b) / 1e9
    small, other, one = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).T, torch.ones((), device="cuda")
    fast = timed(lambda: torch._scaled_mm(small, other, one, one, out_dtype=torch.bfloat16, use_fast_accum=True))
    data = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(data)
    return flops, 2 * 8192**3 / fast / 1e9, 2 * len(data) / timed(lambda: target.copy_(data)) / 1e9


def gradients_with(tile: dict[str, int], head: OneVsAllHead, vectors: Any, found: Any) -> None:
    """The kernel of `fused.score_gradients` with this tile: the gradient of every score, for rows without labels."""
    import triton

    from longtail.nn.onevsall import fused_head as fused

    tile, weights = dict(tile), head.weight
    block = (tile["BLOCK_L"], tile["BLOCK_B"], tile["BLOCK_D"])
    labels, rows = len(weights), len(vectors)
    grid = fused._programs(triton.cdiv(labels, block[0]) * triton.cdiv(rows, block[1]), tile)
    fused._score_gradients[grid](
        fused._described(weights, block[0], block[2]), fused._described(vectors, block[1], block[2]),
        fused._described(found, block[0], block[1]), weights, labels, rows, vectors.shape[1],
        HINGE=False, HAS_BIAS=False, **tile,
    )  # fmt: skip


def update_with(tile: dict[str, int], head: OneVsAllHead, vectors: Any, found: Any, rate: float = 1e-3) -> None:
    """The kernel that `fused.update` starts, with this tile, for a head without momentum and compensation."""
    import triton

    from longtail.nn.onevsall import fused_head as fused
    from longtail.nn.training.to_device import to_device

    tile, weights, own = dict(tile), head.weight, head.settings
    block = (tile["BLOCK_L"], tile["BLOCK_B"], tile["BLOCK_D"])
    labels, rows, width = len(weights), len(vectors), vectors.shape[1]
    grid = fused._programs(triton.cdiv(labels, block[0]) * triton.cdiv(width, block[2]), tile)
    fused._update[grid](
        fused._described(found, block[0], block[1]), fused._described(vectors, block[1], block[2]),
        fused._described(weights, block[0], block[2]), weights, weights, weights,
        to_device(head.step_numbers(rate), weights.device), labels, rows, width, own.momentum, 0,
        MOMENTUM=False, COMPENSATED=False, FP8=False, **tile,
    )  # fmt: skip


def tune(rows: int, dimension: int, chunk: int) -> None:
    """Each kernel alone, with several tiles."""
    import torch

    from longtail.nn.onevsall import fused_head as fused

    head, _ = step_case(chunk, rows, dimension)
    vectors = torch.randn(rows, dimension, device="cuda", dtype=torch.bfloat16)
    found = torch.empty(chunk, rows, device="cuda", dtype=torch.bfloat16)
    total = torch.zeros(rows, dimension, device="cuda")
    work = 2 * rows * chunk * dimension / 1e9

    def show(name: str, milliseconds: float) -> None:
        print(
            f"rows {rows} chunk {chunk:7d} {name:48s} {milliseconds * 1e3:8.1f} us {work / milliseconds:7.1f} TFLOP/s"
        )

    show("cublas scores bf16", timed(lambda: [torch.mm(head.weight, vectors.T, out=found) for _ in range(8)]) / 8)
    show(
        "cublas gradient of vectors",
        timed(lambda: [fused.add_product(total, found.T, head.weight) for _ in range(8)]) / 8,
    )
    show("cublas gradient of weights fp32", timed(lambda: torch.mm(found, vectors, out_dtype=torch.float32)))
    wide, narrow = (fused.WIDE, fused.NARROW)
    tiles = [(128, 256, 64, wide), (256, 128, 64, wide), (128, 128, 64, narrow), (128, 128, 128, narrow)]
    for which, (first, second, depth, more) in product(("slopes", "update"), tiles):
        if which == "slopes":
            tile = {"BLOCK_L": first, "BLOCK_B": second, "BLOCK_D": depth, **more}
            run = partial(gradients_with, tile, head, vectors, found)
        else:
            tile = {"BLOCK_L": first, "BLOCK_D": second, "BLOCK_B": depth, **more}
            run = partial(update_with, tile, head, vectors, found)
        name = f"{which} {first}x{second}x{depth} {more}"
        try:
            show(name, timed(lambda run=run: [run() for _ in range(8)]) / 8)
        except Exception as error:  # a tile may ask for more shared memory than there is
            print(f"{name}: {str(error)[:80]!r}")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--ceiling", action="store_true", help="only the speed of products and copies")
    parser.add_argument("--tune", action="store_true", help="each kernel alone, with several tiles")
    parser.add_argument("--tiny", action="store_true", help="a hundredth of the labels, to see that it runs")
    arguments = parser.parse_args()
    import torch

    from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead
    from longtail.nn.onevsall.head_top import top

    if not torch.cuda.is_available():
        raise SystemExit("needs a GPU")
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
    head = OneVsAllHead(labels, 768, HeadSettings(), torch.device("cuda"))
    vectors = torch.randn(10_000, 768, device="cuda")
    milliseconds = timed(lambda: top(head, vectors, 5))
    floor = 2 * 10_000 * labels * 768 / flops / 1e9
    share = floor / milliseconds
    print(f"\ntop 5 of 10,000 rows over {labels:,} labels: {milliseconds:.1f} ms, {share:.0%} of the ceiling")


if __name__ == "__main__":
    main()
