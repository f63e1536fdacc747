"""`--on` of `compare` and `tune`, and folds of `train --on`: what one process finds, whoever runs the jobs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from longtail_calls import Done, call, tensors_of

from longtail.comparison.finished import RESULTS
from longtail.jobs import JobFolder

FOLDS = ("centroid + ranknet(folds=2, epochs=1)", "fuse('bm25', 'centroid', folds=2)", "bm25 + calibrate(folds=2)")


def by_files(*words: str | Path, rounds: Sequence[int]) -> Done:
    """The command with `--on files`, and after each round its jobs, last first."""
    for jobs in rounds:
        done = call(*words, "--on", "files")
        assert done.code == 0, done
        commands = [line.split()[1:] for line in done.out.splitlines() if line.startswith("longtail job ")]
        assert len(commands) == jobs, done
        folder = JobFolder.read(Path(commands[0][1]))
        for number in reversed(folder.left()):
            assert folder.run(number) > 0
    return call(*words, "--on", "files")


@pytest.mark.parametrize("recipe", FOLDS)
def test_folds_in_jobs_make_the_model_of_one_machine(recipe: str, data: Path, tmp_path: Path) -> None:
    assert call("train", data, recipe, "--out", tmp_path / "here").code == 0
    done = by_files("train", data, recipe, "--out", tmp_path / "files", rounds=[2])
    assert done.code == 0 and "trained on" in done.out, done
    assert tensors_of(tmp_path / "files") == tensors_of(tmp_path / "here")
    assert not (tmp_path / "files.jobs").exists()


def figures(done: Done) -> list[object]:
    """A comparison without times and memory."""
    kept = ("recipe", "P@1", "PSP@5", "C@5", "seeds", "intervals", "bins")
    return [{name: one[name] for name in kept} for one in done.json["results"]]


def test_a_comparison_in_jobs_has_the_figures_of_one_process(data: Path, tmp_path: Path) -> None:
    words = ("compare", data, "centroid", "parabel(trees=1) + rerank", "--seeds", "2", "--json")
    here = call(*words, "--report", tmp_path / "here.html")
    kept = tmp_path / "kept"
    there = by_files(*words, "--report", tmp_path / "there.html", "--checkpoint-dir", kept, rounds=[3])
    assert figures(there) == figures(here)
    assert len(list((kept / RESULTS).iterdir())) == 3 and not (tmp_path / "there.html.jobs").exists()
    more = by_files(
        "compare", data, "--add", "bm25", "--report", tmp_path / "r.html", "--checkpoint-dir", kept, rounds=[1]
    )
    assert more.code == 0 and "bm25" in more.out


def test_a_search_in_jobs_goes_round_by_round_and_finds_the_same_again(data: Path, tmp_path: Path) -> None:
    words = ("tune", data, "knn(neighbours=1..30 log)", "--trials", "3", "--processes", "2", "--json")
    found = by_files(*words, "--report", tmp_path / "files.html", rounds=[2, 1]).json
    kept = ("--report", tmp_path / "kept.html", "--checkpoint-dir", tmp_path / "kept")
    assert len(found["trials"]) == 3 and not (tmp_path / "files.html.jobs").exists()
    again = by_files(*words, *kept, rounds=[2, 1]).json
    assert [(one["recipe"], one["values"]) for one in again["trials"]] == [
        (one["recipe"], one["values"]) for one in found["trials"]
    ]


def test_a_trial_that_fails_is_one_of_the_search(data: Path, tmp_path: Path) -> None:
    words = ("tune", data, "centroid + calibrate(folds=2|1000)", "--report", tmp_path / "t.html", "--json")
    found = by_files(*words, rounds=[2]).json
    assert sorted(one["state"] for one in found["trials"]) == ["done", "failed"]
    assert "cannot be cut into 1000 folds" in json.dumps(found["trials"])


def test_damaged_answers_are_named(data: Path, tmp_path: Path) -> None:
    words = ("train", data, FOLDS[0], "--out", tmp_path / "model", "--on", "files")
    folder = JobFolder.read(Path(call(*words).out.splitlines()[0].split()[2]))
    for number in folder.left():
        folder.run(number)
    answers = folder.outputs[1].read_bytes()
    folder.outputs[1].write_bytes(answers[:50])
    assert "1.safetensors: cannot be read" in call(*words).error
    folder.outputs[1].unlink()
    rows = folder.path / "1.seen.npy"
    rows.write_bytes(rows.read_bytes()[:-8])
    assert "1.seen.npy: cannot be read" in call("job", folder.path, "1").error
    rows.unlink()
    os.mkfifo(rows)
    assert "1.seen.npy: is no regular file, and is not read" in call("job", folder.path, "1").error


def test_wrong_places_are_refused_before_the_data_is_read(tmp_path: Path) -> None:
    for command in (("compare", "wordnet", "bm25"), ("tune", "wordnet", "knn(neighbours=1|2)")):
        words = (*command, "--report", tmp_path / "page.html", "--on")
        assert "--on takes processes, files, ray" in call(*words, "clusters").error
        assert "no Ray cluster answers there" in call(*words, "ray://127.0.0.1:1").error
    assert "--on files takes several" in call(*words, "files", "--within", "9s").error
    assert list(tmp_path.iterdir()) == []
