"""Model folders of somebody who means ill: all checksums are right, and what they cover is not.

Each case is a fault that was found once, by hand or by `benchmarks/fuzz_models.py`.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.data import Corpus
from longtail.errors import LongtailError, ModelError
from longtail.model_bytes import arrays_from
from longtail.model_files import checksum, manifest_to_bytes
from longtail.recipe import Recipe
from longtail.store import load
from stored import Stored, bent

ROOT = Path(__file__).resolve().parent.parent
NET = "dimension=8, batch_size=64, epochs=1"
NET_OF_LAYERS = "batch_size=64, epochs=1"  # their width is the encoder's
RECIPES = {
    "bm25": "bm25",
    "knn": "knn(neighbours=5)",
    "centroid": "centroid",
    "lexical": "lexical(trees=2)",
    "forest": "parabel(max_leaf_labels=2, branches=2, trees=2)",
    "fastxml": "fastxml(trees=2)",
    "pfastrexml": "pfastrexml(trees=2)",
    "rerank": "bm25 + rerank",
    "nearness": "bm25 + centroid",
    "calibrate": "bm25 + calibrate",
    "sparserank": "bm25 + sparserank(candidates=3, ranker_weight=0.5)",
    "ranknet": "knn(neighbours=5) + ranknet(epochs=1)",
    "taug": "knn(neighbours=5) + taug(head_share=0.3, copies=1)",
    "ensemble": f"knn(neighbours=5) + ensemble(tail_model=\"dpr(encoder='bag', {NET})\", tail_max_count=60)",
    "dual": f"ngame(encoder='bag', {NET}, classifier_epochs=1)",
    "transformer": f"dpr(encoder='tiny', {NET})",
    "onevsall": f"renee(encoder='bag', {NET})",
    "hashed": f"mach(encoder='bag', {NET}, repetitions=3, buckets=4)",
    "nets": f"mach(encoder='bag', {NET}, repetitions=2, buckets=4, shared_encoder=false)",
    "treenet": f"cascadexml(encoder='bag', {NET}, max_leaf_labels=2, branches=2)",
    "clustergraph": f"elias(encoder='bag', {NET}, cluster_epochs=1, max_leaf_labels=2)",
    "attention": f"attentionxml(encoder='bag', {NET}, hidden=4, max_flat_labels=1, max_leaf_labels=2)",
    "resolutions": f"xrtransformer(encoder='bag', {NET}, max_leaf_labels=4, branches=2)",
    "tapped": f"lightxml(encoder='tiny', {NET_OF_LAYERS}, max_leaf_labels=2, hidden=4)",
    "pool": f"unidec(encoder='bag', {NET})",
    "shallow": f"decaf({NET})",
    "graph": f"eclare({NET})",
    "clusters": "inceptionxml(dimension=64, channels=4, max_words=4, label_cluster_size=2, batch_size=64, epochs=1)",
}
Change = Callable[[Stored], None]


@pytest.fixture(scope="module")
def saved(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A model of each kind, trained when it is first asked for."""
    folder = tmp_path_factory.mktemp("models")

    def made(name: str) -> Path:
        if not (folder / name).exists():
            Recipe.parse(RECIPES[name]).fit(tiny.train, tiny.valid).save(folder / name)
        return folder / name

    return made


def setting(name: str, value: Any, *path: Any) -> Change:
    """Change a setting of the scorer, or of the part that the path leads to."""

    def change(stored: Stored) -> None:
        place = stored.manifest
        for step in path or ("scorer",):
            place = place[step]
        *inside, last = name.split(".")
        place = place["settings"]
        for step in inside:
            place = place[step]
        place[last] = value

    return change


def array(name: str, value: Any, file: str = "scorer") -> Change:
    """Change an array of the scorer, or of another part."""
    return lambda stored: stored.set(name, value, f"{file}.safetensors")


def put(place: Any, value: Any) -> Callable[[Any], Any]:
    """An array with other numbers at a place."""

    def changed(old: Any) -> Any:
        old[place] = value
        return old

    return changed


def one_label_less(stored: Stored) -> None:
    del stored.labels[-1]
    stored.manifest["labels"]["number"] -= 1


def two_labels_more(stored: Stored) -> None:
    stored.labels += [json.dumps({"id": f"N{row}", "text": "", "count": 0}) for row in range(2)]
    stored.manifest["labels"]["number"] += 2


