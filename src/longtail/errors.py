"""Every error the library raises on purpose. The command line prints them as one line and exits with 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class LongtailError(Exception):
    """Base of all expected failures: the message says what, with which values, and what to do next."""


class DataError(LongtailError):
    """The data is wrong. Names the file and the line where that is known."""

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message)


class RecipeError(LongtailError):
    """A recipe cannot be read, or its parts do not go together."""


class ModelError(LongtailError):
    """A model folder is missing, damaged, or of a version this release cannot read."""


class WillNotFit(LongtailError):
    """The planned work needs more memory than the machine has."""


class MissingExtra(LongtailError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'longtail[{extra}]'")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean 'gandalf'?" where a known word is close, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
