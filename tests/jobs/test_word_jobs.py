"""Words counted in jobs by shard of rows: the vectors and the model of one machine, to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from longtail_calls import call, tensors_of
from safetensors.numpy import load_file, save_file

import longtail
from longtail.data.dataset import Dataset
from longtail.data.store_convert import write_store
from longtail.errors import JobError, JobsLeft
from longtail.jobs import JobFolder, using_jobs
from longtail.linear.features import word_count_jobs
from longtail.linear.features.sparse_features import Features
from longtail.linear.features.word_counts import WordCounts

RECIPE = "parabel(trees=2, max_leaf_labels=4, branches=4)"
SHARDS = 5
WAYS = {
    "plain": WordCounts(),
    "bigrams": WordCounts(bigrams=True),
    "rare ones dropped": WordCounts(bigrams=True, min_df=2),
    "frequent ones kept": WordCounts(max_features=50),
    "hashed": WordCounts(bigrams=True, hash_bits=10),
    "stems": WordCounts(words="stem+chars"),
    "parts of compounds": WordCounts(words="compounds", language="de"),
    "pieces": WordCounts(words="pieces"),
}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five of the data's few texts."""
    monkeypatch.setattr(word_count_jobs, "LEAST_BYTES", 1)
    monkeypatch.setattr(word_count_jobs, "SHARD_BYTES", 1)
    monkeypatch.setattr(word_count_jobs, "MOST_JOBS", SHARDS)


@pytest.fixture
def train(data: Path) -> Dataset:
    given = longtail.load(data).train
    some = ["", "Straßenbahn und Bahnhof\nÉté à la plage", "a\ud800b c_d", "Bahn Bahn strassen"]
    targets = given.targets[: len(some)]
    return given.with_rows(texts=some, targets=targets, origin="more")


def run_here(folder: Path, jobs: int = 1) -> None:
    """What a scheduler does with the jobs that are left, last first."""
    found = [JobFolder.read(path.parent) for path in folder.glob("words-*/jobs.json")]
    left = [(one, number) for one in found for number in reversed(one.left())]
    assert len(left) >= jobs
    for one, number in left:
        assert one.run(number) > 0


