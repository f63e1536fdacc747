"""`mach(shared_encoder=false)`: a job a net, the same bytes as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from longtail_calls import call, tensors_of

import longtail
from longtail.errors import JobError
from longtail.jobs import JobFolder, using_jobs

NETS = "mach(encoder='bag', dimension=16, batch_size=32, epochs=2, repetitions=3, buckets=8, shared_encoder=false)"


@pytest.fixture(scope="module")
def here(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The model of one process."""
    out = tmp_path_factory.mktemp("here") / "model"
    assert call("train", data, NETS, "--out", out).code == 0
    return tensors_of(out)


def test_processes_and_files_make_the_model_of_one_process(data: Path, here: dict[str, bytes], tmp_path: Path) -> None:
    assert call("train", data, NETS, "--out", tmp_path / "processes", "--on", "processes").code == 0
    assert tensors_of(tmp_path / "processes") == here and len(here) > 3
    words = ("train", data, NETS, "--out", tmp_path / "files", "--on", "files")
    commands = call(*words).out.splitlines()
    assert [line.split()[-1] for line in commands] == ["0", "1", "2"]
    for line in reversed(commands):
        assert call(*line.split()[1:]).code == 0
    assert call(*words).code == 0 and tensors_of(tmp_path / "files") == here


def test_a_damaged_net_is_named_and_made_again(data: Path, here: dict[str, bytes], tmp_path: Path) -> None:
    corpus, recipe = longtail.load(data), longtail.Recipe.parse(NETS)
    with using_jobs(tmp_path, "processes"):
        recipe.fit(corpus.train, corpus.valid)
    folder = next(tmp_path.glob("nets-*"))
    net = folder / "1.safetensors"
    whole = net.read_bytes()
    renamed = whole.replace(b'"encoder.', b'"encodes.', 1)
    for broken in (whole[:-5], renamed, b""):
        net.write_bytes(broken)
        with using_jobs(tmp_path, "files"), pytest.raises(JobError, match=r"1\.safetensors: .*remove it and run"):
            recipe.fit(corpus.train, corpus.valid)
    net.unlink()
    assert JobFolder.read(folder).run(1) == 8 and net.read_bytes() == whole
    with using_jobs(tmp_path, "files"):
        recipe.fit(corpus.train, corpus.valid).save(tmp_path / "model")
    assert tensors_of(tmp_path / "model").items() <= here.items()  # the command stores the words it has seen besides


def test_nets_over_examples_that_were_added_are_trained_here(data: Path, tmp_path: Path) -> None:
    for name, on in (("here", ()), ("files", ("--on", "files"))):
        said = call("train", data, f"{NETS} + gandalf", "--out", tmp_path / name, *on)
        assert said.code == 0 and ("so its nets are trained here" in said.err + said.out) == bool(on), said
    assert tensors_of(tmp_path / "files") == tensors_of(tmp_path / "here")
