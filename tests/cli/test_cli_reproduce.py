"""`longtail reproduce`: the list, a table, a page, going on after a kill, and wrong words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_calls import Done, call

import forked

TABLE = ("reproduce", "taug", "3")


def without_times(file: str | Path) -> Any:
    data = json.loads(Path(file).read_text())
    for row in (row for table in data["tables"] for row in table["rows"]):
        for run in row["runs"]:
            for cost in ("train_seconds", "predict_seconds", "peak_bytes", "model_bytes"):
                run.pop(cost)
    return data["tables"]


def test_the_list_names_papers_tables_and_what_is_not_implemented(data: Path) -> None:
    done = call("reproduce")
    assert done.code == 0, done.err
    for words in ("density", "cannot train GLaS: ", "not implemented: table 1: sizes"):
        assert words in done.out
    assert "by plan" in done.out and "wordnet" in done.out
    planned = call("reproduce", data)
    assert planned.code == 0 and "tiny" in planned.out
    assert call("reproduce", "ranknet").out.count("\n") <= done.out.count("\n")


@pytest.fixture(scope="module")
def found(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """What the command prints, and where it wrote found.md and found.json."""
    folder = tmp_path_factory.mktemp("table")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "100")
        return call(*TABLE, data, "--seeds", "2", "--page", "found.md"), folder


def test_a_table_and_its_page(data: Path, found: tuple[Done, Path]) -> None:
    done, folder = found
    assert done.code == 0, done.err
    assert "w/ TAUG" in done.out and "Amazon-670K" in done.out and "published; " in done.out
    page = (folder / "found.md").read_text()
    assert f"    longtail reproduce taug 3 {data} --seeds 2 --page found.md\n" in page
    record = json.loads((folder / "found.json").read_text())
    assert record["format"] == "longtail.reproduction.v1" and record["seeds"] == [0, 1]
    assert record["command"] in page and record["versions"]["longtail"]
    alone = call(*TABLE, data, "--seeds", "2")
    assert alone.code == 0 and without_times("reproduce-taug-tiny.json") == without_times(folder / "found.json")


def test_a_kill_costs_what_was_not_finished(data: Path, found: tuple[Done, Path]) -> None:
    command = ["-m", "longtail", *TABLE, str(data), "--seeds", "2", "--checkpoint-dir", "run"]
    environment = {**os.environ, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = forked.Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None and not list(Path("run").glob("results/*")):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL and not list(Path.cwd().glob("*.json"))
    kept = {file: file.stat().st_mtime_ns for file in Path("run").glob("results/*.safetensors")}
    done = call(*TABLE, data, "--seeds", "2", "--checkpoint-dir", "run")
    assert done.code == 0, done.err
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert without_times("reproduce-taug-tiny.json") == without_times(found[1] / "found.json")


def test_some_rows_of_a_table_for_a_gpu(data: Path) -> None:
    done = call("reproduce", "gandalf", "2", data, "--rows", "KNN: Z1*", "--seeds", "1")
    assert done.code == 0, done.err
    rows = json.loads(Path("reproduce-gandalf-tiny.json").read_text())["tables"][0]["rows"]
    assert [row["name"] for row in rows if row["runs"]] == ["knn: D", "knn: Z1 + D", "knn: Z1 twice + D"]
    if not Path("/dev/nvidia0").exists():
        assert "no GPU here: gandalf 2 takes up to" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tauk",), "no paper is called 'tauk'; did you mean 'taug'"),
        (("taug", "7", "wordnet"), "taug has no table '7' here"),
        (("taug", "3"), "give DATA after the table, such as: longtail reproduce taug 3 wordnet"),
        (("taug", "3", "wordnett"), "no data set is called 'wordnett'; did you mean 'wordnet'"),
        (("taug", "3", "wordnet", "--rows", "w/oo TAUG"), "no row is called 'w/oo TAUG'; did you mean 'w/o TAUG'"),
        (("taug", "3", "wordnet", "--within", "soon"), "a time such as 90s"),
        (("taug", "3", "wordnet", "--seeds", "0"), "seeds are a number such as 5"),
        (("taug", "3", "wordnet", "--text", "body"), "text"),
        (("taug", "3", "wordnet", "--page", "/dev/null/page.md"), "/dev/null"),
    ],
)
def test_wrong_words_are_refused_in_one_line(words: tuple[str, ...], message: str) -> None:
    assert message in call("reproduce", *words).error
    assert not list(Path.cwd().iterdir())
