"""A build that is killed goes on where it was, and what it leaves is what an undisturbed build leaves."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import forked
from lines import Lines
from longtail.data.builders.requirements import need_space
from longtail.data.builders.work import Work
from longtail.errors import DataError, WriteError
from longtail.progress import listening


def log(path: Path, lines: int) -> Path:
    rng = random.Random(0)
    words = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "lmnrs"]
    rows = ["AnonID\tQuery\tQueryTime\tItemRank\tClickURL"]
    for _ in range(lines):
        query = " ".join(rng.choices(words, k=rng.randint(1, 4)))
        rows.append(f"{rng.randint(1, 500)}\t{query}\t2006-0{rng.choice('345')}-{rng.randint(1, 31):02} 10:00:00\t\t")
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    return path


def command(folder: Path, out: str) -> list[str]:
    build = ["-m", "longtail", "build", "prefixes", str(folder / "log.txt.gz"), "--accept-licence"]
    return [*build, "--out", str(folder / out), "--json"]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.gz"))}


def stages_in(work: Path) -> set[str]:
    """Those that are done; none where the build has just ended and removed its folder."""
    try:
        return {path.name for path in work.glob("[a-z]*") if path.is_dir()}
    except FileNotFoundError:
        return set()


def test_kill_9_at_many_moments(tmp_path: Path) -> None:
    log(tmp_path / "log.txt.gz", 20_000)
    assert forked.run(command(tmp_path, "whole")).returncode == 0
    work = tmp_path / ".killed.building"
    stages: set[str] = set()
    kills = 0
    for _ in range(40):
        killed = forked.Forked(command(tmp_path, "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        known = len(stages_in(work))
        while killed.poll() is None:  # until a few more stages are done
            done = stages_in(work)
            if len(done) >= known + 3:
                break
            time.sleep(0.002)
        if killed.poll() is not None:
            assert killed.returncode == 0, killed.stderr and killed.stderr.read()
            break
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        stages |= done
        kills += 1
        assert not (tmp_path / "killed").exists()
    assert kills >= 2 and len(stages) >= 6, "it was killed between several stages"
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    assert not work.exists()


def test_a_finished_stage_is_not_made_again(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("x")
    made: list[str] = []

    def make(name: str, fail: bool = False) -> None:
        heard = Lines()
        with listening(heard), Work.begin(tmp_path / "out", {"name": name}, [source], 1) as work:
            work.once("first", lambda folder: made.append("first") or (folder / "x").write_text("1"))  # type: ignore[arg-type, func-returns-value]

            def one(number: int, path: Path) -> None:
                if fail and number == 2:
                    raise KeyboardInterrupt
                made.append(str(number))
                path.write_text("1")

            work.each("second", 3, one)
        notes.append(heard.lines)

    notes: list[list[str]] = []
    with pytest.raises(KeyboardInterrupt):
        make("a", fail=True)
    make("a")
    assert made == ["first", "0", "1", "2"]
    assert notes[-1] == ["going on with an unfinished build; done before: first"]
    with pytest.raises(KeyboardInterrupt):
        make("a", fail=True)
    make("b")  # other settings: from the beginning
    assert made == ["first", "0", "1", "2", "first", "0", "1", "first", "0", "1", "2"]
    with pytest.raises(KeyboardInterrupt):
        make("b", fail=True)
    source.write_text("longer")
    make("b")  # another input too
    assert made[-4:] == ["first", "0", "1", "2"]
    assert not list(tmp_path.glob(".out*"))


def test_nothing_is_left_where_nothing_was_done(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="wrong"), Work.begin(tmp_path / "out", {}, [], 1) as work:

        def fail(folder: Path) -> None:
            raise DataError("wrong")

        work.once("first", fail)
    assert not list(tmp_path.iterdir())


def test_what_the_files_cause_leaves_nothing_and_what_the_disk_causes_stays(tmp_path: Path) -> None:
    """The same files would be refused again; a full disk is emptied, and the build goes on."""

    def make(error: str) -> None:
        with Work.begin(tmp_path / "out", {}, [], 1) as work:
            work.once("first", lambda folder: None)
            if error == "data":
                raise DataError("line 7 is wrong")
            if error == "disk":
                with Path("/dev/full").open("wb") as file:
                    file.write(b"x")

    with pytest.raises(DataError, match="line 7"):
        make("data")
    assert not list(tmp_path.iterdir())
    heard = Lines()
    with listening(heard), pytest.raises(WriteError, match=r"\.out\.building: cannot be written .*free some space"):
        make("disk")
    assert heard.lines == ["what is done stays; the same command goes on from there"]
    assert (tmp_path / ".out.building" / "first").is_dir()
    assert (tmp_path / ".out.building" / ".gitignore").read_text() == "*\n"
    with listening(heard):
        make("")
    assert heard.lines[-1] == "going on with an unfinished build; done before: first"
    assert not list(tmp_path.iterdir())


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".out.building").mkdir()
    os.mkfifo(tmp_path / ".out.building" / "lock")
    with pytest.raises(DataError, match="lock: is no regular file, and is not read; remove it"):
        Work.begin(tmp_path / "out", {}, [], 1).__enter__()


def test_two_builds_of_one_folder_do_not_mix(tmp_path: Path) -> None:
    with (
        Work.begin(tmp_path / "out", {}, [], 1),
        pytest.raises(DataError, match="another process is building it"),
        Work.begin(tmp_path / "out", {}, [], 1),
    ):
        pass


def test_space_is_checked_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs about 1000\d* [PT]B|needs about .*TB"):
        need_space(tmp_path / "out", 10**18)
    need_space(tmp_path / "out", 1000)


def test_an_unfinished_build_has_a_part_of_its_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a build that stopped at a full disk would need twice the space to go on."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9000, 8200, 800))  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"needs about 1000 bytes .*800 bytes are free|needs about 1.0 kB"):
        need_space(tmp_path / "out", 1000)
    (tmp_path / ".out.building" / "log").mkdir(parents=True)
    (tmp_path / ".out.building" / "log" / "part").write_bytes(b"x" * 300)
    need_space(tmp_path / "out", 1000)
    with pytest.raises(DataError, match="needs about"):
        need_space(tmp_path / "out", 1101)
