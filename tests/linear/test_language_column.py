"""A column that has the language of each document: read, kept, remembered, and followed by stems and lemmas."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail.data.columns import column_names
from longtail.data.dataset import Rows
from longtail.data.fingerprint import fingerprint
from longtail.data.read import Columns
from longtail.data.store_convert import stored, write_store
from longtail.data.write import write_folder
from longtail.errors import DataError
from longtail.linear.features.sparse_features import Features
from longtail.linear.features.spoken_texts import SpokenTexts, spoken
from longtail.linear.features.word_counts import Vocabulary, WordCounts

# "Dienstags" and "kasten" have no sign of their language, and German and English stems of them differ.
ROWS = [
    ("1", "Bibliotheken", "ger", "b"),
    ("2", "libraries", "en", "b"),
    ("3", "Kirchen", "de-AT", "k"),
    ("4", "churches", "eng", "k"),
    ("5", "Zeitungen", "", "z"),
    ("6", "Kirchen", "klingon", "k"),
    ("7", "Zeitungen", "de;en", "z"),
]
CODES = ("de", "en", "de", "en", "", "", "")
LANGUAGE = Columns(language="lang")


def csv(path: Path, header: str = "id,text,lang,labels") -> Path:
    path.write_text(header + "\n" + "".join(",".join(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def jsonl(path: Path, field: str = "lang") -> Path:
    rows = [{"id": name, "text": text, field: code, "labels": [label]} for name, text, code, label in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def parquet(path: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow.parquet import write_table

    names = ("id", "text", "lang", "labels")
    write_table(
        pyarrow.table({name: list(cells) for name, cells in zip(names, zip(*ROWS, strict=True), strict=True)}), path
    )
    return path


@pytest.mark.parametrize(("write", "name"), [(csv, "a.csv"), (jsonl, "a.jsonl"), (parquet, "a.parquet")])
def test_a_column_is_read_and_what_is_no_code_is_told(tmp_path: Path, write: object, name: str) -> None:
    path = write(tmp_path / name)  # type: ignore[operator]
    corpus = longtail.load(path, columns=LANGUAGE, valid_share=0)
    assert corpus.train.languages == corpus.train.rows.languages == CODES and corpus.language_field == "lang"
    notes = "\n".join(corpus.notes)
    assert "languages of documents by column 'lang': 2 de, 2 en; 2 have none or several" in notes
    assert "1 documents have a language in column 'lang' that is no known code ('klingon' 1; the first at a." in notes
    assert longtail.load(path, valid_share=0).train.languages is None  # no column is guessed


def test_languages_stay_with_their_documents(tmp_path: Path) -> None:
    corpus = longtail.load(csv(tmp_path / "a.csv"), columns=LANGUAGE, valid_share=0.3, test_share=0.3)
    code_of = {name: code for (name, *_), code in zip(ROWS, CODES, strict=True)}

    def right(data: longtail.Dataset) -> bool:
        return data.languages == tuple(code_of[name] for name in data.ids)

    splits = (corpus.train, corpus.valid, corpus.test)
    assert all(map(right, splits)) and all(map(len, splits))
    assert right(corpus.train_and_valid()) and right(corpus.train.take([1, 0])) and right(corpus.judged_on_valid().test)
    assert corpus.train.rows[:2].languages == (corpus.train.languages or ())[:2]
    assert corpus.train.rows.take(np.array([1])).languages == (corpus.train.languages or ())[1:2]
    added = corpus.train.with_rows(targets=corpus.test.targets, origin="more", texts=corpus.test.texts)
    assert added.languages == (*(corpus.train.languages or ()), *[""] * len(corpus.test))
    assert fingerprint(replace(corpus.train, languages=None)) != fingerprint(corpus.train)
    folder = write_folder(corpus, tmp_path / "ours")
    assert json.loads((folder / "corpus.json").read_text())["language_column"] == "language"
    for again in (longtail.load(folder), longtail.load(stored(corpus, tmp_path / "jobs"))):
        assert again.language_field == "lang"
        assert [list(one.languages or ()) for one in (again.train, again.valid, again.test)] == [
            list(one.languages or ()) for one in splits
        ]


def test_a_store_is_written_from_a_column_of_a_table_or_a_field_of_json_lines(tmp_path: Path) -> None:
    for place in (csv(tmp_path / "a.csv"), jsonl(tmp_path / "a.jsonl")):
        write_store(place, tmp_path / "store", columns=LANGUAGE, valid_share=0, overwrite=True)
        store = longtail.load(tmp_path / "store")
        assert store.is_mapped and tuple(store.train.languages or ()) == CODES and store.language_field == "lang"
        assert list(store.train.take([1, 0]).languages or ()) == ["en", "de"]
    write_store(csv(tmp_path / "a.csv"), tmp_path / "plain")
    assert longtail.load(tmp_path / "plain").train.languages is None


def test_wrong_languages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'language'; did you mean 'lang'"):
        longtail.load(csv(tmp_path / "a.csv", "id,text,lang,labels"), columns=Columns(language="language"))
    with pytest.raises(DataError, match='no document has the field "tongue"'):
        longtail.load(jsonl(tmp_path / "a.jsonl"), columns=Columns(language="tongue"))
    with pytest.raises(DataError, match="JSON lines have --language-column alone"):
        longtail.load(tmp_path / "a.jsonl", columns=Columns(text="text"))
    (tmp_path / "train.jsonl").write_text((tmp_path / "a.jsonl").read_text())
    (tmp_path / "corpus.json").write_text('{"language_column": 3}')
    with pytest.raises(DataError, match='"language_column" must name a field'):
        longtail.load(tmp_path)
    with pytest.raises(DataError, match="2 languages for 1 rows"):
        Rows(texts=["a"], languages=["de", "en"])
    with pytest.raises(DataError, match="'xx' is no code"):
        Rows(texts=["a"], languages=["xx"])


def test_rows_of_pairs_and_rows_that_repeat_keep_their_languages(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("id,text,lang,labels\n1,Kirchen,,k\n2,churches,en,k\n1,Kirchen,de,b\n2,churches,en,k\n")
    pairs = longtail.load(table, columns=Columns(language="lang", shape="pairs"), valid_share=0)
    assert pairs.train.languages == ("de", "en")
    table.write_text("id,text,lang,labels\n1,a,fr,k\n2,Kirchen,de,k\n2,Kirchen,de,k\n3,churches,en,b\n")
    remedies = longtail.data.read.Remedies(drop_duplicates=True)
    once = longtail.load(table, columns=LANGUAGE, valid_share=0, remedies=remedies)
    assert once.train.languages == ("fr", "de", "en")


def test_data_in_memory_has_languages_too() -> None:
    texts, labels = [row[1] for row in ROWS], [[row[3]] for row in ROWS]
    codes = ["de", "en", None, "en", "", float("nan"), "de"]
    told = longtail.corpus(texts=texts, labels=labels, languages=codes, valid_share=0)
    assert told.train.languages == ("de", "en", "", "en", "", "", "de") and told.language_field is None
    frame = {"text": texts, "labels": labels, "lang": codes}
    named = longtail.corpus(frame, texts="text", labels="labels", languages="lang", valid_share=0)
    assert named.train.languages == told.train.languages and named.language_field == "lang"


def test_a_text_carries_its_language_through_parts_and_pickles() -> None:
    texts = spoken(["a", "b", "c"], ["de", "en", ""])
    assert isinstance(texts, SpokenTexts) and list(texts) == ["a", "b", "c"] and len(texts) == 3
    again = pickle.loads(pickle.dumps(list(texts[1:])))  # jobs send blocks of texts to other processes
    settings = WordCounts(words="stem", by_text=True, language="fr")
    assert settings.languages(again) == ["en", "fr"]
    assert replace(settings, by_text=False).languages(again) == ["fr", "fr"]
    assert replace(settings, language="auto", main_language="it").languages(again) == ["en", "it"]


@pytest.mark.parametrize("form", ["stem", "lemma", "stem+compounds", "plain+pieces", "stem+chars"])
@pytest.mark.parametrize("title_weight", [1.0, 2.0])
def test_words_have_the_forms_of_their_own_language(form: str, title_weight: float) -> None:
    """What is learned with a column is what is learned from each language apart."""
    texts = ["Kirchen\nder Zeitungen", "churches\nof newspapers"] * 4
    corpus = longtail.corpus(texts=texts, labels=[["k"]] * 8, languages=["de", "en"] * 4, valid_share=0)
    settings = WordCounts(words=form)
    features, vectors = Features.learn(corpus.train, settings, title_weight=title_weight)
    assert features.vocabulary is not None and features.vocabulary.settings.by_text
    assert abs(features.of(corpus.train.rows) - vectors).max() < 1e-6
    german = features.of(Rows(texts=["Kirchen"], languages=["de"]))
    assert abs(german - features.of(Rows(texts=["Kirchen"], languages=["en"]))).nnz or form == "plain+pieces"
    if form == "stem":
        known = set(features.vocabulary.words)
        assert {"kirch", "zeitung", "church", "newspap"} <= known and "churches" not in known
        assert {"kirchen", "church"} <= set(Vocabulary.learn(texts, replace(settings, language="en"))[0].words)


def test_a_language_without_a_stemmer_leaves_words_as_they_are() -> None:
    corpus = longtail.corpus(
        texts=["running dogs", "running dogs"], labels=[["a"], ["b"]], languages=["vi", "en"], valid_share=0
    )
    features, vectors = Features.learn(corpus.train, WordCounts(words="stem"))
    assert features.vocabulary is not None
    assert set(features.vocabulary.words) == {"running", "dogs", "run", "dog"} and (vectors[[0]] != vectors[[1]]).nnz


@pytest.mark.parametrize(
    "recipe",
    ["parabel(words='stem')", "knn(words='stem')", "centroid(words='lemma')", "fuse('knn(words=stem)', 'bm25')"],
)
def test_a_saved_model_reads_each_text_in_its_language(tmp_path: Path, recipe: str) -> None:
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    recipe = recipe.replace("words=stem", 'words="stem"')
    texts = ["Kirchen und Zeitungen", "churches and newspapers", "Bibliotheken", "libraries"] * 5
    labels = [["k"], ["k"], ["b"], ["b"]] * 5
    corpus = longtail.corpus(texts=texts, labels=labels, languages=["de", "en"] * 10, valid_share=0.2)
    model = longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid)
    model.save(tmp_path / "model")
    loaded = longtail.load_model(tmp_path / "model")
    rows = Rows(texts=["Kirche", "Bibliothek", "church"], languages=["de", "de", "en"])
    for one in (model, loaded):
        found = one.predict(rows, k=1)
        assert [one.labels.ids[row] for row in found.indices[:, 0].tolist()] == ["k", "b", "k"]
    assert (loaded.predict(rows, k=2).scores == model.predict(rows, k=2).scores).all()
    apart = np.vstack([loaded.predict(rows.take(np.array([row])), k=2).scores for row in range(3)])
    assert np.allclose(apart, model.predict(rows, k=2).scores)


def test_the_setting_of_a_learner_wins_over_the_column() -> None:
    corpus = longtail.corpus(
        texts=["Kirchen", "churches"], labels=[["a"], ["b"]], languages=["de", "en"], valid_share=0
    )
    features, _ = Features.learn(corpus.train, WordCounts(words="stem", language="en"))
    assert features.vocabulary is not None and features.vocabulary.words == ("kirchen", "church")
    plain, _ = Features.learn(corpus.train)
    assert plain.vocabulary is not None and not plain.vocabulary.settings.by_text


def test_the_languages_of_a_table_are_no_label_columns(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("text,tag_lang,tag_a,tag_b\nKirchen,de,1,0\nchurches,en,0,1\n")
    columns = Columns(labels="tag_*", language="tag_lang")
    corpus = longtail.load(table, columns=columns, valid_share=0)
    assert corpus.labels.ids == ("a", "b") and corpus.train.languages == ("de", "en")
    assert column_names(table)[1] == "tag_lang"
