"""Claim: recorded kernels train `renee` twice as fast where the head is small, and the head over 1.3 million labels
reaches 75% of the ceiling.

    python benchmarks/gpu/renee_replay.py --data FOLDER --encoder FOLDER [--part check head step training] [--epochs N]
        [--rows N] [--tiny]

`check`: steps of the head, replayed and launched one by one: the same bits. `head`: the step over 1,305,265 labels of
768 numbers, 1,024 rows, with chunks of several sizes, against the speed of one large product in the same run; and the
product that adds up the gradient of the vectors, as one product and in parts. `step`: the whole step of an encoder of
the shape of all-MiniLM-L6-v2 and the head over 1,305,265 labels. `training`: `renee` on DATA as a user trains it, with
kernels launched one by one and replayed, after a short training that compiles them; seconds, and P@1 of both on test.
Prints a table a part.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from shared.command import parser_for
from shared.tables import header, row
from shared.timing import Stages, gpu_peak, reset_gpu

LABELS, ROWS = 1_305_265, 1024


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--part", nargs="*", default=["check", "head", "step", "training"], help="what is measured")
    parser.add_argument("--data", help="data set of the training")
    parser.add_argument("--encoder", default="bag", help="of the training")
    parser.add_argument("--epochs", type=int, help="of the training; by default as many as renee takes")
    parser.add_argument("--rows", type=int, help="documents of the training, at most")
    parser.add_argument("--tiny", action="store_true", help="a hundredth of the labels, to see that it runs")
    options = parser.parse_args()
    for part in options.part:
        reset_gpu()
        {"check": check, "head": head, "step": step, "training": training}[part](options)


def check(options: argparse.Namespace) -> None:
    import torch
    from ova_head import zipf_targets

    from longtail.nn.onevsall.batch_targets import TrainingTargets
    from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead
    from longtail.nn.onevsall.recorded_head import RecordedHead

    if not torch.cuda.is_available():
        print("check: needs a GPU")
        return
    device, labels, rows = torch.device("cuda"), 23_470, 512
    targets = TrainingTargets(zipf_targets(8 * rows, labels))
    for settings in ({}, {"bias": -6.0}, {"momentum": 0.9}, {"chunk": 5000}, {"loss": "hinge"}):
        heads = [
            OneVsAllHead(labels, 384, HeadSettings(**settings), device, counts=np.arange(labels)) for _ in range(2)
        ]
        recorded, replayed = RecordedHead(heads[0]), 0
        for number in range(8):
            vectors = torch.randn(rows, 384, device=device) / 20
            batch = targets.batch(np.arange(number * rows, (number + 1) * rows), device)
            rate = 0.1 / (1 + number)
            found = recorded(vectors, batch, rate)
            replayed += found is not None
            gradient = heads[0].step(vectors, batch, rate) if found is None else found[1]
            expected = heads[1].step(vectors, batch, rate)
            assert torch.equal(gradient, expected), (settings, number, "gradients differ")
        assert replayed >= 5, (settings, replayed)
        for name, buffer in heads[0].state_dict().items():
            assert torch.equal(buffer, heads[1].state_dict()[name]), (settings, name)
        print(f"check {settings}: {replayed} of 8 steps replayed, the same bits", flush=True)


def head(options: argparse.Namespace) -> None:
    import torch
    from ova_head import ceiling, measured_step, timed

    from longtail.nn.onevsall import fused_head

    if not torch.cuda.is_available():
        print("head: needs a GPU")
        return
    flops, labels = ceiling()[0], LABELS // (100 if options.tiny else 1)
    floor = 6 * ROWS * labels * 768 / flops / 1e9
    print(f"\nhead: one product {flops:.0f} TFLOP/s, {labels:,} labels, floor {floor:.2f} ms")
    print(header(["chunk", "ms", "of the ceiling"], words=1))
    turn = fused_head.GROUP * fused_head._processors()
    for chunk in (None, 131_072, *(turn * times for times in (2, 4, 6, 8, 12, 16))):
        milliseconds, _ = measured_step(labels, ROWS, 768, chunk=chunk)
        name = "default" if chunk is None else f"{chunk:,}"
        print(row([name, f"{milliseconds:.2f}", f"{floor / milliseconds:.1%}"]), flush=True)
    ways = {"one product": fused_head.add_product}
    ways |= {f"{parts} products": in_parts(parts) for parts in (4, 8, 11, 16, 22)}
    chunk = 8 * turn
    weights = torch.randn(chunk, 768, device="cuda", dtype=torch.bfloat16) * 0.02
    found = torch.randn(chunk, ROWS, device="cuda", dtype=torch.bfloat16)
    total = torch.zeros(ROWS, 768, device="cuda")
    work = 2 * ROWS * chunk * 768 / 1e9
    print(header(["kernel of one chunk", "us", "TFLOP/s"], words=1))
    for name, way in ways.items():
        taken = timed(lambda way=way: [way(total, found.T, weights) for _ in range(8)]) / 8
        print(row([f"gradient of the vectors, {name}", f"{1e3 * taken:.0f}", f"{work / taken:.0f}"]))


def in_parts(parts: int) -> Callable[..., None]:
    """`add_product` in several products whose results are added up, so that all multiprocessors have work."""
    import torch

    def add(total: Any, left: Any, right: Any) -> None:
        inner = left.shape[1]
        if inner % parts:
            total.add_(torch.mm(left, right, out_dtype=torch.float32))
            return
        # left is a transposed view: (inner, rows) is contiguous in the rows
        lefts = left.T.reshape(parts, inner // parts, -1).transpose(1, 2)
        total.add_(torch.bmm(lefts, right.view(parts, inner // parts, -1), out_dtype=torch.float32).sum(0))

    return add


def step(options: argparse.Namespace) -> None:
    import torch
    from ova_head import zipf_targets
    from unidec_speed import encoder_of, product_speed, texts

    from longtail.nn.encoders.device_tokens import DeviceTokens
    from longtail.nn.onevsall.batch_targets import TrainingTargets
    from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead
    from longtail.nn.onevsall.onevsall_task import OneVsAllTask, TextReading
    from longtail.nn.training.loop import TrainingConfig, train
    from longtail.nn.training.precision import best_device

    device, labels, rows = best_device(), LABELS // (100 if options.tiny else 1), 64 if options.tiny else ROWS
    speed, steps, long = product_speed(device), 24, 32
    print(f"\nstep: one product {speed / 1e12:.0f} TFLOP/s, {labels:,} labels, {rows} texts of 16 or {long} tokens")
    print(header(["tokens", "kernels", "ms a step", "of the product", "GPU peak GiB"], words=2))
    for tokens in (16, long):
        for replay in (False, True):
            reset_gpu()
            rng = np.random.default_rng(0)
            encoder = encoder_of(device)
            held = texts(rows * steps * tokens // 16, rng)
            held = type(held)(ids=held.ids, offsets=held.offsets[:: tokens // 16], pad=0)
            task = OneVsAllTask(
                encoder, TextReading(encoder, DeviceTokens(held, device, tokens), replay=replay),
                OneVsAllHead(labels, encoder.dimension, HeadSettings(), device),
                TrainingTargets(zipf_targets(rows * steps, labels)), rows, 1e-4, 1e-3, device, dropout=0.5,
                replay=replay,
            )  # fmt: skip
            history = train(task, TrainingConfig(epochs=2 if options.tiny else 4, validate_every=0), {})
            taken = rows / max(line["rows_per_second"] for line in history.lines)
            shape = encoder.body.shape
            work = 6 * rows * (tokens * 12 * shape.layers * shape.width**2 + labels * shape.width)
            way = "replayed" if replay else "launched"
            peak = gpu_peak()
            print(
                row([tokens, way, f"{1000 * taken:.2f}", f"{work / taken / speed:.1%}",
                     f"{peak / 2**30:.2f}" if peak else ""]),
                flush=True,
            )  # fmt: skip
            del task, encoder
    torch.manual_seed(0)


def training(options: argparse.Namespace) -> None:
    import longtail
    from longtail.metrics import evaluate
    from longtail.nn.training.history import History
    from longtail.progress import collecting, listening

    corpus = longtail.load(options.data)
    train, valid, test = corpus.train, corpus.valid, corpus.test
    if options.rows:
        train = train.take(np.arange(min(options.rows, len(train))))
    epochs = f", epochs={options.epochs}" if options.epochs else ""
    recipe = longtail.Recipe.parse(f"renee(encoder='{options.encoder}'{epochs})")
    small = train.take(np.arange(min(4096, len(train))))
    longtail.Recipe.parse(f"renee(encoder='{options.encoder}', epochs=2)").fit(small, valid.take(np.arange(64)))
    print(f"\ntraining on {options.data}: {len(train):,} documents, {len(corpus.labels):,} labels")
    print(header(["kernels", "training s", "epochs s", "steps", "ms a step", "P@1", "PSP@1", "C@5"], words=1))
    for replays in (False, True):
        os.environ["LONGTAIL_CUDA_GRAPHS"] = "1" if replays else "0"
        reset_gpu()
        stages = Stages(wait=True)
        with collecting() as events, listening(stages):
            begun = time.perf_counter()
            model = recipe.fit(train, valid)
            seconds = time.perf_counter() - begun
        lines = [event for event in events if isinstance(event, History)][-1].lines
        inside, steps = sum(line["seconds"] for line in lines), lines[-1]["steps"]
        found = evaluate(model.predict(test.rows, 5, test.excluded), test)
        way = "replayed" if replays else "launched one by one"
        print(
            row([way, f"{seconds:.1f}", f"{inside:.1f}", f"{steps:,}", f"{1000 * inside / steps:.2f}",
                 *(f"{found[name]:.2f}" for name in ("P@1", "PSP@1", "C@5"))]),
            flush=True,
        )  # fmt: skip
        others = {name: spent for name, spent in stages.seconds.items() if spent > 0.3 and "epoch" not in name}
        print("   besides: " + ", ".join(f"{name} {spent:.1f} s" for name, spent in others.items()))


if __name__ == "__main__":
    main()
