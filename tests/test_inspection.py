"""What `check` finds: facts, warnings and errors, each on data that has just that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from longtail.comparison.uncertainty import clean_rows
from longtail.data import Corpus, Dataset, LabelSet
from longtail.data.read import load
from longtail.inspection import Inspection, concerns, inspect

TRAIN = [(f"r{row}", f"{word} number {row}", [word]) for row, word in enumerate(("cat", "dog", "owl") * 4)]
TEST = [(f"t{row}", f"{word} unseen {row}", [word]) for row, word in enumerate(("cat", "dog", "owl"))]


def found(
    folder: Path, train: list[Any] = TRAIN, valid: list[Any] | None = None, test: list[Any] = TEST, **more: list[Any]
) -> Inspection:
    folder.mkdir(exist_ok=True)
    valid = [("v0", "a valid cat", ["cat"])] if valid is None else valid
    for name, rows in (("train", train), ("valid", valid), ("test", test)):
        lines = [json.dumps({"id": key, "text": text, "labels": labels}) for key, text, labels in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    for name, entries in more.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, entries)))
    return inspect(load(folder))


def test_clean_data_has_nothing_to_say(tmp_path: Path) -> None:
    result = found(tmp_path)
    assert (result.warnings, result.errors) == ((), ())
    assert result.facts == {
        "train examples": 12,
        "valid examples": 1,
        "test examples": 3,
        "labels": 3,
        "labels per example": "mean 1.00, median 1, most 1",
        "examples per label": "mean 4.00, median 4, most 4",
        "Pos-80%": 100.0,
        "zero-shot labels": 0,
        "labels without an example": 0,
        "labels without text": 0,
        "soft targets": 0,
        "excluded pairs": 0,
        "propensity": "A=0.55, B=1.5",
        "text": "title+text",
        "words per example": "mean 3.00, median 3, most 3",
    }
    assert result.bands["tail"] == {"labels": 100.0, "positives": 100.0}


def test_repeats_and_leaks(tmp_path: Path) -> None:
    """Case and white space make no other text; more than half of test in train is an error."""
    train = [*TRAIN, ("again", "  CAT Number\t0 ", ["cat"])]
    one = found(tmp_path / "one", train, test=[*TEST, ("leak", "dog NUMBER 1", ["dog"])])
    assert one.warnings == (
        "examples of train that repeat an earlier one of train: 1 of 13 (7.7%), the first is 'again'",
        "examples of test that are in train too: 1 of 4 (25.0%), the first is 'leak'; they measure memory",
    )
    assert one.errors == ()
    most = found(tmp_path / "most", test=[("x", "cat number 0", ["cat"]), ("y", "dog number 1", []), TEST[0]])
    assert most.errors == (
        "examples of test that are in train too: 2 of 3 (66.7%), the first is 'x'; they measure memory",
    )
    valid = found(tmp_path / "valid", valid=[("x", "cat number 0", ["cat"])])
    assert valid.warnings == (
        "examples of valid that are in train too: 1 of 1 (100.0%), the first is 'x'; they measure memory",
    )
    assert valid.errors == ()


def test_empty_rows_are_no_copies(tmp_path: Path) -> None:
    train = [*TRAIN, ("e1", "", ["cat"]), ("e2", " \n", ["dog"])]
    some = found(tmp_path / "some", train, test=[*TEST, ("e3", "", ["cat"])])
    assert some.warnings == (
        "empty examples of train: 2 of 14 (14.3%), the first is 'e1'; nothing can be predicted for them",
        "empty examples of test: 1 of 4 (25.0%), the first is 'e3'; nothing can be predicted for them",
    )
    every = found(tmp_path / "every", test=[("t", "", ["cat"])])
    assert every.errors == ("every example of test is empty: check the text field or column",)


def test_rows_without_labels(tmp_path: Path) -> None:
    some = found(tmp_path / "some", [*TRAIN, ("bare", "nothing known", [])])
    assert some.warnings == (
        "examples of train without a label: 1 of 13 (7.7%), the first is 'bare'; each counts as one without a hit",
    )
    none = found(tmp_path / "none", [(key, text, []) for key, text, _ in TRAIN])
    assert "no example of train has a label: check the labels field or column" in none.errors
    nowhere = [[(key, text, []) for key, text, _ in rows] for rows in (TRAIN, TEST)]
    nothing = found(tmp_path / "nothing", nowhere[0], [], nowhere[1])
    assert nothing.errors == ("no example of any split has a label: check the labels field or column",)
    assert nothing.bands["head"] == {"labels": 0.0, "positives": 0.0}
    assert nothing.facts["examples per label"] == "none"


def test_labels(tmp_path: Path) -> None:
    labels = [
        {"id": "cat", "text": "Cat"},
        {"id": "dog", "text": " cat "},
        {"id": "owl"},
        {"id": "elk", "text": "elk"},
        {"id": "emu", "text": "emu"},
    ]
    exclude = [{"id": "t0", "labels": ["cat", "dog"]}]
    result = found(tmp_path, test=[*TEST, ("new", "an elk", ["elk"])], labels=labels, exclude=exclude)
    assert result.facts["zero-shot labels"] == 1
    assert result.facts["labels without an example"] == 1
    assert result.facts["excluded pairs"] == 2
    assert result.warnings == (
        "labels of test examples that are excluded for that example: 1; never a hit",
        "labels without text: 1; their ids are shown instead",
        "labels without an example in any split: 1",
        "zero-shot labels, which no training example has: 1; only methods that read label texts can find them",
        "labels that share their text with another label: 2",
    )


def test_features_without_texts(numbers: Corpus) -> None:
    result = inspect(numbers)
    assert result.facts["text"] == "none, features only"
    assert result.facts["features"] == 15
    assert "words per example" not in result.facts
    assert any(warning.startswith("no label has a text") for warning in result.warnings)
    copies = sum(warning.startswith("examples of train that repeat") for warning in result.warnings)
    assert copies == 1


@pytest.mark.parametrize("weight", [0.5, 1])
def test_soft_targets_are_counted(weight: float, tmp_path: Path) -> None:
    train = [*TRAIN, ("soft", "half a cat", {"cat": weight})]
    assert found(tmp_path, train).facts["soft targets"] == (weight < 1)


def with_texts(texts: list[str], labels: list[str], truth: list[list[int]], train: list[str]) -> Corpus:
    known = LabelSet(ids=tuple(f"L{row}" for row in range(len(labels))), texts=tuple(labels))

    def data(texts: list[str], truth: list[list[int]]) -> Dataset:
        targets = np.zeros((len(texts), len(labels)), dtype=np.float32)
        for row, true in enumerate(truth):
            targets[row, true] = 1
        ids = tuple(f"{row}" for row in range(len(texts)))
        return Dataset(labels=known, targets=sparse.csr_array(targets), ids=ids, texts=tuple(texts))

    rows = data(train, [[0]] * len(train))
    return Corpus(name="c", train=rows, valid=rows.take([]), test=data(texts, truth))


def test_concerns_name_what_spoils_measures_and_the_rows_they_touch() -> None:
    corpus = with_texts(
        ["A  known Text", "", "about cats and dogs", "Cats, dogs: both", "something else"],
        ["cats", "dogs", "Twin", "twin"],
        [[0], [0], [0], [0, 1], [3]],
        ["a known text", "other"],
    )
    messages = {one.message: one.rows.tolist() for one in concerns(corpus)}
    assert messages == {
        "1 of 5 test examples are in train too: what they measure is memory": [True, False, False, False, False],
        "1 of 5 test examples are empty: nothing can be predicted for them": [False, True, False, False, False],
        "1 of 5 test examples name all of their labels, two or more, in their text: are the labels part of it?": [
            False, False, False, True, False,
        ],
        "1 of 5 test examples have a label whose text another has too (2 such labels): no text tells them apart": [
            False, False, False, False, True,
        ],
    }  # fmt: skip
    clean = clean_rows(corpus, concerns(corpus))
    assert clean is not None and clean.tolist() == [False, False, True, False, False]


def test_a_few_documents_that_name_their_labels_are_no_concern() -> None:
    texts = ["cats and dogs", *(f"text {row}" for row in range(19))]
    corpus = with_texts(texts, ["cats", "dogs"], [[0, 1]] * 20, ["a"])
    assert concerns(corpus) == () and clean_rows(corpus, ()) is None
