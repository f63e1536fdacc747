"""Claim: a training step on 1,024 short texts a side keeps the matrix units of a GPU busy for 35% of the time or more.

    python benchmarks/encode_gpu.py [--texts 1024] [--steps 30] [--only WORDS] [--compiled] [--profile]

The encoder has the shape of all-MiniLM-L6-v2 with random weights (they do not change the speed). A step encodes 1,024
documents and 1,024 labels whose tokens are on the device, computes the in-batch softmax in both directions, its
gradients, clips them and updates the weights by AdamW. Measured: padded and packed texts in plain torch, compiled or
not, and packed texts with the library's kernels, launched one by one or replayed as one CUDA graph, which is how the
library trains. Texts have 16 tokens each, or 4 to 32 as titles do. Then the training loop itself, which also makes the
batches, and last the texts per second of `encode`. Prints milliseconds and rows per second, and the share: operations
of real tokens (without padding, one forward and two backward passes) against one large bf16 product in the same run.
`--profile` prints what the device spent a step on. Exits with 1 where the training loop with dropout does not reach 35%
on texts of 16 tokens. Needs a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from shared.command import parser_for

ENOUGH = 0.35
SHAPE = {"kind": "transformer", "vocabulary": 30_522}  # the defaults of Shape are those of all-MiniLM-L6-v2


def ceiling() -> float:
    """Operations a second of one large bf16 product, the best of several."""
    import torch

    left, right = (torch.randn(8_192, 8_192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    seconds = timed(lambda: left @ right, 20)
    return float(2 * 8_192**3 / seconds)


def timed(work: Callable[[], Any], times: int) -> float:
    """Seconds a call, after a warm-up; nothing but the end waits for the device."""
    import torch

    for _ in range(5):
        work()
    torch.cuda.synchronize()
    best = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        best.append((time.perf_counter() - begin) / times)
    return min(best)


def titles(rows: int, lengths: Any) -> Any:
    from longtail.nn.encoders.tokens import Tokens

    draw = np.random.default_rng(0)
    sizes = draw.choice(lengths, rows)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Tokens(draw.integers(1_000, 30_000, int(offsets[-1])).astype(np.uint16), offsets)


def count(encoder: Any) -> int:
    """Weights that each token is multiplied with."""
    return sum(weight.numel() for name, weight in encoder.named_parameters() if ".layers." in name and weight.ndim == 2)


def packed_in_plain_torch(encoder: Any, ids: Any, layout: Any) -> Any:
    """`encoder.packed` without the library's kernels."""
    return encoder.body._encode(ids, layout.places, layout, layout.longest)


