"""The fused kernels of the head against float64 and against the plain path.

They run on a GPU or, where there is none, in Triton's interpreter.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from triton_device import DEVICE, ON_GPU, interpreter, needs_triton

from longtail.nn.onevsall.batch_targets import TrainingTargets
from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead
from longtail.nn.onevsall.head_top import top
from longtail.nn.onevsall.positive_loss import positive_loss
from longtail.nn.onevsall.recorded_head import PaddedTargets, RecordedHead

__all__ = ["interpreter"]  # a fixture
pytestmark = needs_triton
PLACE = torch.device(DEVICE)
# The interpreter is slow: for it, just enough for several tiles and chunks each way.
LARGE = [(257, 1001, 100), (64, 3000, 384), (1024, 5003, 768)] if ON_GPU else [(64, 260, 70), (130, 720, 130)]
SIZES = [(1, 7, 3), (5, 13, 16), *LARGE]
ASKED = (
    [(1, 9001, 48, 5), (300, 70_000, 384, 5), (77, 50_001, 100, 20)]
    if ON_GPU
    else [(1, 9001, 48, 5), (130, 3601, 34, 5), (7, 12_001, 30, 20)]
)  # rows, labels, dimension, k
KINDS = {
    "bce": HeadSettings(),
    "hinge": HeadSettings(loss="hinge"),
    "bias and momentum": HeadSettings(bias=-2.0, momentum=0.5),
    "compensated": HeadSettings(compensated=0.3),
    "fp8": HeadSettings(precision="fp8"),
}


@pytest.fixture(autouse=True)
def processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few programs without a GPU: each goes on to its next tile several times."""
    if not ON_GPU:
        monkeypatch.setattr("longtail.nn.onevsall.fused_head._processors", lambda: 2)


def case(rows: int, labels: int, dimension: int):
    rng = np.random.default_rng(0)
    some = 5 if ON_GPU else 1  # of a row: the interpreter takes a while for each
    targets = sparse.random_array((rows, labels), density=min(some / labels, 0.3), rng=rng, format="csr")
    targets.data = np.maximum(targets.data, 0.05).astype(np.float32)
    targets = sparse.csr_array(targets.astype(np.float32))
    vectors = torch.from_numpy(rng.normal(size=(rows, dimension)).astype(np.float32) / dimension**0.5)
    vectors = vectors.to(PLACE)
    return targets, vectors.bfloat16().float()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_fused_step_is_the_gradient_in_float64(size, name) -> None:
    rows, labels, dimension = size
    targets, vectors = case(*size)
    settings = replace(KINDS[name], weight_decay=0.2, chunk=700, kernels="fused")
    if settings.precision == "auto":
        settings = replace(settings, precision="bf16")
    head = OneVsAllHead(labels, dimension, settings, PLACE, counts=np.arange(labels), std=0.5)
    before = head.rows(torch.arange(labels, device=PLACE)).double()
    bias = 0 if head.bias is None else head.bias.double()
    scores = vectors.double() @ before.T + bias
    t = torch.from_numpy(targets.toarray()).to(PLACE).double()
    if settings.loss == "bce":
        gradients = scores.sigmoid() - t
    else:
        gradients = 2 * (1 - t) * (1 + scores).clamp(min=0) - 2 * t * (1 - scores).clamp(min=0)
    rate = 0.01
    found = head.step(vectors, TrainingTargets(targets).batch(np.arange(rows), PLACE), rate)
    expected = gradients @ before
    assert (found - expected).abs().max() <= 0.01 * expected.abs().max() + 1e-3
    after = head.rows(torch.arange(labels, device=PLACE)).double()
    updated = before * (1 - rate * 0.2) - rate * (gradients.T @ vectors.double())
    step = {"fp8": 2.0**-3}.get(name, 2.0**-7)  # the gap to the next number is at most this share
    assert ((after - updated).abs() <= step * updated.abs() + 1e-3).all()
    error = ((after - updated) / (updated.abs() + 1e-2)).mean().abs()
    assert error < 5 * step / (labels * dimension) ** 0.5 + 2e-4  # rounded to neither side
    if head.bias is not None:
        assert (head.bias - (bias - rate * gradients.sum(dim=0))).abs().max() < 0.01 * rows * rate


def decayed(head: OneVsAllHead, steps: int, share: float) -> torch.Tensor:
    """The weights after steps that take this share of them each: vectors of zeros have no gradient."""
    nothing = TrainingTargets(sparse.csr_array((4, head.labels), dtype=np.float32)).batch(np.arange(4), PLACE)
    for _ in range(steps):
        head.step(torch.zeros(4, head.dimension, device=PLACE), nothing, share / head.settings.weight_decay)
    return head.rows(torch.arange(head.labels, device=PLACE)).double()


