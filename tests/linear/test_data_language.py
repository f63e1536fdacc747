"""The language that a data set says its documents have: where it is kept, and what learners over words make of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import longtail
from longtail.data.corpus import Corpus
from longtail.data.dataset import Dataset
from longtail.data.fingerprint import fingerprint
from longtail.data.store_convert import stored, write_store
from longtail.data.text_language import text_language
from longtail.data.write import write_folder
from longtail.errors import DataError
from longtail.learners.bm25 import Bm25, Bm25Scorer
from longtail.linear.features.word_counts import WordCounts

# No text has a sign of its language: each would be taken for English, whose stemmer leaves German plurals alone.
ROWS = [("Bibliotheken", "b"), ("Kirchen", "k"), ("Bibliotheken Kirchen", "b|k"), ("Zeitungen", "z")] * 3
NAMES = {"b": "Bibliotheken", "k": "Kirchen", "z": "Zeitungen"}


def german(folder: Path, **facts: str) -> Path:
    folder.mkdir()
    for name, rows in (("train", ROWS), ("test", ROWS[:4])):
        found = [
            {"id": f"{name}{row}", "text": text, "labels": labels.split("|")} for row, (text, labels) in enumerate(rows)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in found))
    names = [{"id": label, "text": text} for label, text in NAMES.items()]
    (folder / "labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in names))
    (folder / "corpus.json").write_text(json.dumps(facts))
    return folder


def files(corpus: Corpus, recipe: str, place: Path) -> dict[str, bytes]:
    longtail.Recipe.parse(recipe).fit(corpus.train, corpus.valid).save(place)
    found = {one.name: one.read_bytes() for one in place.rglob("*.safetensors")}
    assert found
    return found


def test_the_language_of_corpus_json_lives_with_the_rows(tmp_path: Path) -> None:
    corpus = longtail.load(german(tmp_path / "data", language="de-AT"), valid_share=0.3)
    splits = [corpus.train, corpus.valid, corpus.test]
    added = corpus.train.with_rows(targets=corpus.test.targets, origin="more", texts=corpus.test.texts)
    derived = [added, corpus.train.take([2, 0]), corpus.train.over(corpus.labels), corpus.train_and_valid()]
    assert {one.language for one in [*splits, *derived, corpus.judged_on_valid().test]} == {"de"} == {corpus.language}
    again = longtail.load(write_folder(corpus, tmp_path / "again"))
    store = longtail.load(write_store(tmp_path / "data", tmp_path / "store"))
    sent = longtail.load(stored(corpus, tmp_path / "jobs"))
    for one in (again, store, sent):
        assert {one.train.language, one.valid.language, one.test.language} == {"de"} and one.label_language == "de-AT"
    other = longtail.load(tmp_path / "store", language="en")
    assert (other.language, other.label_language) == ("en", "de-AT")
    assert fingerprint(replace(corpus.train, language="")) != fingerprint(corpus.train) == fingerprint(sent.train)


@pytest.mark.parametrize(
    "recipe",
    ["parabel(words='stem')", "knn(words='stem')", "bm25(words='stem')", "lexical(words='stem', learned_names=0)"],
)
def test_learners_read_words_in_the_language_of_the_data(tmp_path: Path, recipe: str) -> None:
    """As with a setting of their own, also once saved; a setting wins."""
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    german(tmp_path / "data", language="de")
    told = longtail.load(tmp_path / "data", valid_share=0)
    (tmp_path / "data" / "corpus.json").unlink()
    untold = longtail.load(tmp_path / "data", valid_share=0)
    asked = recipe.replace(")", ", language='de')")
    english = recipe.replace(")", ", language='en')")
    found = files(told, recipe, tmp_path / "told")
    assert found == files(untold, asked, tmp_path / "asked") != files(untold, english, tmp_path / "english")
    assert files(told, english, tmp_path / "english-too") == files(untold, english, tmp_path / "english-again")
    rows = longtail.Rows(texts=["Bibliothek"])  # a form that no training text has, without a sign of its language
    scores = longtail.load_model(tmp_path / "told").predict(rows, k=1)
    assert told.labels.ids[int(scores.indices[0, 0])] == "b"


@pytest.mark.parametrize("recipe", ["parabel", "bm25", "knn"])
def test_plain_words_are_the_same_in_every_language(tmp_path: Path, recipe: str) -> None:
    corpus = longtail.load(german(tmp_path / "data"), valid_share=0)
    assert corpus.language == ""
    other = replace(corpus.train, language="tr")
    spoken = replace(corpus, train=other, valid=corpus.valid, test=corpus.test)
    assert files(corpus, recipe, tmp_path / "one") == files(spoken, recipe, tmp_path / "two")


def test_what_no_stemmer_knows_is_guessed_as_before() -> None:
    plain, stems = WordCounts(), WordCounts(words="stem")
    assert stems.told("") is stems and stems.told("zh") is stems and plain.told("de") is plain
    assert stems.told("de").language == "de" and stems.told("de").told("en").language == "de"
    assert WordCounts(words="chars").told("zh").language == "zh"
    assert (
        WordCounts(words="lemma").told("bg").language == "bg"
        and WordCounts(words="lemma").told("zh").language == "auto"
    )


def test_bm25_guesses_from_label_texts_where_nothing_is_told(tmp_path: Path) -> None:
    corpus = longtail.load(german(tmp_path / "data"), valid_share=0)

    def language(train: Dataset, setting: str = "auto") -> str:
        model = Bm25(words="stem", language=setting).fit(train, train, ())
        assert isinstance(model, Bm25Scorer) and model.vocabulary is not None
        return model.vocabulary.settings.language

    assert language(corpus.train) == "en"
    assert language(replace(corpus.train, language="de")) == "de"
    assert language(replace(corpus.train, language="de"), "fr") == "fr"


@pytest.mark.parametrize(
    ("given", "language"),
    [
        ("de", "de"),
        ("DE_at", "de"),
        ("grc", "grc"),
        ("", ""),
        ("und", ""),
        (None, ""),
        ("de,en", ""),
        ("ger", "de"),
        ("deu", "de"),
        ("mul", ""),
        ("ger|eng", ""),
    ],
)
def test_codes_are_read(given: str | None, language: str) -> None:
    assert text_language(given) == language


def test_codes_that_nobody_knows(tmp_path: Path) -> None:
    folder = german(tmp_path / "data", language="German")
    with pytest.raises(
        DataError, match=r"'german' is no code that is known; give two letters .* \"label_language\""
    ) as told:
        longtail.load(folder)
    assert "corpus.json" in str(told.value)
    (folder / "corpus.json").write_text('{"label_language": 3}')
    with pytest.raises(DataError, match='"label_language" must be a code'):
        longtail.load(folder)
    (folder / "corpus.json").unlink()
    with pytest.raises(DataError, match="'xx' is no code"):
        longtail.load(folder, language="xx")
    with pytest.raises(DataError, match="'xyz' is no code"):
        longtail.corpus(texts=["Haus"], labels=[["a"]], valid_share=0, language="xyz")


def test_the_language_of_data_in_memory() -> None:
    corpus = longtail.corpus(
        texts=["Bibliotheken", "Kirchen"],
        labels=[["b"], ["k"]],
        test=(["Kirche"], [["k"]]),
        language="de",
        valid_share=0,
    )
    assert {corpus.train.language, corpus.valid.language, corpus.test.language, corpus.label_language} == {"de"}
