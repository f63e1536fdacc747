"""The fused kernels of the head against float64 and against the plain path, on a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

from scipy import sparse  # noqa: E402

from longtail.nn.heads.entries import Targets  # noqa: E402
from longtail.nn.heads.head import Head, HeadSettings  # noqa: E402
from longtail.nn.heads.top import top  # noqa: E402

GPU = torch.device("cuda")
SIZES = [(1, 7, 3), (5, 13, 16), (257, 1001, 100), (64, 3000, 384), (1024, 5003, 768)]
KINDS = {
    "bce": HeadSettings(),
    "hinge": HeadSettings(loss="hinge"),
    "bias and momentum": HeadSettings(bias=-2.0, momentum=0.5),
    "compensated": HeadSettings(compensated=0.3),
    "fp8": HeadSettings(precision="fp8"),
}


def case(rows: int, labels: int, dimension: int):
    chance = np.random.default_rng(0)
    targets = sparse.random_array((rows, labels), density=min(5 / labels, 0.3), rng=chance, format="csr")
    targets.data = np.maximum(targets.data, 0.05).astype(np.float32)
    targets = sparse.csr_array(targets.astype(np.float32))
    vectors = torch.from_numpy(chance.normal(size=(rows, dimension)).astype(np.float32) / dimension**0.5).cuda()
    return targets, vectors.bfloat16().float()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_fused_step_is_the_gradient_in_float64(size, name) -> None:
    rows, labels, dimension = size
    targets, vectors = case(*size)
    settings = replace(KINDS[name], weight_decay=0.2, chunk=700, kernels="fused")
    if settings.precision == "auto":
        settings = replace(settings, precision="bf16")
    head = Head(labels, dimension, settings, GPU, counts=np.arange(labels), spread=0.5)
    before = head.rows(torch.arange(labels, device=GPU)).double()
    bias = 0 if head.bias is None else head.bias.double()
    scores = vectors.double() @ before.T + bias
    t = torch.from_numpy(targets.toarray()).cuda().double()
    if settings.loss == "bce":
        slopes = scores.sigmoid() - t
    else:
        slopes = 2 * (1 - t) * (1 + scores).clamp(min=0) - 2 * t * (1 - scores).clamp(min=0)
    rate = 0.01
    found = head.step(vectors, Targets(targets).batch(np.arange(rows), GPU), rate)
    wanted = slopes @ before
    assert (found - wanted).abs().max() <= 0.01 * wanted.abs().max() + 1e-3
    after = head.rows(torch.arange(labels, device=GPU)).double()
    moved = before * (1 - rate * 0.2) - rate * (slopes.T @ vectors.double())
    step = {"fp8": 2.0**-3}.get(name, 2.0**-7)  # the gap to the next number is at most this share
    assert ((after - moved).abs() <= step * moved.abs() + 1e-3).all()
    error = ((after - moved) / (moved.abs() + 1e-2)).mean().abs()
    assert error < 5 * step / (labels * dimension) ** 0.5 + 2e-4  # rounded to neither side
    if head.bias is not None:
        assert (head.bias - (bias - rate * slopes.sum(dim=0))).abs().max() < 0.01 * rows * rate


@pytest.mark.parametrize("size", SIZES)
def test_half_a_target_pulls_half(size) -> None:
    rows, labels, dimension = size
    pulls = []
    for target in (1e-7, 0.5, 1.0):
        targets, vectors = case(*size)
        targets.data[:] = target
        head = Head(labels, dimension, HeadSettings(kernels="fused", precision="bf16"), GPU, spread=0.5)
        pulls.append(head.step(vectors, Targets(targets).batch(np.arange(rows), GPU), 1e-3))
    scale = pulls[2].abs().max()
    assert ((pulls[0] + pulls[2]) / 2 - pulls[1]).abs().max() < 0.01 * scale
    assert (pulls[2] - pulls[0]).abs().max() > 1e-3


@pytest.mark.parametrize("bias", [None, -1.0])
@pytest.mark.parametrize(
    ("rows", "labels", "dimension", "k"), [(1, 9001, 48, 5), (300, 70_000, 384, 5), (77, 50_001, 100, 20)]
)
def test_the_fused_top_finds_the_best(rows, labels, dimension, k, bias) -> None:
    head = Head(labels, dimension, HeadSettings(precision="bf16", bias=bias), GPU, spread=1.0)
    if head.bias is not None:
        head.bias.normal_()
    vectors = torch.randn(rows, dimension, device=GPU)
    found, scores = top(head, vectors, k)
    wanted = head.scores(vectors).topk(k)
    torch.testing.assert_close(scores, wanted.values, rtol=1e-4, atol=1e-3)
    assert (found == wanted.indices).float().mean() > 0.999
