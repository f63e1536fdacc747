"""The chunked head against autograd in float64, at odd sizes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import sparse  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from longtail.errors import DataError, RecipeError  # noqa: E402
from longtail.nn.onevsall.batch_targets import TrainingTargets  # noqa: E402
from longtail.nn.onevsall.head import HeadSettings, OneVsAllHead  # noqa: E402
from longtail.nn.onevsall.stochastic_rounding import stochastic_round  # noqa: E402

CPU = torch.device("cpu")


def some_targets(rows: int, labels: int, seed: int = 0, soft: bool = True) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.random((rows, labels)) * (rng.random((rows, labels)) < 0.1)
    dense[rows // 2] = 0  # a row without positives
    return sparse.csr_array(dense.astype(np.float32) if soft else (dense > 0).astype(np.float32))


def reference(weights, bias, vectors, targets, loss="bce", positive=1.0, inverse=None):
    """The summed loss by its definition, in float64, and its gradients."""
    weights, vectors = (torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in (weights, vectors))
    own = None if bias is None else torch.tensor(bias, dtype=torch.float64, requires_grad=True)
    scores = vectors @ weights.T
    if own is not None:
        scores = scores + own
    t = torch.tensor(targets.toarray(), dtype=torch.float64)
    if inverse is not None:
        t = t * torch.tensor(inverse, dtype=torch.float64)
    if loss == "bce":
        right, wrong = torch.nn.functional.softplus(-scores), torch.nn.functional.softplus(scores)
    else:
        right, wrong = (1 - scores).clamp(min=0) ** 2, (1 + scores).clamp(min=0) ** 2
    (positive * t * right + (1 - t) * wrong).sum().backward()
    return vectors.grad.numpy(), weights.grad.numpy(), None if own is None else own.grad.numpy()


SIZES = [(1, 7, 3), (5, 13, 16), (8, 257, 33), (33, 100, 48)]


@pytest.mark.parametrize(
    ("size", "loss", "bias", "chunk"), list(product(SIZES, ["bce", "hinge"], [None, -2.0], [None, 5]))
)
def test_a_step_is_the_gradient_of_the_summed_loss(size, loss, bias, chunk) -> None:
    rows, labels, dimension = size
    rng = np.random.default_rng(1)
    targets = some_targets(rows, labels)
    positive, inverse = 1.7, (1 + 3 * rng.random(labels)).astype(np.float32)
    settings = HeadSettings(loss=loss, precision="fp32", weight_decay=0.3, bias=bias, chunk=chunk)
    head = OneVsAllHead(labels, dimension, settings, CPU)
    before = head.rows(torch.arange(labels)).numpy()
    vectors = rng.normal(size=(rows, dimension)).astype(np.float32)
    own = None if bias is None else head.bias.numpy().copy()
    expected = reference(before, own, vectors, targets, loss, positive, inverse)
    entries = TrainingTargets(targets, positive, inverse).batch(np.arange(rows), CPU)
    found = head.step(torch.from_numpy(vectors), entries, learning_rate=0.01)
    np.testing.assert_allclose(found, expected[0], rtol=2e-5, atol=2e-5)
    updated = before * (1 - 0.01 * 0.3) - 0.01 * expected[1]
    np.testing.assert_allclose(head.rows(torch.arange(labels)), updated, rtol=2e-5, atol=2e-6)
    if bias is not None:
        np.testing.assert_allclose(head.bias, own - 0.01 * expected[2], rtol=2e-5)


def test_bce_is_that_of_torch() -> None:
    targets = some_targets(6, 9)
    head = OneVsAllHead(9, 4, HeadSettings(precision="fp32"), CPU)
    vectors = torch.randn(6, 4, requires_grad=True)
    loss = binary_cross_entropy_with_logits(head.scores(vectors), torch.from_numpy(targets.toarray()), reduction="sum")
    loss.backward()
    found = head.step(vectors, TrainingTargets(targets).batch(np.arange(6), CPU), 0.1)
    torch.testing.assert_close(found, vectors.grad)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp8"])
@pytest.mark.parametrize("loss", ["bce", "hinge"])
def test_half_a_target_gives_half_the_gradient(precision, loss) -> None:
    gradients = []
    for target in (1e-7, 0.5, 1.0):
        head = OneVsAllHead(3, 16, HeadSettings(precision=precision, loss=loss), CPU)
        vectors = torch.ones(1, 16)
        matrix = sparse.csr_array(np.array([[0, target, 0]], dtype=np.float32))
        gradients.append(head.step(vectors, TrainingTargets(matrix).batch(np.arange(1), CPU), 1e-3).numpy())
    np.testing.assert_allclose(gradients[1], (gradients[0] + gradients[2]) / 2, rtol=1e-2, atol=1e-4)
    assert np.abs(gradients[2] - gradients[0]).max() > 1e-3


def test_duplicates_count_once_and_ranges_of_labels_add_up() -> None:
    twice = sparse.csr_array((np.float32([0.5, 1.0, 1.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    entries = TrainingTargets(twice).batch(np.arange(1), CPU)
    assert entries.labels.tolist() == [0, 1] and entries.positive_weight.tolist() == [1.0, 1.0]
    targets = some_targets(7, 40)
    whole = TrainingTargets(targets).batch(np.arange(7), CPU)
    parts = [
        TrainingTargets(targets, first=a, last=b).batch(np.arange(7), CPU) for a, b in ((0, 13), (13, 14), (14, 40))
    ]
    joined = torch.cat([part.labels + first for part, first in zip(parts, (0, 13, 14), strict=True)])
    assert joined.equal(whole.labels) and torch.cat([part.rows for part in parts]).equal(whole.rows)
    assert torch.cat([part.positive_weight for part in parts]).equal(whole.positive_weight)


def test_a_range_of_labels_has_the_propensities_of_its_own_labels() -> None:
    targets, inverse = some_targets(7, 40), np.linspace(1, 9, 40, dtype=np.float32)
    whole = TrainingTargets(targets, 1.0, inverse).batch(np.arange(7), CPU)
    parts = [TrainingTargets(targets, 1.0, inverse, a, b).batch(np.arange(7), CPU) for a, b in ((0, 13), (13, 40))]
    assert min(len(part.labels) for part in parts) > 5
    for name in ("positive_weight", "negative_weight"):
        assert torch.cat([getattr(part, name) for part in parts]).equal(getattr(whole, name))


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_stochastic_rounding_is_unbiased_and_goes_to_neighbours(precision) -> None:
    kind = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[precision]
    generator = torch.Generator().manual_seed(0)
    for value in (1.003, -0.7001, 0.0101, -3e-4, 0.0):
        rounded = stochastic_round(torch.full((40_000,), value), kind, generator).float()
        assert len(rounded.unique()) <= 2
        step = float(rounded.max() - rounded.min())
        assert abs(float(rounded.mean()) - value) <= 0.02 * step + 1e-8
        assert rounded.min() <= value <= rounded.max()


def test_small_updates_are_not_lost_in_half_precision() -> None:
    """Rounding to nearest would keep a weight of 1 unchanged: a step is 1/100 of the gap."""
    for settings, tolerance in (
        (HeadSettings(precision="bf16"), 0.02),
        (HeadSettings(precision="bf16", compensated=1.0), 0.005),
    ):
        head = OneVsAllHead(1, 512, settings, CPU, counts=np.array([5]))
        head.set_weights(torch.ones(1, 512))
        for _ in range(100):
            head._update(0, 1, torch.full((1, 512), 1.0), 4e-5, 1.0)
            head.done += 1
        assert abs(float(head.rows(torch.arange(1)).mean()) - 0.996) < tolerance * 0.04


def test_momentum_adds_up_and_weight_decay_is_applied() -> None:
    targets = sparse.csr_array((3, 4), dtype=np.float32)
    plain, heavy = (
        OneVsAllHead(4, 16, HeadSettings(precision="fp32", momentum=m, weight_decay=0.0), CPU) for m in (0.0, 0.5)
    )
    vectors = torch.ones(3, 16) * 1e-3
    entries = TrainingTargets(targets).batch(np.arange(3), CPU)
    start = plain.weight.clone()
    for head in (plain, heavy):
        for _ in range(2):
            head.step(vectors, entries, 1.0)
    torch.testing.assert_close(heavy.weight - start, (plain.weight - start) * 1.25, rtol=1e-3, atol=1e-6)
    for precision in ("fp32", "bf16"):
        decays = OneVsAllHead(4, 16, HeadSettings(precision=precision, weight_decay=0.5), CPU)
        start = decays.weight.float().clone()
        decays.step(
            torch.zeros(1, 16),
            TrainingTargets(sparse.csr_array((1, 4), dtype=np.float32)).batch(np.arange(1), CPU),
            1.0,
        )
        torch.testing.assert_close(decays.weight.float(), start * 0.5, rtol=1e-2, atol=1e-4)


def test_rows_are_updated_by_their_own_gradient() -> None:
    head = OneVsAllHead(5, 7, HeadSettings(precision="fp32"), CPU)
    before = head.rows(torch.arange(5))
    head.update_rows(torch.tensor([3, 1]), torch.ones(2, 7), 0.5)
    after = head.rows(torch.arange(5))
    torch.testing.assert_close(after[[1, 3]], before[[1, 3]] - 0.5)
    assert after[[0, 2, 4]].equal(before[[0, 2, 4]])
    head.set_weights(before)
    assert head.rows(torch.arange(5)).equal(before)


def test_the_same_seed_and_step_round_alike() -> None:
    found = []
    for chunk in (3, 3):
        head = OneVsAllHead(10, 8, HeadSettings(precision="bf16", chunk=chunk, seed=4), CPU)
        head.step(torch.ones(2, 8), TrainingTargets(some_targets(2, 10)).batch(np.arange(2), CPU), 0.05)
        found.append(head.weight.clone())
    assert found[0].equal(found[1])


def test_wrong_input_is_refused() -> None:
    with pytest.raises(DataError, match="targets must lie in"):
        TrainingTargets(sparse.csr_array(np.float32([[1.5]])))
    with pytest.raises(RecipeError, match="counts"):
        OneVsAllHead(4, 8, HeadSettings(precision="bf16", compensated=0.5), CPU)
