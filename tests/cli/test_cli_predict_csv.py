"""`predict` as CSV: the input's own columns, and the same labels and scores as JSON lines have."""

from __future__ import annotations

import csv
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
    assert lines[0] == "id,predicted_labels,predicted_scores"
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2"]
    Path("in.txt").write_text("apple\n")
    call("predict", model, "in.txt", "--out", "out.csv", "--format", "jsonl")
    assert Path("out.csv").read_text().startswith("{")


def test_what_does_not_go_with_a_table(model: Path) -> None:
    assert "leave out --why" in call("predict", model, "--format", "csv", "--why", stdin="a\n").error
    assert "must be jsonl or csv" in call("predict", model, "--format", "xml", stdin="a\n").error
