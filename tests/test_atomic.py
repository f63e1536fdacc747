"""Files that appear whole or not at all, and what is never replaced."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from longtail import atomic
from longtail.atomic import new_file, new_folder, new_own_file, remove_leftovers
from longtail.errors import LongtailError, WriteError


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    with new_file(path) as file:
        file.write("one")
        assert not path.exists()
    with pytest.raises(KeyError), new_file(path) as file:
        file.write("two")
        raise KeyError
    assert path.read_text() == "one"
    assert [one.name for one in path.parent.iterdir()] == ["a.txt"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    with new_file(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """As /dev/null is: whoever may write in /dev would lose it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with new_file(pipe) as file:
        file.write("words")
    reader.join()
    assert read == ["words"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "loop", "link to a file", "nothing"])
def test_a_file_of_our_own_replaces_what_has_its_name(kind: str, tmp_path: Path) -> None:
    """To open a pipe waits for ever, and what a link leads to may be a device."""
    own, other = tmp_path / "history.jsonl", tmp_path / "other"
    if kind == "pipe":
        os.mkfifo(own)
    elif kind == "loop":
        own.symlink_to(own)
    elif kind != "nothing":
        os.mkfifo(other) if kind == "link to a pipe" else other.write_text("old")
        own.symlink_to(other)
    with new_own_file(own) as file:
        file.write("new")
    assert own.read_text() == "new"
    assert own.is_symlink() == (kind == "link to a file")
    if kind == "link to a pipe":
        assert stat.S_ISFIFO(other.stat().st_mode)


def test_a_link_to_a_file_that_is_not_there_yet_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with new_file(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_a_link_back_to_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(WriteError, match="loop"), new_file(tmp_path / "loop"):
        pass


WRITER = """
import sys, time
from pathlib import Path
from longtail.atomic import new_file, new_folder
with new_folder(Path(sys.argv[1])) as folder, new_file(Path(sys.argv[2])) as file:
    (folder / "half").write_text("written")
    print("ready", flush=True)
    time.sleep(600)
"""


def names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


def test_the_next_writer_removes_what_a_dead_one_left_and_nothing_of_a_live_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "folder"), str(tmp_path / "file")]
    live, dead = (subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2))
    try:
        for process in (live, dead):
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        # A process number proves nothing: that of a live process may be reused, that of a dead one from a container.
        reused = tmp_path / f".folder.writing-{live.pid}-00000000"
        reused.mkdir()
        (reused / "half").write_text("of another machine")
        others = ["other", ".folder.writing-12", ".folders.writing-1-00000000", ".folder.writing-1-00000000.txt"]
        for name in others:
            (tmp_path / name).write_text("not ours")
        before = names(tmp_path)
        with new_folder(tmp_path / "folder") as folder:
            (folder / "a").write_text("a")
        with new_file(tmp_path / "file") as file:
            file.write("b")
        left = {name for name in names(tmp_path) if "writing-" in name} - set(others)
        assert {name.split("-")[1] for name in left} == {str(live.pid)} and len(left) == 2
        assert reused.name in before and reused.name not in left
        assert set(others) <= set(names(tmp_path))
        assert (next(tmp_path.glob(f".folder.writing-{live.pid}-*")) / "half").read_text() == "written"
    finally:
        for process in (live, dead):
            process.kill()
            process.communicate()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted([*set(others) - {".folders.writing-1-00000000"}, "folder", "file"])


def _write_often(path: str, times: int, failures: object) -> None:
    try:
        for number in range(times):
            with new_folder(Path(path)) as folder:
                for name in "abc":
                    (folder / name).write_text(f"{os.getpid()} {number}")
    except BaseException as error:
        failures.put(repr(error))  # type: ignore[attr-defined]


@pytest.mark.parametrize("exchange", [True, False])
def test_several_processes_write_one_folder_and_it_is_always_there(
    exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(atomic, "_renameat2", lambda: None)
    path = tmp_path / "folder"
    _write_often(str(path), 1, None)
    fork = multiprocessing.get_context("fork")
    failures = fork.Queue()
    writers = [fork.Process(target=_write_often, args=(str(path), 100, failures)) for _ in range(3)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        try:
            path.stat()
        except FileNotFoundError:
            assert not exchange  # there is a moment between two renames, elsewhere there is none
    for writer in writers:
        writer.join()
    if exchange:
        assert failures.empty()
    assert len({file.read_text() for file in path.iterdir()}) == 1 and names(tmp_path) == ["folder"]


def test_a_folder_that_was_moved_aside_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between two renames, on a system that cannot exchange names."""
    monkeypatch.setattr(atomic, "_renameat2", lambda: None)
    aside = tmp_path / ".folder.replaced-1-00000000"
    aside.mkdir()
    (aside / "a").write_text("old")
    with pytest.raises(KeyError), new_folder(tmp_path / "folder"):
        raise KeyError
    assert names(tmp_path) == ["folder"] and (tmp_path / "folder" / "a").read_text() == "old"


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, flags: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(atomic.fcntl, "flock", refuse)
    left = tmp_path / ".folder.writing-1-00000000"
    left.mkdir()
    with new_folder(tmp_path / "folder") as folder:
        (folder / "a").write_text("a")
    assert names(tmp_path) == [left.name, "folder"]


def test_an_error_of_the_disk_names_the_path_and_other_errors_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    expected = pytest.raises(WriteError, match=r"file/folder: cannot be written \(File exists\)")
    with expected as caught, new_folder(tmp_path / "file" / "folder"):
        pass
    assert isinstance(caught.value, LongtailError) and isinstance(caught.value, OSError) and caught.value.errno == 17
    with pytest.raises(FileNotFoundError) as passed, new_folder(tmp_path / "folder"):
        (Path("/nowhere") / "data.txt").read_text()  # an input is missing, the output is fine
    assert not isinstance(passed.value, WriteError)
