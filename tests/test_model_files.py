"""The files of a model folder: their size before they are written, and folders of other releases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as tensors_to_bytes

from longtail.arrays import DTYPES, safetensors_bytes
from longtail.data import Corpus
from longtail.errors import ModelError
from longtail.model_files import manifest_to_bytes
from longtail.recipe import Recipe
from longtail.store import load, size_on_disk

ENCODER = "dpr(encoder='bag', dimension=16, batch_size=64, epochs=1)"
KINDS = [
    "bm25",
    "knn + rerank",
    "parabel + calibrate",
    "fastxml(trees=2) + calibrate(curve='platt')",
    "centroid + taug(copies=1) + ranknet(epochs=1)",
    "dismec + centroid",
    f'knn + ensemble(tail_model="{ENCODER}", tail_max_count=60)',
    "ngame(encoder='bag', dimension=16, batch_size=64, epochs=1, classifier_epochs=1)",
]


@pytest.mark.parametrize("recipe", KINDS)
def test_the_size_is_known_to_the_byte_before_anything_is_written(recipe: str, tiny: Corpus, tmp_path: Path) -> None:
    model = Recipe.parse(recipe).fit(tiny.train, tiny.valid)
    expected = model.saved_bytes()
    assert list(tmp_path.iterdir()) == []
    assert size_on_disk(model.save(tmp_path / "model")) == expected


def test_the_size_of_arrays_of_every_type() -> None:
    """Offsets are written in decimal digits, so the size depends on the order in which the arrays are written."""
    for rows in (0, 1, 7, 120):
        arrays = {f"{name} é": np.zeros((rows, 3), dtype=name) for name in reversed(DTYPES)}
        assert safetensors_bytes(arrays) == len(tensors_to_bytes(arrays))
    assert safetensors_bytes({}) == len(tensors_to_bytes({}))


def of_another_release(folder: Path, *path: str, kind: str) -> Path:
    """The folder with another kind of one part, and the checksum that belongs to it."""
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = manifest
    for step in path:
        entry = entry[int(step)] if isinstance(entry, list) else entry[step]
    entry["kind"] = kind
    (folder / "manifest.json").write_bytes(manifest_to_bytes(manifest))
    return folder


def test_a_model_of_an_older_release_is_named_with_its_version(tiny: Corpus, tmp_path: Path) -> None:
    saved = Recipe.parse("parabel + calibrate").fit(tiny.train, tiny.valid).save(tmp_path / "model")
    assert load(saved).scorer.kind == "forest.v5"
    with pytest.raises(ModelError) as caught:
        load(of_another_release(saved, "scorer", kind="forest.v4"))
    assert str(caught.value) == (
        f"{saved} holds a part of kind 'forest.v4', which this release cannot read: for this recipe it reads "
        "forest.v5; train the model again with this release"
    )
    of_another_release(saved, "scorer", kind="forest.v5")
    with pytest.raises(ModelError, match=r"kind 'calibrate.v9', .* it reads calibrate.v2; train the model again"):
        load(of_another_release(saved, "rerankers", "0", kind="calibrate.v9"))
    of_another_release(saved, "rerankers", "0", kind="calibrate.v2")
    with pytest.raises(ModelError, match=r"kind 'tower.v1', .* it reads calibrate.v2, forest.v5; train"):
        load(of_another_release(saved, "scorer", kind="tower.v1"))  # the kind has another name by now


def test_a_part_inside_a_part_may_be_the_old_one(tiny: Corpus, tmp_path: Path) -> None:
    recipe = f'knn + ensemble(tail_model="{ENCODER}", tail_max_count=60)'
    saved = Recipe.parse(recipe).fit(tiny.train, tiny.valid).save(tmp_path / "model")
    with pytest.raises(ModelError, match=r"kind 'dual.v1', .* it reads dual.v2; train the model again"):
        load(of_another_release(saved, "scorer", "parts", "rare", kind="dual.v1"))