@pytest.mark.parametrize("change", [one_label_less, two_labels_more])
@pytest.mark.parametrize("kind", RECIPES)
def test_another_number_of_labels(kind: str, change: Change, saved: Callable[[str], Path], tmp_path: Path) -> None:
    """Whatever has one entry a label is compared with the labels, whichever part holds it."""
    if kind == "taug" and change is two_labels_more:  # a label may be on neither side
        assert load(bent(saved(kind), tmp_path / "model", change)).predict(["apple"], k=12).indices.max() < 10
        return
    with pytest.raises(ModelError, match=r"labels|label outside"):
        load(bent(saved(kind), tmp_path / "model", change))


WILD = np.iinfo(np.int32).max
CASES: dict[str, tuple[str, Change, str]] = {
    # SciPy's own check looks at no index where the last pointer is 0.
    "pointers all 0": ("bm25", array("index.indptr", lambda old: old * 0), "'index.indptr' does not lead from 0"),
    "a pointer that wraps in 32 bits": (
        "bm25",
        array("index.indptr", put(3, 2**32)),
        "numbers that do not rise",
    ),
    "a last pointer that wraps": ("bm25", array("index.indptr", put(-1, 2**32 + 10)), "'index.indptr' does not lead"),
    "an index of a label": ("bm25", array("index.indices", put(0, WILD)), "'index.indices' has the number 2147483647"),
    "a negative index": ("knn", array("index.indices", put(0, -1)), "'index.indices' has the number -1"),
    "wide indices": ("knn", array("targets.indices", lambda old: old.astype(np.int64)), "of type int64, not int32"),
    "a shape for all memory": ("bm25", array("index.shape", put(0, 2**40)), "'index.shape' is for 1099511627776 words"),
    "rows for all memory": ("knn", array("targets.shape", put(0, 2**31 - 2)), "rows where there are"),
    "weights of words that are no numbers": (
        "knn",
        array("idf", put(0, np.nan)),
        "'idf' has numbers",
    ),
    "weights of words that are infinite": ("centroid", array("idf", put(0, np.inf)), "'idf' has numbers"),
    "words that overlap": (
        "knn",
        array("word_offsets", put(slice(1, -1), 0)),
        "numbers that do not rise",
    ),
    "words without end": ("knn", array("word_offsets", put(-1, 2**40)), "'word_offsets' does not lead from 0"),
    "neighbours": ("knn", setting("neighbours", -1), "setting 'neighbours' is a whole number from 1"),
    "words by hash over an index of words": (
        "bm25",
        setting("words.hash_bits", 10),
        "setting 'words.hash_bits' is a whole number from 0 to 0",
    ),
    "a term twice": ("lexical", array("terms", lambda old: old * 0), "'terms' has a term twice"),
    "columns": ("knn", setting("columns", 2**31 - 1), "columns where there are"),
    "a beam of none": ("forest", setting("beam", 0), "setting 'beam' is a whole number from 1"),
    "a beam of a word": ("forest", setting("beam", "wide"), "setting 'beam' is a whole number"),
    "a beam that is true": ("forest", setting("beam", True), "setting 'beam' is a whole number"),
    "labels for all memory": ("forest", setting("labels", 2**31 - 1), "setting 'labels' is for 2147483647 labels"),
    "a child of a chunk": ("forest", array("forest.which", put(0, 250)), "'forest.which' has a weight of a child"),
    "negative children": ("forest", array("forest.which", lambda old: old.astype(np.int8)), "of type int8, not uint8"),
    "half a leaf": ("forest", array("forest.node_leaf", put(0, 2)), "'forest.node_leaf' has the number 2"),
    "leaves at two depths": ("forest", array("forest.node_leaf", put(1, 1)), "array 'forest"),
    "a tree in a circle": ("forest", array("forest.child", put(0, 0)), "not behind its parent"),
    "a label twice": ("forest", array("forest.child", put(-1, 0)), "a tree that lacks a label|two parents"),
    "no tree": ("forest", array("forest.roots", lambda old: old[:0]), "array 'forest"),
    "one tree twice": ("forest", array("forest.roots", lambda old: old[[0, 0]]), "two parents or none"),
    "features that fall": ("forest", array("forest.features", lambda old: old[::-1].copy()), "features do not ascend"),
    "a path in a circle": ("fastxml", array("children", put((0, 1), 0)), "leads to an earlier one"),
    "a leaf that is not there": ("fastxml", array("children", put((0, 1), -WILD)), "array 'children' leads"),
    "no trees": ("fastxml", array("roots", lambda old: old[:0]), "array 'roots' has no tree"),
    "a step that falls": ("calibrate", array("scores", lambda old: -old, "reranker-0"), "'scores' has the number"),
    "a curve of no label": ("calibrate", array("groups", put(0, 9), "reranker-0"), "'groups' has the number 9"),
    "candidates": ("rerank", setting("candidates", 0, "rerankers", 0), "setting 'candidates' is a whole number from 1"),
    "hidden units": ("ranknet", array("shared", lambda old: old[:, :2], "reranker-0"), "'shared' is for 2 bottleneck"),
    "a side without labels": ("taug", array("head.labels", lambda old: old[:0]), "a side has none|labels where there"),
    "a side of other labels": ("taug", array("head.labels", put(-1, 99)), "'head.labels' has the number 99"),
    "half rare": ("ensemble", array("tail", put(0, 2)), "'tail' has the number 2"),
    "a word that nobody knows": ("dual", setting("encoder.vocabulary", 2**31 - 1), "along an axis of 2147483647"),
    "a network for all memory": (
        "transformer",
        setting("encoder.layers", 10**9),
        "'encoder.layers' is a whole",
    ),
    "a wide network": ("transformer", setting("encoder.inner", 2**30), "along an axis of 1073741824"),
    "no heads": ("transformer", setting("encoder.heads", 0), "'encoder.heads' is a whole number from 1"),
    "label vectors of another length": (
        "dual",
        array("labels", lambda old: old[:, :3].copy()),
        "has 3 numbers",
    ),
    "a cluster that is not there": ("clusters", array("cluster", put(0, 99)), "'cluster' has the number 99"),
    "a link to no label": ("graph", array("graph.indices", put(0, 99)), "'graph.indices' has the number 99"),
    "a link without end": ("graph", array("graph.indptr", put(-1, 10**6)), "'graph.indptr' does not lead"),
    "tokens": ("dual", setting("max_tokens", 2**70), "setting 'max_tokens' is a whole number"),
    "a calibration that is not finite": (
        "dual",
        setting("calibration", [float("nan"), 0.0]),
        "'calibration.0.'",
    ),
}


