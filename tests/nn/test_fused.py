"""The kernels between an encoder's products against plain torch and a float64 reference with the same dropout.

They run on a GPU or, where there is none, in Triton's interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from triton_device import DEVICE, ON_GPU, interpreter, needs_triton

from longtail.data import Corpus
from longtail.data.write import write_folder
from longtail.nn.encoders import fused_transformer as fused
from longtail.nn.encoders.layouts import Packed
from longtail.nn.encoders.transformer import Transformer
from longtail.nn.encoders.transformer_layer import Shape

__all__ = ["interpreter"]  # a fixture
pytestmark = needs_triton
LENGTHS = (3, 1, 16, 7, 9, 2)
LAYERS = 2 if ON_GPU else 1  # where a second layer shows nothing new: the interpreter is slow
PLAIN: dict[str, Any] = {"vocabulary": 40, "width": 48, "layers": 2, "heads": 3, "inner": 80, "places": 20}


@pytest.fixture(params=[0, 1024])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Below so many texts, all are computed in the block size of the longest."""
    monkeypatch.setattr("longtail.nn.kernels.attention.FEW", request.param)
    return int(request.param)


def body(**more: Any) -> Transformer:
    """A transformer whose biases and scales are not the initial ones, so that a missing one shows."""
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
    """Gradients of a loss that weights every number of every vector differently."""
    made.zero_grad()
    weights = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(2)).to(vectors)
    (vectors * weights).sum().backward()
    return {name: weight.grad.double().cpu() for name, weight in made.named_parameters() if weight.grad is not None}


def kept(seed: int, shape: tuple[int, ...], dropout: float, places: Tensor | None = None) -> Tensor:
    """What dropout multiplies with: the hash of `kernels/dropout_mask.py` in NumPy."""
    place = np.arange(int(np.prod(shape))) if places is None else places.numpy().ravel()
    bits = (place.astype(np.uint64) * 0x9E3779B1).astype(np.uint32) ^ np.uint32(seed)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        bits = ((bits ^ (bits >> np.uint32(shift))).astype(np.uint64) * factor).astype(np.uint32)
    uniform = (bits >> np.uint32(8)).astype(np.float64) / 2**24
    return torch.from_numpy(np.where(uniform >= dropout, 1 / (1 - dropout), 0.0).reshape(shape))


def slow(made: Transformer, ids: Tensor, layout: Packed, seeds: list[int]) -> Tensor:
    """The transformer text by text in float64, with dropout of these seeds."""
    shape, remaining = made.shape, iter(seeds)
    dropout, tokens, width = shape.dropout, len(ids), shape.width
    states = made.words.weight[ids] + made.positions.weight[layout.places]
    states = F.layer_norm(states, (width,), made.norm.weight, made.norm.bias, shape.epsilon)
    states = states * kept(next(remaining), (tokens, width), dropout)
    block = max(16, 2 ** int(np.ceil(np.log2(layout.longest))))
    for layer in made.layers:
        seed, first, second = (next(remaining) for _ in range(3))
        split = states @ layer.attend.weight.T + layer.attend.bias
        mixed = []
        for text, (begin, end) in enumerate(zip(layout.ends[:-1].tolist(), layout.ends[1:].tolist(), strict=True)):
            queries, keys, values = split[begin:end].view(end - begin, 3, shape.heads, -1).permute(1, 2, 0, 3)
            probabilities = torch.softmax(queries @ keys.mT / values.shape[-1] ** 0.5, dim=-1)
            place = torch.arange(end - begin)
            rows = (text * shape.heads + torch.arange(shape.heads))[:, None, None] * block + place[:, None]
            at = rows * block + place
            probabilities = probabilities * kept(seed, tuple(at.shape), shape.attention_dropout, at)
            mixed.append((probabilities @ values).transpose(0, 1).flatten(1))
        added = torch.cat(mixed) @ layer.attended.weight.T + layer.attended.bias
        states = states + added * kept(first, (tokens, width), dropout)
        states = F.layer_norm(states, (width,), layer.attended_norm.weight, layer.attended_norm.bias, shape.epsilon)
        inner = F.gelu(states @ layer.widen.weight.T + layer.widen.bias)
        added = inner @ layer.narrow.weight.T + layer.narrow.bias
        states = states + added * kept(second, (tokens, width), dropout)
        states = F.layer_norm(states, (width,), layer.narrow_norm.weight, layer.narrow_norm.bias, shape.epsilon)
    return torch.stack([part.mean(0) for part in states.split(layout.lengths.tolist())])


def on_cpu(made: Transformer) -> Transformer:
    copy = Transformer(made.shape).double()
    copy.load_state_dict({name: weight.double().cpu() for name, weight in made.state_dict().items()})
    return copy.train()


@pytest.mark.parametrize(
    ("activation", "pooling", "lengths", "layers"),
    [
        ("gelu", "mean", LENGTHS, 2),
        ("gelu_new", "cls", LENGTHS, LAYERS),
        ("relu", "max", LENGTHS, LAYERS),
        ("gelu", "mean", (33, 5, 16, 20, 17), LAYERS),
    ],
)
def test_kernels_do_what_plain_torch_does(
    activation: str, pooling: str, lengths: tuple[int, ...], layers: int, few: int
) -> None:
    made = body(activation=activation, pooling=pooling, places=40, layers=layers)
    ids, layout = texts(lengths)
    found = fused.encode(made, ids, layout, torch.float32)
    whole = on_cpu(made)
    wanted = whole.packed(ids.cpu(), texts_on_cpu(layout))
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)
    ours, theirs = gradients(made, found), gradients(whole, wanted)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-3 * float(theirs[name].std()) + 1e-6)


