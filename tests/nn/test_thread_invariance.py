"""The bytes of a trained net do not depend on the number of threads, however it is set."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from longtail.catalogue import LEARNERS  # noqa: E402
from longtail.model import Model  # noqa: E402
from longtail.nn.training.precision import best_device  # noqa: E402
from longtail.nn.training.thread_invariant import (  # noqa: E402
    batch_norm,
    layer_norm,
    matrix_vector,
    row_products,
    scaled,
    sigmoid,
    sigmoid_,
    softplus,
)
from longtail.store import MANIFEST  # noqa: E402

WITHOUT_TORCH = {"fuse", "lexical", "memory", "predictions",
    "bm25", "bonsai", "centroid", "dismec", "fastxml", "knn", "parabel", "pfastrexml", "proxml", "xreg",
}  # fmt: skip
WORDS_ALONE = {"astec", "decaf", "eclare", "inceptionxml", "inceptionxml-lf", "siamesexml"}  # no encoder to choose
NETS = sorted(set(LEARNERS) - WITHOUT_TORCH)
RECIPES = [  # in fp32: some processors multiply bf16 in an order that depends on the threads
    f"{name}(epochs=2, precision='fp32')" if name in WORDS_ALONE else f"{name}(encoder='bag', epochs=2)"
    for name in NETS
]
RECIPES += ["dpr(encoder='tiny', epochs=1)", "renee(encoder='tiny', epochs=1)"]
ODD = (307, 331)  # numbers that no vector register divides, above the size from which torch uses threads
TRAIN = """
import sys
from test_thread_invariance import digest
from conftest import make_tiny
from longtail.recipe import Recipe
corpus = make_tiny()
for line in sys.stdin.read().splitlines():
    print(digest(Recipe.parse(line).fit(corpus.train, corpus.valid)))
"""


def digest(model: Model) -> str:
    """A checksum of a saved model, without its card."""
    with TemporaryDirectory() as folder:
        return hashlib.sha256((model.save(Path(folder) / "model") / MANIFEST).read_bytes()).hexdigest()


def trained(**threads: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS") and name != "MKL_CBWR"}
    here = Path(__file__).parent
    kept["PYTHONPATH"] = os.pathsep.join([str(here), str(here.parent), kept.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", TRAIN],
        input="\n".join(RECIPES), env={**kept, **threads}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_a_model_does_not_depend_on_the_threads() -> None:
    one = trained(LONGTAIL_THREADS="1", OPENBLAS_NUM_THREADS="1")
    assert len(one) == len(RECIPES)
    other = trained(LONGTAIL_THREADS="2", OMP_NUM_THREADS="3")
    assert dict(zip(RECIPES, other, strict=True)) == dict(zip(RECIPES, one, strict=True))


def test_longtail_threads_rules_torch(monkeypatch: pytest.MonkeyPatch, threads_as_before: None) -> None:
    for count in (3, 1):
        monkeypatch.setenv("LONGTAIL_THREADS", str(count))
        best_device()
        assert torch.get_num_threads() == count
    monkeypatch.delenv("LONGTAIL_THREADS")
    torch.set_num_threads(2)
    best_device()
    assert torch.get_num_threads() == 2  # not asked for: torch's own number stays


@pytest.fixture
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def with_gradients(function: Callable[..., Tensor], *given: Tensor) -> list[Tensor]:
    """The result, and the gradients of a loss of it by all that is given."""
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    found = function(*leaves)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(7))
    return [found.detach(), *torch.autograd.grad(found, leaves, weights)]


def normalised(ours: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A batch norm in training, as torch has it or as we do."""

    def normalise(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        layer = nn.BatchNorm1d(values.shape[1], affine=False)
        return (batch_norm(layer, values) if ours else layer(values)) * weight + bias

    return normalise


CASES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "softplus": (softplus, functional.softplus, (ODD,)),
    "layer_norm": (
        lambda x, w, b: layer_norm(x, w, b, 1e-5),
        lambda x, w, b: functional.layer_norm(x, w.shape, w, b),
        (ODD, ODD[1:], ODD[1:]),
    ),
    "batch_norm": (normalised(ours=True), normalised(ours=False), (ODD, ODD[1:], ODD[1:])),
    "scaled": (scaled, lambda factor, x: factor * x, ((), ODD)),
    "matrix_vector": (matrix_vector, torch.mv, (ODD, ODD[1:])),
    **{
        f"row_products of {rows}": (row_products, lambda a, b: torch.mm(a, b.T), ((rows, 480), (410, 480)))
        for rows in (1, 2, 3, 4, 9)
    },
}


@pytest.mark.parametrize("name", CASES)
def test_as_torch_computes_it_and_the_same_on_any_threads(name: str, threads_as_before: None) -> None:
    ours, theirs, shapes = CASES[name]
    rng = torch.Generator().manual_seed(1)
    given = [torch.randn(shape, generator=rng) * 3 for shape in shapes]
    expected = with_gradients(theirs, *given)
    results = []
    for threads in (1, 2, 3, 4):
        torch.set_num_threads(threads)
        results.append(with_gradients(ours, *given))
    for one, reference in zip(results[0], expected, strict=True):
        assert torch.allclose(one, reference, rtol=1e-4, atol=1e-4)
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], other, strict=True))


def test_sigmoid_as_torch_computes_it_and_the_same_on_any_threads(threads_as_before: None) -> None:
    values = torch.randn(ODD, generator=torch.Generator().manual_seed(1)) * 20
    values.view(-1)[:4] = torch.tensor([-200.0, 200.0, -torch.inf, torch.inf])
    found = []
    for threads in (1, 2, 3, 4):
        torch.set_num_threads(threads)
        found += [sigmoid(values), sigmoid_(values.clone())]
    assert torch.allclose(found[0], torch.sigmoid(values), rtol=1e-6, atol=0)
    assert found[0].view(-1)[:4].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert all(torch.equal(found[0], other) for other in found)