def test_an_error_does_not_repeat_a_setting_of_any_length(saved: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read as bm25") as refused:
        load(bent(saved("bm25"), tmp_path / "model", setting("words.words", "x" * 100_000)))
    assert len(str(refused.value)) < 1000
    with pytest.raises(ModelError) as refused:
        load(bent(saved("bm25"), tmp_path / "other", setting("words.words", "x\n\ny")))
    assert "\n" not in str(refused.value)
    with pytest.raises(ModelError) as refused:
        load(bent(saved("bm25"), tmp_path / "named", setting("x" * 100_000, 1)))
    assert len(str(refused.value)) <= 1000


@pytest.mark.parametrize("case", CASES)
def test_what_does_not_fit_is_refused_by_its_name(case: str, saved: Callable[[str], Path], tmp_path: Path) -> None:
    kind, change, problem = CASES[case]
    place = bent(saved(kind), tmp_path / "model", change)
    with pytest.raises(ModelError, match=problem) as caught:
        load(place)
    assert str(caught.value).startswith(f"{place}/") and "\n" not in str(caught.value)


def no_labels(stored: Stored) -> None:
    stored.labels.clear()
    stored.manifest["labels"]["number"] = 0
    stored.set("index.shape", put(1, 0))
    stored.set("index.indptr", lambda old: old * 0)
    for name in ("index.indices", "index.data"):
        stored.set(name, lambda old: old[:0])


def test_a_model_without_labels_answers_nothing(saved: Callable[[str], Path], tmp_path: Path) -> None:
    """No kernel looks at the first of no places."""
    model = load(bent(saved("bm25"), tmp_path / "model", no_labels))
    predictions = model.predict(["an apple", ""], k=3)
    assert predictions.indices.tolist() == [[-1], [-1]]
    labels, scores = model.scorer.top(load(saved("bm25")) and _rows(["an apple"]), 0)
    assert labels.shape == scores.shape == (1, 0)
    forest = load(saved("forest"))
    assert forest.scorer.top(_rows(["an apple"]), 0)[0].shape == (1, 0)


def _rows(texts: list[str]) -> Any:
    from longtail.data import Rows

    return Rows(texts=tuple(texts))


@pytest.mark.parametrize("kind", ["bm25", "dual", "transformer", "shallow", "ranknet"])
def test_finite_weights_never_answer_what_is_not_finite(
    kind: str, saved: Callable[[str], Path], tmp_path: Path
) -> None:
    """Sums of large numbers overflow: that ends in an error, or in finite scores."""

    def enlarge(stored: Stored) -> None:
        for arrays in stored.arrays.values():
            for name, old in arrays.items():
                if old.dtype == np.float32 and name != "idf":
                    arrays[name] = np.where(old > 0, np.float32(3e38), old).astype(np.float32)

    try:
        with np.errstate(all="ignore"):
            predictions = load(bent(saved(kind), tmp_path / "model", enlarge)).predict(["apple bridge castle"], k=5)
    except LongtailError as error:
        assert "not finite" in str(error) or "outside 0 to 1" in str(error)
    else:
        assert np.isfinite(predictions.scores).all()


def test_tokens_outside_the_encoder_are_refused(saved: Callable[[str], Path], tmp_path: Path) -> None:
    """The ids that a template adds are in no vocabulary; torch would read beside its table, or raise what it likes."""

    def template(stored: Stored) -> None:
        definition = json.loads(stored.arrays["scorer.safetensors"]["tokenizer"].tobytes())
        definition["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"X": {"id": "X", "ids": [100_000], "tokens": ["X"]}},
        }
        stored.set("tokenizer", np.frombuffer(json.dumps(definition).encode(), dtype=np.uint8))

    model = load(bent(saved("dual"), tmp_path / "model", template))
    with pytest.raises(ModelError, match="the tokenizer gives ids that are not in its vocabulary"):
        model.predict(["apple"])


def test_a_tokenizer_that_writes_thousands_of_characters_for_one(saved: Callable[[str], Path], tmp_path: Path) -> None:
    def growing(stored: Stored) -> None:
        definition = json.loads(stored.arrays["scorer.safetensors"]["tokenizer"].tobytes())
        step = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 100}
        definition["normalizer"] = {"type": "Sequence", "normalizers": [step] * 5}
        stored.set("tokenizer", np.frombuffer(json.dumps(definition).encode(), dtype=np.uint8))

    with pytest.raises(ModelError, match="may write 10000000000 characters for one"):
        load(bent(saved("dual"), tmp_path / "model", growing)).predict(["apple"])


