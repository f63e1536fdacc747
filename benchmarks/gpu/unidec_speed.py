"""Claim: a step over a pool costs the same for any number of labels, and keeps the matrix units of a GPU busy for 35%
of the time or more.

    python benchmarks/gpu/unidec_speed.py [--labels 10000 100000 1000000 10000000] [--on-host 1000000]
        [--queries 1024] [--pool 3000] [--steps 24] [--one-by-one 100000] [--profile 100000]
        [--renee 1000000] [--dexml 100000] [--lean 1000000] [--plain 1000000]

Generated texts of 16 tokens; the encoder has the shape of all-MiniLM-L6-v2 and random weights; dropout, two heads,
decoupled softmax in both directions for texts, the same and BCE for classifiers, clipping, AdamW. The training loop
itself is timed, with the pools that it makes. Prints one line for each size: milliseconds of a pool and of a step, the
share (operations of the encoder and the scores against one large bf16 product in the same run) and memory. On a
processor the encoder is smaller, and only the growth is meaningful. `--one-by-one` starts the kernels of the encoder
one by one instead of as a recorded graph. `--profile` prints what device and host spent a step on, and the time of
steps whose batches are ready. `--renee` and `--dexml` train the same rows and encoder with all labels in every step,
which pools avoid: a classifier for each label in bf16, or all label texts. `--plain` is one-vs-all in plain torch: all
scores at once and AdamW. `--lean` is unidec with its table in host memory and the activations of `--piece` texts at a
time.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.command import parser_for
from shared.tables import header, row
from shared.timing import gpu_peak, reset_gpu


def product_speed(device: Any) -> float:
    """Operations a second of a large bf16 product there, the best of several."""
    import torch

    size = 8192 if device.type == "cuda" else 512
    one = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    best = float("inf")
    for _ in range(20):
        begun = time.perf_counter()
        one @ one
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return 2 * size**3 / best


def texts(number: int, rng: np.random.Generator) -> Any:
    """`number` texts over a million distinct ones at most, so that ten million of them are made quickly."""
    from longtail.nn.encoders.tokens import Tokens

    ids = rng.integers(1000, 30000, 16 * min(number, 1_000_000)).astype(np.uint16)
    return Tokens(ids=np.resize(ids, 16 * number), offsets=np.arange(number + 1, dtype=np.int64) * 16, pad=0)


def encoder_of(device: Any) -> Any:
    from longtail.nn.encoders.build import build_encoder
    from longtail.nn.encoders.transformer_layer import Shape

    fast = device.type == "cuda"
    width = 384 if fast else 64
    shape = Shape(30522, width, 6 if fast else 2, heads=12 if fast else 2, inner=4 * width, places=64)
    return build_encoder({"kind": "transformer", **asdict(shape)}).to(device)


def task_of(options: argparse.Namespace, way: str, labels: int) -> Any:
    """What the loop trains: pools, their table on the device or in the host's memory, or all labels."""
    from scipy import sparse

    from longtail.nn.encoders.device_tokens import DeviceTokens
    from longtail.nn.onevsall.batch_targets import TrainingTargets
    from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead
    from longtail.nn.onevsall.onevsall_task import OneVsAllTask, TextReading
    from longtail.nn.pool.classifier_table import ClassifierTable
    from longtail.nn.pool.label_sampler import LabelSampler
    from longtail.nn.pool.pool_losses import loss_of
    from longtail.nn.pool.pool_task import ClassifierTraining, PoolTask
    from longtail.nn.pool.projection_heads import Heads
    from longtail.nn.training.precision import best_device

    device, rng = best_device(), np.random.default_rng(0)
    encoder = encoder_of(device)
    width, rows = encoder.dimension, options.queries * (1 if way == "dexml" else options.steps)
    # One positive a row and as many mined as fill the pool; of few labels, a wider draw meets the same ones again.
    targets = sparse.csr_array(
        (np.ones(rows, np.float32), rng.integers(0, labels, rows), np.arange(rows + 1)), (rows, labels)
    )
    documents = TextReading(encoder, DeviceTokens(texts(rows, rng), device, 16))
    if way == "renee":
        head = OneVsAllHead(labels, width, HeadSettings(), device)
        return OneVsAllTask(
            encoder, documents, head, TrainingTargets(targets), options.queries, 1e-4, 0.1, device, dropout=0.5
        )
    items = TextReading(encoder, DeviceTokens(texts(labels, rng), device, 16))
    shared = {
        "encoder": encoder, "documents": documents, "labels": items, "temperature": 0.05, "batch_size": options.queries,
        "learning_rate": 1e-4, "device": device,
    }  # fmt: skip
    if way == "dexml":
        every = LabelSampler(targets, device, None, 0, all_labels=True)
        return PoolTask(sampler=every, loss=loss_of("decoupled", 1.0), mini_batch_size=options.chunk, **shared)
    pool = min(options.pool, labels // 2)
    wanted = -labels * np.log1p(-pool / labels)  # draws after which so many different ones were met
    each = max(round(wanted / options.queries) - 1, 1)
    mined = rng.integers(0, labels, (rows, 2 * each))
    table = ClassifierTable(
        np.zeros((labels, width), dtype=np.float32), device, way in ("host", "lean"),
        "bf16" if labels > 5_000_000 else "fp32",
    )  # fmt: skip
    return PoolTask(
        sampler=LabelSampler(targets, device, 3, each), loss=loss_of("decoupled"), heads=Heads(width).to(device),
        head_learning_rate=2e-4, classifiers=ClassifierTraining(table, loss_of("decoupled+bce"), 20.0, 1e-3, 0.5),
        refresh=lambda epoch: (np.zeros(0, dtype=np.int64), mined), replay=way != "one by one",
        mini_batch_size=options.piece if way == "lean" else None, **shared,
    )  # fmt: skip


def plain(options: argparse.Namespace, labels: int) -> float:
    """Seconds of a step of one-vs-all by autograd: scores of all labels at once in bf16, AdamW on everything."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, dropout

    from longtail.nn.encoders.device_tokens import DeviceTokens
    from longtail.nn.onevsall.onevsall_task import TextReading
    from longtail.nn.training.precision import best_device

    device, rng = best_device(), np.random.default_rng(0)
    encoder = encoder_of(device)
    size, steps = options.queries, min(options.steps, 8)
    read = TextReading(encoder, DeviceTokens(texts(size * steps, rng), device, 16))
    table = torch.nn.Parameter(torch.zeros(labels, encoder.dimension, device=device))
    optimiser = torch.optim.AdamW([*encoder.parameters(), table], lr=1e-4, fused=True)
    right = torch.from_numpy(rng.integers(0, labels, (steps, size))).to(device)
    every, times = torch.arange(size, device=device), []
    for _ in range(options.epochs):
        begun = time.perf_counter()
        for step in range(steps):
            vectors = dropout(read(np.arange(step * size, (step + 1) * size)), 0.5).bfloat16()
            targets = torch.zeros(size, labels, device=device, dtype=torch.bfloat16)
            targets[every, right[step]] = 1
            loss = binary_cross_entropy_with_logits(vectors @ table.bfloat16().T, targets, reduction="sum")
            torch.autograd.backward(loss / size)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / steps)
    return min(times)


def measured(options: argparse.Namespace, way: str, labels: int, ceiling: float) -> str:
    """A line: the best epoch of the training loop."""
    import torch

    from longtail.nn.training.loop import TrainingConfig, train

    reset_gpu()
    if way == "plain":
        seconds = plain(options, labels)
        return row([f"{labels:,}", "one-vs-all, plain", labels, "", f"{1000 * seconds:.2f}", "", peak_gib(), "", ""])
    task = task_of(options, way, labels)
    history = train(task, TrainingConfig(epochs=2 if way == "dexml" else options.epochs, validate_every=0), {})
    seconds = options.queries / max(line["rows_per_second"] for line in history.lines)
    peak = peak_gib()
    if way in ("renee", "dexml"):
        held = task.head.weight if way == "renee" else torch.zeros(0, dtype=torch.float32)
        kept = f"{held.nbytes / 2**30:.2f}"
        return row([f"{labels:,}", way, labels, "", f"{1000 * seconds:.2f}", "", peak, kept, kept])
    table = task.classifiers.table
    making, size = pools(task)
    shape = task.encoder.body.shape
    texts_read = options.queries + size
    work = 6 * 16 * texts_read * 12 * shape.layers * shape.width**2 + 12 * options.queries * size * shape.width
    weights, held = (part / 2**30 for part in (table.weight.nbytes, 3 * table.weight.nbytes))
    if labels in options.profile and way == "device":
        profile(task)
    table.close()
    where = f"unidec, {way}, {str(table.weight.dtype).removeprefix('torch.')}"
    times = [f"{1000 * making:.2f}", f"{1000 * seconds:.2f}", f"{100 * work / seconds / ceiling:.1f}%"]
    return row([f"{labels:,}", where, f"{size:.0f}", *times, peak, f"{weights:.2f}", f"{held:.2f}"])


def peak_gib() -> str:
    peak = gpu_peak()
    return f"{peak / 2**30:.2f}" if peak else ""


def pools(task: Any) -> tuple[float, float]:
    """Seconds to make a pool with its targets, nothing beside it, and its labels."""
    import torch

    fast = task.device.type == "cuda"
    order, sizes = np.arange(task.rows), []
    times = []
    for _ in range(2):
        begun = time.perf_counter()
        for batch in task.sampler.batches(order, task.batch_size, 0, task._mined, (0, 0)):
            batch.targets()
            sizes.append(len(batch.pool))
        if fast:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / task.steps)
    return min(times), float(np.mean(sizes))


def profile(task: Any) -> None:
    """What the device did in a step, and how long the host took to ask for it."""
    import torch
    from torch.profiler import ProfilerActivity

    optimiser = torch.optim.AdamW(task.groups(), fused=True)
    batches = list(task.batches(0, 0))[:10]

    def steps(some: list[Any]) -> None:
        for batch in some:
            optimiser.zero_grad(set_to_none=True)
            task.backward(batch, 1.0)
            torch.nn.utils.clip_grad_norm_([each for group in optimiser.param_groups for each in group["params"]], 1.0)
            optimiser.step()

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    steps(batches[:3])
    wait()
    begun = time.perf_counter()
    steps(batches)
    host = (time.perf_counter() - begun) / len(batches)
    wait()
    ready = (time.perf_counter() - begun) / len(batches)
    kinds = [ProfilerActivity.CUDA] if torch.cuda.is_available() else [ProfilerActivity.CPU]
    with torch.profiler.profile(activities=kinds, acc_events=True) as seen:
        steps(batches[:5])
        wait()
    events = seen.key_averages()
    total = sum(event.self_device_time_total for event in events) / 5000
    launches = sum(event.count for event in events) / 5
    print(
        f"batches ready: {1000 * ready:.2f} ms a step; the host asks for {1000 * host:.2f} ms, the device works for "
        f"{total:.2f} ms in {launches:.0f} kernels"
    )
    for event in sorted(events, key=lambda event: -event.self_device_time_total)[:40]:
        print(f"{event.self_device_time_total / 5000:8.3f} ms {event.count / 5:7.1f} x  {event.key[:110]}")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--labels", type=int, nargs="*", default=[10_000, 100_000, 1_000_000, 10_000_000], help="sizes")
    parser.add_argument(
        "--on-host", type=int, nargs="*", default=[1_000_000], help="labels, with the table in host memory"
    )
    parser.add_argument("--queries", type=int, default=1024, help="rows of a batch")
    parser.add_argument("--pool", type=int, default=3000, help="labels of a pool")
    parser.add_argument("--steps", type=int, default=24, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=3, help="the best counts")
    parser.add_argument("--one-by-one", type=int, nargs="*", default=[], help="labels, kernels started one by one")
    parser.add_argument("--renee", type=int, nargs="*", default=[], help="labels, classifiers over all of them")
    parser.add_argument("--dexml", type=int, nargs="*", default=[], help="labels, the texts of all of them")
    parser.add_argument("--chunk", type=int, default=4096, help="texts of dexml in memory at once")
    parser.add_argument("--lean", type=int, nargs="*", default=[], help="labels, in little memory")
    parser.add_argument(
        "--piece", type=int, default=1024, help="texts of --lean whose activations are in memory at once"
    )
    parser.add_argument("--plain", type=int, nargs="*", default=[], help="labels, one-vs-all in plain torch")
    parser.add_argument("--profile", type=int, nargs="*", default=[], help="labels whose step is profiled")
    options = parser.parse_args()
    from longtail.nn.training.precision import best_device

    ceiling = product_speed(best_device())
    print(f"one bf16 product: {ceiling / 1e12:.0f} TFLOP/s")
    columns = ["pool", "ms a pool", "ms a step", "of the product", "peak GiB", "weights GiB", "with moments GiB"]
    print(header(["labels", "by", *columns], words=2))
    ways = {"device": options.labels, "host": options.on_host, "one by one": options.one_by_one,
            "lean": options.lean, "renee": options.renee, "plain": options.plain, "dexml": options.dexml}  # fmt: skip
    for way, sizes in ways.items():
        for labels in sizes:
            print(measured(options, way, labels, ceiling), flush=True)


if __name__ == "__main__":
    main()