def same(one: tuple[Features, object], other: tuple[Features, object]) -> bool:
    states = [features.state() for features, _ in (one, other)]
    assert states[0].settings == states[1].settings
    tensors = [{name: array.tobytes() for name, array in state.tensors.items()} for state in states]
    arrays = [
        [(array.dtype, array.tobytes()) for array in (rows.data, rows.indices, rows.indptr)]  # type: ignore[attr-defined]
        for _, rows in (one, other)
    ]
    return tensors[0] == tensors[1] and arrays[0] == arrays[1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("title_weight", [1.0, 3.0])
def test_the_vectors_are_those_of_one_machine(way: str, title_weight: float, train: Dataset, tmp_path: Path) -> None:
    right = Features.learn(train, WAYS[way], title_weight=title_weight)
    for _ in range(9):
        try:
            with using_jobs(tmp_path, "files"):
                found = Features.learn(train, WAYS[way], title_weight=title_weight)
            break
        except JobsLeft:
            run_here(tmp_path, SHARDS)
    assert same(found, right)
    assert (len(list(tmp_path.glob("texts-*"))) > SHARDS) == (title_weight != 1)


@pytest.mark.parametrize("title_weight", [1.0, 3.0])
@pytest.mark.parametrize("forms", ["stem", "stem+compounds"])
def test_texts_are_read_in_their_own_languages(forms: str, title_weight: float, train: Dataset, tmp_path: Path) -> None:
    """A shard has the languages of its texts beside them."""
    german = replace(train, languages=["de"] * len(train))
    mixed = replace(train, languages=[("de", "en", "")[row % 3] for row in range(len(train))])
    settings = WordCounts(words=forms)
    learned = [Features.learn(one, settings, title_weight=title_weight) for one in (german, mixed)]
    for one, right in zip((german, mixed), learned, strict=True):
        with using_jobs(tmp_path, "processes"):
            assert same(Features.learn(one, settings, title_weight=title_weight), right)
    assert learned[0][0].vocabulary.words != learned[1][0].vocabulary.words  # type: ignore[union-attr]


def test_texts_of_a_store_and_a_part_of_it(data: Path, tmp_path: Path) -> None:
    """They are copied without being read, in the order of the rows."""
    write_store(data, tmp_path / "store")
    whole = longtail.load(tmp_path / "store").train
    for train in (whole, whole.take(np.arange(len(whole))[::-2])):
        right = Features.learn(train)
        with using_jobs(tmp_path / "jobs", "processes"):
            assert same(Features.learn(train), right)


def test_few_texts_are_counted_here(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_count_jobs, "LEAST_BYTES", 1 << 23)
    with using_jobs(tmp_path, "files"):
        Features.learn(longtail.load(data).train)
    assert list(tmp_path.iterdir()) == []


def test_processes_and_files_make_the_model_of_one_machine(data: Path, tmp_path: Path) -> None:
    for name, on in (("here", ()), ("processes", ("--on", "processes"))):
        assert call("train", data, RECIPE, "--out", tmp_path / name, *on).code == 0
    assert tensors_of(tmp_path / "processes") == tensors_of(tmp_path / "here")
    kinds = []
    while True:
        done = call("train", data, RECIPE, "--out", tmp_path / "files", "--on", "files")
        assert done.code == 0, done
        commands = [line.split()[1:] for line in done.out.splitlines() if line.startswith("longtail job ")]
        if not commands:
            break
        kinds.append(JobFolder.read(Path(commands[0][1])).kind)
        for words in commands:
            assert call(*words).code == 0
    assert kinds == ["words", "classifiers"] and tensors_of(tmp_path / "files") == tensors_of(tmp_path / "here")


@pytest.fixture
def counted(data: Path, tmp_path: Path) -> Iterator[tuple[Dataset, Path]]:
    """Shards that are counted."""
    train = longtail.load(data).train
    with using_jobs(tmp_path, "processes"):
        Features.learn(train, WAYS["bigrams"])
        yield train, next(tmp_path.glob("words-*"))


@pytest.mark.parametrize("name", [*word_count_jobs.BLOCK, "half of the file", "nothing"])
def test_a_broken_file_of_a_shard_is_named(name: str, counted: tuple[Dataset, Path]) -> None:
    """Whatever is wrong with it: it is cut, or an array of it fits no other."""
    (train, folder), path = counted, counted[1] / "3.safetensors"
    whole = path.read_bytes()
    if name in word_count_jobs.BLOCK:
        arrays = load_file(path)
        if name in ("words", "hashes", "counts"):
            arrays[name] = arrays[name][:-1]
        else:
            arrays[name][-1] += 1 << 60 if arrays[name].dtype == np.int64 else 1 << 20
        save_file(arrays, path)
    else:
        path.write_bytes(whole[: len(whole) // 2 if name == "half of the file" else 0])
    with pytest.raises(JobError, match=r"3\.safetensors: (cannot be read|its counts are not).*remove it and run"):
        Features.learn(train, WAYS["bigrams"])
    path.unlink()
    assert same(Features.learn(train, WAYS["bigrams"]), _alone(train))
    assert path.read_bytes() == whole and folder.exists()


def _alone(train: Dataset) -> tuple[Features, object]:
    from longtail.jobs import without_jobs

    with without_jobs():
        return Features.learn(train, WAYS["bigrams"])


def test_broken_texts_of_a_shard_fail_its_job_and_no_other(counted: tuple[Dataset, Path]) -> None:
    train, folder = counted
    for path in folder.glob("?.safetensors"):
        path.unlink()
    texts = folder.parent / JobFolder.read(folder).sources[2]
    texts.write_bytes(texts.read_bytes()[:-1])
    with pytest.raises(
        JobError, match=rf"1 of {SHARDS} jobs failed, the others are done.*{texts.name}: cannot be read"
    ):
        Features.learn(train, WAYS["bigrams"])
    assert sorted(path.name for path in folder.glob("?.safetensors")) == [f"{n}.safetensors" for n in (0, 1, 3, 4)]


def test_a_killed_driver_counts_no_shard_twice(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    words = ["train", str(data), RECIPE, "--out", str(out), "--on", "processes"]
    code = (
        "from longtail.linear.features import word_count_jobs as jobs; jobs.LEAST_BYTES = 1; "
        "jobs.SHARD_BYTES = 1; jobs.MOST_JOBS = 5; "
        "from longtail.cli import main; main()"
    )
    driver = subprocess.Popen([sys.executable, "-c", code, *words], start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("model.jobs/words-*/0.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("model.jobs/words-*/?.safetensors")}
    corpus = longtail.load(data)
    with using_jobs(tmp_path / "model.jobs", "processes"):
        Features.learn(corpus.train)
    assert kept and all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert call(*words).code == 0 and call("train", data, RECIPE, "--out", tmp_path / "here").code == 0
    assert tensors_of(out) == tensors_of(tmp_path / "here")
