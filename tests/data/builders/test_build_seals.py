"""What somebody changed in the folder of an unfinished build is made again, and what is not a build's is left alone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lines import Lines
from longtail.data.builders.work import Work
from longtail.errors import DataError
from longtail.progress import listening

made: list[str] = []


def write_part(number: int, path: Path) -> None:
    path.mkdir()
    (path / "rows").write_text(f"rows {number}")


def build(out: Path, *, stop_at: int | None = None) -> list[str]:
    """Three stages, the second of three parts; stopped before one of the parts, or behind them all (3)."""

    def first(folder: Path) -> None:
        made.append("first")
        (folder / "facts.json").write_text("{}")
        (folder / "words").write_text("words")

    def part(number: int, path: Path) -> None:
        if number == stop_at:
            raise KeyboardInterrupt
        made.append(str(number))
        write_part(number, path)

    heard = Lines()
    made.clear()
    with listening(heard), Work.begin(out, {}, [], 1) as work:
        work.once("first", first)
        work.drop("first") if stop_at == 4 else None
        work.each("second", 3, part)
        if stop_at is not None:
            raise KeyboardInterrupt
    return heard.lines


def stopped(tmp_path: Path, at: int) -> Path:
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "out", stop_at=at)
    return tmp_path / ".out.building"


def other_content(file: Path) -> None:
    file.write_text(file.read_text().swapcase())


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def link(file: Path) -> None:
    elsewhere = next(folder for folder in file.parents if folder.name == ".out.building").parent / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def one_more(file: Path) -> None:
    (file.parent / "more").write_text("")


CHANGES: tuple[Callable[[Path], None], ...] = (other_content, pipe, link, one_more, Path.unlink)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_stage_begins_the_build_again(change: Callable[[Path], None], tmp_path: Path) -> None:
    work = stopped(tmp_path, 3)
    change(work / "first" / "words")
    lines = build(tmp_path / "out")
    assert lines == ["first of the unfinished build was changed, so the build begins again"]
    assert made == ["first", "0", "1", "2"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_part_of_a_finished_stage_does_so_too(change: Callable[[Path], None], tmp_path: Path) -> None:
    work = stopped(tmp_path, 3)
    change(work / "second" / "001" / "rows")
    assert "second of the unfinished build was changed" in build(tmp_path / "out")[0]
    assert made == ["first", "0", "1", "2"]


@pytest.mark.parametrize("change", CHANGES)
def test_of_an_unfinished_stage_a_changed_part_alone_is_made_again(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    work = stopped(tmp_path, 2)
    change(work / ".second" / "001" / "rows")
    assert build(tmp_path / "out") == ["going on with an unfinished build; done before: first"]
    assert made == ["1", "2"]


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"whole": true, "files": {"words": [5]}}', "nul", "gone"])
def test_a_damaged_seal_counts_as_a_change(damage: str, tmp_path: Path) -> None:
    seal = stopped(tmp_path, 3) / ".seals" / "first.json"
    seal.unlink() if damage == "gone" else seal.write_text(damage)
    assert "first of the unfinished build was changed" in build(tmp_path / "out")[0]


def test_what_is_as_it_was_is_used_again(tmp_path: Path) -> None:
    stopped(tmp_path, 3)
    assert build(tmp_path / "out") == ["going on with an unfinished build; done before: first, second"]
    assert made == []


def test_dropped_files_are_not_missed_and_what_stays_is_checked(tmp_path: Path) -> None:
    work = stopped(tmp_path, 4)
    assert not (work / "first" / "words").exists()
    stopped(tmp_path, 3)
    assert made == []
    (work / "first" / "facts.json").write_text("[]")
    build(tmp_path / "out")
    assert made == ["first", "0", "1", "2"]


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Its target would be emptied."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    (tmp_path / ".out.building").symlink_to(tmp_path / "home")
    with pytest.raises(DataError, match=r"\.out\.building: stands where the build keeps its work"):
        build(tmp_path / "out")
    assert (tmp_path / "home" / "letter").read_text() == "dear"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ".out.building"
    folder.mkdir()
    (folder / "letter").write_text("dear")
    with pytest.raises(DataError, match="no folder of a build; move it away"):
        build(tmp_path / "out")
    assert (folder / "letter").read_text() == "dear"


def test_links_in_the_folder_are_removed_and_not_followed(tmp_path: Path) -> None:
    work = stopped(tmp_path, 2)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "000").write_text("dear")
    for name in (".second", "third"):
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).symlink_to(tmp_path / "home")
    build(tmp_path / "out")
    assert (tmp_path / "home" / "000").read_text() == "dear"
    assert json.dumps(made) == '["first", "0", "1", "2"]'
