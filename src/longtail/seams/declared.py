"""What a fitted part stores, declared: types, shapes and ranges of its arrays and settings.

`restore` may trust what it is given, because loading a model checks every part against its declaration first, in
`longtail.seams.conforms`. A scorer or re-ranker has a class variable:

    declared: ClassVar[Declaration] = Declaration(
        arrays={"weights": Array("float32", "labels, dimension"), "bias": Array("float32", "labels", optional=True)},
        settings={"beam": Whole(1)},
    )

Shapes are written in names. `labels` is the number of labels of the model; any other name stands for the size that the
first array gives it, and every further array with that name must have the same. `+ 1` may follow a name. Declarations
are added: `FEATURES + csr("index", "columns", "labels")`. What depends on settings is declared by a function of them
(`then`), and what no range can say, such as the shape of a tree, is a function of all that is stored (`checks`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longtail.arrays import AnyArray

LARGEST = 2**31 - 1  # of a size: labels, rows and columns are counted in int32
PIECE = 1 << 20  # numbers checked at once, so that checking takes no memory to speak of


class Misfit(ValueError):
    """What is stored is not what the part declares. The message names the array or the setting."""

    def __init__(self, name: str, what: str, kind: str = "array") -> None:
        self.of_array = kind == "array"  # else of a setting or a part, which the manifest holds
        super().__init__(f"{kind} {name!r} {what}")


@dataclass(frozen=True)
class Array:
    """One array. Floats are always finite."""

    dtype: str  # NumPy's name, or several: "int32 int64"
    shape: str  # names of sizes, or numbers: "rows + 1, 2"; "" is a single number
    least: float | None = None
    most: float | str | None = None  # a number, or the name of a size
    below: str | None = None  # the name of a size: an index into it
    rising: bool = False  # each number is larger than the one before
    points_to: str | None = None  # the name of a size: pointers that rise (or stay) from 0 to it
    holds: str | None = None  # names of the sizes that the numbers of this array set, in order
    optional: bool = False


class Declared(ABC):
    """Base of the declarations of a setting: a type and a range."""

    optional = False

    @abstractmethod
    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """Check a stored value.

        Args:
            name: of the setting, for the error.
            value: as it stands in the manifest.
            sizes: known sizes by name; a number that is one is added.

        Raises:
            Misfit: the value is of another type or out of range.
        """


@dataclass(frozen=True)
class Whole(Declared):
    """A whole number."""

    least: int = 0
    most: int = 2**32
    size: str | None = None  # the name of the size that this number sets
    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise Misfit(name, f"is a whole number from {self.least} to {self.most}, not {shown(value)}", "setting")
        if self.size is not None:
            bind(name, self.size, value, sizes, "setting")


@dataclass(frozen=True)
class Number(Declared):
    """A finite number."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
        if not fits or not self.least <= value <= self.most or value <= self.above:
            low = f"above {self.above:g}" if self.above > -math.inf else f"at least {self.least:g}"
            raise Misfit(name, f"is a number, {low} and at most {self.most:g}, not {shown(value)}", "setting")


@dataclass(frozen=True)
class Flag(Declared):
    """True or false."""

    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        if not isinstance(value, bool):
            raise Misfit(name, f"is true or false, not {shown(value)}", "setting")


@dataclass(frozen=True)
class Words(Declared):
    """A string; one of `among`, where there is any."""

    among: tuple[str, ...] = ()
    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        if not isinstance(value, str) or (self.among and value not in self.among):
            wanted = f"one of {', '.join(self.among)}" if self.among else "a string"
            raise Misfit(name, f"is {wanted}, not {shown(value)}", "setting")


@dataclass(frozen=True)
class Nothing(Declared):
    """None, or a value that `otherwise` declares."""

    otherwise: Declared
    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        if value is not None:
            self.otherwise.check(name, value, sizes)


@dataclass(frozen=True)
class Several(Declared):
    """A list with one value for each of `items`."""

    items: tuple[Declared, ...]
    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        if not isinstance(value, list) or len(value) != len(self.items):
            raise Misfit(name, f"is a list of {len(self.items)} values, not {shown(value)}", "setting")
        for place, (item, one) in enumerate(zip(self.items, value, strict=True)):
            item.check(f"{name}[{place}]", one, sizes)


@dataclass(frozen=True)
class Many(Declared):
    """A list of values of one kind."""

    item: Declared
    most: int = 1000
    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        if not isinstance(value, list) or len(value) > self.most:
            raise Misfit(name, f"is a list of at most {self.most} values, not {shown(value)}", "setting")
        for place, one in enumerate(value):
            self.item.check(f"{name}[{place}]", one, sizes)


@dataclass(frozen=True)
class Fields(Declared):
    """An object with these fields and no others."""

    fields: Mapping[str, Declared]
    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        if not isinstance(value, dict):
            raise Misfit(name, f"is an object, not {shown(value)}", "setting")
        check_settings(self.fields, value, sizes, f"{name}.")
        unknown = [field for field in value if field not in self.fields]
        if unknown:
            raise Misfit(f"{name}.{unknown[0]}", "is not one that this kind stores", "setting")


