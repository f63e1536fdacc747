"""Stages of a build on the disk, so that the same command goes on after it was stopped.

    work = Work.begin(out, settings, inputs)
    queries = work.once("queries", read_log)                # a folder; made once
    rows = work.each("rows", 64, partial(write_rows, queries))    # a folder of files; each made once
    work.finish()

A stage writes to a hidden name and is renamed when it is complete: what has its name is whole. A later run uses it only
where every file is as it was then (`seals.py`); where one was changed, the build begins again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from longtail.data.builders.requirements import unfinished
from longtail.data.builders.seals import is_intact, remove, write_seal
from longtail.data.worker_pool import Workers
from longtail.errors import DataError, WriteError
from longtail.progress import note, stage
from longtail.read_back import check_regular

SETTINGS = "build.json"
SEALS = ".seals"
OWN = {"lock", ".gitignore", SETTINGS}  # what a build may leave before its first stage


@dataclass(frozen=True)
class Work:
    """The folder of an unfinished build, beside the folder that is built."""

    folder: Path
    workers: Workers

    @classmethod
    @contextmanager
    def begin(cls, out: Path, settings: dict[str, Any], inputs: Sequence[Path], processes: int) -> Iterator[Work]:
        """Begins a build, or goes on with one that has the same settings and inputs.

        The folder is removed when the block ends without an error, and after an error of the data, which the same
        files would cause again. It stays after anything else: a kill, a full disk, too little memory.

        Args:
            out: the folder that is built.
            settings: what the result depends on; plain data.
            inputs: files that are read; another size or date starts the build again.
            processes: how many work at once.

        Yields:
            The build.

        Raises:
            DataError: another process is building the same folder, or something else stands in its place.
            WriteError: the disk is full or failing.
        """
        folder = unfinished(out)
        files = [[path.name, (facts := path.stat()).st_size, facts.st_mtime_ns] for path in inputs]
        wanted = json.dumps({"settings": settings, "inputs": files}, sort_keys=True)
        known = folder / SETTINGS
        if os.path.lexists(folder) and not _is_of_a_build(folder):
            raise DataError("stands where the build keeps its work, and is no folder of a build; move it away", folder)
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder, out):
            same = known.is_file() and known.stat().st_size == len(wanted.encode()) and known.read_text() == wanted
            changed = _changed(folder) if same else None
            if changed is not None:
                note(f"{changed} of the unfinished build was changed, so the build begins again")
            if same and changed is None:
                done = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
                note(f"going on with an unfinished build; done before: {', '.join(done) or 'nothing'}")
            else:
                for path in folder.iterdir():
                    if path.name not in ("lock", SETTINGS):
                        remove(path)
                remove(known)  # last: until then the folder is known as a build's
                (folder / ".gitignore").write_text("*\n")  # queries of persons may be in it
                known.write_text(wanted)
            try:
                with Workers(processes) as workers:
                    yield cls(folder, workers)
            except BaseException as error:
                stays = any(path.is_dir() for path in folder.iterdir() if path.name[0] != ".")
                if isinstance(error, DataError) or not stays:  # nothing that a later run could use
                    shutil.rmtree(folder, ignore_errors=True)
                    stays = False
                if stays and not isinstance(error, KeyboardInterrupt):
                    note("what is done stays; the same command goes on from there")
                if isinstance(error, OSError) and not isinstance(error, WriteError) and _of_folder(error, folder):
                    raise WriteError(folder, error) from None
                raise
        shutil.rmtree(folder, ignore_errors=True)

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """Makes a folder, unless an earlier run has made it.

        Args:
            name: of the stage.
            make: called with the folder to fill.

        Returns:
            The folder.
        """
        done = self.folder / name
        if not done.is_dir():
            part = self.folder / f".{name}"
            remove(part)
            part.mkdir()
            with stage(name):
                make(part)
            write_seal(part, self.folder / SEALS / f"{name}.json")
            part.rename(done)
        return done

    def each(self, name: str, number: int, make: Callable[[int, Path], None]) -> Path:
        """Makes files `000`, `001` ... on several processes, each unless an earlier run has made it.

        Args:
            name: of the stage.
            number: of files.
            make: called with the number of a file and the path to write it to; must be picklable.

        Returns:
            The folder of the files.
        """
        done = self.folder / name
        if done.is_dir():
            return done
        part, seals = self.folder / f".{name}", self.folder / SEALS / name
        if part.is_symlink():
            remove(part)
        part.mkdir(exist_ok=True)
        left = [one for one in range(number) if not is_intact(part / f"{one:03}", seals / f"{one:03}.json")]
        with stage(name, total=number) as advance:
            advance(number - len(left))
            for _ in self.workers.in_order(partial(_make, make, part, seals), left):
                advance(1)
        part.rename(done)
        return done

    def drop(self, name: str) -> None:
        """Removes the files of a stage that no later stage reads; what it remembered stays.

        Args:
            name: of the stage, which counts as done.
        """
        folder = self.folder / name
        stays = tuple(path.name for path in folder.iterdir() if path.suffix == ".json")
        write_seal(folder, self.folder / SEALS / f"{name}.json", stays)
        for path in folder.iterdir():
            if path.name not in stays:
                remove(path)


def _is_of_a_build(folder: Path) -> bool:
    """Whether a folder may be emptied: it is one, no link, and has what a build writes first or nothing at all."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    return SETTINGS in names or names <= OWN


