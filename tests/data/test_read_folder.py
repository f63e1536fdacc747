"""The folder layout: what it holds, and the error for everything that can be wrong with it."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail.data.labels import Propensity
from longtail.data.read import load
from longtail.errors import DataError

TRAIN: list[dict[str, Any]] = [
    {"id": "r1", "title": "Cats", "text": "purr", "labels": ["a", "b"]},
    {"id": "r2", "text": "bark", "labels": {"b": 0.25, "c": 1}},
    {"id": "r3", "title": "", "text": "moo", "labels": []},
    {"id": "r4", "title": None, "text": "neigh", "labels": ["c", "a", "c"]},
]
VALID: list[dict[str, Any]] = [{"id": "v1", "text": "quack", "labels": ["a"]}]
TEST: list[dict[str, Any]] = [{"id": "t1", "title": "Zebra", "text": "run", "labels": ["z", "a"]}]
LABELS = [{"id": name, "text": f"word {name}"} for name in "abcz"]


def write(folder: Path, **parts: Any) -> Path:
    """Each part is a list of rows, raw lines, or bytes; an underscore in its name stands for the dot."""
    folder.mkdir(exist_ok=True)
    for name, rows in parts.items():
        path = folder / (name.replace("_", ".") if "_" in name else f"{name}.jsonl")
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        raw = ("\n".join(lines) + "\n").encode() if lines else b""
        packers = {".gz": gzip.compress, ".xz": lzma.compress}
        path.write_bytes(packers.get(path.suffix, bytes)(raw))
    return folder


def complaint(folder: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(folder, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "").replace(str(folder), "FOLDER")


def test_everything_arrives(tmp_path: Path) -> None:
    exclude = [{"id": "r2", "labels": ["a", "z"]}, {"id": "t1", "labels": ["b"]}]
    corpus = load(write(tmp_path / "zoo", train=TRAIN, valid=VALID, test=TEST, labels=LABELS, exclude=exclude))
    assert corpus.name == "zoo"
    assert corpus.labels.ids == ("a", "b", "c", "z")
    assert corpus.labels.texts == ("word a", "word b", "word c", "word z")
    assert corpus.labels.counts.tolist() == [2, 2, 2, 0]  # z is seen only in test: zero-shot, and kept
    assert corpus.labels.train_rows == 4
    assert corpus.train.ids == ("r1", "r2", "r3", "r4")
    assert corpus.train.texts == ("Cats purr", "bark", "moo", "neigh")
    assert corpus.train.targets.toarray().tolist() == [
        [1, 1, 0, 0],
        [0, 0.25, 1, 0],
        [0, 0, 0, 0],
        [1, 0, 1, 0],  # "c" twice counts once
    ]
    assert corpus.train.targets.dtype == np.float32
    assert corpus.train.excluded.toarray().astype(int).tolist() == [[0] * 4, [1, 0, 0, 1], [0] * 4, [0] * 4]
    assert corpus.valid.excluded is None
    assert corpus.test.excluded.toarray().astype(int).tolist() == [[0, 1, 0, 0]]
    assert corpus.test.targets.toarray().tolist() == [[1, 0, 0, 1]]
    assert corpus.propensity == Propensity(0.55, 1.5)
    assert (corpus.text_field, corpus.notes) == ("title+text", ())


@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_packed_files_read_the_same(tmp_path: Path, ending: str) -> None:
    parts = {f"{name}_jsonl_{ending}": rows for name, rows in (("train", TRAIN), ("valid", VALID), ("labels", LABELS))}
    corpus = load(write(tmp_path, **parts))
    assert corpus.train.ids == ("r1", "r2", "r3", "r4")
    assert len(corpus.test) == 0


@pytest.mark.parametrize(
    ("text", "expected"), [("title", "Zebra"), ("text", "run"), ("title+text", "Zebra run"), (None, "Zebra")]
)
def test_an_argument_goes_before_the_fact(tmp_path: Path, text: str | None, expected: str) -> None:
    rows = [dict(row, title=row.get("title") or "") for row in TRAIN]
    folder = write(tmp_path, train=rows, valid=[], test=TEST, corpus_json=['{"text": "title"}'])
    corpus = load(folder, text=text)
    assert corpus.test.texts == (expected,)
    assert corpus.text_field == (text or "title")


def test_facts_travel_with_the_data(tmp_path: Path) -> None:
    facts = {"name": "Zoo", "propensity": {"a": 0.6, "b": 2.6}, "source": "a zoo", "licence": "CC0"}
    folder = write(tmp_path, train=TRAIN, valid=[], corpus_json=[json.dumps(facts)])
    assert load(folder).name == "Zoo"
    assert load(folder).propensity == Propensity(0.6, 2.6)
    assert load(folder, propensity=Propensity(0.5, 0.4)).propensity == Propensity(0.5, 0.4)


def test_labels_are_collected_in_order_of_appearance(tmp_path: Path) -> None:
    corpus = load(write(tmp_path, train=TRAIN, valid=VALID, test=TEST))
    assert corpus.labels.ids == ("a", "b", "c", "z")
    assert corpus.labels.texts == ("a", "b", "c", "z")


def test_whole_numbers_are_ids_too(tmp_path: Path) -> None:
    corpus = load(write(tmp_path, train=[{"id": 1, "text": "x", "labels": [7, "8"]}], valid=[]))
    assert (corpus.train.ids, corpus.labels.ids) == (("1",), ("7", "8"))


def test_valid_is_held_out_of_train_and_told(tmp_path: Path) -> None:
    rows = [{"id": f"row {n}", "text": "x", "labels": ["a"]} for n in range(200)]
    corpus = load(write(tmp_path, train=rows), valid_share=0.1, seed=3)
    assert 5 < len(corpus.valid) < 40
    assert sorted(corpus.train.ids + corpus.valid.ids) == sorted(row["id"] for row in rows)
    assert corpus.labels.counts.tolist() == [200]
    assert "held out as valid" in corpus.notes[0]
    assert load(tmp_path, valid_share=0.1, seed=3).valid.ids == corpus.valid.ids
    assert load(tmp_path, valid_share=0.1, seed=4).valid.ids != corpus.valid.ids
    tested = load(tmp_path, test_share=0.3)
    assert len(tested.test) > 20
    assert not set(tested.test.ids) & set(tested.train.ids + tested.valid.ids)


def test_counts_over_a_held_out_valid_split_are_kept(tmp_path: Path) -> None:
    folder = write(tmp_path, train=TRAIN, valid=VALID, corpus_json=['{"counted_on": "train+valid"}'])
    corpus = load(folder)
    assert corpus.labels.counts.tolist() == [3, 2, 2]
    assert corpus.labels.train_rows == 5
    assert corpus.valid.labels is corpus.labels


ROW = {"id": "x", "text": "t", "labels": ["a"]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW, *[""] * 5, "{broken"], "train.jsonl:7: broken JSON"),
        ([ROW, "[1, 2]"], "train.jsonl:2: expected a JSON object"),
        ([{"text": "t", "labels": []}], 'train.jsonl:1: the document has no "id"; give each document its own id'),
        ([{"id": "x", "text": "t"}], 'train.jsonl:1: the document has no "labels"; write "labels": [] for a document'),
        ([{"id": "x", "labels": []}], 'train.jsonl:1: the document has no "text"; add it, or read other fields'),
        ([ROW, {"id": "", "text": "t", "labels": []}], 'train.jsonl:2: "id" must be a non-empty string'),
        ([{"id": ["x"], "text": "t", "labels": []}], 'train.jsonl:1: "id" must be a non-empty string'),
        ([{"id": True, "text": "t", "labels": []}], 'train.jsonl:1: "id" must be a non-empty string'),
        ([{"id": "x", "text": 5, "labels": []}], 'train.jsonl:1: "title" and "text" must be strings'),
        ([{"id": "x", "title": [1], "text": "t", "labels": []}], 'train.jsonl:1: "title" and "text" must be'),
        ([{"id": "x", "text": "t", "labels": "a"}], 'train.jsonl:1: "labels" must be a list of label ids or'),
        ([{"id": "x", "text": "t", "labels": None}], 'train.jsonl:1: "labels" must be a list of label ids or'),
        ([{"id": "x", "text": "t", "labels": [["a"]]}], "train.jsonl:1: label ['a'] is not a label id"),
        ([{"id": "x", "text": "t", "labels": [1.5]}], "train.jsonl:1: label 1.5 is not a label id"),
        ([{"id": "x", "text": "t", "labels": [None]}], "train.jsonl:1: label None is not a label id"),
        (
            [ROW, dict(ROW, id="y"), ROW],
            "train.jsonl:3: document id 'x' is already at train.jsonl:1; ids must be unique",
        ),
        ([], "FOLDER: the train split has no examples; add some"),
        (["", "  "], "FOLDER: the train split has no examples; add some"),
    ],
)
def test_wrong_rows(tmp_path: Path, rows: list[Any], message: str) -> None:
    assert message in complaint(write(tmp_path, train=rows))


@pytest.mark.parametrize(
    "weight", ["1.5", "0", "-0.5", '"x"', "null", "true", "NaN", "Infinity", "1e-60", "[1]", "1.0000001", "1e999"]
)
def test_wrong_weights_name_their_line(tmp_path: Path, weight: str) -> None:
    row = f'{{"id": "y", "text": "t", "labels": {{"a": 1, "b": {weight}}}}}'
    message = complaint(write(tmp_path, train=[ROW, row]))
    assert message.startswith("train.jsonl:2: weight ")
    assert "of label 'b' does not lie in (0, 1]; rescale it" in message


def test_the_smallest_weights_are_kept(tmp_path: Path) -> None:
    row = {"id": "x", "text": "t", "labels": {"a": 1e-45, "b": 1.0}}
    assert load(write(tmp_path, train=[row], valid=[])).train.targets.nnz == 2


def test_an_unknown_label_names_the_nearest(tmp_path: Path) -> None:
    labels = [{"id": "poetry"}, {"id": "history"}]
    rows = [{"id": "x", "text": "t", "labels": ["poetry"]}, {"id": "y", "text": "t", "labels": ["histroy"]}]
    message = complaint(write(tmp_path, train=rows, labels=labels))
    assert message == (
        "train.jsonl:2: unknown label id 'histroy'; did you mean 'history'? add it to labels.jsonl or remove it; "
        "or leave such rows out: --skip-bad-rows FILE"
    )
    rows[1]["labels"] = ["zzz"]
    assert "unknown label id 'zzz', add it to labels.jsonl" in complaint(write(tmp_path, train=rows))


def test_the_same_id_in_two_splits_names_both_places(tmp_path: Path) -> None:
    message = complaint(write(tmp_path, train=TRAIN, test=[*TEST, dict(ROW, id="r3")]))
    assert message.startswith("test.jsonl:2: document id 'r3' is already at train.jsonl:3")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([{"text": "no id"}], 'labels.jsonl:1: the label has no "id"'),
        ([{"id": "a"}, {"id": "b"}, {"id": "a"}], "labels.jsonl:3: label id 'a' is already on line 1; remove one"),
        ([{"id": "a", "text": 5}], "labels.jsonl:1: \"text\" of label 'a' must be a string"),
        ([{"id": None}], 'labels.jsonl:1: "id" must be a non-empty string'),
    ],
)
def test_wrong_labels(tmp_path: Path, labels: list[Any], message: str) -> None:
    assert message in complaint(write(tmp_path, train=[ROW], labels=labels))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"id": "nobody", "labels": ["a"]}, "exclude.jsonl:1: no split has a document with the id 'nobody'"),
        ({"id": "r1", "labels": ["aa"]}, "exclude.jsonl:1: unknown label id 'aa'"),
        ({"id": "r1"}, 'exclude.jsonl:1: expected {"id": document id, "labels":'),
        ({"labels": ["a"]}, 'exclude.jsonl:1: expected {"id": document id, "labels":'),
    ],
)
def test_wrong_exclusions(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    assert message in complaint(write(tmp_path, train=TRAIN, labels=LABELS, exclude=[entry]))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("[]", "corpus.json: expected one JSON object, got a list"),
        ('{"name": 5}', 'corpus.json: "name" must be a string'),
        (
            '{"text": "body"}',
            "corpus.json: text must be one of 'title', 'text', 'title+text', 'title/text', got 'body'",
        ),
        ('{"propensity": 0.5}', 'corpus.json: "propensity" must look like {"a": 0.55, "b": 1.5}, got 0.5'),
        ('{"propensity": {"a": 0.5}}', 'corpus.json: "propensity" must look like'),
        ('{"propensity": {"a": "x", "b": 1}}', 'corpus.json: "propensity" must look like'),
        ('{"propensity": {"a": -1, "b": 1}}', "corpus.json: propensity constants must be 0 < A"),
        ('{"counted_on": "test"}', 'corpus.json: "counted_on" must be "train" or "train+valid"'),
    ],
)
def test_wrong_facts(tmp_path: Path, facts: str, message: str) -> None:
    assert message in complaint(write(tmp_path, train=[ROW], corpus_json=[facts]))


def test_a_missing_title_is_an_error_where_titles_are_read(tmp_path: Path) -> None:
    message = complaint(write(tmp_path, train=TRAIN), text="title")
    told = 'train.jsonl:2: the document has no "title"; add it, or read other fields (--text text)'
    assert message == f"{told}; or leave such rows out: --skip-bad-rows FILE"


def test_an_unknown_text_field_is_refused_before_reading(tmp_path: Path) -> None:
    assert "text must be one of" in complaint(tmp_path / "gone", text="titel")


def test_two_packings_of_one_split(tmp_path: Path) -> None:
    message = complaint(write(tmp_path, train=TRAIN, train_jsonl_gz=TRAIN))
    assert message == "FOLDER: train.jsonl and train.jsonl.gz are both here and may differ; keep one of them"
