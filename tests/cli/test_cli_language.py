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
