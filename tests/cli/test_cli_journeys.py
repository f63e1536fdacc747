"""The two guides for messy data, from the raw file to a model that answers: every command as it is written."""

from __future__ import annotations

import csv
import importlib.util
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from cli_calls import Done, call
from guide_blocks import ROOT, lines
from test_cli_serving import started

import longtail
from longtail.data.read import Remedies

ROWS, FAULTS = 20_000, {"cp1252", "cp850", "ragged", "open quote", "spelling", "no label", "copy"}


@pytest.fixture(scope="module")
def messy() -> ModuleType:
    """The script that makes the data; it needs no package of its own."""
    spec = importlib.util.spec_from_file_location("messy_data", ROOT / "benchmarks" / "shared" / "messy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(table: str) -> list[dict[str, str]]:
    with Path(table).open() as file:
        return list(csv.DictReader(file))


def journey(page: str, seen: Callable[[str, Done], None]) -> int:
    """Runs the commands of a page and shows what each did; `serve` starts and is asked. How many until then."""
    before_serving = 0
    commands = [line for line in lines(page) if line.program == "longtail"]
    for number, line in enumerate(commands, 1):
        if line.words[0] != "serve":
            seen(line.words[0], call(*line.words))
            continue
        before_serving = number
        with started(line, {}) as (port, ask):
            assert ask("/models")["models"][0]["cutoff"] is not None
            body = json.dumps({"text": "the gambit and the rook in a chess tournament endgame"}).encode()
            asked = urllib.request.Request(
                f"http://127.0.0.1:{port}/predict", body, {"Content-Type": "application/json"}
            )
            labels = json.load(urllib.request.urlopen(asked))["answers"][0]["labels"]
            assert [label["text"] for label in labels] == ["Chess"]
    return before_serving


def test_from_a_messy_csv(messy: ModuleType) -> None:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    faults = messy.write_csv(Path("messy.csv"), ROWS)
    assert set(faults) == FAULTS and all(faults.values())
    new = "subjects,title,isbn\nx,a gambit with the rook,n1\nx,caf\xe9 cr\xe8me on the terrace and espresso,n2\n"
    Path("new.csv").write_bytes(new.encode("cp1252"))

    def seen(command: str, done: Done) -> None:
        if command == "check":
            assert done.code == 1
            for number, words in (
                (faults["cp1252"], "lines that are not UTF-8, read as Windows-1252"),
                (faults["cp850"], "lines that are not UTF-8, read as DOS 850"),
                (faults["ragged"], "rows with too many or too few fields"),
                (faults["open quote"], "lines with broken quotes"),
                (faults["copy"], "rows that repeat an earlier one, id and all"),
            ):
                assert f"error: {words}: {number:,} (" in done.out
            advised = next(line for line in done.out.splitlines() if line.startswith("to mend them: "))
            converting = next(line for line in lines("docs/messy-csv.md") if line.words[0] == "convert")
            assert set(converting.words[3:]) - set(advised.split()) <= {"--test-share", "0.1"}
            return
        assert done.code == 0, (command, done.err)
        if command == "convert":
            rows = ROWS + faults["copy"]
            corpus = longtail.load("books")
            kept = len(corpus.train) + len(corpus.valid) + len(corpus.test)
            bad = [json.loads(line) for line in Path("bad-rows.jsonl").read_text().splitlines()]
            assert len(bad) == faults["ragged"] + faults["open quote"]
            assert kept == rows - len(bad) - faults["copy"]
            assert {label.strip().lower() for label in corpus.labels.ids} == {label.lower() for label in messy.THEMES}
        if command == "evaluate":
            assert "chosen on valid by f1" in done.out

    assert journey("docs/messy-csv.md", seen) == 5
    answers = rows_of("answers.csv")
    assert [row["isbn"] for row in answers] == ["n1", "n2"]
    assert [row["predicted_labels"] for row in answers] == ["Chess", "Café culture"]


def test_from_a_drawer_of_books(messy: ModuleType) -> None:
    for package in ("fastapi", "rdflib"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    messy.write_drawer(Path("drawer"))

    def seen(command: str, done: Done) -> None:
        if command == "check":
            assert done.code == 1 and "lines that are not UTF-8" in done.out and "--encoding auto" in done.out
            assert "1 document of train has no NAME.tsv or NAME.key" in done.out
            assert "'http://example.org/subjects/gone'" in done.out
            return
        assert done.code == 0, (command, done.err)

    assert journey("docs/books-to-subjects.md", seen) == 4
    found = {row["id"]: row["predicted_labels"] for row in rows_of("subjects.csv")}
    uris = {subject: f"http://example.org/subjects/{number}" for number, subject in enumerate(messy.THEMES)}
    for name in ("Chess", "Sailing", "Mushrooms"):  # the first has more than a million letters
        assert uris[name] in found[name.lower()].split("|")
    answers = {row["id"]: row for row in call("predict", "model", "drawer/new").lines}
    assert "unsure" in answers["nonsense"] and "unsure" not in answers["chess"]
    again = longtail.load("annif-corpus")
    assert again.labels.ids == longtail.load("drawer", remedies=Remedies(encoding="auto")).labels.ids
