"""`longtail predict`: one line out for every line in, from a file, a compressed file or standard input."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from cli_calls import call

import longtail
from longtail import answers


def best(line: dict[str, list[dict[str, str]]]) -> str | None:
    return line["labels"][0]["id"] if line["labels"] else None


def test_texts_in_words_out(model: Path) -> None:
    done = call("predict", model, "-k", "2", stdin="an apple\nthe dragon castle\n")
    assert (done.code, done.err) == (0, "")
    first, second = done.lines
    assert list(first) == ["id", "labels"]
    assert list(first["labels"][0]) == ["id", "text", "score"]
    assert (first["id"], best(first), first["labels"][0]["text"]) == ("1", "L0", "a apple")
    assert {label["text"] for label in second["labels"]} == {"a dragon", "a castle"}
    assert 0 < second["labels"][1]["score"] <= second["labels"][0]["score"] <= 1


def test_texts_and_objects_mixed(model: Path) -> None:
    """Ids are kept, exclude is honoured, and a blank line keeps its place."""
    lines = [
        "apple",
        "",
        '{"text": "castle ünï 城", "id": "é"}',
        '{"text": "dragon", "id": 7, "exclude": ["L3"]}',
        "   ",
        '  {"text": "guitar", "id": null, "exclude": null, "labels": ["ignored"]}',
        '{"text": "forest", "title": "not asked for"}',
        '{"text": null, "id": "nothing"}',
        "[not, an, object] jungle",
    ]
    answers = call("predict", model, "-k", "1", stdin="\n".join(lines)).lines
    assert [answer["id"] for answer in answers] == ["1", "2", "é", "7", "5", "6", "7", "nothing", "9"]
    assert [best(answer) for answer in answers] == ["L0", None, "L2", "L8", None, "L6", "L5", None, "L9"]


@pytest.mark.parametrize("name", ["in.txt", "in.jsonl.gz", "-"])
def test_files_and_standard_input_are_read_alike(name: str, model: Path) -> None:
    """Windows line ends and a byte order mark are no part of a text; other separators end no line."""
    raw = '\ufeff{"text": "apple", "id": "one"}\r\nbridge\x0bcastle\u2028dragon\rengine\r\n\r\nforest'.encode()
    if name != "-":
        Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    done = call("predict", model, *([] if name == "-" else [name]), "-k", "4", stdin=raw if name == "-" else b"")
    assert [answer["id"] for answer in done.lines] == ["one", "2", "3", "4"]
    assert {label["id"] for label in done.lines[1]["labels"]} == {"L1", "L2", "L3", "L4"}
    assert best(done.lines[3]) == "L5"


@pytest.mark.parametrize("number", [10, 11, 2**31, 10**20])
def test_k_larger_than_the_labels(number: int, model: Path) -> None:
    labels = call("predict", model, "-k", str(number), stdin="apple").lines[0]["labels"]
    assert labels[0]["id"] == "L0"
    assert len({label["id"] for label in labels}) == len(labels) == 10


def test_exclude_before_the_top_k(model: Path) -> None:
    row = {"text": "apple", "exclude": [f"L{number}" for number in range(9)] + ["L0"]}
    assert [label["id"] for label in call("predict", model, stdin=json.dumps(row)).lines[0]["labels"]] == ["L9"]


def test_one_json_list(model: Path) -> None:
    done = call("predict", model, "--json", stdin="apple\nbridge\n")
    assert [answer["id"] for answer in done.json] == ["1", "2"]
    assert call("predict", model, "--json").json == []
    blank = {"id": "1", "labels": [], "unsure": "the text has no word"}
    assert call("predict", model, "--json", stdin="\n").json == [blank]
    assert call("predict", model) == call("predict", model, stdin=b"")
    assert call("predict", model).out == ""


def test_chunks_join_without_a_seam(model: Path, rows_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call("predict", model, rows_file)
    as_list = call("predict", model, rows_file, "--json").json
    monkeypatch.setattr(answers, "CHUNK", 7)
    assert call("predict", model, rows_file) == whole
    assert call("predict", model, rows_file, "--json").json == as_list == whole.lines
    assert len(whole.lines) == 60


def test_scores_are_the_models_own(model: Path, rows_file: Path) -> None:
    """Rounded scores would tie labels that the model tells apart."""
    texts = [json.loads(line)["text"] for line in rows_file.read_text().splitlines()]
    expected = longtail.load_model(model).predict(texts, 10)
    for row, line in enumerate(call("predict", model, rows_file, "-k", "10").lines):
        scores = np.array([label["score"] for label in line["labels"]], dtype=np.float32)
        assert scores.tolist() == [answer.score for answer in expected.answers(row)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "apple",', "broken JSON"),
        ("{" * 100_000, "broken JSON"),
        ('{"text": 5}', 'the JSON object needs "text" as a string'),
        ('{"title": "apple"}', 'the JSON object needs "text" as a string'),
        ("{}", 'the JSON object needs "text" as a string'),
        ('{"text": "apple", "id": [1]}', '"id" must be a non-empty string, got [1]'),
        ('{"text": "apple", "id": ""}', "\"id\" must be a non-empty string, got ''"),
        ('{"text": "apple", "exclude": "L1"}', "\"exclude\" must be a list of label ids, got 'L1'"),
        ('{"text": "apple", "exclude": ["L1", "X"]}', "unknown label id 'X' in \"exclude\"; remove it"),
        (b"appl\xe9", "byte 0xe9 is not UTF-8; "),
    ],
)
@pytest.mark.parametrize("name", ["in.jsonl", "-"])
def test_a_wrong_line_is_named_and_nothing_is_left(line: str | bytes, problem: str, name: str, model: Path) -> None:
    raw = b"bridge\n\n" + (line.encode() if isinstance(line, str) else line) + b"\ncastle\n"
    if name != "-":
        Path(name).write_bytes(raw)
    message = call("predict", model, name, "--out", "out.jsonl", stdin=raw).error
    assert message.startswith(f"{'standard input' if name == '-' else name}:3: ")
    assert problem in message
    assert not Path("out.jsonl").exists()
    assert {path.name for path in Path().iterdir()} <= {"in.jsonl"}


def test_out_is_whole_or_as_it_was(model: Path, rows_file: Path) -> None:
    Path("out.jsonl").write_text("before")
    assert call("predict", model, "--out", "out.jsonl", stdin="apple\n{").code == 2
    assert Path("out.jsonl").read_text() == "before"
    done = call("predict", model, rows_file, "--out", "deep/er/out.jsonl")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert Path("deep/er/out.jsonl").read_text() == call("predict", model, rows_file).out


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nothing.txt", "nothing.txt: no such file; check the path"),
        (".", "has no file NAME.txt"),
        ("empty.gz", "empty.gz: the compressed file has 0 bytes"),
        ("cut.gz", "cut.gz: the compressed file ends too early"),
    ],
)
def test_inputs_that_cannot_be_read(name: str, problem: str, model: Path) -> None:
    Path("empty.gz").touch()
    Path("cut.gz").write_bytes(gzip.compress(b"apple\n" * 1000)[:30])
    assert problem in call("predict", model, name, "--out", "out.jsonl").error
    assert not Path("out.jsonl").exists()


def test_the_input_is_never_the_output(model: Path) -> None:
    Path("in.txt").write_text("apple\n")
    Path("link.txt").symlink_to("in.txt")
    for name in ("in.txt", "./in.txt", "link.txt"):
        assert "is the input file, which would be lost" in call("predict", model, "in.txt", "--out", name).error
    assert Path("in.txt").read_text() == "apple\n"


def test_the_fields_of_training_are_the_fields_of_prediction() -> None:
    """A model of the titles reads the titles of JSON rows, also where there is more."""
    rows = [{"id": str(row), "title": word, "text": "same", "labels": [word]} for row, word in enumerate("ab" * 20)]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call("train", "d.jsonl", "centroid", "--text", "title", "--out", "m").code == 0
    lines = '{"title": "b", "text": "a"}\n{"title": "a"}\n{"text": "b"}\n'
    assert [best(line) for line in call("predict", "m", "-k", "1", stdin=lines).lines] == ["b", "a", "b"]
    assert 'needs "title" as a string' in call("predict", "m", stdin='{"body": "a"}').error


def test_a_model_of_features_reads_no_texts() -> None:
    Path("d.txt").write_text("4 3 2\n0 0:1\n1 1:1\n0 0:2\n1 1:2\n")
    assert call("train", "d.txt", "knn", "--out", "m").code == 0
    assert "was trained on features and cannot read plain texts" in call("predict", "m", stdin="apple").error


def test_letters_that_have_no_encoding() -> None:
    """Half a surrogate pair in a label's text, which JSON can write and UTF-8 cannot."""
    rows = [
        {"id": str(row), "text": "ab"[row % 2], "labels": ["\ud83d", "é"][row % 2 : row % 2 + 1]} for row in range(20)
    ]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call("train", "d.jsonl", "centroid", "--out", "m").code == 0
    done = call("predict", "m", "-k", "1", stdin="a\nb\n")
    assert [best(line) for line in done.lines] == ["\ud83d", "é"]
    assert '"é"' in done.out
    assert call("predict", "m", "-k", "1", "--out", "p.jsonl", stdin="a\nb\n").code == 0
    assert Path("p.jsonl").read_text() == done.out


