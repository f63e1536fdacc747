"""Claim: a training step on 1,024 short texts a side keeps a GPU's matrix units busy for 35% of the time or more.

    python benchmarks/encode_gpu.py [--texts 1024] [--steps 30] [--only WORDS]

The encoder has the shape of all-MiniLM-L6-v2 with random weights (speed does not depend on them). A step encodes 1,024
rows and 1,024 labels whose tokens lie on the device, takes the in-batch softmax both ways, goes back and moves the
weights by AdamW. Ways to do it: padded or packed texts, plain or compiled, with and without dropout. Texts have 16
tokens each, or 4 to 32 as titles do. The share is the multiplications of real tokens (padding does not count, three
passes: one forward, two back) against what the same GPU reaches in one large bf16 product in the same run. Then: texts
encoded a second, by `encode`. Exits with 1 where no way reaches 35% on texts of 16 tokens.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ENOUGH = 0.35
SHAPE = {"kind": "transformer", "vocabulary": 30_522}  # the rest of all-MiniLM-L6-v2 is how a Shape begins


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
    from longtail.nn.tokens import Tokens

    draw = np.random.default_rng(0)
    sizes = draw.choice(lengths, rows)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Tokens(draw.integers(1_000, 30_000, int(offsets[-1])).astype(np.uint16), offsets)


def step_of(tokens: Any, texts: int, packed: bool, compiled: bool, dropout: float) -> tuple[Callable[[], Any], float]:
    """One training step, and how many operations its real tokens need."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    from longtail.nn.encoders import build_encoder
    from longtail.nn.layouts import Packed

    encoder = build_encoder({**SHAPE, "dropout": dropout, "attention_dropout": dropout}).cuda().train()
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-5, fused=True)
    sides, count = [], 0
    for number in range(2):
        rows = np.arange(number * texts, (number + 1) * texts)
        ids, layout = tokens.packed(rows, 512)
        count += len(ids)
        if packed:
            there = Packed.of(layout.lengths.cuda(), len(ids), layout.longest)
            sides.append((ids.cuda(), there))
        else:
            sides.append(tuple(part.cuda() for part in tokens.batch(rows, 512)))
    call: Any = encoder.packed if packed else encoder
    if compiled:
        call = torch.compile(call, dynamic=False)
    own = torch.arange(texts, device="cuda")

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            rows, labels = (F.normalize(call(*side), dim=1) for side in sides)
            scores = (rows @ labels.T).float() / 0.05
        loss = F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)
        loss.backward()
        optimiser.step()

    layers = [weight for name, weight in encoder.named_parameters() if ".layers." in name]
    matrices = sum(weight.numel() for weight in layers if weight.ndim == 2)
    return step, 6.0 * matrices * count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=1_024)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--only", default="", help="ways whose name holds this")
    given = parser.parse_args()
    import torch

    from longtail.nn.encode import encode
    from longtail.nn.encoders import build_encoder

    if not torch.cuda.is_available():
        raise SystemExit("needs a GPU")
    torch.set_float32_matmul_precision("high")
    most = ceiling()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; one large product: {most / 1e12:.0f} TFLOP/s")
    reached = []
    for what, lengths in (("16 tokens", np.array([16])), ("4 to 32 tokens", np.arange(4, 33))):
        tokens = titles(2 * given.texts, lengths)
        for packed in (False, True):
            for compiled in (False, True):
                for dropout in (0.1, 0.0):
                    name = f"{what}, {'packed' if packed else 'padded'}, {'compiled' if compiled else 'plain'}"
                    name += ", dropout" if dropout else ""
                    if given.only not in name:
                        continue
                    begin = time.perf_counter()
                    try:
                        step, operations = step_of(tokens, given.texts, packed, compiled, dropout)
                        step()
                        torch.cuda.synchronize()
                        first = time.perf_counter() - begin
                        seconds = timed(step, given.steps)
                    except Exception as error:  # a way that this machine lacks is one line, not the end
                        print(f"  {name}: failed, {type(error).__name__}: {str(error).splitlines()[0][:160]}")
                        continue
                    share = operations / seconds / most
                    rate = given.texts / seconds
                    print(f"  {name}: {1000 * seconds:.2f} ms, {rate:,.0f} rows/s, {share:.0%} (first {first:.1f} s)")
                    if what == "16 tokens":
                        reached.append(share)
                    torch.cuda.empty_cache()
    encoder = build_encoder(SHAPE).cuda()
    for what, lengths in (("16 tokens", np.array([16])), ("4 to 32 tokens", np.arange(4, 33))):
        tokens = titles(200_000, lengths)
        encode(encoder, tokens)
        begin = time.perf_counter()
        encode(encoder, tokens)
        print(f"  encode, {what}: {len(tokens) / (time.perf_counter() - begin):,.0f} texts/s")
    raise SystemExit(bool(reached) and max(reached) < ENOUGH)


if __name__ == "__main__":
    main()