def texts_on_cpu(layout: Packed) -> Packed:
    return Packed.of(layout.lengths.cpu(), len(layout.places), layout.longest)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # a text without tokens has no largest score
def test_padding_texts_change_nothing() -> None:
    made, whole = body(layers=LAYERS), body(layers=LAYERS)
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


@pytest.mark.parametrize(("lengths", "layers"), [(LENGTHS, 2), ((33, 5, 16, 20, 17), LAYERS)])
def test_dropout_is_the_same_forward_and_back(lengths: tuple[int, ...], layers: int, few: int) -> None:
    made = body(dropout=0.3, attention_dropout=0.2, places=40, layers=layers)
    ids, layout = texts(lengths)
    torch.manual_seed(5)
    seeds = torch.randint(2**31 - 1, (1 + 3 * layers,), device=DEVICE, dtype=torch.int32).tolist()
    torch.manual_seed(5)
    found = fused.encode(made, ids, layout, torch.float32)
    whole = on_cpu(made)
    wanted = slow(whole, ids.cpu(), texts_on_cpu(layout), seeds)
    torch.testing.assert_close(found.double().cpu(), wanted, rtol=1e-4, atol=1e-4)
    ours, theirs = gradients(made, found), gradients(whole, wanted)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-3 * float(theirs[name].std()) + 1e-6)


def test_dropout_masks_look_random() -> None:
    drawn = torch.stack([(kept(seed, (400, 384), 0.1) > 0).double() for seed in (1, 2, 123_456_789)])
    assert drawn.mean(dim=(1, 2)) == pytest.approx(0.9, abs=0.005)  # 5 deviations are 0.0038
    assert drawn.mean(2).std() == pytest.approx((0.09 / 384) ** 0.5, rel=0.1)
    assert drawn.mean(1).std() == pytest.approx((0.09 / 400) ** 0.5, rel=0.1)
    flat = drawn.flatten(1) - drawn.mean()
    pairs = [(flat[0, step:], flat[0, :-step]) for step in (1, 2, 16, 384)] + [(flat[0], flat[1]), (flat[1], flat[2])]
    for one, other in pairs:
        assert abs(float((one * other).mean() / 0.09)) < 0.013  # 5 deviations


def lowered(made: Transformer, ids: Tensor, layout: Packed, kernels: bool = True) -> Tensor:
    """What a training in bfloat16 computes; on a GPU the encoder itself chooses the kernels."""
    if kernels and not ON_GPU:
        return fused.encode(made, ids, layout, torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch, torch.autocast(DEVICE, torch.bfloat16):
        if not kernels:
            patch.setattr(fused, "can_fuse", lambda *_: False)
        return made.packed(ids, layout)


def test_half_precision_is_no_worse_than_in_plain_torch() -> None:
    layers, number = (6, 300) if ON_GPU else (1, 12)  # the interpreter is slow
    made = body(vocabulary=500, width=384, layers=layers, heads=12, inner=1536)
    lengths = tuple(np.random.default_rng(0).integers(1, 17, number).tolist())
    ids, layout = texts(lengths)
    whole = on_cpu(made)
    wanted = whole.packed(ids.cpu(), texts_on_cpu(layout))
    theirs = torch.cat([one.flatten() for one in gradients(whole, wanted).values()])
    misses = {}
    for way in ("kernels", "plain"):
        found = lowered(made, ids, layout, kernels=way == "kernels")
        ours = torch.cat([one.flatten() for one in gradients(made, found).values()])
        vectors = (found.double().cpu() - wanted).norm() / wanted.norm()
        misses[way] = (float(vectors.detach()), float((ours - theirs).norm() / theirs.norm()))
    assert misses["kernels"][0] <= 1.05 * misses["plain"][0]
    assert misses["kernels"][1] <= 1.05 * misses["plain"][1]


def test_a_step_is_the_same_to_the_bit() -> None:
    found = []
    for _ in range(2):
        made = body(dropout=0.1, attention_dropout=0.1, layers=LAYERS)
        torch.manual_seed(3)
        found.append(gradients(made, lowered(made, *texts())))
    for name, gradient in found[0].items():
        assert torch.equal(gradient, found[1][name]), name


TRAIN = """
import sys, longtail
corpus = longtail.load(sys.argv[1])
for recipe in sys.argv[2:]:
    longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid)
found = [name for name in sys.modules if name.startswith(("longtail.nn.kernels", "longtail.nn.onevsall.fused_head"))]
assert not found, found
"""
LEARNERS = (
    "dpr(encoder='tiny', epochs=1)",
    "astec(dimension=8, epochs=1)",
    "renee(encoder='tiny', epochs=1, head_precision='bf16')",
    "unidec(encoder='tiny', dimension=16, epochs=1)",
)


def test_a_training_without_a_gpu_uses_plain_torch(tiny: Corpus, tmp_path: Path) -> None:
    """Also where triton is installed: no kernel is imported."""
    command = [sys.executable, "-c", TRAIN, str(write_folder(tiny, tmp_path / "tiny")), *LEARNERS]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stderr