def test_vectors_of_rows(tmp_path: Path) -> None:
    """A model trained on texts and vectors is asked with both."""
    vectors = np.array([[1.0, 0.0], [0.0, 1.0]] * 20)
    rows = [{"id": str(row), "text": "word", "labels": ["even" if row % 2 == 0 else "odd"]} for row in range(40)]
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.save(data / "train.vectors.npy", vectors)
    trained = tmp_path / "vectors.longtail"
    assert call("train", data, "centroid(feature_weight=0.5)", "--out", trained).code == 0
    asked = "".join(json.dumps({"text": "word", "vector": vector}) + "\n" for vector in ([0.1, 2], [3, -1]))
    best = [line["labels"][0]["id"] for line in call("predict", trained, stdin=asked).lines]
    assert best == ["odd", "even"]
    for line, problem in (
        ("word", "list of finite numbers, got None"),
        ('{"text": "word", "vector": [1, "a"]}', "list of finite numbers"),
        ('{"text": "word", "vector": [1, NaN]}', "list of finite numbers"),
        ('{"text": "word", "vector": [1, 2, 3]}', "has 3 numbers, others have 2"),
    ):
        done = call("predict", trained, stdin=asked + line + "\n")
        assert done.code == 2 and "standard input:3:" in done.err and problem in " ".join(done.err.split())
    done = call("predict", trained, stdin="word\n")
    assert done.code == 2 and "give documents with 2 features" in " ".join(done.err.split())


