"""`--checkpoint-dir`: a command that was killed resumes where it stood, and prints where that is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from cli_calls import call

import forked
from longtail.nn.training.history import History

RECIPE = 'dpr(encoder="bag", dimension=64, batch_size=16, epochs=20)'


def start(*words: str | Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return forked.Forked(
        ["-m", "longtail", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


def stop_after_epochs(process: subprocess.Popen[bytes], number: signal.Signals, epochs: int = 3) -> tuple[str, int]:
    """Send the signal once that many epochs are kept; standard error, and how many epochs there were."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        kept = list(Path("run").glob("*/00-*/history.jsonl"))
        if kept and len(kept[0].read_text().splitlines()) >= epochs:
            process.send_signal(number)
            break
        time.sleep(0.005)
    err = process.communicate(timeout=180)[1]
    return err.decode(), len(History.read(kept[0].parent).lines)


def checksums(model: Path) -> Any:
    return json.loads((model / "manifest.json").read_text())["files"]


def test_a_training_that_is_stopped_and_killed_goes_on_to_the_same_model(data: Path) -> None:
    words = ("train", data, RECIPE, "--checkpoint-dir", "run", "--out", "model")
    process = start(*words)
    err, stopped = stop_after_epochs(process, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert 3 <= stopped < 20
    assert re.fullmatch(
        r"checkpoint in run/dpr\S+/00-\w+: \d+ of 20 epochs done; the same command resumes from there\n", err
    )

    process = start(*words)
    err, killed = stop_after_epochs(process, signal.SIGKILL, stopped + 2)
    assert process.returncode == -signal.SIGKILL
    assert stopped < killed < 20
    assert epochs_resumed(err) >= stopped
    assert not Path("model").exists()

    again = start(*words)
    err = again.communicate(timeout=180)[1].decode()
    assert again.returncode == 0, err
    assert epochs_resumed(err) >= killed
    assert re.search(r"history: run/dpr\S+/00-\w+/history.svg", err)
    (place,) = Path("run").glob("*/00-*")
    assert [line["epoch"] for line in History.read(place).lines] == list(range(1, 21))
    assert (place / "history.svg").read_text().startswith("<svg")

    assert call("train", data, RECIPE, "--out", "whole").code == 0
    assert checksums(Path("model")) == checksums(Path("whole"))


def epochs_resumed(err: str) -> int:
    """How many epochs were done where a training resumes."""
    stood = re.search(r"dpr\(.*\) resumes from run/dpr\S+/00-\w+: (\d+) of 20 epochs done", err)
    assert stood is not None, err
    return int(stood[1])


def test_a_comparison_keeps_a_folder_a_recipe(data: Path) -> None:
    small = RECIPE.replace("20", "2")
    recipes = (small, small.replace("dpr(", "ngame(classifier_epochs=2, "), "centroid")
    first = call("compare", data, *recipes, "--checkpoint-dir", "run", "--json")
    assert first.code == 0, first
    assert "resumes" not in first.err
    names = sorted(path.name for path in Path("run").iterdir() if (path / "stage.json").exists())
    assert [name.partition("-")[0] for name in names] == ["centroid", "dpr", "ngame"]
    loops = sorted(path.parent.name for path in Path("run").glob("ngame*/*/history.svg"))
    assert [name[:3] for name in loops] == ["00-", "01-"]
    again = call("compare", data, *reversed(recipes), "--checkpoint-dir", "run", "--json")
    assert "run has 3 finished trainings; those of this comparison are not trained again" in again.err
    best = {result["recipe"]: result["P@1"] for result in first.json["results"]}
    assert {result["recipe"]: result["P@1"] for result in again.json["results"]} == best
    for folder, recipe in zip(names[1:], recipes[:2], strict=True):  # what was spent before counts in what it took
        lines = [line for file in Path("run", folder).glob("*/history.jsonl") for line in file.read_text().splitlines()]
        (seconds,) = (result["train_seconds"] for result in again.json["results"] if result["recipe"] == recipe)
        assert seconds > sum(json.loads(line)["seconds"] for line in lines) > 0


def test_a_comparison_that_is_killed_goes_on_within_a_training(data: Path) -> None:
    words = ("compare", data, "centroid", RECIPE, "--json")
    process = start(*words, "--checkpoint-dir", "run")
    _, before = stop_after_epochs(process, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and 3 <= before < 20
    again = call(*words, "--checkpoint-dir", "run")
    assert again.code == 0, again
    assert "run has 1 finished training;" in again.err
    stood = re.search(r"^resumes from run/dpr\S+/00-\w+: (\d+) of 20 epochs", again.err, re.MULTILINE)
    assert stood is not None and int(stood[1]) >= before - 1
    (place,) = Path("run").glob("dpr*/00-*")
    assert [line["epoch"] for line in History.read(place).lines] == list(range(1, 21))
    assert not (place / "checkpoint.safetensors").exists()  # the model is there instead
    wanted, found = call(*words).json["results"][1], again.json["results"][1]
    assert {key: found[key] for key in found if "@" in key} == {key: wanted[key] for key in wanted if "@" in key}
    assert found["intervals"] == wanted["intervals"]


def test_a_folder_that_cannot_be_written_is_an_error(data: Path) -> None:
    small = RECIPE.replace("20", "2")
    Path("file").write_text("")
    assert (
        "is a file; give a folder for --checkpoint-dir"
        in call("train", data, small, "--out", "m", "--checkpoint-dir", "file").error
    )
    assert "file is not a folder" in call("train", data, small, "--out", "m", "--checkpoint-dir", "file/run").error
    assert call("train", data, small, "--out", "m", "--checkpoint-dir", "run").code == 0
    (file,) = Path("run").glob("*/00-*/checkpoint.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    done = call("train", data, small, "--out", "again", "--checkpoint-dir", "run")
    assert done.code == 2
    assert "a checkpoint that cannot be read" in done.err
    assert "remove it to train from the start" in done.err
