"""Small model folders that fit together, and would make a text cost far more than the folder holds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.data import Corpus, Rows
from longtail.errors import ModelError
from longtail.linear.fusion.boosted_trees import MAX_LEAVES, BoostedTrees
from longtail.recipe import Recipe
from longtail.store import load
from stored import Stored, bent

NET = "encoder='bag', dimension=8, batch_size=64, epochs=1"
DPR = f"dpr({NET})"
RECIPES = {
    "fuse": "fuse('knn(neighbours=5)', 'bm25 + rerank', trees=5, min_leaf=2)",
    "tree": f"cascadexml({NET}, max_leaf_labels=2, branches=2)",
    "graph": f"elias({NET}, cluster_epochs=1, max_leaf_labels=2)",
    "attention": f"attentionxml({NET}, hidden=4, max_flat_labels=1, max_leaf_labels=2)",
    "buckets": f"mach({NET}, repetitions=3, buckets=4)",
    "memory": f"memory({json.dumps(DPR)}, neighbours=3)",
}


@pytest.fixture(scope="module")
def saved(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A model of each kind, trained when it is first asked for."""
    folder = tmp_path_factory.mktemp("models")

    def made(name: str) -> Path:
        if not (folder / name).exists():
            Recipe.parse(RECIPES[name]).fit(tiny.train, tiny.valid).save(folder / name)
        return folder / name

    return made


def deep_trees(stored: Stored) -> None:
    """Many roots that lead to the same chain of nodes: padded, each would have 2,048 leaves."""
    chain = 11
    steps = [[node + 1 if node + 1 < chain else -1, -1] for node in range(chain)]
    arrays = {"roots": np.zeros(200_000, np.int32), "columns": np.zeros(chain, np.int32), "leaves": np.zeros(1)}
    arrays |= {"thresholds": np.zeros(chain), "children": np.array(steps, np.int32)}
    for name, value in arrays.items():
        stored.set(f"trees.{name}", value)


def uneven_clusters(stored: Stored) -> None:
    """Every cluster would be given the room of the fullest."""
    stored.set("begins.0", lambda old: np.concatenate([np.arange(len(old) - 1), old[-1:]]).astype(np.int64))


def no_links(stored: Stored) -> None:
    for name in ("members", "log_links", "clusters"):
        stored.set(name, lambda old: old[:0])


def no_repetitions(stored: Stored) -> None:
    for name in ("weights", "bias", "tables"):
        stored.set(name, lambda old: old[:0])


def no_examples(stored: Stored) -> None:
    for name in ("vectors", "targets.indices", "targets.data", "ids", "beginnings"):
        stored.set(name, lambda old: old[:0])
    for name in ("targets.indptr", "id_offsets", "beginning_offsets"):
        stored.set(name, lambda old: old[:1])
    stored.set("targets.shape", lambda old: np.array([0, old[1]]))


def a_group_twice(stored: Stored) -> None:
    settings = stored.manifest["scorer"]["settings"]
    settings["groups"] = settings["groups"] + settings["groups"][:1]


