"""The layouts of the Extreme Classification Repository, each under its usual names."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from longtail.data.labels import Propensity
from longtail.data.read import load
from longtail.errors import DataError

BAG = "3 4 5\n0,4 0:0.5 3:1\n 1:2\n2 \n"
BAG_TEST = "2 4 5\n1 2:1e-3\n3,1 \n"
TRAIN_Y = "3 5\n0:1 4:0.25\n\n2:1.00000\n"
TEST_Y = "2 5\n1:1\n3:1 1:1\n"
TRAIN_X = "3 4\n0:0.5 3:1\n1:-2\n\n"
TEST_X = "2 4\n2:0.001\n\n"
TARGETS = [[1, 0, 0, 0, 0.25], [0] * 5, [0, 0, 1, 0, 0]]
FEATURES = [[0.5, 0, 0, 1], [0, -2, 0, 0], [0] * 4]


def write(folder: Path, **texts: str) -> Path:
    """Files by name, with `__` for a dot."""
    for name, text in texts.items():
        path = folder / name.replace("__", ".")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return folder


def described(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def complaint(folder: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(folder, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "").replace(str(folder), "FOLDER")


def whole(folder: Path, **settings: Any) -> Any:
    """Train rows in their order, with what was held out put back."""
    corpus = load(folder, **settings)
    order = {name: row for row, name in enumerate((*corpus.train.ids, *corpus.valid.ids))}
    rows = sorted(order, key=lambda name: int(name.split("-")[1]))
    pick = [order[name] for name in rows]
    parts = corpus.train, corpus.valid
    joined = {
        "targets": sparse.vstack([part.targets for part in parts]).toarray()[pick].tolist(),
        "ids": rows,
    }
    if corpus.train.features is not None:
        joined["features"] = sparse.vstack([part.features for part in parts]).toarray()[pick].tolist()
    if corpus.train.texts is not None:
        texts = [text for part in parts for text in part.texts or ()]
        joined["texts"] = [texts[row] for row in pick]
    return corpus, joined


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train__txt", "test__txt"),
        ("eurlex_train__txt", "eurlex_test__txt"),
        ("trn__txt", "tst__txt"),
        ("Wiki10_trn__txt__gz", "Wiki10_tst__txt__gz"),
        ("delicious-train__txt", "delicious-test__txt"),
    ],
)
def test_bags_of_words(tmp_path: Path, train: str, test: str) -> None:
    corpus, rows = whole(write(tmp_path, **{train: BAG, test: BAG_TEST, "filter_labels_test__txt": "1 3\n"}))
    assert rows == {
        "targets": [[1, 0, 0, 0, 1], [0] * 5, [0, 0, 1, 0, 0]],
        "features": [[0.5, 0, 0, 1], [0, 2, 0, 0], [0] * 4],
        "ids": ["train-0", "train-1", "train-2"],
    }
    assert corpus.labels.ids == ("0", "1", "2", "3", "4")
    assert corpus.labels.texts == ("",) * 5
    assert corpus.labels.counts.tolist() == [1, 0, 1, 0, 1]
    assert corpus.test.targets.toarray().tolist() == [[0, 1, 0, 0, 0], [0, 1, 0, 1, 0]]
    np.testing.assert_array_equal(corpus.test.features.toarray(), np.float32([[0, 0, 0.001, 0], [0] * 4]))
    assert corpus.test.excluded.toarray().astype(int).tolist() == [[0] * 5, [0, 0, 0, 1, 0]]
    assert corpus.test.texts is None


def test_a_single_bag_of_words_is_all_train(tmp_path: Path) -> None:
    write(tmp_path, some_name__txt=BAG)
    corpus = load(tmp_path / "some_name.txt", propensity=Propensity(0.6, 2.6))
    assert (corpus.name, len(corpus.train) + len(corpus.valid), len(corpus.test)) == ("some_name", 3, 0)
    assert corpus.propensity == Propensity(0.6, 2.6)


def test_one_file_with_published_splits(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        Bibtex_data__txt="5 2 2\n0 0:1\n1 1:1\n0,1 0:2\n 1:3\n1 0:4\n",
        bibtex_trSplit__txt="2 1\n5 2\n1 3\n",
        bibtex_tstSplit__txt="3 4\n4 5\n",
    )
    corpus, _ = whole(folder)
    assert sorted(corpus.train.ids + corpus.valid.ids) == ["row-0", "row-1", "row-4"]
    assert corpus.test.ids == ("row-2", "row-3")
    assert corpus.test.targets.toarray().tolist() == [[1, 1], [0, 0]]
    assert "first column of bibtex_trSplit.txt" in corpus.notes[0]
    write(tmp_path, bibtex_tstSplit__txt="3 4\n5 5\n")
    assert complaint(folder) == "bibtex_tstSplit.txt: row 5 is in bibtex_trSplit.txt too; remove it from one of them"
    write(tmp_path, bibtex_tstSplit__txt="3 4\n6 5\n")
    assert complaint(folder) == "bibtex_tstSplit.txt:2: expected a row number from 1 to 5, got '6'"
    write(tmp_path, bibtex_tstSplit__txt="3 4\n3 5\n")
    assert complaint(folder) == "bibtex_tstSplit.txt:2: row 3 is already on line 1; remove one"


@pytest.mark.parametrize("filters", ["filter_labels_{}__txt", "{}_filter_labels__txt"])
@pytest.mark.parametrize("label_features", ["Yf__txt", "lbl_X_Xf__txt"])
def test_pairs_of_matrices(tmp_path: Path, filters: str, label_features: str) -> None:
    short = ("train", "test") if filters.startswith("filter") else ("trn", "tst")
    folder = write(
        tmp_path,
        trn_X_Y__txt=TRAIN_Y,
        trn_X_Xf__txt=TRAIN_X,
        tst_X_Y__txt=TEST_Y,
        tst_X_Xf__txt=TEST_X,
        **{label_features: "5 4\n0:1\n\n\n\n3:2\n"},
        **{filters.format(short[0]): "0 1\n2 0\n2\t0\n", filters.format(short[1]): ""},
    )
    corpus, rows = whole(folder)
    assert (rows["targets"], rows["features"]) == (TARGETS, FEATURES)
    assert corpus.labels.features.toarray().tolist() == [[1, 0, 0, 0], [0] * 4, [0] * 4, [0] * 4, [0, 0, 0, 2]]
    excluded = sum(part.excluded.nnz for part in (corpus.train, corpus.valid) if part.excluded is not None)
    assert excluded == 2
    assert corpus.test.excluded is None
    assert corpus.test.ids == ("test-0", "test-1")


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (("Y.{}.npz", "X.{}.npz"), "raw/{}_X__txt"),
        (("{}_X_Y.npz", "{}_X_Xf.npz"), "{}_X__txt"),
    ],
)
def test_npz_with_raw_texts(tmp_path: Path, names: tuple[str, str], texts: str) -> None:
    for short, targets, features in (("trn", TARGETS, FEATURES), ("tst", [[0, 1, 0, 0, 0]], [[0, 0, 9, 0]])):
        sparse.save_npz(tmp_path / names[0].format(short), sparse.csr_matrix(np.float32(targets)))
        sparse.save_npz(tmp_path / names[1].format(short), sparse.csc_array(np.float64(features)))
    raw = {texts.format("trn"): "één\n\nthree\r\n", texts.format("tst"): "four"}
    folder = texts.rpartition("/")[0]
    write(tmp_path, **raw, **{f"{folder}/Y__txt" if folder else "Y__txt": "a\nb\nc\nd\ne\n"})
    corpus, rows = whole(tmp_path)
    assert (rows["targets"], rows["features"], rows["texts"]) == (TARGETS, FEATURES, ["één", "", "three"])
    assert corpus.test.texts == ("four",)
    assert corpus.labels.texts == ("a", "b", "c", "d", "e")


@pytest.mark.parametrize("name", ["{}_X__txt", "X.{}__txt", "raw/{}_X__txt", "raw/X.{}__txt", "{}_raw_texts__txt"])
def test_raw_texts_with_targets(tmp_path: Path, name: str) -> None:
    long = "raw_texts" in name
    raw = {name.format("train" if long else "trn"): "a\nb\nc\n\n\n", name.format("test" if long else "tst"): "d\ne\n"}
    corpus, rows = whole(write(tmp_path, trn_X_Y__txt=TRAIN_Y, tst_X_Y__txt=TEST_Y, **raw))
    assert (rows["texts"], rows["targets"]) == (["a", "b", "c"], TARGETS)
    assert corpus.train.features is None
    assert corpus.text_field == "text"


LABELS = described(*({"uid": f"L{n}", "title": f"label {n}", "content": "about"} for n in range(3)))
ROWS = described(
    {"uid": "A", "title": "Ta", "content": "ca", "target_ind": [0, 2], "target_rel": [1.0, 0.5]},
    {"uid": "B", "title": "Tb", "content": "", "target_ind": []},
)
TEST_ROWS = described({"uid": "C", "title": "Tc", "content": "cc", "target_ind": [1], "target_rel": [1]})


@pytest.mark.parametrize("ending", ["json", "json__gz"])
@pytest.mark.parametrize("text", ["title", "text", "title+text", None])
def test_described_rows(tmp_path: Path, ending: str, text: str | None) -> None:
    folder = write(tmp_path, **{f"trn__{ending}": ROWS, f"tst__{ending}": TEST_ROWS, f"lbl__{ending}": LABELS})
    corpus = load(folder, text=text)
    rows = {name: part for part in (corpus.train, corpus.valid) for name in part.ids}
    assert set(rows) == {"A", "B"}
    part = rows["A"]
    row = part.ids.index("A")
    assert part.targets[[row]].toarray().tolist() == [[1, 0, 0.5]]
    texts = {"title": "Ta", "text": "ca", "title+text": "Ta ca", None: "Ta ca"}
    assert (part.texts or ())[row] == texts[text]
    assert (rows["B"].texts or ())[rows["B"].ids.index("B")] == "Tb"  # no content: the title stands in
    assert corpus.test.ids == ("C",)
    assert corpus.labels.ids == ("L0", "L1", "L2")
    words = {"title": "label 0", "text": "about", "title+text": "label 0 about", None: "label 0 about"}
    assert corpus.labels.texts[0] == words[text]
    assert corpus.text_field == (text or "title+text")
    assert corpus.labels.counts.tolist() == [1, 0, 1]  # L1 is zero-shot


def test_described_rows_join_matrices(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        trn__json=ROWS,
        lbl__json=LABELS,
        trn_X_Xf__txt="2 4\n0:1\n1:1\n",
        trn_X_Y__txt="2 3\n1:1\n2:1\n",
    )
    corpus = load(folder)
    assert corpus.train.texts is not None
    assert corpus.train.features is not None
    assert corpus.labels.counts.tolist() == [0, 1, 1]  # trn_X_Y.txt goes before target_ind


def test_without_label_files_the_largest_number_counts(tmp_path: Path) -> None:
    corpus = load(write(tmp_path, trn__json=ROWS, tst__json=described({"title": "x", "target_ind": [6]})))
    assert corpus.labels.ids == tuple("0123456")
    assert corpus.test.targets.toarray().tolist() == [[0, 0, 0, 0, 0, 0, 1]]
    assert corpus.test.ids == ("test-0",)


def test_shared_uids_get_the_name_of_their_split(tmp_path: Path) -> None:
    corpus = load(write(tmp_path, trn__json=ROWS, tst__json=TEST_ROWS.replace('"C"', '"A"'), lbl__json=LABELS))
    assert set(corpus.train.ids + corpus.valid.ids) == {"train-A", "train-B"}
    assert corpus.test.ids == ("test-A",)
    assert any("share uids" in note for note in corpus.notes)


def test_uids_that_are_not_unique_give_way_to_numbers(tmp_path: Path) -> None:
    folder = write(tmp_path, trn__json=ROWS.replace('"B"', '"A"'), lbl__json=LABELS.replace('"L1"', '"L0"'))
    corpus = load(folder)
    assert set(corpus.train.ids + corpus.valid.ids) == {"train-0", "train-1"}
    assert corpus.labels.ids == ("0", "1", "2")
    assert any("uids of train are not unique" in note for note in corpus.notes)
    assert any("uids of lbl.json are not unique" in note for note in corpus.notes)


def test_a_given_valid_split_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path, trn_X_Y__txt=TRAIN_Y, trn_X_Xf__txt=TRAIN_X, val_X_Y__txt=TEST_Y, val_X_Xf__txt=TEST_X)
    corpus = load(folder)
    assert (len(corpus.train), len(corpus.valid), corpus.notes) == (3, 2, ())


def test_facts_stand_beside_any_layout(tmp_path: Path) -> None:
    facts = json.dumps({"name": "LF-Zoo", "propensity": {"a": 0.6, "b": 2.6}})
    corpus = load(write(tmp_path, train__txt=BAG, corpus__json=facts))
    assert (corpus.name, corpus.propensity) == ("LF-Zoo", Propensity(0.6, 2.6))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no data set"),
        ("3 4\n", "has no data set"),
        ("2 4 5\n0 0:1\n", "train.txt: the header says 2 rows, but there are 1; copy the file again or correct"),
        ("1 4 5\n0 0:1\n\n1 1:1\n", "train.txt:4: the header says 1 row, but more follow; correct the header"),
        ("2 4 5\n0 0:1\n0 4:1\n", "train.txt:3: column 4 is out of range: the header gives 4, and they count from 0"),
        ("2 4 5\n0 0:1\n0,5 3:1\n", "train.txt:3: label 5 is out of range: the header gives 5"),
        ("2 4 5\n0 0:1\n0 1:nan\n", "train.txt:3: value 'nan' is not a finite number"),
        ("2 4 5\n0 0:1\n0 1:inf\n", "train.txt:3: value 'inf' is not a finite number"),
        ("2 4 5\n0 0:1\n0 1:1e39\n", "train.txt:3: value '1e39' is not a finite number that float32 can hold"),
        ("2 4 5\n0 0:1\n0 1:1e999\n", "train.txt:3: value '1e999' is not a finite number"),
        ("2 4 5\n0 0:1\n0 1:x\n", "train.txt:3: value 'x' is not a finite number"),
        ("2 4 5\n0 0:1\n0 1:\n", "train.txt:3: value '' is not a finite number"),
        ("2 4 5\n0 0:1\n0 -1:1\n", "train.txt:3: expected a column number, got '-1'"),
        ("2 4 5\n0 0:1\n0 1.0:1\n", "train.txt:3: expected a column number, got '1.0'"),
        ("2 4 5\n0 0:1\n0 1:2:3\n", "train.txt:3: value '2:3' is not"),
        ("2 4 5\n0 0:1\n0 1:1 2\n", "train.txt:3: expected index:value, got '2'"),
        ("2 4 5\n0 0:1\n0 1 1:1\n", "train.txt:3: expected index:value, got '1'"),
        ("2 4 5\n0 0:1\n0,,1 1:1\n", "train.txt:3: expected a label number, got ''"),
        ("2 4 5\n0 0:1\n0,1, 1:1\n", "train.txt:3: expected a label number, got ''"),
        ("2 4 5\n0 0:1\n0,x 1:1\n", "train.txt:3: expected a label number, got 'x'"),
        ("2 4 5\n0 0:1\n٣ 1:1\n", "train.txt:3: expected a label number, got '٣'"),
        ("2 4 5\n0 0:1\n0 1:1 99999999999999999999:1\n", "train.txt:3: column 99999999999999999999 is out of"),
        ("9999999999 4 5\n0 0:1\n", "train.txt:1: the header names more than"),
        ("0 4 5\n", "the train split has no examples"),
    ],
)
def test_wrong_bags_of_words(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(write(tmp_path, train__txt=text))


@pytest.mark.parametrize("weight", ["1.5", "0", "-1", "nan", "1e-60", "x"])
def test_wrong_target_weights(tmp_path: Path, weight: str) -> None:
    targets = f"3 5\n0:1\n\n1:1 2:{weight}\n"
    message = complaint(write(tmp_path, trn_X_Y__txt=targets, trn_X_Xf__txt=TRAIN_X))
    assert message == f"trn_X_Y.txt:4: value '{weight}' does not lie in (0, 1]; rescale or remove it"


def test_a_wrong_line_far_into_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longtail.data.files.CHUNK", 64)  # many pieces
    lines = [f"{row % 5} {row % 4}:{row}.5" for row in range(500)]
    lines[321] = "0 1:oops"
    message = complaint(write(tmp_path, train__txt="500 4 5\n" + "\n".join(lines)))
    assert message.startswith("train.txt:323: value 'oops'")


def test_numbers_the_fast_way_does_not_know_are_read_the_careful_way(tmp_path: Path) -> None:
    _, rows = whole(write(tmp_path, train__txt="3 4 5\n0 0:.5 1:5.\n1 2:+3\n\n"))
    assert rows["features"] == [[0.5, 5, 0, 0], [0, 0, 3, 0], [0] * 4]
    assert rows["targets"] == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0] * 5]


def test_the_largest_and_least_float32_are_kept(tmp_path: Path) -> None:
    largest, least = np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal
    _, rows = whole(write(tmp_path, train__txt=f"2 4 5\n0 0:{largest} 1:{-largest} 2:{least}\n\n"))
    assert rows["features"][0] == [float(largest), -float(largest), float(least), 0]


def test_repeated_and_zero_entries(tmp_path: Path) -> None:
    folder = write(tmp_path, trn_X_Y__txt="2 5\n0:0.5 0:0.75 1:1\n\n", trn_X_Xf__txt="2 4\n1:0 2:3\n\n")
    corpus, rows = whole(folder)
    assert rows["targets"][0] == [0.75, 1, 0, 0, 0]
    assert corpus.train.features.nnz + corpus.valid.features.nnz == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"trn_X_Y__txt": TRAIN_Y}, "trn_X_Y.txt: there are no texts or features beside the targets"),
        ({"trn_X_Y__txt": "3 5 7\n"}, "trn_X_Y.txt:1: the first line must be the header 'rows columns', got '3 5 7'"),
        ({"trn_X_Y__txt": ""}, "trn_X_Y.txt:1: the first line must be the header 'rows columns', got ''"),
        ({"trn_X_Y__txt": TRAIN_Y, "trn_X_Xf__txt": TEST_X}, "trn_X_Xf.txt: has 2 rows, but trn_X_Y.txt has 3; check"),
        ({"trn_X_Y__txt": TRAIN_Y, "trn_X__txt": "a\nb\n"}, "trn_X.txt: has 2 rows, but trn_X_Y.txt has 3"),
        (
            {"trn_X_Y__txt": TRAIN_Y, "trn_X__txt": "a\nb\nc\n", "Y__txt": "a\n"},
            "Y.txt: has 1 label, but trn_X_Y.txt has 5",
        ),
        (
            {"trn_X_Y__txt": TRAIN_Y, "trn_X_Xf__txt": TRAIN_X, "tst_X_Y__txt": "2 6\n\n\n", "tst_X_Xf__txt": TEST_X},
            "tst_X_Y.txt: has 6 labels, but trn_X_Y.txt has 5",
        ),
        (
            {"trn_X_Y__txt": TRAIN_Y, "trn_X_Xf__txt": TRAIN_X, "tst_X_Y__txt": TEST_Y, "tst_X_Xf__txt": "2 9\n\n\n"},
            "tst_X_Xf.txt: has 9 features, but trn_X_Xf.txt has 4",
        ),
        (
            {"trn_X_Y__txt": TRAIN_Y, "trn_X_Xf__txt": TRAIN_X, "Yf__txt": "5 9\n" + "\n" * 5},
            "Yf.txt: has 9 features, but trn_X_Xf.txt has 4",
        ),
        (
            {"trn_X_Y__txt": TRAIN_Y, "trn_X_Xf__txt": TRAIN_X, "Yf__txt": "6 4\n" + "\n" * 6},
            "Yf.txt: has 6 labels, but trn_X_Y.txt has 5",
        ),
        (
            {"trn_X_Y__txt": TRAIN_Y, "trn_X_Xf__txt": TRAIN_X, "tst_X_Y__txt": TEST_Y, "tst_X__txt": "a\nb\n"},
            "tst_X_Y.txt: test has texts but train has none; add trn_X.txt",
        ),
        (
            {"trn_X_Y__txt": TRAIN_Y, "trn_X_Xf__txt": TRAIN_X, "tst_X_Xf__txt": TEST_X},
            "tst_X_Xf.txt: there are no targets beside it; looked for tst_X_Y.txt",
        ),
        (
            {"trn_X_Y__txt": TRAIN_Y, "train_X_Y__txt": TRAIN_Y, "trn_X_Xf__txt": TRAIN_X},
            "FOLDER: trn_X_Y.txt and train_X_Y.txt are both here",
        ),
        ({"train__txt": BAG, "eurlex_train__txt": BAG}, "FOLDER: eurlex_train.txt and train.txt are both here"),
        ({"train__txt": BAG, "filter_labels_train__txt": "0 1\n0 7\n"}, "filter_labels_train.txt:2: label 7 is out of"),
        ({"train__txt": BAG, "filter_labels_train__txt": "0 1\n3 1\n"}, "filter_labels_train.txt:2: row 3 is out of"),
        ({"train__txt": BAG, "filter_labels_train__txt": "0 1\n2 1 1\n"}, "filter_labels_train.txt:2: expected two"),
        ({"train__txt": BAG, "filter_labels_train__txt": "0 1\n2 x\n"}, "filter_labels_train.txt:2: expected a label"),
        ({"train__txt": BAG, "filter_labels_train__txt": "0 1\n\n2,1\n"}, "filter_labels_train.txt:3: expected two"),
        ({"trn__json": described({"uid": "A"})}, 'trn.json:1: "target_ind" must be a list of label numbers, got None'),
        (
            {"trn__json": ROWS + described({"target_ind": [3]}), "lbl__json": LABELS},
            'trn.json:3: "target_ind" has 3, but labels run from 0 to 2',
        ),
        ({"trn__json": described({"target_ind": [-1]})}, 'trn.json:1: "target_ind" has -1'),
        ({"trn__json": described({"target_ind": ["0"]})}, "trn.json:1: \"target_ind\" has '0', which is not a label"),
        ({"trn__json": described({"target_ind": [True]})}, 'trn.json:1: "target_ind" has True'),
        (
            {"trn__json": described({"target_ind": [0, 1], "target_rel": [1]})},
            'trn.json:1: "target_rel" must be a list of 2 weights',
        ),
        (
            {"trn__json": described({"target_ind": [0], "target_rel": [7.5]})},
            "trn.json:1: weight 7.5 of label '0' does not lie in (0, 1]; rescale it",
        ),
        ({"trn__json": described({"target_ind": [0], "title": 5})}, 'trn.json:1: "title" and "content" must be'),
        ({"trn__json": ROWS + "{broken\n"}, "trn.json:3: broken JSON"),
    ],
)
def test_wrong_folders(tmp_path: Path, files: dict[str, str], message: str) -> None:
    assert message in complaint(write(tmp_path, **files))


def test_latin1_texts_name_their_line(tmp_path: Path) -> None:
    write(tmp_path, trn_X_Y__txt=TRAIN_Y)
    (tmp_path / "trn_X.txt").write_bytes(b"one\ncaf\xe9\nthree\n")
    assert complaint(tmp_path).startswith("trn_X.txt:2: byte 0xe9 is not UTF-8")


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.float32(TARGETS) * 6, "Y.trn.npz: row 0 has value 6 for label 0, which does not lie in (0, 1]"),
        (np.float32([[np.nan, 0, 0, 0, 0]] * 3), "Y.trn.npz: row 0 has value nan for label 0"),
        (np.float32(TARGETS)[:2], "X.trn.npz: has 3 rows, but Y.trn.npz has 2"),
        (np.float32(TARGETS).astype(complex), "Y.trn.npz: not a sparse matrix"),
    ],
)
def test_wrong_npz(tmp_path: Path, targets: Any, message: str) -> None:
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.csr_array(targets))
    sparse.save_npz(tmp_path / "X.trn.npz", sparse.csr_array(np.float32(FEATURES)))
    assert message in complaint(tmp_path)


def test_npz_features_that_are_not_finite(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "Y.trn.npz", sparse.csr_array(np.float32(TARGETS)))
    sparse.save_npz(tmp_path / "X.trn.npz", sparse.csr_array([[0, 1.0], [np.inf, 0], [0, 0]]))
    assert "X.trn.npz: row 1 has value inf for feature 0, which is not a finite number" in complaint(tmp_path)


def test_broken_npz(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "X.trn.npz", sparse.csr_array(np.float32(FEATURES)))
    path = tmp_path / "Y.trn.npz"
    sparse.save_npz(path, sparse.csr_array(np.float32(TARGETS)))
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for cut in (0, 10, len(good) // 2, len(good) - 4):
        path.write_bytes(good[:cut])
        assert "Y.trn.npz: not a sparse matrix as scipy.sparse.save_npz writes it" in complaint(tmp_path)
    for _ in range(100):  # flipped bytes give our error or leave what is read alone
        raw = bytearray(good)
        raw[rng.integers(len(raw))] ^= int(rng.integers(1, 256))
        path.write_bytes(raw)
        with contextlib.suppress(DataError):
            load(tmp_path)


def test_npz_never_unpickles(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "Y.trn.npz", data=objects, indices=[0], indptr=[0, 1], shape=[1, 5], format=b"csr")
    sparse.save_npz(tmp_path / "X.trn.npz", sparse.csr_array(np.float32(FEATURES)))
    assert "it holds object" in complaint(tmp_path)


def test_npz_with_indices_outside_its_shape(tmp_path: Path) -> None:
    np.savez(tmp_path / "Y.trn.npz", data=[1.0], indices=[7], indptr=[0, 1], shape=[1, 5], format=b"csr")
    write(tmp_path, trn_X__txt="a\n")
    assert "Y.trn.npz: not a sparse matrix" in complaint(tmp_path)


def plain(text: str) -> tuple[list[list[int]], list[dict[int, float]]]:
    """The slow and obvious parser of a bag of words."""
    labels, features = [], []
    for line in text.split("\n")[1:-1]:
        head, _, rest = line.partition(" ")
        labels.append([int(word) for word in head.split(",") if word])
        features.append({int(word.split(":")[0]): float(word.split(":")[1]) for word in rest.split()})
    return labels, features


@pytest.mark.parametrize("seed", range(5))
def test_random_files_read_as_the_plain_parser_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr("longtail.data.files.CHUNK", int(rng.integers(50, 5000)))
    lines = []
    for _ in range(300):
        labels = rng.choice(50, rng.integers(0, 5), replace=False)
        columns = np.sort(rng.choice(1000, rng.integers(0, 12), replace=False))
        values = [f"{value:.{rng.integers(1, 9)}g}" for value in rng.normal(size=len(columns)) ** 5]
        words = " ".join(f"{column}:{value}" for column, value in zip(columns, values, strict=True))
        lines.append(",".join(map(str, labels)) + " " + words)
    text = "300 1000 50\n" + "\n".join(lines) + "\n"
    _, rows = whole(write(tmp_path, train__txt=text))
    expected_labels, expected = plain(text)
    for row in range(300):
        assert {c for c, v in enumerate(rows["targets"][row]) if v} == set(expected_labels[row])
        dense = np.zeros(1000, dtype=np.float32)
        dense[list(expected[row])] = list(expected[row].values())
        np.testing.assert_array_equal(np.float32(rows["features"][row]), dense)
