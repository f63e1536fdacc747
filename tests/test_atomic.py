"""Files that appear whole or not at all, and what is never replaced."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from longtail.atomic import new_file


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