@pytest.mark.parametrize("name", ["manifest.json", "labels.jsonl", "scorer.safetensors"])
@pytest.mark.parametrize("what", ["a pipe", "a device", "a folder", "gone", "longer", "shorter"])
def test_what_is_no_file_is_not_read(name: str, what: str, saved: Callable[[str], Path], tmp_path: Path) -> None:
    """Nothing waits for a pipe, and nothing reads a device that never ends."""
    place = bent(saved("bm25"), tmp_path / "model", lambda stored: None)
    raw = (place / name).read_bytes()
    (place / name).unlink()
    if what == "a pipe":
        os.mkfifo(place / name)
    elif what == "a device":
        (place / name).symlink_to("/dev/zero")
    elif what == "a folder":
        (place / name).mkdir()
    elif what != "gone":
        (place / name).write_bytes(raw + b"\0" if what == "longer" else raw[:-1])
    with pytest.raises(ModelError) as caught:
        load(place)
    assert str(caught.value).startswith(f"{place / name}: ")
    if what.startswith("a "):
        assert f"is {what}, where a model has a file" in str(caught.value)


def test_sizes_that_no_memory_holds_are_refused_before_a_byte_is_read(
    saved: Callable[[str], Path], tmp_path: Path
) -> None:
    """A file of a terabyte that takes no room on the disk."""
    place = bent(saved("bm25"), tmp_path / "model", lambda stored: None)
    size = 1 << 40
    os.truncate(place / "scorer.safetensors", size)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["files"]["scorer.safetensors"]["bytes"] = size
    (place / "manifest.json").write_bytes(manifest_to_bytes(manifest))
    with pytest.raises(ModelError, match="this machine has"):
        load(place)
    (place / "manifest.json").write_bytes(b" " * (1 << 23))
    with pytest.raises(ModelError, match="and a file of this kind at most"):
        load(place)


