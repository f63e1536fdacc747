"""Every error the library raises on purpose. The command line prints them as one line and exits with 2."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Sequence
from pathlib import Path


class LongtailError(Exception):
    """Base of all expected failures: the message says what, with which values, and what to do next."""


MAX_MESSAGE = 2000  # characters: what stands in a file, and so in a message, may be of any length


class DataError(LongtailError):
    """The data is wrong. Names the file and the line where that is known."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + (message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 2] + " …"))


class RecipeError(LongtailError):
    """A recipe cannot be read, or its parts do not go together."""


class ModelError(LongtailError):
    """A model folder is missing, damaged, or of a version this release cannot read."""


def what_to_do(error: OSError) -> str:
    """What a user can do where a file cannot be written.

    Args:
        error: of the system.

    Returns:
        Words for the end of a message.
    """
    if error.errno == errno.EROFS:
        return "the file system is mounted read-only: write to another place, or mount it for writing"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, or write to another disk"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "check the permissions, or write to another place"
    return "check the disk and the permissions"


class WriteError(LongtailError, OSError):
    """A file or folder cannot be written: the disk is full or failing, or the permissions are missing.

    It is an `OSError`, too, with the number and the words of the system's error.
    """

    def __init__(self, path: str | Path, cause: OSError) -> None:
        self.message = (
            f"{path}: cannot be written ({cause.strerror or cause}); what was there before is unchanged; "
            f"{what_to_do(cause)}"
        )
        super().__init__(cause.errno, cause.strerror or str(cause), str(path))

    def __str__(self) -> str:
        return self.message


class WillNotFit(LongtailError):
    """The planned work needs more memory than the machine has."""


class ProcessLost(LongtailError):
    """Of several processes that train together, one has died, or has stopped for too long."""


class JobError(LongtailError):
    """Jobs cannot be run, or some of them failed. Those that are done stay done."""


class JobsLeft(JobError):
    """Jobs wait for a scheduler to run them; the same command goes on afterwards."""

    def __init__(self, folder: Path, left: Sequence[int], jobs: int) -> None:
        self.folder, self.left, self.jobs = folder, tuple(left), jobs
        super().__init__(
            f"{len(self.left)} of {counted(jobs, 'job')} in {folder} "
            f"are not run: `longtail job {folder} NUMBER` runs one; then "
            "run the command again"
        )


class MissingExtra(LongtailError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'longtail[{extra}]'")


def counted(number: int, one: str, many: str = "") -> str:
    """A number and what it counts: "1 line", "2,000 lines", "1 copy was", "2 copies were".

    Args:
        number: of things.
        one: what a single one is called, with its verb where the sentence needs it.
        many: what several are called; without it `one` with an s.

    Returns:
        The number in groups of three digits, and its words.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest a word that is close to an unknown one, or that has it as a part: `learning_rate` for `rate`.

    Args:
        word: the unknown word.
        known: the words there are.

    Returns:
        "; did you mean 'gandalf'?", or "" where none is close.
    """
    if len(word) > 100:  # comparing takes the square of the length
        return ""
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    close = close or [one for one in words if word in one.split("_")]
    return f"; did you mean '{close[0]}'?" if close else ""
