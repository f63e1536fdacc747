"""A disk that fails at any single call: nothing is half written, nothing is lost, nothing is left over."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import Faults, injected
from longtail import atomic
from longtail.atomic import new_file
from longtail.data import Corpus
from longtail.errors import LongtailError, ModelError, what_to_do
from longtail.model import Model
from longtail.recipe import Recipe
from longtail.store import load, save

NUMBERS = (errno.ENOSPC, errno.EIO)


@pytest.fixture(scope="module")
def models(tiny: Corpus) -> tuple[Model, Model]:
    return tuple(Recipe.parse(name).fit(tiny.train, tiny.valid) for name in ("bm25", "centroid"))  # type: ignore[return-value]


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def every_fault(work: Callable[[], object], check: Callable[[bool, str], None], lasting: bool) -> int:
    """Do the work with a fault at every single call; how many calls there were."""
    with injected(Faults()) as counted:
        work()
    check(True, "no fault")
    for number in NUMBERS:
        for place in range(len(counted.calls)):
            words = f"{errno.errorcode[number]} at call {place}, {counted.calls[place]}"
            with injected(Faults(place, number, lasting)) as faults:
                try:
                    work()
                    done = True
                except LongtailError as error:
                    done = False
                    reason = str(error)
            assert faults.failed, words
            if not done:
                # A manifest that cannot be read is not known as a model's, so the folder is left alone.
                advice = (what_to_do(OSError(number, "")), "check the disk")
                told = "cannot be written" in reason and any(one in reason for one in advice)
                assert told or "it is left alone" in reason, words
            check(done, words)
    return len(counted.calls)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("exchange", [True, False])
def test_a_model_that_is_replaced(
    lasting: bool, exchange: bool, models: tuple[Model, Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:  # a system that cannot exchange two names in one step
        monkeypatch.setattr(atomic, "_renameat2", lambda: None)
    path = tmp_path / "models" / "model"
    old, new = models
    save(old, path)
    kept = files(path)
    save(new, tmp_path / "new")
    wanted = files(tmp_path / "new")

    def check(done: bool, words: str) -> None:
        assert files(path) == (wanted if done else kept), words
        assert [place.name for place in path.parent.iterdir()] == ["model"], words
        load(path)
        if done:
            save(old, path, overwrite=True)

    calls = every_fault(lambda: save(new, path, overwrite=True), check, lasting)
    assert calls > 25


@pytest.mark.parametrize("lasting", [False, True])
def test_a_new_model_in_a_new_folder(lasting: bool, models: tuple[Model, Model], tmp_path: Path) -> None:
    path = tmp_path / "models" / "deep" / "model"

    def check(done: bool, words: str) -> None:
        if path.parent.exists():
            assert [place.name for place in path.parent.iterdir()] == ["model"] * done, words
        if done:
            load(path)
        shutil.rmtree(tmp_path / "models", ignore_errors=True)

    every_fault(lambda: save(models[0], path), check, lasting)


@pytest.mark.parametrize("lasting", [False, True])
def test_a_text_file_that_is_replaced(lasting: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def work() -> None:
        with new_file(path) as file:
            file.write("new")

    def check(done: bool, words: str) -> None:
        assert [place.name for place in tmp_path.iterdir()] == ["a.txt"], words
        assert path.read_text() == "new" if done else path.read_text() in ("old", "new"), words
        path.write_text("old")

    every_fault(work, check, lasting)


def test_a_checkpoint_that_is_replaced(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from longtail.nn.training.checkpoint import FILE, Checkpoint, CheckpointDir

    place, identity = CheckpointDir(tmp_path / "run", 1.0), {"epochs": 2}

    def write(epoch: int) -> None:
        place.write(Checkpoint({"epoch": epoch}, {"a": torch.full((100,), float(epoch))}), identity)

    write(1)

    def check(done: bool, words: str) -> None:
        found = place.read(identity)
        assert found is not None and found.tensors["a"][0] == found.facts["epoch"], words
        assert found.facts["epoch"] == 2 or not done, words
        assert [file.name for file in place.folder.iterdir()] == [FILE], words
        write(1)

    every_fault(lambda: write(2), check, lasting=False)
    with (
        injected(Faults(0, errno.ENOSPC, lasting=True)),
        pytest.raises(ModelError, match="resumes from"),
    ):
        write(2)
