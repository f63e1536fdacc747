"""`predict` as CSV: the input's own columns, and the same labels and scores as JSON lines have."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from cli_calls import call


def test_a_table_passes_its_columns_through(model: Path) -> None:
    Path("in.csv").write_text('price,text,id\n3,"apple, bridge",x7\n4,castle,x8\n')
    assert call("predict", model, "in.csv", "--out", "out.csv", "-k", "3").code == 0
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    answers = call("predict", model, "in.csv", "-k", "3").lines
    kept = [(row["price"], row["text"], row["id"]) for row in rows]
    assert kept == [("3", "apple, bridge", "x7"), ("4", "castle", "x8")]
    for row, answer in zip(rows, answers, strict=True):
        assert answer["id"] == row["id"]
        assert row["predicted_labels"].split("|") == [label["id"] for label in answer["labels"]]
        assert [float(word) for word in row["predicted_scores"].split("|")] == [
            label["score"] for label in answer["labels"]
        ]


def test_lines_become_a_table_too(model: Path) -> None:
    done = call("predict", model, "--format", "csv", "-k", "1", stdin="apple\ncastle\n")
    lines = done.out.splitlines()
    assert lines[0] == "id,predicted_labels,predicted_names,predicted_scores,unsure"
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2"]
    Path("in.txt").write_text("apple\n")
    call("predict", model, "in.txt", "--out", "out.csv", "--format", "jsonl")
    assert Path("out.csv").read_text().startswith("{")


def test_a_table_says_where_the_model_is_unsure(model: Path) -> None:
    done = call("predict", model, "--format", "csv", "-k", "1", stdin="zzzz qqqq\napple\n")
    rows = list(csv.DictReader(done.out.splitlines()))
    assert rows[0]["unsure"] == "none of its words was seen in training"
    assert rows[1]["unsure"] == ""


def test_rows_that_cannot_be_read_are_left_out_where_that_is_asked_for(model: Path) -> None:
    Path("in.csv").write_bytes("price,text,id\n3,apple café,x7\n4,castle,x8,more\n5,bridge,x9\n".encode("cp1252"))
    assert "--encoding auto" in call("predict", model, "in.csv").error
    asked = ["--encoding", "auto", "--skip-bad-rows", "bad.jsonl"]
    done = call("predict", model, "in.csv", "--out", "out.csv", *asked)
    assert done.code == 0 and "rows with too many or too few fields: 1 (in.csv:3)" in done.err, done
    with Path("out.csv").open(newline="") as file:
        assert [(row["id"], row["text"]) for row in csv.DictReader(file)] == [("x7", "apple café"), ("x9", "bridge")]
    assert [json.loads(line)["line"] for line in Path("bad.jsonl").read_text().splitlines()] == [3]
    assert "--skip-bad-rows FILE" in call("predict", model, "in.csv", "--encoding", "auto").error
    Path("in.jsonl").write_text('{"text": "apple"}\n{broken\n{"text": "castle"}\n')
    done = call("predict", model, "in.jsonl", "--skip-bad-rows", "bad.jsonl")
    assert [line["id"] for line in done.lines] == ["1", "3"]
    assert "does not go with --on" in call("predict", model, ".", "--on", "files", *asked).error


def test_columns_of_the_same_name_keep_their_own_cells(model: Path) -> None:
    Path("in.csv").write_text("note,text,note,\nleft,apple,right,end\n")
    lines = call("predict", model, "in.csv", "--format", "csv", "-k", "1").out.splitlines()
    assert lines[0].startswith("note,text,note,,predicted_labels") and lines[1].startswith("left,apple,right,end,")


def test_a_table_without_a_header_loses_no_document(model: Path) -> None:
    Path("in.tsv").write_text("apple\t<http://x/1>\ncastle\t<http://x/2> <http://x/1>\n")
    rows = list(csv.DictReader(call("predict", model, "in.tsv", "--format", "csv", "-k", "1").out.splitlines()))
    assert [row["id"] for row in rows] == ["1", "2"] and all(row["predicted_labels"] for row in rows)


def test_what_does_not_go_with_a_table(model: Path) -> None:
    for name in ("out.csv.gz", "out.xlsx", "out.tsv", "out.jsonl.xz"):
        assert "give such a name to --out" in call("predict", model, "--out", name, stdin="a\n").error
        assert not Path(name).exists()
    assert "leave out --why" in call("predict", model, "--format", "csv", "--why", stdin="a\n").error
    assert "must be jsonl or csv" in call("predict", model, "--format", "xml", stdin="a\n").error