def _changed(folder: Path) -> str | None:
    """The name of a finished stage that is not as it was left."""
    for done in sorted(path for path in folder.iterdir() if path.name[0] != "." and path.name not in OWN):
        seals = folder / SEALS / done.name
        alone = seals.with_name(f"{done.name}.json")
        if alone.exists():
            if not is_intact(done, alone):
                return done.name
            continue
        parts = {f"{path.name}.json" for path in done.iterdir()} if done.is_dir() and not done.is_symlink() else set()
        sealed = {path.name for path in seals.iterdir()} if seals.is_dir() else set()
        if not parts or parts != sealed or not all(is_intact(done / name[:-5], seals / name) for name in parts):
            return done.name
    return None


def _of_folder(error: OSError, folder: Path) -> bool:
    """Whether an error is of the files of a build: it names one, or none, as where the disk is full."""
    return error.filename is None or folder in Path(str(error.filename)).parents


def _make(make: Callable[[int, Path], None], folder: Path, seals: Path, number: int) -> None:
    """A file or a folder that is there only when it is whole, and sealed."""
    part, done = folder / f".{number:03}", folder / f"{number:03}"
    remove(part)
    remove(done)  # one that was changed
    make(number, part)
    write_seal(part, seals / f"{number:03}.json")
    part.rename(done)


@contextmanager
def _alone(folder: Path, out: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    if os.path.lexists(folder / "lock"):
        check_regular(folder / "lock", "remove it", DataError)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError("another process is building it; wait for it, or choose another --out", out) from None
        yield


def remembered(folder: Path, name: str) -> Any:
    """Reads what a stage remembered.

    Args:
        folder: of the stage.
        name: of the fact file.

    Returns:
        Plain data.
    """
    return json.loads((folder / f"{name}.json").read_text())


def remember(folder: Path, name: str, facts: Any) -> None:
    """Writes counts and other plain data beside a stage's files, for later runs.

    Args:
        folder: of the stage.
        name: of the fact file.
        facts: plain data.
    """
    (folder / f"{name}.json").write_text(json.dumps(facts))


def flush(path: Path) -> None:
    """Writes what the system still holds of a file to the disk.

    Args:
        path: of the file.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest_of(text: str) -> int:
    """A 64-bit number of a text, the same on every machine.

    Args:
        text: any.

    Returns:
        The number.
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