def step_of(tokens: Any, texts: int, way: str, compiled: bool, dropout: float) -> tuple[Callable[[], Any], float]:
    """One training step, and how many operations its real tokens need."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    from longtail.nn.encoders.build import build_encoder
    from longtail.nn.encoders.cuda_graphs import RecordedEncoder
    from longtail.nn.encoders.layouts import Packed

    encoder = build_encoder({**SHAPE, "dropout": dropout, "attention_dropout": dropout}).cuda().train()
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-5, fused=True)
    batches = [tokens.batch(np.arange(side * texts, (side + 1) * texts), 512) for side in range(2)]
    padded = [tuple(part.cuda() for part in batch) for batch in batches]
    ids, layout = tokens.packed(np.arange(2 * texts), 512)
    run = ids.cuda(), Packed.of(layout.lengths.cuda(), len(ids), layout.longest)
    call: Any = encoder if way == "padded" else encoder.packed
    if way == "packed" and not compiled:  # what is compiled never uses the kernels
        call = partial(packed_in_plain_torch, encoder)
    if way == "replayed":
        call = RecordedEncoder(encoder, "bf16")
    if compiled:
        call = torch.compile(call, dynamic=False)
    own = torch.arange(texts, device="cuda")

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            found = torch.cat([call(*side) for side in padded]) if way == "padded" else call(*run)
        rows, labels = F.normalize(found, dim=1).split(texts)
        scores = rows @ labels.T / 0.05
        loss = F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimiser.step()

    return step, 6.0 * count(encoder) * len(ids)


def loop(lengths: Any, texts: int, steps: int, dropout: float, device: str, replay: bool) -> tuple[float, float]:
    """Seconds of a step of the training loop, batches included, and its operations: the best of some epochs."""
    import torch
    from scipy import sparse

    from longtail.nn.dual.contrastive_losses import softmax
    from longtail.nn.dual.dual_task import DualEncoderTask
    from longtail.nn.dual.pair_batches import Pairs
    from longtail.nn.encoders.build import build_encoder
    from longtail.nn.encoders.device_tokens import DeviceTokens
    from longtail.nn.training.loop import TrainingConfig, train

    rows = texts * steps
    there = torch.device(device)
    encoder = build_encoder({**SHAPE, "dropout": dropout, "attention_dropout": dropout}).to(there)
    tokens = titles(rows, lengths)
    sides = [DeviceTokens(tokens, there, 64) for _ in range(2)]
    pairs = Pairs(sparse.csr_array(sparse.eye_array(rows, dtype=np.float32)))
    task = DualEncoderTask(
        encoder,
        *sides,
        pairs,
        partial(softmax, both=True),
        batch_size=texts,
        epochs=4,
        learning_rate=1e-5,
        replay=replay,
    )
    history = train(task, TrainingConfig(epochs=4, validate_every=0), {})
    best = max(line["rows_per_second"] for line in history.lines)
    return texts / best, 6.0 * count(encoder) * 2 * len(tokens.ids) / steps


def profile(step: Callable[[], Any]) -> None:
    """What the device did in a step, and how long the host took to ask for it."""
    import torch
    from torch.profiler import ProfilerActivity

    begin = time.perf_counter()
    for _ in range(10):
        step()
    host = (time.perf_counter() - begin) / 10
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
    rows = sorted(seen.key_averages(), key=lambda row: -row.self_device_time_total)
    total = sum(row.self_device_time_total for row in rows) / 5
    print(f"    host {1000 * host:.2f} ms a step; device busy {total / 1000:.2f} ms:")
    for row in rows[:28]:
        print(f"    {row.self_device_time_total / 5:7.0f} us {row.count / 5:5.0f} x  {row.key[:100]}")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--texts", type=int, default=1_024, help="texts of a side")
    parser.add_argument("--steps", type=int, default=30, help="steps timed together")
    parser.add_argument("--only", nargs="+", default=[""], help="measure only what has one of these words in its name")
    parser.add_argument("--compiled", action="store_true", help="also plain torch compiled; takes a minute")
    parser.add_argument("--profile", action="store_true", help="print the kernels of a step")
    given = parser.parse_args()
    import torch

    from longtail.nn.encoders.build import build_encoder
    from longtail.nn.encoders.encode import encode

    if not torch.cuda.is_available():
        raise SystemExit("needs a GPU")
    most = ceiling()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; one large product: {most / 1e12:.0f} TFLOP/s")
    reached = 1.0
    kinds = (("16 tokens", np.array([16])), ("4 to 32 tokens", np.arange(4, 33)))
    ways = [("replayed", False), ("kernels", False), ("packed", False), ("padded", False)]
    ways += [("padded", True), ("packed", True)] if given.compiled else []
    for what, lengths in kinds:
        tokens = titles(2 * given.texts, lengths)
        for way, compiled in ways:
            for dropout in (0.1, 0.0):
                name = f"{what}, {way}{', compiled' if compiled else ''}{', dropout' if dropout else ''}"
                if not any(words in name for words in given.only):
                    continue
                begin = time.perf_counter()
                step, operations = step_of(tokens, given.texts, way, compiled, dropout)
                step()
                torch.cuda.synchronize()
                first = time.perf_counter() - begin
                seconds = timed(step, given.steps)
                rate, share = given.texts / seconds, operations / seconds / most
                print(f"  {name}: {1000 * seconds:.2f} ms, {rate:,.0f} rows/s, {share:.1%} (first {first:.1f} s)")
                if given.profile and dropout and what == "16 tokens":
                    profile(step)
                torch.cuda.empty_cache()
        for replay, dropout in ((True, 0.1), (True, 0.0), (False, 0.1)):
            name = f"{what}, the training loop{', replayed' if replay else ''}{', dropout' if dropout else ''}"
            if any(words in name for words in given.only):
                seconds, operations = loop(lengths, given.texts, 100, dropout, "cuda", replay)
                share = operations / seconds / most
                print(f"  {name}: {1000 * seconds:.2f} ms, {given.texts / seconds:,.0f} rows/s, {share:.1%}")
                reached = share if replay and dropout and what == "16 tokens" else reached
    encoder = build_encoder(SHAPE).cuda()
    for what, lengths in kinds if given.only == [""] else ():
        tokens = titles(200_000, lengths)
        encode(encoder, tokens)
        begin = time.perf_counter()
        encode(encoder, tokens)
        print(f"  encode, {what}: {len(tokens) / (time.perf_counter() - begin):,.0f} texts/s")
    raise SystemExit(reached < ENOUGH)


if __name__ == "__main__":
    main()
