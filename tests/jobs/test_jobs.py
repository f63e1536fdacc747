"""Batch prediction in jobs: the same answers as one process, whoever runs the jobs and whatever is killed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from longtail_calls import answers_of, call, shards_of

import forked
from faults import Faults, injected
from longtail.errors import JobError, counted
from longtail.jobs import JobFolder
from longtail.jobs.processes import run_in_processes
from longtail.version import __version__


def test_processes_answer_as_one_process_does(model: Path, shards: Path, tmp_path: Path) -> None:
    done = call("predict", model, shards, "--out", tmp_path / "out", "--on", "processes", "-k", "3")
    assert done.code == 0 and "5 shards are answered" in done.out, done
    for shard in shards.iterdir():
        alone = call("predict", model, shard, "-k", "3").lines
        assert answers_of(tmp_path / "out" / shard.name) == alone and len(alone) == 12


def test_parquet_is_answered_in_parquet_with_its_ids(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    table = pyarrow.table({"id": ["a", "b"], "text": ["large cat that roars", "cart with wheels"], "other": [1, 2]})
    pyarrow.parquet.write_table(table, tmp_path / "in" / "one.parquet")
    assert call("predict", model, tmp_path / "in", "--out", tmp_path / "out", "--on", "files").code == 0
    assert call("job", tmp_path / "out", "0").code == 0
    found = pyarrow.parquet.read_table(tmp_path / "out" / "one.parquet").to_pylist()
    alone = call("predict", model, tmp_path / "in" / "one.parquet").lines
    assert [row["id"] for row in found] == ["a", "b"]
    for one, other in zip(found, alone, strict=True):
        assert [label["id"] for label in one["labels"]] == [label["id"] for label in other["labels"]]
        assert [label["score"] for label in one["labels"]] == pytest.approx(
            [label["score"] for label in other["labels"]], rel=1e-6
        )


def test_files_name_each_job_and_what_is_there_is_not_done_again(model: Path, shards: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = call("predict", model, shards, "--out", out, "--on", "files")
    commands = first.out.splitlines()
    assert commands == [f"longtail job {out} {number}" for number in range(5)] and "sbatch" in first.err
    assert call("job", out, "1", "3").code == 0
    assert call("job", out).out.splitlines() == ["2 of 5 jobs are done", "left: 0 2 4"]
    times = {path: path.stat().st_mtime_ns for path in out.glob("*.jsonl")}
    assert call("job", out, "1").out == "job 1: was done\n"
    assert "2 were there" in call("predict", model, shards, "--out", out, "--on", "processes").out
    assert all(path.stat().st_mtime_ns == when for path, when in times.items()) and len(times) == 2
    assert "no job 5" in call("job", out, "5").error


def test_the_folder_around_the_jobs_is_taken_too(data: Path, tmp_path: Path) -> None:
    """Of a training with several rounds the one whose jobs are left."""
    recipe, out = "bonsai(trees=1, branches=4, depth=2)", tmp_path / "model"
    for place in (tmp_path / "model.jobs", out, tmp_path / "model.jobs"):
        said = call("train", data, recipe, "--out", out, "--on", "files")
        inner = Path(said.out.split()[2])
        number = counted(len(said.out.splitlines()), "job is", "jobs are")
        assert call("job", place).out.splitlines()[0] == f"0 of {number} done"
        for number in range(len(said.out.splitlines())):
            assert f"in {inner / 'done' / str(number)}" in call("job", place, str(number)).out
        assert call("job", place, "0").out == "job 0: was done\n"  # all are, and the last round is meant
    assert call("train", data, recipe, "--out", out, "--on", "files").code == 0 and out.is_dir()


def test_a_folder_without_jobs_or_with_several_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no jobs.json, nor does a folder in it" in call("job", tmp_path / "empty", "0").error
    assert "holds no jobs.json" in call("job", tmp_path / "nowhere", "0").error
    for name in ("a", "b"):
        JobFolder.write(tmp_path / "two" / name, "trial", {}, ["x"], [tmp_path / "two" / f"{name}.json"])
    said = call("job", tmp_path / "two", "0").error
    assert "2 folders in it have jobs left; give one of them" in said and str(tmp_path / "two" / "a") in said


def test_a_broken_shard_is_named_and_the_others_are_done(model: Path, shards: Path, tmp_path: Path) -> None:
    (shards / "part-2.jsonl").write_text('{"text": "fine"}\n{"text": \n', encoding="utf-8")
    out = tmp_path / "out"
    wrong = call("predict", model, shards, "--out", out, "--on", "processes")
    assert wrong.code == 2 and "1 of 5 shards failed" in wrong.err and "part-2.jsonl:2: broken JSON" in wrong.err
    assert sorted(path.name for path in out.glob("*.jsonl")) == [f"part-{number}.jsonl" for number in (0, 1, 3, 4)]
    assert json.loads((out / "_jobs" / "failed" / "2.json").read_text())["job"] == 2
    (shards / "part-2.jsonl").write_text('{"text": "fine"}\n', encoding="utf-8")
    assert call("predict", model, shards, "--out", out, "--on", "processes").code == 0
    assert len(answers_of(out / "part-2.jsonl")) == 1 and not list((out / "_jobs" / "failed").iterdir())


def test_a_full_disk_is_named_and_leaves_nothing(model: Path, shards: Path, tmp_path: Path) -> None:
    """Another node does the job again: there is no half of an answer."""
    out = tmp_path / "out"
    call("predict", model, shards, "--out", out, "--on", "files")
    folder = JobFolder.read(out / "_jobs")
    folder.run(0)
    with (
        injected(Faults(0, errno.ENOSPC, lasting=True)),
        pytest.raises(JobError, match=r"job 2 \(part-2\.jsonl\) failed: .*No space left"),
    ):
        folder.run(2)
    assert {path.name for path in out.iterdir()} == {"_jobs", "part-0.jsonl"} and folder.left() == [1, 2, 3, 4]
    assert folder.run(2) == 12


def test_answers_of_other_settings_or_inputs_are_not_mixed(model: Path, shards: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("predict", model, shards, "--out", out, "--on", "processes").code == 0
    assert "k: 5 there, 2 here" in call("predict", model, shards, "--out", out, "--on", "files", "-k", "2").error
    (shards / "part-1.jsonl").write_text('{"text": "new"}\n', encoding="utf-8")
    assert "part-1.jsonl: its input has changed" in call("predict", model, shards, "--out", out, "--on", "files").error


def test_another_version_is_refused(model: Path, shards: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    call("predict", model, shards, "--out", out, "--on", "files")
    path = out / "_jobs" / "jobs.json"
    path.write_text(path.read_text().replace(f'"longtail": "{__version__}"', '"longtail": "0.0.9"'))
    assert "written by longtail 0.0.9" in call("job", out, "0").error
    assert "0.0.9 there" in call("predict", model, shards, "--out", out, "--on", "processes").error


def test_a_killed_process_is_replaced_and_its_job_given_out_again(model: Path, shards: Path, tmp_path: Path) -> None:
    """Whatever is killed: the answers are there once, and whole."""
    out = tmp_path / "out"
    call("predict", model, shards, "--out", out, "--on", "files")
    folder = JobFolder.read(out / "_jobs")
    killed: list[int] = []

    def kill(number: int, rows: int) -> None:
        if not killed:
            mine = [int(pid) for pid in children(os.getpid())]
            os.kill(mine[0], 9)
            killed.append(number)

    assert run_in_processes(folder, folder.left(), kill, workers=1) == []
    assert killed and folder.left() == []
    assert {path.name for path in out.iterdir()} == {"_jobs", *(path.name for path in shards.iterdir())}


def children(pid: int) -> list[str]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += (task / "children").read_text().split()
    names = {one: Path(f"/proc/{one}/cmdline").read_bytes() for one in found}
    return [one for one in found if b"longtail.jobs.worker" in names[one]]


def test_a_driver_that_is_killed_is_taken_up(model: Path, tmp_path: Path) -> None:
    shards, out = shards_of(tmp_path / "in", 8, 200), tmp_path / "out"
    words = ["predict", str(model), str(shards), "--out", str(out), "--on", "processes"]
    driver = forked.Forked(["-m", "longtail", *words], start_new_session=True)
    deadline = time.monotonic() + 30
    while not list(out.glob("part-*")) and time.monotonic() < deadline and driver.poll() is None:
        time.sleep(0.01)
    os.killpg(driver.pid, 9)
    driver.wait()
    assert call(*words).code == 0
    assert sorted(path.name for path in out.glob("*.jsonl")) == sorted(path.name for path in shards.iterdir())
    assert all(len(answers_of(path)) == 200 for path in out.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ("clusters", "--on takes processes, files, ray"),
        ("ray://127.0.0.1:1", "no Ray cluster answers there"),
        ("ray://nowhere", "an address is ray://host:port"),
    ],
)
def test_wrong_places_are_refused_at_once(model: Path, shards: Path, tmp_path: Path, on: str, said: str) -> None:
    assert said in call("predict", model, shards, "--out", tmp_path / "out", "--on", on).error
    assert not (tmp_path / "out").exists()


def test_without_ray_the_extra_is_named(model: Path, shards: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['ray'] = None; from longtail.cli import main; main()"
    words = ["predict", str(model), str(shards), "--out", str(tmp_path / "out"), "--on", "ray"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install 'longtail[cluster]'" in done.stderr


def test_wrong_outputs_and_inputs(model: Path, shards: Path, tmp_path: Path) -> None:
    assert "--out" in call("predict", model, shards, "--on", "processes").error
    assert "is not there" in call("predict", model, tmp_path / "no", "--out", tmp_path / "o", "--on", "files").error
    (tmp_path / "empty").mkdir()
    assert "has no files" in call("predict", model, tmp_path / "empty", "--out", tmp_path / "o", "--on", "files").error
    assert "holds no jobs.json" in call("job", tmp_path / "empty", "0").error
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "part-0.jsonl").touch()
    assert "nothing says which model" in call("predict", model, shards, "--out", tmp_path / "o", "--on", "files").error
    with pytest.raises(JobError, match=r"jobs\.json: cannot be read .* write the jobs again"):
        (tmp_path / "empty" / "jobs.json").write_text("{")
        JobFolder.read(tmp_path / "empty")
