"""`longtail train --on`: trees in jobs, the same bytes as on one machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from longtail_calls import call, tensors_of

import forked
import longtail
from longtail.errors import JobError
from longtail.jobs import JobFolder, using_jobs
from longtail.linear.trees import tree_jobs

RECIPES = (
    "parabel(trees=2, max_leaf_labels=4, branches=4)",
    "bonsai(trees=2, branches=4, depth=2, hard_negatives=3)",
    "dismec",
)


@pytest.fixture(autouse=True)
def small_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many jobs from little data."""
    monkeypatch.setattr(tree_jobs, "LEAST_WORK", 200)


@pytest.mark.parametrize("recipe", RECIPES)
def test_processes_and_files_make_the_model_of_one_machine(recipe: str, data: Path, tmp_path: Path) -> None:
    for name, on in (("here", ()), ("processes", ("--on", "processes"))):
        assert call("train", data, recipe, "--out", tmp_path / name, *on).code == 0
    assert tensors_of(tmp_path / "processes") == tensors_of(tmp_path / "here")
    assert not (tmp_path / "processes.jobs").exists()
    rounds = 0
    while True:
        done = call("train", data, recipe, "--out", tmp_path / "files", "--on", "files")
        assert done.code == 0, done
        commands = [line.split()[1:] for line in done.out.splitlines() if line.startswith("longtail job ")]
        if not commands:
            break
        rounds += 1
        folder = JobFolder.read(Path(commands[0][1]))
        assert [int(words[2]) for words in commands] == list(range(len(folder)))
        for number in reversed(folder.left()):  # a scheduler runs them in any order
            assert folder.run(number) > 0
    assert rounds == (3 if "bonsai" in recipe else 1)  # with hard negatives one for each of two forks, and the leaves
    assert tensors_of(tmp_path / "files") == tensors_of(tmp_path / "here")


def test_a_killed_driver_is_taken_up(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    words = ["train", str(data), RECIPES[0], "--out", str(out), "--on", "processes"]
    code = (
        "from longtail.linear.trees import tree_jobs; tree_jobs.LEAST_WORK = 200; from longtail.cli import main; main()"
    )
    driver = forked.Forked(["-c", code, *words], start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("model.jobs/*/round-0/done/*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(driver.pid, 9)
    driver.wait()
    kept = list(tmp_path.glob("model.jobs/*/round-0/done/*.safetensors"))
    assert kept and call(*words).code == 0
    assert call("train", data, RECIPES[0], "--out", tmp_path / "here").code == 0
    assert tensors_of(out) == tensors_of(tmp_path / "here")


def test_damaged_files_are_named(data: Path, tmp_path: Path) -> None:
    corpus, recipe = longtail.load(data), longtail.Recipe.parse(RECIPES[0])
    with using_jobs(tmp_path, "processes"):
        recipe.fit(corpus.train, corpus.valid)
    part = sorted(tmp_path.glob("*/round-0/done/*.safetensors"))[1]
    part.write_bytes(part.read_bytes()[:40])
    with using_jobs(tmp_path, "processes"), pytest.raises(JobError, match=f"{part.name}: damaged"):
        recipe.fit(corpus.train, corpus.valid)
    part.unlink()
    rows = next(tmp_path.glob("*/rows.values.npy"))
    rows.write_bytes(b"")
    with using_jobs(tmp_path, "processes"), pytest.raises(JobError, match=r"1 of \d+ jobs failed.*rows\.values\.npy"):
        recipe.fit(corpus.train, corpus.valid)


def test_wrong_places_and_recipes_are_refused_before_the_data_is_read(tmp_path: Path) -> None:
    out = tmp_path / "model"
    for recipe, on, said in (
        ("parabel", "clusters", "--on takes processes, files, ray"),
        ("parabel", "ray://127.0.0.1:1", "no Ray cluster answers there"),
        ("centroid", "processes", "nothing to cut into jobs; leave --on out, or use bonsai, dismec, parabel"),
    ):
        assert said in call("train", "wordnet", recipe, "--out", out, "--on", on).error
    assert (
        "--within does not go with --on"
        in call("train", "wordnet", "--within", "9s", "--out", out, "--on", "ray").error
    )
    assert list(tmp_path.iterdir()) == []
