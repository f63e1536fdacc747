"""Data sets from lists, frames and data sets in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import longtail
from longtail.data import Corpus, Propensity
from longtail.errors import DataError

TEXTS = ["a tabby", "a hammer", "a kitten", "a saw"]
LABELS = [["cats"], ["tools", "steel"], ["cats"], []]
TABLE: dict[str, list[Any]] = {"title": TEXTS, "more": ["purrs", None, "small", "cuts"], "subjects": LABELS}
WANTED = [[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]]


def test_lists(tiny: Corpus) -> None:
    corpus = longtail.corpus(
        texts=TEXTS,
        labels=LABELS,
        label_texts={"tools": "things to work with", "cats": "animals that purr", "dogs": "animals that bark"},
        ids=["t", "h", "k", "s"],
        valid=(["a lion"], [["cats"]]),
        test={"texts": ["a file"], "labels": [["tools"]], "ids": ["f"]},
        name="own",
        propensity=Propensity(0.6, 2.6),
    )
    assert corpus.name == "own" and corpus.propensity == Propensity(0.6, 2.6)
    assert corpus.labels.ids == ("tools", "cats", "dogs", "steel")
    assert corpus.labels.texts == ("things to work with", "animals that purr", "animals that bark", "")
    assert corpus.labels.counts.tolist() == [1, 2, 0, 1]
    assert corpus.train.ids == ("t", "h", "k", "s") and corpus.test.ids == ("f",)
    assert corpus.train.targets.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert corpus.valid.texts == ("a lion",)
    assert corpus.notes == ("1 label has no text in label_texts",)
    model = longtail.Recipe.parse("bm25").fit(corpus.train, corpus.valid)
    assert model.predict(["purr"], k=1).answers(0)[0].id == "cats"


def test_names_are_texts_where_there_are_no_others() -> None:
    assert longtail.corpus(texts=TEXTS, labels=LABELS).labels.texts == ("cats", "tools", "steel")


def test_splits_that_are_not_given_are_held_out() -> None:
    corpus = longtail.corpus(texts=TEXTS * 10, labels=LABELS * 10, test_share=0.2, valid_share=0.1, seed=1)
    assert len(corpus.train) + len(corpus.valid) + len(corpus.test) == 40
    assert corpus.drawn == ("test", "valid")
    assert len(longtail.corpus(texts=TEXTS, labels=LABELS, valid_share=0).train) == 4


def tables() -> list[Any]:
    return ["dict", "pandas", "polars", "pyarrow", "datasets"]


def made(kind: str, columns: dict[str, list[Any]]) -> Any:
    if kind == "dict":
        return columns
    package = pytest.importorskip(kind)
    if kind == "datasets":
        return package.Dataset.from_dict(columns)
    return package.table(columns) if kind == "pyarrow" else package.DataFrame(columns)


@pytest.mark.parametrize("kind", tables())
def test_tables(kind: str) -> None:
    table = made(kind, TABLE)
    corpus = longtail.corpus(table, texts=["title", "more"], labels="subjects", valid_share=0)
    assert corpus.train.texts == ("a tabby purrs", "a hammer", "a kitten small", "a saw cuts")
    assert corpus.train.targets.toarray().tolist() == WANTED
    one = longtail.corpus(table, texts="title", labels="subjects", ids="title")
    assert {*one.train.ids, *one.valid.ids} == set(TEXTS)
    with pytest.raises(DataError, match="no column 'subject' for labels; did you mean 'subjects'"):
        longtail.corpus(table, texts="title", labels="subject")
    with pytest.raises(DataError, match="labels must name a column: title, more, subjects"):
        longtail.corpus(table, texts="title")


@pytest.mark.parametrize("kind", tables())
def test_cells_of_strings_and_columns_of_marks(kind: str) -> None:
    table = made(kind, {"text": TEXTS, "labels": ["a|b", "b", None, ""], "x": [1, 0, 1, 0], "y": [0, 1, 1, 0]})
    corpus = longtail.corpus(table, texts="text", labels="labels", separator="|", valid_share=0)
    assert corpus.labels.ids == ("a", "b")
    assert corpus.train.targets.toarray().tolist() == [[1, 1], [0, 1], [0, 0], [0, 0]]
    whole = longtail.corpus(table, texts="text", labels="labels", valid_share=0)
    assert whole.labels.ids == ("a|b", "b")
    marked = longtail.corpus(table, texts="text", labels=["x", "y"], valid_share=0)
    assert marked.labels.ids == ("x", "y")
    assert marked.train.targets.toarray().tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize("kind", tables())
def test_a_mapping_of_splits(kind: str) -> None:
    splits = {
        "train": made(kind, {"text": TEXTS, "labels": LABELS}),
        "validation": made(kind, {"text": ["a lion"], "labels": [["cats"]]}),
        "test": made(kind, {"text": ["a dog"], "labels": [["dogs"]]}),
    }
    corpus = longtail.corpus(splits, texts="text", labels="labels")
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (4, 1, 1)
    assert corpus.labels.ids == ("cats", "tools", "steel", "dogs")
    assert corpus.labels.counts.tolist() == [2, 1, 1, 0]


def test_class_labels_of_hugging_face_are_words() -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["no", "yes"])
    for feature, cells, wanted in (
        (names, [0, 1, 1, 0], [[1, 0], [0, 1], [0, 1], [1, 0]]),
        (datasets.List(names), [[0], [1], [1, 0], []], [[1, 0], [0, 1], [1, 1], [0, 0]]),
    ):
        features = datasets.Features({"text": datasets.Value("string"), "label": feature})
        table = datasets.Dataset.from_dict({"text": TEXTS, "label": cells}, features=features)
        corpus = longtail.corpus(datasets.DatasetDict({"train": table}), texts="text", labels="label", valid_share=0)
        assert corpus.labels.ids == ("no", "yes")
        assert corpus.train.targets.toarray().tolist() == wanted


def test_weights_numbers_and_matrices() -> None:
    weighted = longtail.corpus(texts=["a", "b"], labels=[{"x": 0.5}, {"x": 1, "y": np.float32(0.25)}], valid_share=0)
    assert weighted.train.targets.toarray().tolist() == [[0.5, 0], [1, 0.25]]
    numbers = longtail.corpus(texts=["a", "b"], labels=[[np.int64(7)], (9, 7, 7)], valid_share=0)
    assert numbers.labels.ids == ("7", "9")
    assert numbers.train.targets.toarray().tolist() == [[1, 0], [1, 1]]  # what stands twice counts once
    marks = np.array([[1, 0, 0], [0, 0.5, 0]])
    for matrix in (marks, sparse.csr_array(marks)):
        corpus = longtail.corpus(
            texts=["a", "b"], labels=matrix, label_texts={"x": "", "y": "", "z": ""}, valid_share=0
        )
        assert corpus.labels.ids == ("x", "y", "z")
        assert corpus.train.targets.toarray().tolist() == marks.tolist()


def test_features_instead_of_texts() -> None:
    features = np.eye(4, 6, dtype=np.float32)
    corpus = longtail.corpus(features=features, labels=LABELS, valid={"features": features[:1], "labels": [["cats"]]})
    assert corpus.train.texts is None
    assert corpus.train.features.toarray().tolist() == features.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"labels": LABELS}, "train: give texts or features"),
        ({"texts": TEXTS}, "train: give labels, a list for each document"),
        ({"texts": "one text", "labels": LABELS}, "texts is one string"),
        ({"texts": TEXTS, "labels": LABELS[:3]}, "4 documents and labels of 3 do not match"),
        ({"texts": TEXTS, "labels": LABELS, "ids": ["a"]}, "4 documents and 1 ids do not match"),
        ({"texts": TEXTS, "labels": LABELS, "ids": ["a", "b", "a", "c"]}, "document id 'a' is already in train"),
        ({"texts": ["a", 3], "labels": [[], []]}, "train, document 2: the text is not a string but int"),
        ({"texts": ["a", "b"], "labels": [["x"], [4.5]]}, "train, document 2: label 4.5 is not a label id"),
        ({"texts": ["a", "b"], "labels": [["x"], [""]]}, "label '' is not a label id"),
        ({"texts": ["a"], "labels": [{"x": 2}]}, "document 1: weight 2 of label 'x' does not lie in (0, 1]"),
        ({"texts": ["a"], "labels": [["x"]], "label_texts": {"x": 3}}, "the text of 'x' is not a string but int"),
        ({"texts": TEXTS, "labels": LABELS, "valid": ["a"]}, "valid: give a pair of texts and labels"),
        ({"texts": TEXTS, "labels": LABELS, "test": {"text": []}}, "test: unknown entry 'text'"),
        ({"data": 3, "texts": "a", "labels": "b"}, "train: int is no table"),
        ({"texts": ["a"], "labels": np.ones((1, 2)), "label_texts": {"x": ""}}, "2 columns, and label_texts 1 label;"),
        ({"texts": [], "labels": []}, "the train split has no examples"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError) as refused:
        longtail.corpus(**given)
    assert problem in str(refused.value)


def test_a_table_whose_rows_are_not_there_yet() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    lazy = polars.LazyFrame({"text": TEXTS, "labels": LABELS})
    with pytest.raises(DataError, match=r"LazyFrame holds no rows yet; give its \.collect\(\)"):
        longtail.corpus(lazy, texts="text", labels="labels")


def test_load_says_where_data_in_memory_goes() -> None:
    with pytest.raises(DataError, match=r"got dict; for data in memory: longtail\.corpus"):
        longtail.load({"text": TEXTS})  # type: ignore[arg-type]
