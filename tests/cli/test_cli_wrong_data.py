"""Wrong input: one line that names the place and the remedy, for every command that reads data."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_calls import call
from scipy import sparse


def rows(number: int, name: str = "r") -> list[str]:
    return [
        json.dumps({"id": f"{name}{row}", "text": f"word{row} and", "labels": ["ab"[row % 2]]}) for row in range(number)
    ]


def folder(**files: str | bytes) -> Path:
    """A data folder; two underscores in a file's name stand for a dot."""
    path = Path("data")
    path.mkdir()
    for name, content in files.items():
        (path / name.replace("__", ".")).write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def lines(*written: str) -> str:
    return "".join(line + "\n" for line in written)


def matrix(values: list[list[float]]) -> sparse.csr_array:
    return sparse.csr_array(np.array(values, dtype=np.float32))


def nan_in_npz() -> Path:
    path = folder()
    sparse.save_npz(path / "X.trn.npz", matrix([[1, 2], [0, np.nan], [1, 1]]))
    sparse.save_npz(path / "Y.trn.npz", matrix([[1, 0], [0, 1], [1, 1]]))
    return path


LABELS = lines('{"id": "a", "text": "A"}', '{"id": "b", "text": "B"}')
WRONG: dict[str, tuple[Callable[[], Path], str, str]] = {  # how to make it, the place, the problem with its remedy
    "broken JSON on line 7": (
        lambda: folder(train__jsonl=lines(*rows(6), '{"id": "x", "text": ', *rows(3, "q"))),
        "data/train.jsonl:7: ",
        "broken JSON (Expecting value at column 21); each line must be one whole JSON object",
    ),
    "unknown label id": (
        lambda: folder(train__jsonl=lines(*rows(4), '{"id": "x", "text": "", "labels": ["aa"]}'), labels__jsonl=LABELS),
        "data/train.jsonl:5: ",
        "unknown label id 'aa'; did you mean 'a'? add it to labels.jsonl or remove it",
    ),
    "empty train split": (lambda: folder(train__jsonl=""), "data: ", "the train split has no examples"),
    "blank train split": (lambda: folder(train__jsonl="\n\n\n"), "data: ", "add some"),
    "NaN in a bag of words": (
        lambda: folder(train__txt="3 4 2\n0 0:1\n1 2:nan\n0,1 3:0.5\n"),
        "data/train.txt:3: ",
        "value 'nan' is not a finite number that float32 can hold; remove or replace it",
    ),
    "infinity in a bag of words": (
        lambda: folder(train__txt="2 4 2\n0 0:inf\n1 2:1\n"),
        "data/train.txt:2: ",
        "value 'inf' is not a finite number that float32 can hold; remove or replace it",
    ),
    "NaN in an npz": (
        nan_in_npz,
        "data/X.trn.npz: ",
        "row 1 has value nan for feature 1, which is not a finite number that float32 can hold; remove or replace it",
    ),
    "weight of 1.5": (
        lambda: folder(train__jsonl=lines(*rows(2), '{"id": "x", "text": "", "labels": {"a": 1.5}}')),
        "data/train.jsonl:3: ",
        "weight 1.5 of label 'a' does not lie in (0, 1]; rescale it",
    ),
    "weight that is a terminal command": (
        lambda: folder(train__jsonl=lines('{"id": "x", "text": "", "labels": {"a": "\\u001b[2J\\n"}}')),
        "data/train.jsonl:1: ",
        "weight '\\x1b[2J\\n' of label 'a' does not lie in (0, 1]; rescale it",
    ),
    "duplicate ids": (
        lambda: folder(train__jsonl=lines(*rows(5), rows(2)[1])),
        "data/train.jsonl:6: ",
        "document id 'r1' is already at train.jsonl:2; ids must be unique over all splits, so rename or remove one",
    ),
    "duplicate ids over splits": (
        lambda: folder(train__jsonl=lines(*rows(5)), test__jsonl=lines(rows(3)[2])),
        "data/test.jsonl:1: ",
        "document id 'r2' is already at train.jsonl:3",
    ),
    "0-byte gz": (
        lambda: folder(train__jsonl__gz=b""),
        "data/train.jsonl.gz: ",
        "the compressed file has 0 bytes; copy or make it again",
    ),
    "gz that is none": (lambda: folder(train__jsonl__gz=lines(*rows(3))), "data/train.jsonl.gz: ", "not whole gz data"),
    "an empty folder": (folder, "data: ", "has no data set: looked for train.jsonl, train.csv"),
    "a list instead of lines": (
        lambda: folder(train__jsonl="[" + ",".join(rows(3)) + "]"),
        "data/train.jsonl:1: ",
        'expected a JSON object like {"id": ...} on the line, got a list',
    ),
    "two layouts": (
        lambda: folder(train__jsonl=lines(*rows(3)), train__csv="text,labels\nx,a\n"),
        "data: ",
        "has a train split in more than one layout; keep one of them: train.csv, train.jsonl",
    ),
    "broken corpus.json": (
        lambda: folder(train__jsonl=lines(*rows(3)), corpus__json="{"),
        "data/corpus.json:1: ",
        "broken JSON",
    ),
}


