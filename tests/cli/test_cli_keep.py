"""`--keep`: a command that was killed goes on where it stood, and says where that is."""

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

from longtail.nn.history import History

RECIPE = 'dpr(encoder="bag", dimension=64, batch=16, epochs=20)'


def start(*words: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "longtail", *map(str, words)]
    environment = {**os.environ, "LONGTAIL_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


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
    words = ("train", data, RECIPE, "--keep", "run", "--out", "model")
    process = start(*words)
    _, before = stop_after_some_epochs(process, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert 3 <= before < 20
    assert not Path("model").exists()

    again = start(*words)
    err = again.communicate(timeout=180)[1]
    assert again.returncode == 0, err
    stood = re.search(r"dpr\(.*\) goes on from run/dpr\S+/00-\w+: (\d+) of 20 epochs done", err.decode())
    assert stood is not None and int(stood[1]) >= before
    assert re.search(r"history: run/dpr\S+/00-\w+/history.svg", err.decode())
    (place,) = Path("run").glob("*/00-*")
    assert [line["epoch"] for line in History.read(place).lines] == list(range(1, 21))
    assert (place / "history.svg").read_text().startswith("<svg")

    whole = start("train", data, RECIPE, "--out", "whole")
    assert whole.communicate(timeout=180)
    assert whole.returncode == 0
    assert checksums(Path("model")) == checksums(Path("whole"))


def test_a_training_that_is_asked_to_stop_says_where_it_stands(data: Path) -> None:
    process = start("train", data, RECIPE, "--keep", "run", "--out", "model")
    err, _ = stop_after_some_epochs(process, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert re.fullmatch(
        r"kept in run/dpr\S+/00-\w+: \d+ of 20 epochs done; the same command goes on from there\n", err.decode()
    )


def test_a_comparison_keeps_a_folder_a_recipe(data: Path) -> None:
    small = RECIPE.replace("20", "2")
    recipes = (small, small.replace("dpr(", "ngame(classifier_epochs=2, "), "centroid")
    first = call("compare", data, *recipes, "--keep", "run", "--json")
    assert first.code == 0, first
    assert "goes on" not in first.err
    assert "note: centroid kept nothing; only encoders in training do" in first.err
    names = sorted(path.name for path in Path("run").iterdir())
    assert [name.partition("-")[0] for name in names] == ["dpr", "ngame"]
    loops = sorted(path.parent.name for path in Path("run").glob("ngame*/*/history.svg"))
    assert [name[:3] for name in loops] == ["00-", "01-"]
    again = call("compare", data, *reversed(recipes), "--keep", "run", "--json")
    assert again.err.count("finished after epoch 2 of 2") == 3
    best = {result["recipe"]: result["P@1"] for result in first.json}
    assert {result["recipe"]: result["P@1"] for result in again.json} == best
    for folder, recipe in zip(names, recipes[:2], strict=True):  # what was spent before counts in what it took
        lines = [line for file in Path("run", folder).glob("*/history.jsonl") for line in file.read_text().splitlines()]
        (told,) = (result["train_seconds"] for result in again.json if result["recipe"] == recipe)
        assert told > sum(json.loads(line)["seconds"] for line in lines) > 0


def test_what_cannot_be_kept_is_told(data: Path) -> None:
    small = RECIPE.replace("20", "2")
    Path("file").write_text("")
    assert "is a file; give a folder for --keep" in call("train", data, small, "--out", "m", "--keep", "file").error
    assert "file is not a folder" in call("train", data, small, "--out", "m", "--keep", "file/run").error
    assert call("train", data, small, "--out", "m", "--keep", "run").code == 0
    (file,) = Path("run").glob("*/00-*/checkpoint.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    done = call("train", data, small, "--out", "again", "--keep", "run")
    assert done.code == 2
    assert "a checkpoint that cannot be read" in done.err
    assert "remove it to train from the start" in done.err
