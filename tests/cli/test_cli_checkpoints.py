"""`--checkpoint-dir`: a command that was killed resumes where it stood, and prints where that is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cli_calls import call

import processes
from longtail.nn.training.history import History

RECIPE = 'dpr(encoder="bag", dimension=64, batch_size=16, epochs=20)'


def start(*words: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "longtail", *map(str, words)]
    environment = {**os.environ, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return processes.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def stop_after_some_epochs(process: subprocess.Popen[bytes], number: signal.Signals) -> tuple[bytes, int]:
    """Send the signal once a few epochs are kept; standard error, and how many epochs there were."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        kept = list(Path("run").glob("*/00-*/history.jsonl"))
        if kept and len(kept[0].read_text().splitlines()) >= 3:
            process.send_signal(number)
            break
        time.sleep(0.005)
    err = process.communicate(timeout=180)[1]
    return err, len(History.read(kept[0].parent).lines)


def checksums(model: Path) -> Any:
    return json.loads((model / "manifest.json").read_text())["files"]


def test_a_training_that_is_killed_goes_on_to_the_same_model(data: Path) -> None:
    words = ("train", data, RECIPE, "--checkpoint-dir", "run", "--out", "model")
    process = start(*words)
    _, before = stop_after_some_epochs(process, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert 3 <= before < 20
    assert not Path("model").exists()

    again = start(*words)
    err = again.communicate(timeout=180)[1]
    assert again.returncode == 0, err
    stood = re.search(r"dpr\(.*\) resumes from run/dpr\S+/00-\w+: (\d+) of 20 epochs done", err.decode())
    assert stood is not None and int(stood[1]) >= before
    assert re.search(r"history: run/dpr\S+/00-\w+/history.svg", err.decode())
    (place,) = Path("run").glob("*/00-*")
    assert [line["epoch"] for line in History.read(place).lines] == list(range(1, 21))
    assert (place / "history.svg").read_text().startswith("<svg")

    whole = start("train", data, RECIPE, "--out", "whole")
    assert whole.communicate(timeout=180)
    assert whole.returncode == 0
    assert checksums(Path("model")) == checksums(Path("whole"))


def test_a_training_that_is_stopped_names_its_checkpoint(data: Path) -> None:
    process = start("train", data, RECIPE, "--checkpoint-dir", "run", "--out", "model")
    err, _ = stop_after_some_epochs(process, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert re.fullmatch(
        r"checkpoint in run/dpr\S+/00-\w+: \d+ of 20 epochs done; the same command resumes from there\n", err.decode()
    )


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
    _, before = stop_after_some_epochs(process, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and 3 <= before < 20
    again = start(*words, "--checkpoint-dir", "run")
    out, err = again.communicate(timeout=180)
    assert again.returncode == 0, err
    assert "run has 1 finished trainings" in err.decode()
    stood = re.search(r"^resumes from run/dpr\S+/00-\w+: (\d+) of 20 epochs", err.decode(), re.MULTILINE)
    assert stood is not None and int(stood[1]) >= before - 1
    (place,) = Path("run").glob("dpr*/00-*")
    assert [line["epoch"] for line in History.read(place).lines] == list(range(1, 21))
    assert not (place / "checkpoint.safetensors").exists()  # the model is there instead
    whole = start(*words)
    wanted = json.loads(whole.communicate(timeout=180)[0])["results"][1]
    found = json.loads(out)["results"][1]
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