def reading_commands(path: Path) -> list[list[str | Path]]:
    return [["compare", path, "centroid"], ["plan", path, "centroid"], ["train", path, "centroid", "--out", "model"]]


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data(name: str) -> None:
    make, place, problem = WRONG[name]
    path = make()
    before = sorted(Path().iterdir())
    for words in reading_commands(path):
        message = call(*words).error
        assert message.startswith(place)
        assert problem in message
    checked = call("check", path)
    as_json = call("check", path, "--json")
    assert (checked.code, as_json.code, as_json.err) == (1, 1, "")
    faults = as_json.json["faults"]
    if faults:  # a fault of rows: check reads on to the end and lists it with its place
        assert faults[0]["places"][0] == Path(place.rstrip(": ")).name
        first = message.removesuffix("; or leave such rows out: --skip-bad-rows FILE")  # check names it once, below
        assert faults[0]["first"] == first
        assert first in checked.out + checked.err
    else:
        assert checked.one_line == message
        assert as_json.json["errors"] == [message]
    assert sorted(Path().iterdir()) == before  # no report, no model


def test_missing_data() -> None:
    for words in (["check", "nowhere"], *reading_commands(Path("nowhere"))):
        message = call(*words).error
        assert message.startswith("nowhere: no such file or folder; give the path of a data set")
    assert "the path of the data is empty" in call("check", "").error


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("noise", "a single file must be .jsonl, .csv, .tsv, .parquet"),
        ("noise.txt", "a single file must be"),
        ("noise.csv", "noise.csv:2: byte 0x80 is not UTF-8"),
        ("noise.jsonl", "noise.jsonl:2: byte 0x80 is not UTF-8; pass --encoding auto"),
        ("noise.parquet", "noise.parquet: not a whole Parquet file"),
        ("noise.csv.gz", "noise.csv.gz: not whole gz data"),
        ("noise.jsonl.xz", "noise.jsonl.xz: not whole xz data"),
    ],
)
def test_a_binary_file_as_data(name: str, problem: str) -> None:
    Path(name).write_bytes(bytes(range(256)) * 8)
    done = call("check", name)
    assert done.code == 1
    assert problem in done.err + done.out or f"{name}:2" in done.err + done.out
    assert problem in call("compare", name, "centroid").error


def test_data_that_nothing_can_be_learned_from() -> None:
    bare = [json.dumps({"id": str(row), "text": f"word {row}", "labels": []}) for row in range(9)]
    path = folder(train__jsonl=lines(*bare), test__jsonl=lines('{"id": "t", "text": "x", "labels": []}'))
    for words in reading_commands(path)[::2]:
        assert "the data has no labels at all; check the labels field or column" in call(*words).error
    done = call("check", path)
    assert (done.code, done.err) == (1, "")
    assert done.out.endswith("error: no example of any split has a label: check the labels field or column\n")
    assert call("check", path, "--json").json["bands"]["tail"] == {"labels": 0.0, "positives": 0.0}

    (path / "labels.jsonl").write_text(LABELS)
    assert "no example of train has a label, so knn has nothing to learn from" in call("compare", path, "knn").error
    assert call("train", path, "bm25", "--out", "model").code == 0  # reads label texts only


def test_rows_without_a_single_text() -> None:
    path = Path("bare.csv")
    path.write_text("text,labels\n" + "".join(f" ,{'ab'[row % 2]}\n" for row in range(30)))
    expected = "every text of train is empty, so nothing can be learned; check the text field or column"
    assert call("train", path, "centroid", "--out", "m").error == expected
    assert call("compare", path, "bm25", "knn").error == expected
    assert call("train", path, "bm25", "--out", "m").code == 0  # looks at label texts alone
    assert call("train", path, "centroid + rows", "--out", "n").code == 0  # has them as rows


