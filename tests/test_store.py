"""Model folders: whole or absent, and never believed when damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import forked
from longtail.data import Corpus
from longtail.data.labels import Propensity
from longtail.errors import ModelError
from longtail.model import Model
from longtail.recipe import Recipe
from longtail.seams import State
from longtail.store import CARD_FILES, load, save, size_on_disk


@pytest.fixture(scope="module")
def model(tiny: Corpus) -> Model:
    return Recipe.parse("centroid + rerank").fit(tiny.train, tiny.valid)


@pytest.fixture(scope="module")
def folder(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(model, tmp_path_factory.mktemp("store") / "model")


def test_the_folder_is_plain_data(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir() if path.name not in CARD_FILES)
    assert names == ["labels.jsonl", "manifest.json", "reranker-0.safetensors", "scorer.safetensors"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == "longtail-model"
    assert manifest["version"] == 1
    assert manifest["recipe"] == "centroid + rerank"
    assert manifest["scorer"]["kind"] == "centroid.v2"
    assert "longtail." not in json.dumps(manifest)  # no Python paths
    assert json.loads((folder / "labels.jsonl").read_text().splitlines()[0])["id"] == "L0"
    assert size_on_disk(folder) == sum(path.stat().st_size for path in folder.iterdir())


def test_labels_that_are_known_are_not_read_again(folder: Path, model: Model, tiny: Corpus) -> None:
    """Only where id, text, count and what propensities come from are the same in every label."""
    labels = model.labels
    assert load(folder, known=labels).labels is labels
    others = [replace(labels, counts=labels.counts[::-1]), replace(labels, train_rows=labels.train_rows + 1)]
    for other in (*others, replace(labels, propensity=Propensity(0.6, 2.6))):
        found = load(folder, known=other).labels
        assert found is not other and found.ids == labels.ids
        assert found.counts.tolist() == labels.counts.tolist() and found.propensity == labels.propensity
        assert found.train_rows == labels.train_rows
    assert model.saved_bytes() == size_on_disk(save(model, folder.parent / "again"))


def test_random_damage_is_always_noticed(folder: Path, model: Model, tiny: Corpus, tmp_path: Path) -> None:
    """2,400 mutations: flipped bits, changed, added, removed and swapped bytes, cuts, edits, missing files."""
    rng = random.Random(7)
    expected = model.predict(tiny.test.rows, k=5)
    names = [path.name for path in sorted(folder.iterdir()) if path.name not in CARD_FILES]
    original = {name: (folder / name).read_bytes() for name in names}
    broken = tmp_path / "model"
    shutil.copytree(folder, broken)
    noticed = 0
    for _ in range(2400):
        name = rng.choice(names)
        damaged = mutate(original[name], rng)
        place = broken / name
        if damaged is None:
            place.unlink()
        else:
            place.write_bytes(damaged)
        try:
            loaded = load(broken)
        except ModelError as error:
            assert "\n" not in str(error)
            assert str(broken) in str(error)
            noticed += 1
        else:  # only bytes that say the same may pass
            assert damaged == original[name]
            assert np.array_equal(loaded.predict(tiny.test.rows, k=5).indices, expected.indices)
        place.write_bytes(original[name])
    assert noticed >= 2300
    assert load(broken).recipe == model.recipe


def mutate(raw: bytes, rng: random.Random) -> bytes | None:
    """One random damage; None stands for a file that is gone."""
    kind = rng.randrange(9)
    place = rng.randrange(len(raw))
    if kind == 0:
        return raw[:place] + bytes([raw[place] ^ (1 << rng.randrange(8))]) + raw[place + 1 :]
    if kind == 1:
        return raw[:place]
    if kind == 2:
        return raw[:place] + rng.randbytes(rng.randint(1, 20)) + raw[place:]
    if kind == 3:
        return raw[:place] + raw[place + rng.randint(1, 20) :]
    if kind == 4:
        return b""
    if kind == 5:
        return None
    if kind == 6:  # two pieces change places
        middle = rng.randrange(len(raw))
        first, second = sorted((place, middle))
        return raw[second:] + raw[first:second] + raw[:first]
    if kind == 7:  # a digit edited by hand
        digits = [position for position, byte in enumerate(raw[:20000]) if 48 <= byte <= 57]
        position = rng.choice(digits) if digits else place
        return raw[:position] + bytes([48 + (raw[position] + 1 - 48) % 10]) + raw[position + 1 :]
    return raw + rng.choice([b"\n", b" ", b"\x00", b"{}"])


def edited(folder: Path, target: Path, change: str, value: object) -> Path:
    """A folder whose manifest was edited and its checksum made anew, as an ill-meaning hand would."""
    from longtail.model_files import manifest_to_bytes

    shutil.copytree(folder, target)
    manifest = json.loads((target / "manifest.json").read_text())
    place = manifest
    *path, last = change.split("/")
    for step in path:
        place = place[step]
    place[last] = value
    (target / "manifest.json").write_bytes(manifest_to_bytes(manifest))
    return target


@pytest.mark.parametrize(
    ("change", "value", "problem"),
    [
        ("version", 2, "format version 2, this release reads 1"),
        ("format", "other", "not the manifest of a longtail model"),
        ("scorer/kind", "os.system", "cannot read"),
        ("scorer/kind", ["list"], r"manifest.json: setting 'scorer.kind' is a string, not \['list'\]"),
        ("scorer/settings", {}, "setting 'columns' is missing"),
        ("labels/number", 3, "has 10 labels, and the manifest says 3"),
        ("labels/propensity", {"a": -1, "b": 0}, "cannot read"),
        ("files", {}, "the file 'labels.jsonl' is missing"),
        ("rerankers", 5, "setting 'rerankers' is a list of at most 100, not 5"),
        ("rerankers", [{"kind": "centroid.v2", "settings": {}}], r"setting 'rerankers\[0\].parts' is missing"),
    ],
)
def test_a_manifest_from_elsewhere_is_refused(
    folder: Path, tmp_path: Path, change: str, value: object, problem: str
) -> None:
    with pytest.raises(ModelError, match=problem):
        load(edited(folder, tmp_path / "model", change, value))


def test_indices_that_lead_outside_are_refused(model: Model, tmp_path: Path) -> None:
    """Kernels trust their arrays, so arrays that do not fit each other must not reach them."""

    class Bent:
        kind = "centroid.v2"

        def state(self) -> State:
            state = model.scorer.state()
            indices = state.tensors["index.indices"].copy()
            indices[3] = 10_000
            return State(state.settings, {**state.tensors, "index.indices": indices})

    path = save(Model(model.recipe, model.labels, Bent()), tmp_path / "model")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"scorer.safetensors: array 'index.indices' has the number 10000, outside 0"):
        load(path)


def test_nothing_is_overwritten_unasked(model: Model, folder: Path, tmp_path: Path) -> None:
    path = save(model, tmp_path / "model")
    with pytest.raises(ModelError, match="exists"):
        save(model, path)
    assert save(model, path, overwrite=True) == path
    other = tmp_path / "precious"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelError, match="not a model folder"):
        save(model, other, overwrite=True)
    assert (other / "thesis.txt").read_text() == "years of work"
    assert sorted(place.name for place in tmp_path.iterdir()) == ["model", "precious"]


def test_a_failed_write_leaves_nothing_behind(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(model, tmp_path / "model")
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(model, path, overwrite=True)
    with pytest.raises(OSError, match="No space left"):
        save(model, tmp_path / "other")
    assert [place.name for place in tmp_path.iterdir()] == ["model"]
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_killed_while_saving_leaves_no_half_model(what: signal.Signals, tmp_path: Path) -> None:
    """The save is slowed down file by file, then the process is stopped in the middle of it."""
    code = f"""
import os, sys, time
import longtail.cli
real = os.fsync
def slow(handle):
    open({str(tmp_path / "begun")!r}, "w").close()
    time.sleep(0.3)
    real(handle)
os.fsync = slow
sys.argv = ["longtail", "train", {str(tmp_path / "data")!r}, "bm25", "--out", {str(tmp_path / "out" / "model")!r}]
longtail.cli.main()
"""
    (tmp_path / "data").mkdir()
    row = {"text": "an apple", "labels": ["fruit"]}
    lines = "".join(json.dumps({"id": str(number), **row}) + "\n" for number in range(5))
    (tmp_path / "data" / "train.jsonl").write_text(lines)
    process = forked.Forked(["-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (tmp_path / "begun").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(what)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert b"Traceback" not in errors
    left = [place.name for place in (tmp_path / "out").iterdir()]
    assert "model" not in left
    if what != signal.SIGKILL:
        assert left == []


def test_missing_folders_say_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="longtail train"):
        load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"is .* a model folder"):
        load(tmp_path / "empty")