@pytest.fixture(scope="module")
def by_columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on a table whose text stands in two columns."""
    path = tmp_path_factory.mktemp("tables") / "books.csv"
    rows = [f'k{row},{("apple", "pear")[row % 2]},"{row}, more",{"ab"[row % 2]}' for row in range(40)]
    path.write_text("\n".join(["key,Titel,Rest,labels", *rows]) + "\n")
    done = call("train", path, "centroid", "--text-column", "Titel,Rest", "--out", path.parent / "model")
    assert done.code == 0, done
    return path.parent / "model"


def test_a_table_is_read_by_the_columns_of_training(by_columns: Path) -> None:
    Path("new.csv").write_text('id;Rest;Titel\nx;"1; 2";a pear\ny;;"an\napple"\nz;;\n')
    answers = call("predict", by_columns, "new.csv", "-k", "1").lines
    assert [answer["id"] for answer in answers] == ["x", "y", "z"]
    assert [best(answer) for answer in answers] == ["b", "a", None]
    Path("one.tsv").write_text("Rest\tTitel\n\tapple\n\tpear\n")  # no ids: lines stand for them
    answers = call("predict", by_columns, "one.tsv", "-k", "1").lines
    assert [(answer["id"], best(answer)) for answer in answers] == [("2", "a"), ("3", "b")]
    Path("other.csv").write_text("title,year\napple,1999\n")
    error = call("predict", by_columns, "other.csv").error
    assert error.startswith(
        "other.csv: there is no column 'Titel', 'Rest', which the model was trained on; did you mean 'title'"
    )
    Path("less.csv").write_text("Titel\napple\n")
    assert "there is no column 'Rest', which" in call("predict", by_columns, "less.csv").error


def test_a_column_name_may_hold_what_parts_names() -> None:
    rows = "".join(f"{('apple', 'pear')[row % 2]};{'ab'[row % 2]}\n" for row in range(40))
    Path("books.csv").write_text('"Titel, C++";labels\n' + rows)
    assert call("train", "books.csv", "centroid", "--text-column", "Titel, C++", "--out", "m").code == 0
    assert [best(line) for line in call("predict", "m", "books.csv", "-k", "1").lines][:2] == ["a", "b"]
    assert [best(line) for line in call("predict", "m", "-k", "1", stdin='{"Titel, C++": "pear"}').lines] == ["b"]


def test_ids_are_those_of_the_column_of_training() -> None:
    """So that what was predicted can be joined, and measured."""
    Path("data").mkdir()
    rows = "".join(f"isbn-{row},{('apple', 'pear')[row % 2]},{'ab'[row % 2]}\n" for row in range(40))
    Path("data/train.csv").write_text("isbn,text,labels\n" + rows)
    Path("data/test.csv").write_text("isbn,text,labels\nt1,pear,b\nt2,apple,a\n")
    named = ["--id-column", "isbn"]
    assert call("train", "data", "centroid", *named, "--out", "m").code == 0
    assert call("predict", "m", "data/test.csv", "--out", "p.jsonl").code == 0
    assert [json.loads(line)["id"] for line in Path("p.jsonl").read_text().splitlines()] == ["t1", "t2"]
    assert call("evaluate", "p.jsonl", "data", *named, "--json").json["P@1"] == 100
    error = call("evaluate", "p.jsonl", "data").error
    assert "p.jsonl:1: id 't1' is not an example of this split: its examples have no ids of their own" in error
    Path("own.csv").write_text("id,text\n7,pear\n")  # and where that column is not there, `id` will do
    assert [line["id"] for line in call("predict", "m", "own.csv").lines] == ["7"]


def test_each_text_file_of_a_folder_is_a_document(model: Path, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"bridge\r\nriver\n")
    (tmp_path / "a.txt").write_text("apple")
    (tmp_path / "a.key").write_text("fruit")
    done = call("predict", model, tmp_path, "--json").json
    assert [answer["id"] for answer in done] == ["a", "b"]
    lines = call("predict", model, "--json", stdin="apple\nbridge river\n").json
    assert [answer["labels"] for answer in done] == [answer["labels"] for answer in lines]
    (tmp_path / "empty").mkdir()
    assert "NAME.txt" in call("predict", model, tmp_path / "empty").error