def test_a_learner_that_needs_what_the_data_lacks() -> None:
    path = folder(train__txt="4 3 2\n0 0:1\n1 1:1\n0 2:1\n1 0:2\n", test__txt="1 3 2\n0 0:1\n")
    assert "bm25 needs labels with texts" in call("compare", path, "centroid", "bm25").error
    assert not Path("report.html").exists()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_places_that_cannot_be_written_are_refused_before_training(what: str, data: Path, model: Path) -> None:
    """A path through a file, which not even root can write."""
    Path("file").write_text("mine")
    Path("folder").mkdir()
    if what == "file":
        problem = "file is not a folder; give another path"
        assert problem in call("train", data, "centroid", "--out", "file/x").error
        assert problem in call("compare", data, "centroid", "--report", "file/x").error
        assert problem in call("predict", model, "--out", "file/x", stdin="apple").error
        assert problem in call("build", "hierarchy", "edges", "nowhere", "--out", "file/x").error
    else:
        problem = "folder: is a folder; give the name of a file to write"
        assert problem in call("compare", data, "centroid", "--report", "folder").error
        assert problem in call("predict", model, "--out", "folder", stdin="apple").error
    assert Path("file").read_text() == "mine"
    assert sorted(path.name for path in Path().iterdir()) == ["file", "folder"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(data: Path, model: Path) -> None:
    Path("locked").mkdir(mode=0o555)
    for words in (
        ["train", data, "centroid", "--out", "locked/m"],
        ["compare", data, "centroid", "--report", "locked/r.html"],
        ["predict", model, "--out", "locked/p.jsonl"],
    ):
        assert "locked is not yours to write in; give another path" in call(*words).error


def test_a_disk_that_fails_at_the_end(data: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    problem = "cannot be written (No space left on device); free some space, or write to another disk"
    assert f"new: {problem}" in call("train", data, "centroid", "--out", "new").error
    assert f"new.jsonl: {problem}" in call("predict", model, "--out", "new.jsonl", stdin="apple").error
    report = call("compare", data, "bm25", "--report", "new.html")
    assert report.code == 2
    assert "new.html: the report cannot be written here (No space left on device)" in report.err
    assert list(Path().iterdir()) == []


def test_models_are_replaced_only_when_asked(data: Path) -> None:
    assert call("train", data, "centroid", "--out", "m").code == 0
    before = {path.name: path.read_bytes() for path in Path("m").iterdir()}
    assert "m exists; choose another name, or pass --overwrite" in call("train", data, "knn", "--out", "m").error
    assert {path.name: path.read_bytes() for path in Path("m").iterdir()} == before
    assert call("train", data, "knn", "--out", "m", "--overwrite").code == 0
    assert json.loads(Path("m/manifest.json").read_text())["recipe"] == "knn"
    other = shutil.copytree(data, "other")
    assert "it is left alone" in call("train", data, "knn", "-o", other, "--overwrite").error
    assert sorted(path.name for path in Path(other).iterdir()) == sorted(path.name for path in data.iterdir())
    # and that is raised before the data is read, which may be followed by hours of training
    assert "it is left alone" in call("train", "nowhere", "knn", "-o", other, "--overwrite").error


@pytest.mark.parametrize(
    "damage", ["nothing", "a file", "another folder", "cut", "edited", "a file gone", "no manifest", "half a manifest"]
)
def test_damaged_models(damage: str, data: Path, model: Path) -> None:
    path = Path("m")
    if damage == "another folder":
        path = data
    elif damage == "a file":
        path.write_text("mine")
    elif damage != "nothing":
        shutil.copytree(model, path)
    if damage == "cut":
        raw = (path / "scorer.safetensors").read_bytes()
        (path / "scorer.safetensors").write_bytes(raw[: len(raw) // 2])
    elif damage == "edited":
        (path / "labels.jsonl").write_text((path / "labels.jsonl").read_text().replace("apple", "pear!"))
    elif damage == "a file gone":
        (path / "labels.jsonl").unlink()
    elif damage == "no manifest":
        (path / "manifest.json").unlink()
    elif damage == "half a manifest":
        raw = (path / "manifest.json").read_bytes()
        (path / "manifest.json").write_bytes(raw[: len(raw) // 2])
    problem = {
        "a file": "m is not a model folder; train one with: longtail train DATA RECIPE --out MODEL",
        "half a manifest": "the model is not whole, copy it again",
        "nothing": "m is not a model folder; train one with: longtail train DATA RECIPE --out m",
        "another folder": "a model folder?",
        "cut": f"m/scorer.safetensors: {(model / 'scorer.safetensors').stat().st_size // 2} bytes are not the ",
        "edited": "m/labels.jsonl: the content is not the ",
        "a file gone": "m/labels.jsonl: cannot be read (No such file or directory)",
        "no manifest": "m/manifest.json: cannot be read (No such file or directory)",
    }[damage]
    assert problem in call("predict", path, "--out", "p.jsonl", stdin="apple").error
    if damage not in ("nothing", "a file"):
        assert problem in call("evaluate", path, data).error
    assert not Path("p.jsonl").exists()


def test_the_traceback_only_with_debug(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.errors import DataError

    assert "nowhere" in call("check", "nowhere").error
    for words in (["--debug", "check", "nowhere"], ["check", "--debug", "nowhere"], ["check", "nowhere", "--debug"]):
        with pytest.raises(DataError, match="nowhere"):
            call(*words)
    monkeypatch.setenv("LONGTAIL_DEBUG", "1")
    with pytest.raises(DataError, match="nowhere"):
        call("check", "nowhere")


def test_our_own_mistakes_are_one_line_too(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("longtail.data.read.load", fail)
    assert call("check", data).error.startswith("ZeroDivisionError: division by zero (a bug in longtail")
    with pytest.raises(ZeroDivisionError):
        call("check", data, "--debug")


class OutOfMemoryError(RuntimeError):
    """As torch calls what a GPU lacks."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
    ],
)
def test_out_of_memory(error: Exception, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("longtail.data.read.load", fail)
    assert call("check", data).error == "out of memory; `longtail plan` estimates what a recipe needs"
