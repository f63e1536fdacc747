"""What a build needs, checked before the work: files, space on the disk, a licence that was accepted."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longtail.errors import DataError
from longtail.memory import readable
from longtail.progress import note


@dataclass(frozen=True)
class Licence:
    """The terms of a source, as a data set's `corpus.json` names them."""

    name: str
    terms: str  # what a user has to know
    address: str
    must_accept: bool = True  # whether a person must accept it before the build


AOL = Licence(
    "AOL 2006, non-commercial research only",
    "These are searches of real people, who did not agree to their release and of whom some were identified. AOL gave "
    "them for non-commercial research only and withdrew them. Do not publish them, what is built from them, or models "
    "that repeat them.",
    "the U500k_README.txt beside the files",
)
MS_MARCO = Licence(
    "MS MARCO terms, non-commercial research only",
    "Microsoft gives MS MARCO and ORCAS for non-commercial research, without warranty; text of the pages belongs to "
    "their owners.",
    "https://microsoft.github.io/msmarco/",
)
WIKIPEDIA = Licence(
    "CC BY-SA 4.0", "Name Wikipedia, and share alike.", "https://dumps.wikimedia.org/legal.html", must_accept=False
)
MANUAL_PAGES = Licence(
    "each page's own", "Pages have the licences of their packages.", "/usr/share/doc/*/copyright", must_accept=False
)
UNKNOWN = Licence("the source's own", "The files do not say.", "", must_accept=False)


def need_licence(licence: Licence, accepted: bool) -> None:
    """Refuses to build from files whose licence has to be accepted and was not.

    Args:
        licence: of the files.
        accepted: by a person.

    Raises:
        DataError: it has to be accepted and was not.
    """
    if licence.must_accept and not accepted:
        raise DataError(f"{licence.name}: {licence.terms} See {licence.address}. If you accept it: --accept-licence")


def log_licence(licence: Licence) -> None:
    """Logs the terms of a source, once a build begins.

    Args:
        licence: of the files.
    """
    note(f"licence of the source: {licence.name}. {licence.terms}")


def need_files(paths: Sequence[Path], what: str) -> None:
    """Checks that files are there.

    Args:
        paths: the files.
        what: they are, for the message.

    Raises:
        DataError: one is missing, and all that are, are named; or one is given twice.
    """
    missing = [path for path in paths if not path.is_file()]
    if missing:
        names = ", ".join(str(path) for path in missing)
        raise DataError(f"{what}: no such file: {names}; check the path, or fetch what is missing first")
    found: set[Path] = set()
    for path in paths:
        if path.resolve() in found:
            raise DataError(f"{what}: this file is given twice; it would count twice", path)
        found.add(path.resolve())


def need_space(out: Path, size: int) -> None:
    """Checks the space on the disk.

    Args:
        out: the folder that is built; unfinished work is beside it.
        size: bytes needed for both.

    Raises:
        DataError: there is less.
    """
    parent = next(parent for parent in out.resolve().parents if parent.exists())
    free = shutil.disk_usage(parent).free
    begun = sum(path.stat().st_size for path in unfinished(out).rglob("*") if path.is_file())  # used again, or removed
    if free + begun < size:
        raise DataError(
            f"the build needs about {readable(size - begun)} beside {out}, where {readable(free)} are free; free some, "
            "or choose an --out on another disk"
        )


def unfinished(out: Path) -> Path:
    """The folder of an unfinished build.

    Args:
        out: the folder that is built.

    Returns:
        A hidden folder beside it.
    """
    return out.resolve().parent / f".{out.name}.building"
