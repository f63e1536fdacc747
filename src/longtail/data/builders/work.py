"""Stages of a build on the disk, so that the same command goes on after it was stopped.

    work = Work.begin(out, settings, inputs)
    queries = work.once("queries", read_log)                # a folder; made once
    rows = work.each("rows", 64, partial(write_rows, queries))    # a folder of files; each made once
    work.finish()

A stage writes to a hidden name and is renamed when it is complete: what has its name is whole.
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
from longtail.data.worker_pool import Workers
from longtail.errors import DataError, WriteError
from longtail.progress import note, stage
from longtail.read_back import check_regular

SETTINGS = "build.json"


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
            DataError: another process is building the same folder.
            WriteError: the disk is full or failing.
        """
        folder = unfinished(out)
        files = [[path.name, (facts := path.stat()).st_size, facts.st_mtime_ns] for path in inputs]
        wanted = json.dumps({"settings": settings, "inputs": files}, sort_keys=True)
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder, out):
            known = folder / SETTINGS
            if known.is_file() and known.read_text() == wanted:
                done = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
                note(f"going on with an unfinished build; done before: {', '.join(done) or 'nothing'}")
            else:
                for path in folder.iterdir():
                    if path.name != "lock":
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
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
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            with stage(name):
                make(part)
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
        part = self.folder / f".{name}"
        part.mkdir(exist_ok=True)
        left = [one for one in range(number) if not (part / f"{one:03}").exists()]
        with stage(name, total=number) as advance:
            advance(number - len(left))
            for _ in self.workers.in_order(partial(_make, make, part), left):
                advance(1)
        part.rename(done)
        return done

    def drop(self, name: str) -> None:
        """Removes the files of a stage that no later stage reads; what it remembered stays.

        Args:
            name: of the stage, which counts as done.
        """
        for path in (self.folder / name).iterdir():
            if path.suffix != ".json":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _of_folder(error: OSError, folder: Path) -> bool:
    """Whether an error is of the files of a build: it names one, or none, as where the disk is full."""
    return error.filename is None or folder in Path(str(error.filename)).parents


def _make(make: Callable[[int, Path], None], folder: Path, number: int) -> None:
    """A file or a folder that is there only when it is whole."""
    part = folder / f".{number:03}"
    shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)
    make(number, part)
    part.rename(folder / f"{number:03}")


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
