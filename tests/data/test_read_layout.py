"""`load` recognises a layout by what is there, or says what it looked for and what it found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longtail.data.read import Columns, load
from longtail.errors import DataError

ROW = json.dumps({"id": "1", "text": "x", "labels": ["a"]}) + "\n"


def complaint(path: Path | str, **settings: object) -> str:
    with pytest.raises(DataError) as caught:
        load(path, **settings)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_path_names_the_remedy(tmp_path: Path) -> None:
    assert complaint(tmp_path / "gone") == (
        f"{tmp_path}/gone: no such file or folder; give the path of a data set, or the name of one that ships "
        "with longtail: wordnet"
    )
    assert complaint("wordnett").startswith("wordnett: no such file or folder")


def test_a_folder_of_the_same_name_goes_before_the_shipped_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wordnet").mkdir()
    (tmp_path / "wordnet" / "train.jsonl").write_text(ROW)
    (tmp_path / "wordnet" / "valid.jsonl").write_text("")
    assert load("wordnet").train.ids == ("1",)


def test_the_shipped_set_has_its_facts() -> None:
    corpus = load("wordnet")
    assert corpus.name == "wordnet"
    assert len(corpus.train) > 50_000
    assert len(corpus.test) > 10_000
    assert corpus.labels.has_texts
    assert corpus.train.excluded is not None


def test_an_empty_folder_is_an_error_that_lists_what_was_looked_for(tmp_path: Path) -> None:
    message = complaint(tmp_path)
    for name in ("train.jsonl", "train.csv", "train.parquet", "trn_X_Y.txt", "trn.json", "Y.trn.npz", "train.txt"):
        assert name in message
    assert message.endswith("found nothing")


def test_a_folder_of_something_else_is_an_error_that_lists_what_was_found(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"photo{number:02}.png").touch()
    (tmp_path / "test.jsonl").write_text(ROW)
    (tmp_path / "albums").mkdir()
    assert "found albums/, photo00.png, " in complaint(tmp_path)
    assert complaint(tmp_path).endswith("photo10.png and 10 more")


@pytest.mark.parametrize("other", ["train.csv", "trn_X_Y.txt", "train.txt"])
def test_two_layouts_in_one_folder_are_refused(tmp_path: Path, other: str) -> None:
    (tmp_path / "train.jsonl").write_text(ROW)
    (tmp_path / other).write_text("1 1 1\n0 0:1\n")
    assert f"more than one layout; keep one of them: {'train.csv' if 'csv' in other else 'train'}" in complaint(
        tmp_path
    )


def test_a_text_file_that_is_no_bag_of_words_stands_by(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(ROW)
    (tmp_path / "valid.jsonl").write_text("")
    (tmp_path / "train.txt").write_text("notes about training\n")
    assert load(tmp_path).train.ids == ("1",)


@pytest.mark.parametrize("name", ["rows.json", "rows.txt", "rows.pdf", "rows.json.gz"])
def test_other_single_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"hello world\n")
    assert "a single file must be .jsonl, .csv, .tsv, .parquet, .xlsx, or a bag of words" in complaint(tmp_path / name)


def test_columns_are_only_for_tables(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(ROW)
    (tmp_path / "valid.jsonl").write_text("")
    assert "columns can be chosen only for CSV" in complaint(tmp_path, columns=Columns(text="body"))
    assert len(load(tmp_path, columns=Columns()).train) == 1


def test_a_wrong_share_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(ROW)
    assert "must be between 0 and 1, got 1.5" in complaint(tmp_path, valid_share=1.5)
