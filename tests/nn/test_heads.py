"""The streaming head against autograd in float64, at odd sizes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import sparse  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from longtail.errors import DataError, RecipeError  # noqa: E402
from longtail.nn.heads.entries import Targets  # noqa: E402
from longtail.nn.heads.head import Head, HeadSettings  # noqa: E402
from longtail.nn.heads.rounding import by_chance  # noqa: E402

CPU = torch.device("cpu")


def some_targets(rows: int, labels: int, seed: int = 0, soft: bool = True) -> sparse.csr_array:
    chance = np.random.default_rng(seed)
    dense = chance.random((rows, labels)) * (chance.random((rows, labels)) < 0.1)
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
    chance = np.random.default_rng(1)
    targets = some_targets(rows, labels)
    positive, inverse = 1.7, (1 + 3 * chance.random(labels)).astype(np.float32)
    settings = HeadSettings(loss=loss, precision="fp32", weight_decay=0.3, bias=bias, chunk=chunk)
    head = Head(labels, dimension, settings, CPU)
    before = head.rows(torch.arange(labels)).numpy()
    vectors = chance.normal(size=(rows, dimension)).astype(np.float32)
    own = None if bias is None else head.bias.numpy().copy()
    wanted = reference(before, own, vectors, targets, loss, positive, inverse)
    entries = Targets(targets, positive, inverse).batch(np.arange(rows), CPU)
    found = head.step(torch.from_numpy(vectors), entries, rate=0.01)
    np.testing.assert_allclose(found, wanted[0], rtol=2e-5, atol=2e-5)
    moved = before * (1 - 0.01 * 0.3) - 0.01 * wanted[1]
    np.testing.assert_allclose(head.rows(torch.arange(labels)), moved, rtol=2e-5, atol=2e-6)
    if bias is not None:
        np.testing.assert_allclose(head.bias, own - 0.01 * wanted[2], rtol=2e-5)


def test_bce_is_the_usual_one() -> None:
    targets = some_targets(6, 9)
    head = Head(9, 4, HeadSettings(precision="fp32"), CPU)
    vectors = torch.randn(6, 4, requires_grad=True)
    loss = binary_cross_entropy_with_logits(head.scores(vectors), torch.from_numpy(targets.toarray()), reduction="sum")
    loss.backward()
    found = head.step(vectors, Targets(targets).batch(np.arange(6), CPU), 0.1)
    torch.testing.assert_close(found, vectors.grad)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp8"])
@pytest.mark.parametrize("loss", ["bce", "hinge"])
def test_half_a_target_pulls_half(precision, loss) -> None:
    pulls = []
    for target in (1e-7, 0.5, 1.0):
        head = Head(3, 16, HeadSettings(precision=precision, loss=loss), CPU)
        vectors = torch.ones(1, 16)
        matrix = sparse.csr_array(np.array([[0, target, 0]], dtype=np.float32))
        pulls.append(head.step(vectors, Targets(matrix).batch(np.arange(1), CPU), 1e-3).numpy())
    np.testing.assert_allclose(pulls[1], (pulls[0] + pulls[2]) / 2, rtol=1e-2, atol=1e-4)
    assert np.abs(pulls[2] - pulls[0]).max() > 1e-3


def test_said_twice_counts_once_and_ranges_of_labels_add_up() -> None:
    twice = sparse.csr_array((np.float32([0.5, 1.0, 1.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    entries = Targets(twice).batch(np.arange(1), CPU)
    assert entries.labels.tolist() == [0, 1] and entries.pull.tolist() == [1.0, 1.0]
    targets = some_targets(7, 40)
    whole = Targets(targets).batch(np.arange(7), CPU)
    parts = [Targets(targets, first=a, last=b).batch(np.arange(7), CPU) for a, b in ((0, 13), (13, 14), (14, 40))]
    joined = torch.cat([part.labels + first for part, first in zip(parts, (0, 13, 14), strict=True)])
    assert joined.equal(whole.labels) and torch.cat([part.rows for part in parts]).equal(whole.rows)
    assert torch.cat([part.pull for part in parts]).equal(whole.pull)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_rounding_by_chance_is_right_on_average_and_only_moves_to_neighbours(precision) -> None:
    kind = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[precision]
    chance = torch.Generator().manual_seed(0)
    for value in (1.003, -0.7001, 0.0101, -3e-4, 0.0):
        rounded = by_chance(torch.full((40_000,), value), kind, chance).float()
        assert len(rounded.unique()) <= 2
        step = float(rounded.max() - rounded.min())
        assert abs(float(rounded.mean()) - value) <= 0.02 * step + 1e-8
        assert rounded.min() <= value <= rounded.max()


def test_small_moves_are_not_lost_in_half_precision() -> None:
    """Nearest rounding would leave a weight of 1 where it is: the step is 1/100 of the gap."""
    for settings, tolerance in (
        (HeadSettings(precision="bf16"), 0.02),
        (HeadSettings(precision="bf16", compensated=1.0), 0.005),
    ):
        head = Head(1, 512, settings, CPU, counts=np.array([5]))
        head.begin_at(torch.ones(1, 512))
        for _ in range(100):
            head._move(0, 1, torch.full((1, 512), 1.0), 4e-5, 1.0)
            head.done += 1
        assert abs(float(head.rows(torch.arange(1)).mean()) - 0.996) < tolerance * 0.04


def test_momentum_gathers_and_decay_is_applied() -> None:
    targets = sparse.csr_array((3, 4), dtype=np.float32)
    plain, heavy = (Head(4, 16, HeadSettings(precision="fp32", momentum=m, weight_decay=0.0), CPU) for m in (0.0, 0.5))
    vectors = torch.ones(3, 16) * 1e-3
    entries = Targets(targets).batch(np.arange(3), CPU)
    begin = plain.weight.clone()
    for head in (plain, heavy):
        for _ in range(2):
            head.step(vectors, entries, 1.0)
    torch.testing.assert_close(heavy.weight - begin, (plain.weight - begin) * 1.25, rtol=1e-3, atol=1e-6)
    for precision in ("fp32", "bf16"):
        decays = Head(4, 16, HeadSettings(precision=precision, weight_decay=0.5), CPU)
        begin = decays.weight.float().clone()
        decays.step(
            torch.zeros(1, 16), Targets(sparse.csr_array((1, 4), dtype=np.float32)).batch(np.arange(1), CPU), 1.0
        )
        torch.testing.assert_close(decays.weight.float(), begin * 0.5, rtol=1e-2, atol=1e-4)


def test_a_few_rows_move_by_a_gradient_of_their_own() -> None:
    head = Head(5, 7, HeadSettings(precision="fp32"), CPU)
    before = head.rows(torch.arange(5))
    head.move(torch.tensor([3, 1]), torch.ones(2, 7), 0.5)
    after = head.rows(torch.arange(5))
    torch.testing.assert_close(after[[1, 3]], before[[1, 3]] - 0.5)
    assert after[[0, 2, 4]].equal(before[[0, 2, 4]])
    head.begin_at(before)
    assert head.rows(torch.arange(5)).equal(before)


def test_the_same_seed_and_step_round_alike() -> None:
    found = []
    for chunk in (3, 3):
        head = Head(10, 8, HeadSettings(precision="bf16", chunk=chunk, seed=4), CPU)
        head.step(torch.ones(2, 8), Targets(some_targets(2, 10)).batch(np.arange(2), CPU), 0.05)
        found.append(head.weight.clone())
    assert found[0].equal(found[1])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match="targets lie in"):
        Targets(sparse.csr_array(np.float32([[1.5]])))
    with pytest.raises(RecipeError, match="counts"):
        Head(4, 8, HeadSettings(precision="bf16", compensated=0.5), CPU)
