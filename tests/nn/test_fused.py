"""The kernels between an encoder's products against plain torch and a float64 reference with the same dropout.

Needs triton and a GPU, or its interpreter: TRITON_INTERPRET=1 runs them on a CPU.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from longtail.nn import fused
from longtail.nn.layouts import Packed
from longtail.nn.transformer import Shape, Transformer

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or not (ON_GPU or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="needs triton, and a GPU or TRITON_INTERPRET=1",
)
LENGTHS = (3, 1, 16, 7, 9, 2)
PLAIN: dict[str, Any] = {"vocabulary": 40, "width": 48, "layers": 2, "heads": 3, "inner": 80, "places": 20}


@pytest.fixture(params=[0, 1024])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Below so many texts, all are read in the block of the longest."""
    monkeypatch.setattr("longtail.nn.kernels.attention.FEW", request.param)
    return int(request.param)


def body(**more: Any) -> Transformer:
    """With biases and scales that are not those it begins with, so that a lost one shows."""
    torch.manual_seed(0)
    made = Transformer(Shape(**{**PLAIN, "dropout": 0.0, "attention_dropout": 0.0, **more}))
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.1 * torch.randn(weight.shape))
    return made.to(DEVICE).train()


def texts(lengths: tuple[int, ...] = LENGTHS) -> tuple[Tensor, Packed]:
    ids = torch.randint(0, 40, (sum(lengths),), generator=torch.Generator().manual_seed(1))
    return ids.to(DEVICE), Packed.of(torch.tensor(lengths, device=DEVICE), sum(lengths), -(-max(lengths) // 8) * 8)


def gradients(made: Transformer, vectors: Tensor) -> dict[str, Tensor]:
    """Of a loss that pulls every number of every vector another way."""
    made.zero_grad()
    pull = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(2)).to(vectors)
    (vectors * pull).sum().backward()
    return {name: weight.grad.double().cpu() for name, weight in made.named_parameters() if weight.grad is not None}


def kept(seed: int, shape: tuple[int, ...], dropout: float, places: Tensor | None = None) -> Tensor:
    """What dropout multiplies with, from the words of `kernels.chance`."""
    place = np.arange(int(np.prod(shape))) if places is None else places.numpy().ravel()
    bits = (place.astype(np.uint64) * 0x9E3779B1).astype(np.uint32) ^ np.uint32(seed)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        bits = ((bits ^ (bits >> np.uint32(shift))).astype(np.uint64) * factor).astype(np.uint32)
    chance = (bits >> np.uint32(8)).astype(np.float64) / 2**24
    return torch.from_numpy(np.where(chance >= dropout, 1 / (1 - dropout), 0.0).reshape(shape))


def slow(made: Transformer, ids: Tensor, layout: Packed, seeds: list[int]) -> Tensor:
    """The transformer text by text in float64, with these dropouts."""
    shape, chance = made.shape, iter(seeds)
    dropout, tokens, width = shape.dropout, len(ids), shape.width
    states = made.words.weight[ids] + made.positions.weight[layout.places]
    states = F.layer_norm(states, (width,), made.norm.weight, made.norm.bias, shape.epsilon)
    states = states * kept(next(chance), (tokens, width), dropout)
    block = max(16, 2 ** int(np.ceil(np.log2(layout.longest))))
    for layer in made.layers:
        seed, first, second = (next(chance) for _ in range(3))
        split = states @ layer.attend.weight.T + layer.attend.bias
        mixed = []
        for text, (begin, end) in enumerate(zip(layout.ends[:-1].tolist(), layout.ends[1:].tolist(), strict=True)):
            queries, keys, values = split[begin:end].view(end - begin, 3, shape.heads, -1).permute(1, 2, 0, 3)
            chances = torch.softmax(queries @ keys.mT / values.shape[-1] ** 0.5, dim=-1)
            place = torch.arange(end - begin)
            rows = (text * shape.heads + torch.arange(shape.heads))[:, None, None] * block + place[:, None]
            at = rows * block + place
            chances = chances * kept(seed, tuple(at.shape), shape.attention_dropout, at)
            mixed.append((chances @ values).transpose(0, 1).flatten(1))
        added = torch.cat(mixed) @ layer.attended.weight.T + layer.attended.bias
        states = states + added * kept(first, (tokens, width), dropout)
        states = F.layer_norm(states, (width,), layer.attended_norm.weight, layer.attended_norm.bias, shape.epsilon)
        inner = F.gelu(states @ layer.widen.weight.T + layer.widen.bias)
        added = inner @ layer.narrow.weight.T + layer.narrow.bias
        states = states + added * kept(second, (tokens, width), dropout)
        states = F.layer_norm(states, (width,), layer.narrow_norm.weight, layer.narrow_norm.bias, shape.epsilon)
    return torch.stack([part.mean(0) for part in states.split(layout.lengths.tolist())])


def on_processor(made: Transformer) -> Transformer:
    copy = Transformer(made.shape).double()
    copy.load_state_dict({name: weight.double().cpu() for name, weight in made.state_dict().items()})
    return copy.train()


@pytest.mark.parametrize(
    ("activation", "pooling", "lengths"),
    [
        ("gelu", "mean", LENGTHS),
        ("gelu_new", "cls", LENGTHS),
        ("relu", "max", LENGTHS),
        ("gelu", "mean", (33, 5, 16, 20, 17)),
    ],
)
def test_kernels_do_what_plain_torch_does(activation: str, pooling: str, lengths: tuple[int, ...], few: int) -> None:
    made = body(activation=activation, pooling=pooling, places=40)
    ids, layout = texts(lengths)
    found = fused.encode(made, ids, layout, torch.float32)
    whole = on_processor(made)
    wanted = whole.packed(ids.cpu(), texts_on_processor(layout))
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)
    ours, theirs = gradients(made, found), gradients(whole, wanted)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-3 * float(theirs[name].std()) + 1e-6)


