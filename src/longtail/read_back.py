"""Files of an earlier run are read with the same care as other files: they may be cut, changed, or no file at all."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from longtail.errors import LongtailError, ModelError


@contextmanager
def reading_back(path: Path, advice: str, kind: type[LongtailError] = ModelError) -> Iterator[None]:
    """Turns every error that comes from reading a file of our own, or from using its content, into one kind of error.

    Args:
        path: the file. A link is followed; a pipe or a device is refused before it is opened, since it may never end.
        advice: what to do, for the error.
        kind: of the error.

    Yields:
        Nothing.

    Raises:
        LongtailError: the file cannot be read, or does not hold what was written.
    """
    check_regular(path, advice, kind)
    try:
        yield
    except LongtailError:
        raise
    except Exception as error:  # libraries have classes of their own, and content of the wrong type may raise any
        if type(error).__name__ == "OutOfMemoryError":  # of a GPU, which says nothing of the file
            raise
        reason = " ".join(str(getattr(error, "strerror", None) or error)[:200].split())
        raise kind(f"{path}: cannot be read ({type(error).__name__}: {reason}); {advice}") from None


def check_regular(path: Path, advice: str, kind: type[LongtailError] = ModelError) -> None:
    """Refuses a pipe, a device or a folder before it is opened: opening a pipe may wait for ever, even for writing.

    Args:
        path: the file. A link is followed.
        advice: what to do, for the error.
        kind: of the error.

    Raises:
        LongtailError: it is no regular file, or there is none.
    """
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError) as error:
        raise kind(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}); {advice}") from None
    if not regular:
        raise kind(f"{path}: is no regular file, and is not read; {advice}")


def typed(kind: Any, stored: Any) -> Any:
    """Makes a value of a type from what `asdict` and JSON left of it.

    Args:
        kind: a dataclass, `tuple[X, ...]`, `dict[str, X]`, `X | None`, `str`, `float`, `int` or `bool`.
        stored: of its JSON.

    Returns:
        The value.

    Raises:
        TypeError: it has another type, or other fields.
    """
    origin, given = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(stored, dict):
        hints = get_type_hints(kind)
        known = {field.name: hints[field.name] for field in fields(kind)}
        if stored.keys() <= known.keys():
            return kind(**{name: typed(known[name], value) for name, value in stored.items()})  # type: ignore[operator]
    elif origin in (Union, UnionType):
        if stored is None and NoneType in given:
            return None
        [other] = [one for one in given if one is not NoneType]
        return typed(other, stored)
    elif origin is tuple and isinstance(stored, list):
        return tuple(typed(given[0], one) for one in stored)
    elif origin is dict and isinstance(stored, dict):
        return {name: typed(given[1], one) for name, one in stored.items()}
    # a setting that is true or false counts as a number
    elif isinstance(stored, int | float) if kind is float else type(stored) is kind and kind in (str, int, bool):
        return stored
    raise TypeError(f"{str(stored)[:40]} is not {getattr(kind, '__name__', kind)}")