@dataclass(frozen=True)
class AnyFields(Declared):
    """An object whose fields are declared elsewhere, by a function of the settings."""

    optional: bool = False

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See `Declared.check`."""
        if not isinstance(value, dict):
            raise Misfit(name, f"is an object, not {shown(value)}", "setting")


@dataclass(frozen=True)
class Contents:
    """All that a part stores, for `Declaration.checks`. Sizes are bound and single ranges are checked by then."""

    settings: Mapping[str, Any]
    tensors: Mapping[str, AnyArray]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Declaration:
    """What a part stores. See the top of this file."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    settings: Mapping[str, Declared] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)  # parts inside, each with the size that is its `labels`
    then: tuple[Callable[[Mapping[str, Any]], Declaration], ...] = ()  # what depends on the settings
    checks: tuple[Callable[[Contents], None], ...] = ()  # raise a Misfit
    loose: tuple[str, ...] = ()  # beginnings of names whose arrays may have any shape

    def __add__(self, other: Declaration) -> Declaration:
        """What both declare."""
        return Declaration(
            {**self.arrays, **other.arrays},
            {**self.settings, **other.settings},
            {**self.parts, **other.parts},
            self.then + other.then,
            self.checks + other.checks,
            self.loose + other.loose,
        )


def csr(
    name: str,
    rows: str,
    columns: str,
    *,
    least: float | None = None,
    most: float | None = None,
    ascending: bool = False,
) -> Declaration:
    """The arrays of a sparse matrix, as `matrix_state` writes them.

    Args:
        name: the beginning of their names.
        rows: the name of the number of rows.
        columns: the name of the number of columns.
        least: of the values.
        most: of the values.
        ascending: whether the columns of a row must ascend, because they are searched by halving.

    Returns:
        The declaration.
    """
    entries = f"entries of {name}"
    arrays = {
        f"{name}.indptr": Array("int64", f"{rows} + 1", points_to=entries),
        f"{name}.indices": Array("int32", entries, least=0, below=columns),
        f"{name}.data": Array("float32", entries, least=least, most=most),
        f"{name}.shape": Array("int64", "2", least=0, most=LARGEST, holds=f"{rows}, {columns}"),
    }
    return Declaration(arrays, checks=(ascending_columns(name),) if ascending else ())


def ascending_columns(name: str) -> Callable[[Contents], None]:
    """A check that the columns ascend in each row of a sparse matrix.

    Args:
        name: the beginning of the names of its arrays.

    Returns:
        The check, for `Declaration.checks`.
    """

    def check(stored: Contents) -> None:
        columns, starts = (stored.tensors[f"{name}.{part}"] for part in ("indices", "indptr"))
        for begin in range(1, len(columns), PIECE):
            piece = columns[begin : begin + PIECE]
            falls = begin + np.flatnonzero(piece <= columns[begin - 1 : begin - 1 + len(piece)])
            if not (starts[np.searchsorted(starts, falls)] == falls).all():  # only where a row begins
                raise Misfit(f"{name}.indices", "has a row whose columns do not ascend")

    return check


def strings(packed: str, offsets: str, number: str, *, empty: bool = False) -> Declaration:
    """The arrays of strings, as `pack_strings` makes them.

    Args:
        packed: the name of their bytes.
        offsets: the name of their offsets.
        number: the name of how many they are.
        empty: whether a string may be empty.

    Returns:
        The declaration.
    """
    size = f"bytes of {packed}"
    return Declaration(
        {packed: Array("uint8", size), offsets: Array("int64", f"{number} + 1", points_to=size, rising=not empty)}
    )


def check_settings(
    wanted: Mapping[str, Declared], given: Mapping[str, Any], sizes: dict[str, int], prefix: str = ""
) -> None:
    """Check settings that are declared; others are not looked at.

    Args:
        wanted: declarations by name.
        given: values by name.
        sizes: what the names of sizes stand for; new ones are added.
        prefix: before the names, in errors.

    Raises:
        Misfit: a setting is missing, or not as declared.
    """
    for name, one in wanted.items():
        if name in given:
            one.check(prefix + name, given[name], sizes)
        elif not one.optional:
            raise Misfit(prefix + name, "is missing", "setting")


def bind(name: str, called: str, size: int, sizes: dict[str, int], kind: str = "array") -> None:
    """Give a name its size, or compare with the size that it has.

    Args:
        name: of the array or setting that says so.
        called: the name of the size.
        size: the number.
        sizes: what the names of sizes stand for.
        kind: "array" or "setting".

    Raises:
        Misfit: the name has another size already.
    """
    if size < 0:
        raise Misfit(name, f"is too short for the number of {called}", kind)
    if sizes.setdefault(called, size) != size:
        raise Misfit(name, f"is for {size} {called} where there are {sizes[called]}", kind)


def shown(value: Any) -> str:
    """A value as an error shows it, however long it is. Huge whole numbers cannot even be printed.

    Args:
        value: anything that JSON holds.

    Returns:
        At most 60 characters.
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "something that cannot be printed"
    return text if len(text) <= 60 else text[:57] + "..."
