"""Classifiers that are updated when they are used, against torch's AdamW on each row alone; heads."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from longtail.errors import RecipeError
from longtail.nn.pool.classifier_table import ClassifierTable
from longtail.nn.pool.projection_heads import Heads
from longtail.nn.training.mapped_memory import MappedMemory

CPU = torch.device("cpu")


def initial(labels: int = 8, dimension: int = 5) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(labels, dimension)).astype(np.float32)


def test_each_row_is_updated_as_if_adamw_had_it_alone() -> None:
    given = initial()
    table = ClassifierTable(given, CPU, weight_decay=0.1)
    alone = [torch.nn.Parameter(torch.from_numpy(row.copy())) for row in given]
    rules = [torch.optim.AdamW([row], lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1) for row in alone]
    rng = np.random.default_rng(1)
    for _ in range(12):
        labels = np.sort(rng.choice(8, 3, replace=False))
        gradient = torch.from_numpy(rng.normal(size=(3, 5)).astype(np.float32))
        table.update(torch.from_numpy(labels), gradient, 0.01)
        for label, row in zip(labels, gradient, strict=True):
            alone[label].grad = row.clone()
            rules[label].step()
    expected = np.stack([row.detach().numpy() for row in alone])
    assert np.allclose(table.rows(), expected, atol=2e-6)


def test_rows_that_are_not_used_stay_to_the_bit() -> None:
    given = initial()
    table = ClassifierTable(given, CPU, weight_decay=0.5)
    leaf = table.take(torch.tensor([1, 6]))
    (leaf * 3).sum().backward()
    assert leaf.grad is not None
    table.update(torch.tensor([1, 6]), leaf.grad, 0.1)
    same = (table.rows() == given).all(axis=1)
    assert same.tolist() == [True, False, True, True, True, True, False, True]
    moments = table.moments()
    assert (moments["first"] != 0).any(1).tolist() == (~same).tolist()
    assert moments["updates"].tolist() == [0, 1, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(7, 3), (0, 3), (2000, 5)])
def test_mapped_memory_is_zeros_of_its_own(kind: torch.dtype, shape: tuple[int, int]) -> None:
    one, other = (MappedMemory(shape, kind, CPU) for _ in range(2))
    assert one.host.shape == shape and one.host.dtype == kind and not one.host.any()
    one.host.fill_(3)
    assert one.there.eq(3).all() and not other.host.any()
    one.give_back()
    assert one.host.eq(3).all()


def test_a_table_in_the_hosts_memory_is_one_like_any_other() -> None:
    tables = [ClassifierTable(initial(), CPU, on_host) for on_host in (False, True)]
    for table in tables:
        for labels in ([0, 3], [3, 7]):
            table.update(torch.tensor(labels), torch.ones(2, 5), 0.1)
        table.close()
    assert np.array_equal(*(table.rows() for table in tables))


def test_memory_that_cannot_be_mapped_is_refused_and_mapped_memory_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: set[int] = set()

    class Host:  # maps memory only once
        there = host = torch.zeros(0)

        def __init__(self, *_: Any) -> None:
            if held:
                raise RecipeError("no more")
            held.add(id(self))

        def give_back(self) -> None:
            held.remove(id(self))

    refusing = SimpleNamespace(cudaHostRegister=lambda *_: 2)
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "cudart", lambda: refusing)
        patched.setattr(torch.cuda, "device", lambda _: nullcontext())
        with pytest.raises(RecipeError, match="classifiers_on_host=false"):
            MappedMemory((4, 4), torch.float32, torch.device("cuda"))
    with pytest.raises(RecipeError, match=r"4194304.0 GiB .*Cannot allocate memory"):
        MappedMemory((1 << 50, 4), torch.uint8, CPU)
    monkeypatch.setattr("longtail.nn.pool.classifier_table.MappedMemory", Host)
    with pytest.raises(RecipeError, match="no more"):
        ClassifierTable(initial(), CPU, on_host=True)
    assert not held


def test_bf16_loses_nothing_on_average_and_goes_on_to_the_same_bits() -> None:
    """Steps far below half a unit of bf16: rounding to nearest would change nothing."""
    given = np.ones((64, 64), dtype=np.float32)
    labels = torch.arange(64)
    table = ClassifierTable(given, CPU, precision="bf16", seed=3)
    halfway = None
    for step in range(60):
        if step == 30:
            halfway = table.weight.clone(), {name: part.clone() for name, part in table.moments().items()}
        table.update(labels, torch.ones(64, 64), 1e-4)
    assert table.rows().mean() == pytest.approx(1 - 60e-4, abs=4e-4)
    assert halfway is not None
    other = ClassifierTable(given, CPU, precision="bf16", seed=3)
    other.weight.copy_(halfway[0])
    other.load_moments(halfway[1])
    for _ in range(30):
        other.update(labels, torch.ones(64, 64), 1e-4)
    assert torch.equal(other.weight, table.weight)
    assert set(table.state_dict()) == {"weight"}  # a copy of the best weights is no larger than they are


def test_heads_begin_as_the_encoder_and_end_at_their_formulas() -> None:
    heads = Heads(64, dropout=0.5)
    encoded = torch.randn(10, 64, generator=torch.Generator().manual_seed(0)) * 7
    heads.eval()
    unit = normalize(encoded, dim=1)
    assert (heads.encoder_side(encoded) * unit).sum(1).min() > 0.99
    assert torch.allclose(heads.classifier_side(encoded), unit, atol=1e-6)
    with torch.no_grad():
        for part in heads.parameters():
            part.normal_(generator=torch.Generator().manual_seed(1))
    assert heads.rows is not None
    first = torch.tanh(unit @ heads.texts.weight.T + heads.texts.bias)
    assert torch.allclose(heads.encoder_side(encoded), first / first.norm(dim=1, keepdim=True), atol=1e-6)
    second = unit @ heads.rows.weight.T + heads.rows.bias
    assert torch.allclose(heads.classifier_side(encoded), second, atol=1e-6)
    heads.train()
    share = (heads.classifier_side(encoded) == 0).float().mean().item()
    assert 0.4 < share < 0.6
    found = heads.project(encoded.numpy(), "classifiers")
    assert heads.training and np.allclose(
        found, (second / second.norm(dim=1, keepdim=True)).detach().numpy(), atol=1e-6
    )
    assert torch.allclose(normalize(encoded, dim=1), unit)  # what was given is as it was
    assert np.array_equal(heads.project_on_device(encoded.clone(), "classifiers").numpy(), found)
    narrow = Heads(64, head_dimension=16)
    assert np.array_equal(
        narrow.project_on_device(encoded, "encoder").numpy(), narrow.project(encoded.numpy(), "encoder")
    )