@pytest.mark.parametrize(("precision", "std"), [("bf16", 0.5), ("fp8", 0.5), ("fp8", 1e-4)])
def test_rounding_favours_no_side(precision, std) -> None:
    """Neither up nor down, nor towards zero; also of numbers so small that the steps of fp8 no longer shrink."""
    settings = HeadSettings(precision=precision, weight_decay=0.1, kernels="fused")
    head = OneVsAllHead(300, 64, settings, PLACE, std=std)
    expected = head.rows(torch.arange(300, device=PLACE)).double() * 0.99
    miss = decayed(head, 1, 0.01) - expected
    for signed in (miss, miss * expected.sign()):
        assert signed.mean().abs() < 5 * signed.std() / signed.numel() ** 0.5


def test_what_rounding_took_is_made_up_for() -> None:
    """A step of a thousandth is below half of what bf16 can hold, so weights would never move without it."""
    settings = HeadSettings(precision="bf16", weight_decay=0.1, compensated=1.0, kernels="fused")
    head = OneVsAllHead(70, 64, settings, PLACE, counts=np.arange(70), std=0.5)
    expected = head.rows(torch.arange(70, device=PLACE)).double() * 0.999**30
    assert ((decayed(head, 30, 0.001) - expected).abs() <= 2.0**-8 * expected.abs()).all()


@pytest.mark.parametrize("size", SIZES)
def test_half_a_target_gives_half_the_gradient(size) -> None:
    rows, labels, dimension = size
    found = []
    for target in (1e-7, 0.5, 1.0):
        targets, vectors = case(*size)
        targets.data[:] = target
        head = OneVsAllHead(labels, dimension, HeadSettings(kernels="fused", precision="bf16"), PLACE, std=0.5)
        found.append(head.step(vectors, TrainingTargets(targets).batch(np.arange(rows), PLACE), 1e-3))
    scale = found[2].abs().max()
    assert ((found[0] + found[2]) / 2 - found[1]).abs().max() < 0.01 * scale
    assert (found[2] - found[0]).abs().max() > 1e-3


@pytest.mark.parametrize("bias", [None, -1.0])
@pytest.mark.parametrize(("rows", "labels", "dimension", "k"), ASKED)
def test_the_fused_top_finds_the_best(rows, labels, dimension, k, bias) -> None:
    head = OneVsAllHead(labels, dimension, HeadSettings(precision="bf16", bias=bias, kernels="fused"), PLACE, std=1.0)
    if head.bias is not None:
        head.bias.normal_()
    vectors = torch.randn(rows, dimension, device=PLACE)
    found, scores = top(head, vectors, k)
    expected = head.scores(vectors).topk(k)
    torch.testing.assert_close(scores, expected.values, rtol=1e-4, atol=1e-3)
    assert (found == expected.indices).float().mean() > 0.999


@pytest.mark.parametrize("chunk", [700, 100_000])
def test_targets_with_padding_give_the_same_bits(chunk) -> None:
    rows, labels, dimension = SIZES[2]
    targets, vectors = case(rows, labels, dimension)
    batch = TrainingTargets(targets).batch(np.arange(rows), PLACE)
    padded = PaddedTargets.empty(len(batch.labels) + 9, PLACE)
    padded.fill(batch)
    settings = HeadSettings(kernels="fused", precision="bf16", bias=-1.0, chunk=chunk)
    one, other = (OneVsAllHead(labels, dimension, settings, PLACE, std=0.5) for _ in range(2))
    assert torch.equal(positive_loss(one, vectors, padded)[1], torch.tensor(float(len(batch.labels)), device=PLACE))
    torch.testing.assert_close(positive_loss(one, vectors, padded), positive_loss(one, vectors, batch))
    expected = one.step(vectors, batch, 0.01)
    other.done = 1
    numbers = torch.from_numpy(other.step_numbers(0.01)).to(PLACE)
    assert torch.equal(other.fused_step(vectors, padded, numbers), expected)
    assert torch.equal(one.weight, other.weight) and torch.equal(one.bias, other.bias)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("name", [name for name in KINDS if name != "compensated"])
def test_a_replayed_step_has_the_bits_of_a_launched_one(name) -> None:
    rows, labels, dimension = LARGE[1]
    targets, _ = case(rows * 6, labels, dimension)
    heads = [OneVsAllHead(labels, dimension, KINDS[name], PLACE, counts=np.arange(labels)) for _ in range(2)]
    recorded, replayed = RecordedHead(heads[0]), 0
    for number in range(6):
        vectors = torch.randn(rows, dimension, device=PLACE) / 20
        batch = TrainingTargets(targets).batch(np.arange(number * rows, (number + 1) * rows), PLACE)
        found = recorded(vectors, batch, 0.1 / (1 + number))
        replayed += found is not None
        gradient = heads[0].step(vectors, batch, 0.1 / (1 + number)) if found is None else found[1]
        assert torch.equal(gradient, heads[1].step(vectors, batch, 0.1 / (1 + number)))
    assert replayed >= 3
    for key, buffer in heads[0].state_dict().items():
        assert torch.equal(buffer, heads[1].state_dict()[key]), key
