"""`compare` with seeds, on valid, resumed, extended; `train --refit` and `--valid-share`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_calls import call

import forked
import longtail

TREE = "parabel(trees=1)"
CHANGING = ("train_seconds", "predict_seconds", "peak_bytes", "model_bytes", "shared", "deviations", "runs", "notes")


def start(*words: str | Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return forked.Forked(
        ["-m", "longtail", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


def figures(told: Any) -> Any:
    """Everything but times and memory."""
    return [{key: value for key, value in result.items() if key not in CHANGING} for result in told["results"]]


def test_seeds_in_table_json_and_report(data: Path) -> None:
    done = call("compare", data, TREE, f"{TREE} + rerank", "bm25", "--seeds", "2")
    assert done.code == 0, done
    assert re.search(r"parabel\(tre[^\n]* ± ", done.out) and "mean ± deviation over 2 seeds" in done.out
    assert "bm25: trained once: none of its parts draws random numbers" in done.out
    assert re.search(r"parabel\(trees=1\) \+ rerank: trained in .* of its own; the rest once, .* by parabel", done.out)
    assert "95% intervals over documents" in done.out and "below the first recipe differences to it" in done.out
    assert "better" in done.out or "worse" in done.out or "no difference shown" in done.out
    assert [line.split(":")[1].strip() for line in done.err.splitlines() if line.startswith("done: ")] == [
        TREE, f"{TREE} + rerank", "bm25",
    ]  # fmt: skip
    assert "means ± deviations over 2 seeds" in Path("report.html").read_text()
    told = call("compare", data, TREE, "--seeds", "4,9", "--json").json
    assert told["seeds"] == [4, 9] and [run["seed"] for run in told["results"][0]["runs"]] == [4, 9]
    assert set(told["results"][0]["intervals"]) >= {"P@1", "nDCG@5", "PSP@5", "C@5"}
    assert "seeds are a number such as 5" in call("compare", data, TREE, "--seeds", "none").error


def test_json_describes_itself(data: Path) -> None:
    done = call("compare", data, "centroid", "--json")
    told = done.json
    assert told["format"] == "longtail.comparison.v1" and told["split"] == "test"
    assert told["data"]["name"] == "tiny" and told["data"]["labels"] == 10
    assert {"longtail", "Python", "NumPy", "SciPy", "Numba", "system"} <= set(told["versions"])
    assert told["settings"] == {"recipes": ["centroid"], "at": [1, 3, 5]}
    assert any("are in train too" in line for line in told["warnings"])
    assert told["results"][0]["clean"]["rows"] == 24  # 36 of 60 stand in train
    Path("c.json").write_text(done.out)
    assert longtail.read_comparison("c.json").recipes == ("centroid",)


def test_kill_9_at_several_moments_changes_nothing(data: Path) -> None:
    words = ["compare", data, TREE, f"{TREE} + ranknet(folds=2)", "centroid", "--seeds", "3", "--json"]
    wanted = figures(call(*words, "--checkpoint-dir", "whole").json)
    total = len(list(Path("whole/results").iterdir()))
    assert total == 7
    for moment in (1, 4):  # results that are there when it is killed; then it goes on in the same folder
        process = start(*words, "--checkpoint-dir", "run")
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and process.poll() is None:
            if len(list(Path("run").glob("results/*.safetensors"))) >= moment:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        process.communicate(timeout=60)
    before = {path.name: path.stat().st_mtime_ns for path in Path("run/results").glob("*.safetensors")}
    done = start(*words, "--checkpoint-dir", "run")
    out, err = done.communicate(timeout=180)
    assert done.returncode == 0, err
    assert re.match(rf"run has {len(before)} finished training", err.decode())
    assert figures(json.loads(out)) == wanted
    after = {path.name: path.stat().st_mtime_ns for path in Path("run/results").glob("*.safetensors")}
    assert len(after) == total and {name: after[name] for name in before} == before
    log = [json.loads(line)["folder"] for line in Path("run/trained.jsonl").read_text().splitlines()]
    assert len(log) == len(set(log))


def test_a_comparison_is_extended(data: Path) -> None:
    first = call("compare", data, TREE, "centroid", "--seeds", "2", "--checkpoint-dir", "run", "--json")
    done = call("compare", data, "--add", "bm25", "--add", TREE, "--checkpoint-dir", "run", "--json")
    assert done.code == 0, done
    assert [result["recipe"] for result in done.json["results"]] == [TREE, "centroid", "bm25"]
    before, after = figures(first.json), figures(done.json)[:2]
    for one in (*before, *after):  # one test more: Holm's correction is another
        del one["against_first"]
    assert after == before
    times = [result["train_seconds"] for result in done.json["results"]]
    assert times[:2] == [result["train_seconds"] for result in first.json["results"]]
    assert done.json["seeds"] == [0, 1]
    assert longtail.read_comparison("run").recipes == (TREE, "centroid", "bm25")
    assert "--add extends the comparison of a --checkpoint-dir" in call("compare", data, "--add", "bm25").error
    assert "cannot be read" in call("compare", data, "--add", "bm25", "--checkpoint-dir", "none").error


def test_a_saved_model_is_compared_with_recipes(data: Path, model: Path) -> None:
    done = call("compare", data, "centroid", model)
    assert done.code == 0, done
    assert "a saved model, not trained here: centroid" in done.out.replace("\n", "")
    told = call("compare", data, "centroid", model, "--json").json["results"]
    assert told[1]["P@1"] == told[0]["P@1"] and told[1]["train_seconds"] is None


def test_predictions_of_another_program_are_compared_with_recipes(
    data: Path, model: Path, rows_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "theirs.jsonl"
    done = call("predict", model, rows_file, "--out", file)
    assert done.code == 0, done
    told = call("compare", data, "centroid", file, "--json").json["results"]
    assert told[1]["recipe"] == str(file) and told[1]["P@1"] == told[0]["P@1"]
    assert told[1]["train_seconds"] is None and told[1]["predict_seconds"] is None
    assert "does not exist; give a file of predictions" in call("compare", data, "centroid", "none.jsonl").error


def test_choosing_on_valid_never_reads_test(data: Path, tmp_path: Path) -> None:
    done = call("compare", data, "centroid", "bm25", "--split", "valid", "--json")
    told = done.json
    corpus = longtail.load(data)
    assert told["split"] == "valid" and told["data"]["test_rows"] == len(corpus.valid)
    assert "test was not touched" in done.err
    assert "where this page says test, it means valid" in Path("report.html").read_text(encoding="utf-8")
    assert told["data"]["train_rows"] + told["data"]["valid_rows"] == len(corpus.train)
    nothing = call("compare", data, "centroid", "--split", "valid", "--valid-share", "0", "--json").json
    assert nothing["data"]["valid_rows"] == 0 and nothing["data"]["train_rows"] == len(corpus.train)
    assert "must be test or valid" in call("compare", data, "centroid", "--split", "train").error


def test_valid_share_0_trains_on_all(rows: list[dict[str, Any]]) -> None:
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call("train", "d.jsonl", "centroid", "--out", "m", "--json").json["rows"] < len(rows)
    assert call("train", "d.jsonl", "centroid", "--valid-share", "0", "--out", "all", "--json").json["rows"] == len(
        rows
    )
    assert "--valid-share must be at least 0" in call("check", "d.jsonl", "--valid-share", "1").error


def test_refit_learns_from_valid_too(data: Path) -> None:
    corpus = longtail.load(data)
    done = call("train", data, "centroid + calibrate", "--refit", "--out", "refitted", "--json")
    assert done.json["rows"] == len(corpus.train) + len(corpus.valid)
    assert (
        "Measured before the last training, which learned from these examples too."
        in Path("refitted/README.md").read_text()
    )
    refitted = longtail.load_model("refitted")
    recipe = longtail.Recipe.parse("centroid + calibrate")
    chosen, bare = recipe.fit(corpus.train, corpus.valid), longtail.Recipe.parse("centroid")
    both = corpus.train_and_valid()
    assert both.ids == corpus.train.ids + corpus.valid.ids and (both.origins == 0).all()
    again = bare.fit(both, both.take([]))
    texts = list(corpus.test.texts or ())
    mine, scorer = refitted.predict(texts, 5), again.predict(texts, 5)
    assert (mine.scores != chosen.predict(texts, 5).scores).any()
    for reranker in chosen.rerankers:  # calibrated on valid before, by a model that had not seen it
        wide = again.predict(texts, reranker.candidates)
        scorer = reranker.rerank(wide, corpus.test.rows).top(5)
    assert mine.indices.tolist() == scorer.indices.tolist()
    assert mine.scores == pytest.approx(scorer.scores)
