"""`longtail convert`, and what a converted folder and its models remember of the table."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from cli_calls import call

import longtail

THINGS = ("apple", "dragon", "castle", "river", "violin")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(0)
    rows = ["isbn;name;blurb;tags"]
    for number in range(120):
        thing = THINGS[number % 5]
        label = thing.upper() if number % 7 == 0 else thing.title()
        rows.append(f"b{number};the {thing};about {thing}s {rng.random():.3f};{label},N/A")
    path = tmp_path_factory.mktemp("table") / "books.csv"
    path.write_bytes("\r\n".join([*rows, "b999;the caf\xe9;about apples;Apple"]).encode("cp1252"))
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    """Trained on the converted folder: no option about the table is given again."""
    folder, model = table.parent / "folder", table.parent / "model"
    told = ["--text-column", "name,blurb", "--label-column", "tags", "--id-column", "isbn", "--label-separator", ","]
    done = call("convert", table, folder, *told, "--fold-labels", "--ignore-labels", "N/A", "--encoding", "auto")
    assert done.code == 0 and "folded 5 spellings" in done.err, done
    assert call("train", folder, "knn", "--out", model).code == 0
    return model


def test_the_folder_remembers_the_table(table: Path, model: Path) -> None:
    facts = json.loads((table.parent / "folder" / "corpus.json").read_text())
    assert facts["table"] == {
        "text": ["name", "blurb"],
        "labels": "tags",
        "id": "isbn",
        "separator": ",",
        "encoding": "auto",
        "fold_labels": True,
        "ignore_labels": ["N/A"],
    }
    corpus = longtail.load(table.parent / "folder")
    assert (corpus.text_field, corpus.id_field, len(corpus.labels)) == ("name+blurb", "isbn", 5)
    assert len(corpus.valid) > 0 and len(corpus.test) == 0
    loaded = longtail.load_model(model)
    assert loaded.table == corpus.table


def test_new_tables_are_read_as_the_first_one(table: Path, model: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_bytes(
        "blurb;tags;isbn;name\r\nabout castles;CASTLE;n1;a r\xeaver\r\nrivers;River,N/A;n2;the river\r\n".encode(
            "cp1252"
        )
    )
    answers = call("predict", model, new, "-k", "1").lines
    assert [(row["id"], row["labels"][0]["id"].lower()) for row in answers] == [("n1", "castle"), ("n2", "river")]
    done = call("evaluate", model, new, "--split", "train", "--valid-share", "0", "--at", "1", "--json")
    assert done.json["P@1"] == 100 and "does not have" not in done.err  # CASTLE is Castle, N/A is no label
    jsonl = tmp_path / "x.jsonl"
    jsonl.write_text('{"name": "the river"}\n{"text": "the castle"}\n')
    assert len(call("predict", model, jsonl).lines) == 2


def test_one_column_may_have_another_name(table: Path, model: Path, tmp_path: Path) -> None:
    """What is not said again stays as the model, or corpus.json, knows it."""
    new = tmp_path / "new.csv"
    new.write_text("blurb;keys;isbn;name\nabout castles;CASTLE,N/A;n1;the castle\nrivers;River;n2;the river\n")
    asked = ["--split", "train", "--valid-share", "0", "--at", "1", "--json"]
    assert "no column 'tags'" in call("evaluate", model, new, *asked).error
    assert call("evaluate", model, new, *asked, "--label-column", "keys").json["P@1"] == 100
    marks = tmp_path / "marks.csv"
    marks.write_text("blurb;is Castle;is River;isbn;name\nabout castles;1;0;n1;the castle\nrivers;0;1;n2;the river\n")
    assert call("evaluate", model, marks, *asked, "--label-column", "is *").json["P@1"] == 100
    (tmp_path / "train.csv").write_text(new.read_text())
    (tmp_path / "corpus.json").write_text((table.parent / "folder" / "corpus.json").read_text())
    corpus = longtail.load(tmp_path, columns=longtail.data.read.Columns(labels="keys"), valid_share=0)
    assert corpus.train.ids == ("n1", "n2") and corpus.labels.ids == ("CASTLE", "River")


def test_a_missing_column_of_training_is_an_error(model: Path, tmp_path: Path) -> None:
    lacking = tmp_path / "lacking.csv"
    lacking.write_text("nam;blurb;isbn\nx;y;1\n")
    assert "there is no column 'name', which the model was trained on" in call("predict", model, lacking).error
    assert "did you mean 'nam'" in call("predict", model, lacking).error
    assert "no column 'name'" in call("evaluate", model, lacking, "--split", "train").error


def test_columns_may_be_told_by_corpus_json_beside_tables(table: Path, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_bytes(table.read_bytes())
    (tmp_path / "corpus.json").write_text((table.parent / "folder" / "corpus.json").read_text())
    corpus = longtail.load(tmp_path, valid_share=0)
    assert len(corpus.train) == 121 and len(corpus.labels) == 5 and "b999" in corpus.train.ids
    facts = {"table": {"text": ["name"], "labels": 3}}
    (tmp_path / "corpus.json").write_text(json.dumps(facts))
    assert '"labels" must be a string' in call("check", tmp_path).err


def test_there_and_back_changes_nothing(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("rdflib", reason="rdflib is not installed")
    there, back, table = tmp_path / "annif", tmp_path / "back", tmp_path / "table"
    assert call("convert", data, there, "--to", "annif").code == 0
    assert call("convert", there, back).code == 0
    assert call("convert", back, table, "--to", "annif-tsv", "--json").json["to"] == "annif-tsv"
    first, second = longtail.load(data), longtail.load(back)
    for split in ("train", "valid", "test"):
        before, after = getattr(first, split), getattr(second, split)
        texts = dict(zip(before.ids, before.texts, strict=True))
        assert dict(zip(after.ids, after.texts, strict=True)) == texts
        assert after.targets.nnz == before.targets.nnz
    model = tmp_path / "model"
    assert call("train", table, "bm25", "--out", model).code == 0
    named = call("predict", model, table / "test.tsv.gz", "-k", "1").lines
    assert len(named) == len(first.test) and all(row["labels"] for row in named)
    assert [row["id"] for row in call("predict", model, there / "test").lines] == sorted(first.test.ids)


def test_wrong_words_are_errors(table: Path, data: Path, tmp_path: Path) -> None:
    assert "--to must be one of store, folder, annif, annif-tsv, got 'anif' (did you mean" in call(
        "convert", data, tmp_path / "x", "--to", "anif"
    ).error.replace("; did", " (did")
    assert "exists; choose another path" in call("convert", data, tmp_path).error
    assert "name its file with --vocabulary" in call("convert", data, tmp_path / "x", "--exclude-type", "u").error
    assert "'german' is no code that is known" in call("check", data, "--language", "German").err


def test_a_store_is_written_planned_and_checked_to_its_last_byte(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = call("convert", data, store, "--to", "store")
    assert done.code == 0 and f"wrote {store}" in done.out
    assert call("check", store).code == call("check", data).code
    planned = call("plan", store, "knn")
    assert planned.code == 0 and "the data itself stays in its files" in " ".join(planned.out.split())
    texts = store / "train.texts"
    texts.write_bytes(texts.read_bytes().replace(b"a", b"b", 1))  # a text like any other
    assert call("plan", store, "knn").code == 0
    damaged = call("check", store)
    assert damaged.code == 1 and f"{texts}: has changed since it was written" in damaged.err, damaged
