"""What an earlier run left is believed no more than other files: by now it may be cut, changed, or no file at all."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longtail.errors import LongtailError, ModelError


@contextmanager
def reading_back(path: Path, advice: str, kind: type[LongtailError] = ModelError) -> Iterator[None]:
    """Turns whatever reading a file of our own raises, and taking apart what it says, into one error.

    Args:
        path: the file. A link is followed; a pipe or a device is refused before it is opened, since it may never end.
        advice: what to do, for the error.
        kind: of the error.

    Yields:
        Nothing.

    Raises:
        LongtailError: the file cannot be read, or does not hold what was written.
    """
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError) as error:
        raise kind(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}); {advice}") from None
    if not regular:
        raise kind(f"{path}: is no regular file, and is not read; {advice}")
    try:
        yield
    except LongtailError:
        raise
    except Exception as error:  # libraries raise classes of their own, and what is missing or of another type any
        if type(error).__name__ == "OutOfMemoryError":  # of a GPU, which says nothing of the file
            raise
        reason = " ".join(str(getattr(error, "strerror", None) or error)[:200].split())
        raise kind(f"{path}: cannot be read ({type(error).__name__}: {reason}); {advice}") from None
