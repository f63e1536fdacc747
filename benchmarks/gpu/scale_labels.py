"""Claim: a hundred million labels train and are searched on one GPU, at the cost a label has among a million.

    python benchmarks/gpu/scale_labels.py [--part unidec head search] [--labels 1000000 100000000]
        [--head 1000000 50000000] [--tiny]

`unidec`: steps of the training loop with pools of 3,000 labels beside a table of classifiers of 256 numbers in bf16 in
the host's memory; moments that do not fit there lie on the GPU. `head`: steps of `renee`'s head over all labels, 768
numbers in bf16 on the GPU, their top 5, and one shard of eight written and read back. `search`: the nearest 10 of label
vectors of 256 numbers, exact in float32 and in bf16 with the share of the exact ten that bf16 finds, of 1,024 queries
and of one; the seconds to encode label texts. Vectors are random, texts have 16 tokens, the encoder has the shape of
all-MiniLM-L6-v2. Prints one table a part, with the time a label against the smaller size. `--tiny` takes a thousandth
of the labels, to see that it runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from shared.command import parser_for
from shared.tables import header, row
from shared.timing import gpu_peak, memory, reset_gpu

QUERIES, POOL, WIDTH = 1024, 3000, 256
ENOUGH = 8  # steps of the head that are timed at 50 million labels


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--part", nargs="*", default=["unidec", "head", "search"], help="what is measured")
    parser.add_argument("--labels", type=int, nargs="*", default=[1_000_000, 100_000_000], help="of unidec and search")
    parser.add_argument("--head", type=int, nargs="*", default=[1_000_000, 50_000_000], help="labels of the head")
    parser.add_argument("--tiny", action="store_true", help="a thousandth of the labels")
    options = parser.parse_args()
    small = 1000 if options.tiny else 1
    parts = {"unidec": (unidec, options.labels), "head": (head, options.head), "search": (search, options.labels)}
    for part in options.part:
        measure, sizes = parts[part]
        measure([labels // small for labels in sizes], options)
        reset_gpu()


def done(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds_of(work: Any, device: Any, times: int) -> float:
    """Seconds of one of several runs in a row, after one that is not counted."""
    work()
    done(device)
    begun = time.perf_counter()
    for _ in range(times):
        work()
    done(device)
    return (time.perf_counter() - begun) / times


def gib(value: float | int | None) -> str:
    return "" if value is None else f"{value / 2**30:.1f}"


def unidec(sizes: list[int], options: argparse.Namespace) -> None:
    import torch

    from longtail.nn.training.loop import TrainingConfig, train
    from longtail.nn.training.precision import best_device

    device = best_device()
    columns = [
        "start s",
        "ms a step",
        "against the first",
        "host GiB",
        "on the GPU GiB",
        "GPU peak GiB",
        "tables there",
    ]
    print("\nunidec:\n" + header(["labels", *columns], words=1))
    first = None
    for labels in sizes:
        reset_gpu()
        torch.manual_seed(0)
        begun = time.perf_counter()
        task = pools(labels, options)
        done(device)
        start = time.perf_counter() - begun
        history = train(task, TrainingConfig(epochs=2 if options.tiny else 4, validate_every=0), {})
        step = task.batch_size / max(line["rows_per_second"] for line in history.lines)
        table = task.classifiers.table
        first = first or step
        tables = {name: getattr(table, name) for name in ("weight", "first", "second")}
        mapped = [name for name in tables if name in table._mapped]
        host, other = (
            sum(each.nbytes for name, each in tables.items() if (name in mapped) == inside) for inside in (True, False)
        )
        assert bool((table.updates > 0).any()), "no classifier was updated"
        print(
            row(
                [f"{labels:,}", f"{start:.1f}", f"{1000 * step:.2f}", f"{step / first:.2f}", gib(host), gib(other),
                 gib(gpu_peak() or memory("VmHWM")), " ".join(mapped)]
            ),
            flush=True,
        )  # fmt: skip
        table.close()
        del task, table, tables


def pools(labels: int, options: argparse.Namespace) -> Any:
    """What the loop trains: an encoder with heads and classifiers of WIDTH numbers."""
    from scipy import sparse
    from unidec_speed import encoder_of, texts

    from longtail.nn.encoders.device_tokens import DeviceTokens
    from longtail.nn.onevsall.onevsall_task import TextReading
    from longtail.nn.pool.classifier_table import ClassifierTable
    from longtail.nn.pool.label_sampler import LabelSampler
    from longtail.nn.pool.pool_losses import loss_of
    from longtail.nn.pool.pool_task import ClassifierTraining, PoolTask
    from longtail.nn.pool.projection_heads import Heads
    from longtail.nn.training.precision import best_device

    device, rng = best_device(), np.random.default_rng(0)
    encoder, size, steps = encoder_of(device), (64 if options.tiny else QUERIES), (4 if options.tiny else 24)
    rows, width = size * steps, min(WIDTH, encoder.dimension)
    targets = sparse.csr_array(
        (np.ones(rows, np.float32), rng.integers(0, labels, rows), np.arange(rows + 1)), (rows, labels)
    )
    mined = rng.integers(0, labels, (rows, 4))
    init = np.broadcast_to(rng.normal(size=width).astype(np.float32) * 0.05, (labels, width))
    table = ClassifierTable(init, device, True, "bf16")
    documents, items = (TextReading(encoder, DeviceTokens(texts(number, rng), device, 16)) for number in (rows, labels))
    return PoolTask(
        encoder=encoder, documents=documents, labels=items, temperature=0.05, batch_size=size, learning_rate=1e-4,
        device=device, sampler=LabelSampler(targets, device, 3, 2), loss=loss_of("decoupled"),
        heads=Heads(encoder.dimension, head_dimension=width).to(device), head_learning_rate=2e-4,
        classifiers=ClassifierTraining(table, loss_of("decoupled+bce"), 20.0, 1e-3, 0.5),
        refresh=lambda epoch: (np.zeros(0, dtype=np.int64), mined),
    )  # fmt: skip


def head(sizes: list[int], options: argparse.Namespace) -> None:
    from longtail.nn.training.precision import best_device

    device, rows = best_device(), 64 if options.tiny else QUERIES
    columns = ["start s", "ms a step", "ns a label", "against the first", "GPU peak GiB", "top 5 ms", "of one ms"]
    print("\nhead:\n" + header(["labels", *columns, "a shard GiB", "write s", "read s"], words=1))
    first = None
    for labels in sizes:
        reset_gpu()
        first = one_head(labels, rows, device, first)


def one_head(labels: int, rows: int, device: Any, first: float | None) -> float:
    """A line, and the seconds a label of the smallest head."""
    import torch
    from ova_head import zipf_targets

    from longtail.nn.onevsall.batch_targets import TrainingTargets
    from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead
    from longtail.nn.onevsall.head_top import top

    begun = time.perf_counter()
    weights = OneVsAllHead(labels, 768, HeadSettings(precision="bf16"), device)
    done(device)
    start = time.perf_counter() - begun
    entries = TrainingTargets(zipf_targets(rows, labels)).batch(np.arange(rows), device)
    vectors = torch.randn(rows, 768, device=device) / 768**0.5
    if device.type == "cuda":
        vectors = vectors.bfloat16()
    step = seconds_of(lambda: weights.step(vectors, entries, 1e-3), device, ENOUGH)
    each = step / labels
    first = first or each
    peak = gpu_peak() or memory("VmHWM")
    many = seconds_of(lambda: top(weights, vectors.float(), 5), device, 3)
    one = seconds_of(lambda: top(weights, vectors[:1].float(), 5), device, 10)
    part = weights.weight[: -(-labels // 8)]
    written, read = shard(part)
    print(
        row(
            [f"{labels:,}", f"{start:.1f}", f"{1000 * step:.1f}", f"{1e9 * each:.2f}", f"{each / first:.2f}",
             gib(peak), f"{1000 * many:.1f}", f"{1000 * one:.2f}", gib(part.nbytes), f"{written:.1f}",
             f"{read:.1f}"]
        ),
        flush=True,
    )  # fmt: skip
    return first


def shard(part: Any) -> tuple[float, float]:
    """Seconds to write a shard as a checkpoint does, and to read it back to the device."""
    import torch
    from safetensors import safe_open

    from longtail.nn.training.checkpoint import write_tensors

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "head.safetensors"
        begun = time.perf_counter()
        write_tensors(path, {"weight": part}, {"first": 0, "last": len(part)})
        written = time.perf_counter() - begun
        begun = time.perf_counter()
        with safe_open(path, framework="pt", device=str(part.device)) as file:
            again = file.get_tensor("weight")
        done(part.device)
        read = time.perf_counter() - begun
        assert torch.equal(again, part), "the shard that was read is another"
    return written, read


def search(sizes: list[int], options: argparse.Namespace) -> None:
    from unidec_speed import encoder_of, texts

    from longtail.nn.encoders.encode import encode_to_device
    from longtail.nn.training.precision import best_device

    device, queries = best_device(), 64 if options.tiny else QUERIES
    print("\nsearch:\n" + header(["labels", "by", "GiB", "1,024 queries ms", "one ms", "recall of 10"], words=2))
    for labels in sizes:
        reset_gpu()
        one_search(labels, queries, device)
    number = 2_000 if options.tiny else 1_000_000
    encoder, tokens = encoder_of(device).eval(), texts(number, np.random.default_rng(0))
    taken = seconds_of(lambda: encode_to_device(encoder, tokens), device, 1)
    print(f"\nencoding {number:,} label texts of 16 tokens: {taken:.2f} s, {number / taken:,.0f} a second")


def one_search(labels: int, queries: int, device: Any) -> None:
    """The two lines of a size."""
    import torch

    from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead
    from longtail.nn.onevsall.head_top import top
    from longtail.search.device import DeviceVectors, search_on_device

    generator = torch.Generator(device).manual_seed(0)
    vectors = torch.empty((labels, WIDTH), device=device)
    for begin in range(0, labels, 1 << 20):
        vectors[begin : begin + (1 << 20)].normal_(generator=generator)
    # Queries lie near a label, as trained ones do.
    near = torch.randint(0, labels, (queries,), device=device, generator=generator)
    noise = torch.randn((queries, WIDTH), device=device, generator=generator)
    asked = vectors[near] + noise
    held = DeviceVectors(vectors, None)
    exact = search_on_device(held, asked, 10, 10)[0]
    many = seconds_of(lambda: search_on_device(held, asked, 10, 10), device, 1)
    one = seconds_of(lambda: search_on_device(held, asked[:1], 10, 10), device, 3)
    print(row([f"{labels:,}", "float32", gib(vectors.nbytes), f"{1000 * many:.1f}", f"{1000 * one:.2f}", "1"]))
    half = vectors.bfloat16() if labels < 5_000_000 else halved(vectors)
    held = None  # type: ignore[assignment]
    classifiers = OneVsAllHead(1, WIDTH, HeadSettings(precision="bf16"), device)
    classifiers.weight, classifiers.labels = half, labels
    del vectors
    found = top(classifiers, asked, 10)[0]
    recall = float((found[:, :, None] == exact[:, None, :]).any(1).float().mean())
    many = seconds_of(lambda: top(classifiers, asked, 10), device, 5)
    one = seconds_of(lambda: top(classifiers, asked[:1], 10), device, 10)
    print(
        row([f"{labels:,}", "bf16", gib(half.nbytes), f"{1000 * many:.1f}", f"{1000 * one:.2f}", f"{recall:.4f}"]),
        flush=True,
    )


def halved(vectors: Any) -> Any:
    """The vectors in bf16, in the first half of their own memory: both together would not fit."""
    import torch

    memory, step = vectors.view(torch.bfloat16).view(-1), 1 << 16  # (2 x numbers,)
    numbers, flat = vectors.numel(), vectors.view(-1)
    for begin in range(0, numbers, step * WIDTH):
        end = min(begin + step * WIDTH, numbers)
        memory[begin:end] = flat[begin:end].bfloat16()  # a copy first, and only places that were read before
    return memory[:numbers].view(len(vectors), WIDTH)


if __name__ == "__main__":
    main()