HEADERS: dict[str, Any] = {
    "a type that nobody has": {"a": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}},
    "more than there is": {"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}},
    "another shape": {"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}},
    "axes that overflow": {"a": {"dtype": "F32", "shape": [0, 1 << 47, 1 << 47], "data_offsets": [0, 8]}},
    "a negative axis": {"a": {"dtype": "U8", "shape": [-8], "data_offsets": [0, 8]}},
    "bytes shared": {"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}
    | {"b": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}},
    "bytes left out": {"a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}},
    "neither true nor false": {"a": {"dtype": "BOOL", "shape": [8], "data_offsets": [0, 8]}},
    "no object": [],
    "a list of nothing": {"a": []},
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_do_not_describe_their_file(case: str) -> None:
    header = json.dumps(HEADERS[case]).encode()
    raw = struct.pack("<Q", len(header)) + header + b"\7" * 8
    with pytest.raises(ModelError, match=r"^x\.safetensors: "):
        arrays_from(Path("x.safetensors"), np.frombuffer(raw, dtype=np.uint8))


@pytest.mark.parametrize("length", [0, 7, 2**31, 2**63])
def test_headers_of_any_length(length: int) -> None:
    with pytest.raises(ModelError, match=r"x\.safetensors"):
        arrays_from(Path("x.safetensors"), np.frombuffer(struct.pack("<Q", length) + b"{}", dtype=np.uint8))
    with pytest.raises(ModelError, match="is no safetensors file"):
        arrays_from(Path("x.safetensors"), np.zeros(3, dtype=np.uint8))


def test_arrays_that_are_not_aligned_are_copied() -> None:
    header = json.dumps(
        {
            "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
            "b": {"dtype": "F64", "shape": [1], "data_offsets": [1, 9]},
        }
    ).encode()
    raw = struct.pack("<Q", len(header)) + header + b"\1" + struct.pack("<d", 2.5)
    arrays = arrays_from(Path("x"), np.frombuffer(raw, dtype=np.uint8))
    assert arrays["b"].flags.aligned and arrays["b"].tolist() == [2.5] and arrays["a"].tolist() == [1]


def test_a_folder_takes_no_more_memory_than_its_files(saved: Callable[[str], Path], tmp_path: Path) -> None:
    """A wide index of 50 MB: reading, checking and restoring it copy next to nothing."""
    wide = 6_000_000

    def enlarge(stored: Stored) -> None:
        entries = {"index.indices": np.arange(wide, dtype=np.int32) % 10, "index.data": np.ones(wide, np.float32)}
        for name, value in entries.items():
            stored.set(name, value)
        rows = len(stored.arrays["scorer.safetensors"]["index.indptr"])
        stored.set("index.indptr", np.linspace(0, wide, rows).astype(np.int64))

    place = bent(saved("bm25"), tmp_path / "model", enlarge)
    code = (
        "import sys, resource, longtail; from longtail.store import load; load(sys.argv[1]);"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; load(sys.argv[2]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved("bm25")), str(place)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) * 1024 < 1.5 * 8 * wide


def test_a_file_that_belongs_to_no_part_is_refused(saved: Callable[[str], Path], tmp_path: Path) -> None:
    place = bent(saved("bm25"), tmp_path / "model", lambda stored: None)
    (place / "more.bin").write_bytes(b"x" * 10)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["files"]["more.bin"] = {"bytes": 10, "sha256": checksum(b"x" * 10)}
    (place / "manifest.json").write_bytes(manifest_to_bytes(manifest))
    with pytest.raises(ModelError, match=r"the file 'more.bin' belongs to no part"):
        load(place)


def test_parts_inside_parts_have_an_end(saved: Callable[[str], Path], tmp_path: Path) -> None:
    def nested(stored: Stored) -> None:
        entry = stored.manifest["scorer"]
        for _ in range(40):
            entry = {"kind": entry["kind"], "settings": entry["settings"], "parts": {"head": entry}}
        stored.manifest["scorer"] = entry

    with pytest.raises(ModelError, match="inside more than 10 others"):
        load(bent(saved("taug"), tmp_path / "model", nested))


@pytest.mark.parametrize("bounds", [False, True])
def test_a_few_hundred_folders_of_the_fuzzer(bounds: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The short form of the benchmark: no crash, nothing out of bounds, no foreign exception, no infinite answer."""
    models = tmp_path_factory.getbasetemp() / "fuzzed"
    few = (
        ["bm25", "knn"]
        if bounds
        else ["parabel", "fastxml", "pfastrexml", "platt", "ranknet", "taug", "ensemble", "unidec"]
    )
    command = [sys.executable, str(ROOT / "benchmarks" / "fuzz_models.py"), "--models", str(models), "--seed", "5"]
    command += ["--folders", "100" if bounds else "300", *["--boundscheck"] * bounds, "--only", *few]
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults" in done.stdout