def texts_on_processor(layout: Packed) -> Packed:
    return Packed.of(layout.lengths.cpu(), len(layout.places), layout.longest)


def test_texts_that_fill_up_a_batch_change_nothing() -> None:
    made, whole = body(dropout=0.0), body(dropout=0.0)
    ids, layout = texts()
    more = torch.zeros(5, dtype=torch.int64, device=DEVICE)
    filled = Packed.of(torch.tensor((*LENGTHS, 5, 0, 0, 0), device=DEVICE), len(ids) + 5, layout.longest)
    found = fused.encode(made, torch.cat([ids, more]), filled, torch.float32)
    assert found.isfinite().all() and not found[-3:].any()
    found = found[: len(LENGTHS)]
    wanted = fused.encode(whole, ids, layout, torch.float32)
    torch.testing.assert_close(found, wanted)
    ours, theirs = gradients(made, found), gradients(whole, wanted)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lengths", [LENGTHS, (33, 5, 16, 20, 17)])
def test_dropout_is_the_same_forward_and_back(lengths: tuple[int, ...], few: int) -> None:
    made = body(dropout=0.3, attention_dropout=0.2, places=40)
    ids, layout = texts(lengths)
    torch.manual_seed(5)
    seeds = torch.randint(2**31 - 1, (7,), device=DEVICE, dtype=torch.int32).tolist()
    torch.manual_seed(5)
    found = fused.encode(made, ids, layout, torch.float32)
    whole = on_processor(made)
    wanted = slow(whole, ids.cpu(), texts_on_processor(layout), seeds)
    torch.testing.assert_close(found.double().cpu(), wanted, rtol=1e-4, atol=1e-4)
    ours, theirs = gradients(made, found), gradients(whole, wanted)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-3 * float(theirs[name].std()) + 1e-6)


def test_what_is_kept_looks_drawn_by_chance() -> None:
    drawn = torch.stack([(kept(seed, (400, 384), 0.1) > 0).double() for seed in (1, 2, 123_456_789)])
    assert drawn.mean(dim=(1, 2)) == pytest.approx(0.9, abs=0.005)  # 5 deviations are 0.0038
    assert drawn.mean(2).std() == pytest.approx((0.09 / 384) ** 0.5, rel=0.1)
    assert drawn.mean(1).std() == pytest.approx((0.09 / 400) ** 0.5, rel=0.1)
    flat = drawn.flatten(1) - drawn.mean()
    pairs = [(flat[0, step:], flat[0, :-step]) for step in (1, 2, 16, 384)] + [(flat[0], flat[1]), (flat[1], flat[2])]
    for one, other in pairs:
        assert abs(float((one * other).mean() / 0.09)) < 0.013  # 5 deviations


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_half_precision_is_no_worse_than_in_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    made = body(vocabulary=500, width=384, layers=6, heads=12, inner=1536)
    lengths = tuple(np.random.default_rng(0).integers(1, 17, 300).tolist())
    ids, layout = texts(lengths)
    whole = on_processor(made)
    wanted = whole.packed(ids.cpu(), texts_on_processor(layout))
    theirs = torch.cat([one.flatten() for one in gradients(whole, wanted).values()])
    misses = {}
    for way in ("kernels", "plain"):
        with monkeypatch.context() as patch, torch.autocast("cuda", torch.bfloat16):
            if way == "plain":
                patch.setattr(fused, "can_fuse", lambda *_: False)
            found = made.packed(ids, layout)
        ours = torch.cat([one.flatten() for one in gradients(made, found).values()])
        vectors = (found.double().cpu() - wanted).norm() / wanted.norm()
        misses[way] = (float(vectors.detach()), float((ours - theirs).norm() / theirs.norm()))
    assert misses["kernels"][0] <= 1.05 * misses["plain"][0]
    assert misses["kernels"][1] <= 1.05 * misses["plain"][1]


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_a_step_is_the_same_to_the_bit() -> None:
    found = []
    for _ in range(2):
        made = body(dropout=0.1, attention_dropout=0.1)
        torch.manual_seed(3)
        with torch.autocast("cuda", torch.bfloat16):
            vectors = made.packed(*texts())
        found.append(gradients(made, vectors))
    for name, gradient in found[0].items():
        assert torch.equal(gradient, found[1][name]), name
