"""Nets over a label tree on a GPU: the losses and gradients of a processor, and models that both read alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longtail.data import Corpus
from longtail.nn.label_tree.attention_heads import AttentionHeads, TokenStates
from longtail.nn.label_tree.candidate_blocks import Entries
from longtail.nn.label_tree.cluster_graph import partition
from longtail.nn.label_tree.graph_heads import GraphHeads
from longtail.nn.label_tree.label_levels import LabelLevels
from longtail.nn.label_tree.level_heads import LevelFeature, LevelHeads
from longtail.nn.label_tree.resolution_task import LevelBatch, ResolutionHead
from longtail.nn.training import precision
from longtail.recipe import Recipe
from longtail.store import load

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
LABELS, WIDTH, ROWS = 500, 32, 24
KINDS = ("levels", "graph", "graph, equal paths", "attention", "resolution")
RECIPES = (
    "cascadexml(encoder='tiny', epochs=6, learning_rate=0.01, max_leaf_labels=4)",
    "lightxml(encoder='tiny', epochs=6, learning_rate=0.01, max_leaf_labels=4)",
    "elias(encoder='tiny', epochs=6, cluster_epochs=4, learning_rate=0.01, max_leaf_labels=4)",
    "attentionxml(dimension=32, epochs=6, max_flat_labels=2, max_leaf_labels=4)",
    "xrtransformer(encoder='tiny', epochs=2, learning_rate=0.01, max_leaf_labels=4)",
    "mach(encoder='tiny', epochs=6)",
)


def tree() -> LabelLevels:
    begins = (8 * np.arange(9, dtype=np.int64), np.linspace(0, LABELS, 65).astype(np.int64))
    return LabelLevels(np.random.default_rng(0).permutation(LABELS).astype(np.int32), begins)


def entries(levels: LabelLevels) -> list[Entries]:
    rng = np.random.default_rng(1)
    labels, rows = rng.integers(0, LABELS, 60), rng.integers(0, ROWS, 60)
    where, values = torch.from_numpy(rows), torch.from_numpy(rng.uniform(0.2, 1, 60).astype(np.float32))
    return [Entries(where, torch.from_numpy(nodes[labels].astype(np.int64)), values) for nodes in levels.node_of_label]


def made(kind: str) -> tuple[torch.nn.Module, Any, Any]:
    """Heads on the processor, and what their loss takes."""
    torch.manual_seed(0)
    levels = tree()
    right, vectors = entries(levels), torch.randn(ROWS, WIDTH)
    if kind == "levels":
        features = [LevelFeature(0, WIDTH, None, 0.0)] * 3
        return LevelHeads(levels, features, [True] * 3, 6, True), vectors, right
    if kind.startswith("graph"):
        graph = partition(LabelLevels(levels.order, levels.begins[1:]))
        # The published scales make many paths equal, at probability 1, and devices break ties each in its own way: a
        # shortlist that cuts needs paths that differ.
        scales: dict[str, Any] = {"cluster_scale": 1.0, "link_scale": 1.0, "beam": 6, "shortlist": 40}
        if kind == "graph, equal paths":
            scales |= {"cluster_scale": 10.0, "link_scale": 150.0, "shortlist": LABELS}
        return GraphHeads(graph, LABELS, WIDTH, learned=True, shortlist_weight=0.05, **scales), vectors, right
    if kind == "attention":
        mask = torch.arange(9) < torch.randint(2, 10, (ROWS, 1))
        return AttentionHeads(levels, WIDTH, 16, 0.0, 6), TokenStates(torch.randn(ROWS, 9, WIDTH), mask), right
    weights, bias = 0.1 * torch.randn(LABELS, WIDTH).numpy(), np.zeros(LABELS, np.float32)
    above = torch.rand(ROWS, 64)
    above[right[1].examples, right[1].nodes] += 1  # an example's own clusters come first
    # of a node that is a target twice the larger one counts, on any device
    return ResolutionHead(levels, 2, weights, bias, 0.0), vectors, LevelBatch(right[2], above.topk(12, dim=1)[1])


def moved(given: Any, device: str) -> Any:
    if isinstance(given, torch.Tensor):
        return given.to(device)
    if isinstance(given, list):
        return [moved(one, device) for one in given]
    return None if given is None else type(given)(*(moved(one, device) for one in given))


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_never_waits_for_the_device(kind: str) -> None:
    heads, vectors, right = made(kind)
    heads, vectors, right = heads.to("cuda"), moved(vectors, "cuda"), moved(right, "cuda")
    heads.loss(vectors, right).backward()  # type: ignore[operator]
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        heads.loss(vectors, right).backward()  # type: ignore[operator]
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("kind", KINDS)
def test_loss_gradients_and_answers_are_those_of_a_processor(kind: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        heads, vectors, right = made(kind)
        heads = heads.to(device)
        loss = heads.loss(moved(vectors, device), moved(right, device))  # type: ignore[operator]
        loss.backward()
        answers = None if kind == "resolution" else heads.eval().search(moved(vectors, device), 5)  # type: ignore[operator]
        gradients = {name: one.grad for name, one in heads.named_parameters() if one.grad is not None}
        found.append((loss.item(), {name: one.cpu() for name, one in gradients.items()}, answers))
    (loss, gradients, answers), (on_gpu, others, theirs) = found
    assert on_gpu == pytest.approx(loss, rel=1e-4)
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, others[name], atol=1e-3 * float(gradient.abs().max()) + 1e-7), name
    if answers is not None and theirs is not None:
        assert torch.equal(answers[0], theirs[0].cpu())
        assert torch.allclose(answers[1], theirs[1].cpu(), atol=1e-3)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_model_that_a_gpu_trained_answers_on_a_processor(
    tiny: Corpus, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    here = model.predict(tiny.test.rows, 3)
    model.save(tmp_path / "model")
    monkeypatch.setattr(precision, "best_device", lambda: torch.device("cpu"))
    there = load(tmp_path / "model").predict(tiny.test.rows, 3)
    right = [here.indices[row, 0] in tiny.test.targets[[row]].indices for row in range(len(tiny.test))]
    assert np.mean(right) > 0.5
    assert np.mean(here.indices[:, 0] == there.indices[:, 0]) > 0.9
    assert np.abs(here.scores[:, 0] - there.scores[:, 0]).max() < 0.1