CASES: dict[str, tuple[str, Callable[[Stored], None], str]] = {
    "trees that share their nodes": ("fuse", deep_trees, "trees as deep as the deepest have 409,600,000 leaves"),
    "one cluster of nearly all": ("attention", uneven_clusters, "'begins.0' has a cluster of"),
    "no cluster": ("graph", no_links, "'members' has no cluster"),
    "no repetition": ("buckets", no_repetitions, "'weights' has no repetition"),
    "no example": ("memory", no_examples, "'vectors' has no example"),
    "a group of numbers twice": ("fuse", a_group_twice, "numbers of 2 members in the groups"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_grow_without_end_is_refused(case: str, saved: Callable[[str], Path], tmp_path: Path) -> None:
    kind, change, problem = CASES[case]
    with pytest.raises(ModelError, match=problem):
        load(bent(saved(kind), tmp_path / "model", change))


def test_trees_of_any_number_may_be_shallow() -> None:
    """The limit is on what padding makes of them, not on how many there are."""
    nothing = np.zeros(0, np.int32)
    leaf = np.full(MAX_LEAVES, -1, np.int32)
    trees = BoostedTrees(leaf, nothing, np.zeros(0), np.zeros((0, 2), np.int32), np.array([0.5]), 3)
    assert len(trees.roots) == MAX_LEAVES


def test_parts_that_are_shared_inside_shared_parts(saved: Callable[[str], Path], tmp_path: Path) -> None:
    """Each fuse asks its member 32 times, and that asks its own 32 times: a text would never be answered."""

    def nested(stored: Stored) -> None:
        entry, arrays, recipe = stored.manifest["scorer"], stored.arrays, stored.manifest["recipe"]
        for _ in range(2):
            first: dict[str, Any] = {"kind": "member.v1", "settings": {"recipe": recipe, "labels": 10, "rerankers": 0}}
            shared: dict[str, Any] = {"kind": "member.v1", "settings": {}, "parts": {}, "same_as": "scorer.member-0"}
            outer: dict[str, Any] = {
                "kind": "fuse.v1",
                "settings": {**entry["settings"], "members": 32, "groups": ["members"]},
            }
            outer["parts"] = {"member-0": {**first, "parts": {"scorer": entry}}}
            outer["parts"] |= {f"member-{number}": copy.deepcopy(shared) for number in range(1, 32)}
            _moved(entry)
            inside = {f"scorer.member-0.{name}": held for name, held in arrays.items()}
            kept = {
                name: one for name, one in arrays["scorer.safetensors"].items() if name.partition(".")[0] != "trees"
            }
            kept = {name: one for name, one in kept.items() if name.partition(".")[0] != "together"}
            arrays.clear()
            arrays |= inside | {"scorer.safetensors": kept, "scorer.member-0.safetensors": {}}
            entry = outer
        stored.manifest["scorer"] = entry
        stored.manifest["files"] = {}

    with pytest.raises(ModelError, match=r"shares parts so often that \d,\d\d\d would be asked"):
        load(bent(saved("fuse"), tmp_path / "model", nested))


def _moved(entry: dict[str, Any]) -> None:
    if "same_as" in entry:
        entry["same_as"] = entry["same_as"].replace("scorer", "scorer.member-0.scorer", 1)
    for inner in entry["parts"].values():
        _moved(inner)


TEXTS = ("an apple", "bridge and castle", "", "dragon engine forest", "the island of a jungle") * 3


@pytest.mark.parametrize(
    ("kind", "module", "limits"),
    [
        ("tree", "longtail.nn.label_tree.tree_fit", {"BATCH_BYTES": 1}),
        ("graph", "longtail.nn.label_tree.tree_fit", {"BATCH_BYTES": 1}),
        ("attention", "longtail.nn.label_tree.attention_heads", {"BATCH_BYTES": 1}),
        ("memory", "longtail.learners.memory", {"PAIRS": 1}),
        ("fuse", "longtail.linear.fusion.fuse_scorer", {"PLACES": 1}),
        ("fuse", "longtail.linear.fusion.fuse_scorer", {"CHUNK_BYTES": 1}),
    ],
)
def test_answers_do_not_depend_on_how_many_rows_are_held_at_once(
    kind: str, module: str, limits: dict[str, int], saved: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model whose rows have many candidates holds fewer rows at a time: here one."""
    model, rows = load(saved(kind)), Rows(texts=TEXTS)
    whole = model.predict(rows, k=5)
    for name, value in limits.items():
        monkeypatch.setattr(f"{module}.{name}", value)
    parts = model.predict(rows, k=5)
    np.testing.assert_array_equal(whole.indices, parts.indices)
    np.testing.assert_allclose(whole.scores, parts.scores, rtol=1e-5)
