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
