"""The language of documents and the language of a vocabulary, as commands read and write them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_calls import call

import longtail

# No text has a sign of its language: each would be taken for English, whose stemmer leaves German plurals alone.
ROWS = [("Bibliotheken", "b"), ("Kirchen", "k"), ("Bibliotheken Kirchen", "b|k"), ("Zeitungen", "z")] * 3
NAMES = {"b": "Bibliothek", "k": "Kirche", "z": "Zeitung"}


def test_convert_writes_the_language_and_train_reads_it(tmp_path: Path) -> None:
    table = tmp_path / "books.csv"
    table.write_text("text,labels\n" + "".join(f"{text},{labels}\n" for text, labels in ROWS))
    assert call("convert", table, tmp_path / "ours", "--language", "de").code == 0
    assert json.loads((tmp_path / "ours" / "corpus.json").read_text())["language"] == "de"
    assert call("convert", table, tmp_path / "store", "--to", "store", "--language", "de").code == 0
    assert (
        call("train", tmp_path / "ours", "knn(words='stem')", "--out", tmp_path / "one", "--valid-share", "0").code == 0
    )
    model = longtail.load_model(tmp_path / "one")
    best = model.predict(longtail.Rows(texts=["Bibliothek"]), k=1)
    assert model.labels.ids[int(best.indices[0, 0])] == "b" and float(best.scores[0, 0]) > 0.5
    assert longtail.load(tmp_path / "store").language == "de"
    assert "'german' is no code" in call("convert", table, tmp_path / "x", "--language", "German").error
    assert call("convert", table, tmp_path / "untold").code == 0
    assert "language" not in json.loads((tmp_path / "untold" / "corpus.json").read_text())


def test_what_a_vocabulary_is_written_in_says_nothing_of_documents(tmp_path: Path) -> None:
    pytest.importorskip("rdflib", reason="rdflib is not installed")
    prefix = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
    concept = '<http://e.org/{0}> a skos:Concept ; skos:prefLabel "{1}"@de , "{1}s"@en .\n'
    (tmp_path / "vocab.ttl").write_text(prefix + "".join(concept.format(*one) for one in NAMES.items()))
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t<http://e.org/{label[0]}>\n" for text, label in ROWS))
    done = call("convert", tmp_path, tmp_path / "ours", "--language", "de")
    assert done.code == 0, done
    facts = json.loads((tmp_path / "ours" / "corpus.json").read_text())
    assert facts["label_language"] == "de" and "language" not in facts
    again = longtail.load(tmp_path / "ours")
    assert (again.language, again.label_language, again.labels.texts[0]) == ("", "de", "Bibliothek")
    assert np.all(again.labels.counts > 0)


SPOKEN = [
    ("Kirchen und Zeitungen", "ger", "k"),
    ("churches and newspapers", "eng", "k"),
    ("Bibliotheken", "de", "b"),
    ("libraries", "en", "b"),
] * 5


def spoken_table(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    path.write_text("text,lang,labels\n" + "".join(",".join(row) + "\n" for row in rows))
    return path


def test_a_column_of_languages_is_told_once(tmp_path: Path) -> None:
    """Train, predict, evaluate and a folder that `convert` wrote follow it; no command names it again."""
    table = spoken_table(tmp_path / "books.csv", SPOKEN)
    told = call("check", table, "--language-column", "lang", "--json").json
    assert "languages of documents by column 'lang': 10 de, 10 en" in told["notes"]
    assert call("convert", table, tmp_path / "ours", "--language-column", "lang").code == 0
    facts = json.loads((tmp_path / "ours" / "corpus.json").read_text())
    assert facts["language_column"] == "language" and facts["table"]["language"] == "lang"
    annif = call("convert", tmp_path / "ours", tmp_path / "annif", "--to", "annif-tsv")
    assert annif.code == 0 and "no place for the languages of documents" in annif.err
    recipe = "knn(words='stem')"
    for name, source in (("one", [table, "--language-column", "lang"]), ("two", [tmp_path / "ours"])):
        done = call("train", *source, recipe, "--out", tmp_path / name, "--valid-share", "0")
        assert done.code == 0, done
    files = [(tmp_path / name / "scorer.safetensors").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]
    later = spoken_table(
        tmp_path / "later.csv", [("Kirche", "de", "k"), ("Bibliothek", "de", "b"), ("Kirche", "tlh", "k")]
    )
    found = call("predict", tmp_path / "two", later, "-k", "1")
    assert found.code == 0 and "no known code ('tlh' 1; the first at later.csv:4)" in found.err
    assert [line["labels"][0]["id"] for line in found.lines[:2]] == ["k", "b"]
    lines = "".join(json.dumps({"text": text, "lang": code}) + "\n" for text, code, _ in SPOKEN[:2])
    assert len(call("predict", tmp_path / "one", stdin=lines).lines) == 2
    plain = {
        code: call("predict", tmp_path / "one", "--language", code, stdin="Kirchen\n").lines for code in ("de", "en")
    }
    assert plain["de"][0]["labels"][0]["id"] == "k" and plain["en"][0]["labels"] == []  # English leaves the plural
    measured = call(
        "evaluate", tmp_path / "one", later, "--split", "train", "--at", "1", "--json", "--valid-share", "0"
    )
    assert measured.code == 0, measured
    asked = call("predict", tmp_path / "one", later, "--out", tmp_path / "x.csv", "-k", "1")
    assert asked.code == 0 and (tmp_path / "x.csv").read_text().startswith("text,lang,labels")
    later.write_text("text,labels\nKirche,k\n")
    assert "there is no column 'lang', which the model was trained on" in call("predict", tmp_path / "one", later).error
    assert "no column 'lang'" in call("evaluate", tmp_path / "one", later, "--split", "train").error


def test_a_language_that_would_change_nothing_is_refused_or_told(tmp_path: Path) -> None:
    table = spoken_table(tmp_path / "books.csv", SPOKEN)
    one = tmp_path / "one"
    assert call("train", table, "knn(words='stem')", "--out", one, "--valid-share", "0").code == 0
    asked = call("predict", one, "--language", "de", stdin="Kirche\n")
    assert "--language is for models that learned the languages of documents from a column" in asked.error
    assert "'german' is no code" in call("predict", one, "--language", "German", stdin="Kirche\n").error
    measured = call("evaluate", one, table, "--split", "train", "--language", "de", "--valid-share", "0")
    assert measured.code == 0 and "--language changes nothing here" in measured.err


def test_evaluate_follows_the_field_of_json_lines(tmp_path: Path) -> None:
    rows = [
        {"id": str(row), "text": text, "lang": code, "labels": [label]}
        for row, (text, code, label) in enumerate(SPOKEN)
    ]
    source = tmp_path / "books.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = "knn(words='stem')"
    done = call("train", source, recipe, "--out", tmp_path / "m", "--language-column", "lang", "--valid-share", "0")
    assert done.code == 0, done
    source.write_text(json.dumps({"id": "1", "text": "Kirche", "lang": "de", "labels": ["k"]}) + "\n")
    measured = call("evaluate", tmp_path / "m", source, "--split", "train", "--at", "1", "--json", "--valid-share", "0")
    assert measured.code == 0 and measured.json["P@1"] == 100
    source.write_text(json.dumps({"id": "1", "text": "Kirche", "labels": ["k"]}) + "\n")  # it is guessed
    assert call("evaluate", tmp_path / "m", source, "--split", "train", "--json", "--valid-share", "0").code == 0
