"""The lines of a table, as its file writes them: one by one, or a block once for each value of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.catalogue import LEARNERS, TAIL_METHODS
from longtail.errors import DataError, LongtailError, RecipeError, did_you_mean
from longtail.grammar import parse
from longtail.recipe import Recipe

ROW_KEYS = {"name", "recipe", "control", "published_as", "not_implemented", "examples_per_label"}
SWEEP_KEYS = {"each", "rows"}
PLACE = "{each}"  # where a value of a sweep goes
ALL = "all"


@dataclass(frozen=True)
class TableRow:
    """A line of a table: its name in the paper, and the recipe that stands for it."""

    name: str
    recipe: str  # "" where none can stand for it
    control: str = ""  # the name of the row that its effect is measured against
    reason: str = ""  # why there is no recipe
    examples_per_label: float | None = None  # training examples a label, in the mean; None: all of them
    published_as: str = ""  # the row whose published figures are also of this form; "": its own name

    @property
    def key(self) -> str:
        """What is trained: rows with the same key are the same training."""
        part = "" if self.examples_per_label is None else f" @ {self.examples_per_label:g} examples a label"
        return self.recipe + part

    def missing(self) -> str:
        """Why the row cannot be trained here: it has no recipe, or a part that this installation lacks."""
        if not self.recipe:
            return self.reason
        unknown = [part for part in part_names(self.recipe) if part not in LEARNERS and part not in TAIL_METHODS]
        return f"no method is called {', '.join(unknown)}" if unknown else ""


def part_names(recipe: str) -> list[str]:
    """The parts of a recipe, whether they exist or not.

    Args:
        recipe: as written.

    Returns:
        Their names, the learner first.
    """
    return [part.name for part in parse(recipe)]


def read_rows(read: Mapping[str, Any], file: Path) -> tuple[TableRow, ...]:
    """Read the lines of a table: `rows`, then those of each block in `sweeps`.

    Args:
        read: the table.
        file: for error messages.

    Returns:
        The rows.

    Raises:
        DataError: a row has an unknown key or value, two have one name, or a control is no row; names the file.
        RecipeError: a recipe cannot be parsed; names file and row.
    """
    found = [_row(one, file) for one in read.get("rows", ())]
    for number, sweep in enumerate(read.get("sweeps", ()), 1):
        check_keys(sweep, SWEEP_KEYS, SWEEP_KEYS, file, f"sweep {number} ")
        values = sweep["each"]
        if not isinstance(values, list) or not values or not all(type(one) in (str, int, float) for one in values):
            raise DataError(f"'each' of sweep {number} is a list of texts or numbers, got {values!r}", file)
        found += [_row(_filled(one, value), file) for value in values for one in sweep["rows"]]
    names = [row.name for row in found]
    for name in names:
        if names.count(name) > 1:
            hint = f"; write {PLACE} into the names of a sweep" if "sweeps" in read else ""
            raise DataError(f"two rows have the same name, {name!r}{hint}", file)
    for row in found:
        for what, other in (("control", row.control), ("published form", row.published_as)):
            if other and other not in names:
                raise DataError(
                    f"the {what} of {row.name!r} is {other!r}, which is no row{did_you_mean(other, names)}", file
                )
    return tuple(found)


def _filled(row: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """A row of a block with a value of its sweep."""
    return {key: one.replace(PLACE, str(value)) if isinstance(one, str) else one for key, one in row.items()}


def _row(read: Any, file: Path) -> TableRow:
    check_keys(read, ROW_KEYS, {"name"}, file)
    name = read["name"]
    row = TableRow(
        name,
        read.get("recipe", ""),
        read.get("control", ""),
        read.get("not_implemented", ""),
        _examples(read.get("examples_per_label", ALL), name, file),
        read.get("published_as", ""),
    )
    if bool(row.recipe) == bool(row.reason):
        raise DataError(f"row {name!r} has either a recipe or a reason in not_implemented", file)
    if row.recipe:
        try:
            if not row.missing():
                Recipe.parse(row.recipe)
        except LongtailError as error:
            raise RecipeError(f"{file}: row {name!r}: {error}") from None
    return row


def _examples(read: Any, name: str, file: Path) -> float | None:
    if read == ALL:
        return None
    try:
        number = float("nan") if isinstance(read, bool) else float(read)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise DataError(f"examples_per_label of row {name!r} is a number above 0 or {ALL!r}, got {read!r}", file)
    return number


def check_keys(read: Mapping[str, Any], known: set[str], wanted: Iterable[str], file: Path, where: str = "") -> None:
    """Refuse what a file may not have, and ask for what it must.

    Args:
        read: a table of the file.
        known: keys that it may have.
        wanted: keys that it must have.
        file: for error messages.
        where: the part of the file, with a space behind it.

    Raises:
        DataError: a key is unknown or missing.
    """
    for key in read:
        if key not in known:
            keys = ", ".join(sorted(known))
            raise DataError(f"{where}unknown key {key!r}{did_you_mean(key, known)} (keys: {keys})", file)
    for key in wanted:
        if key not in read:
            raise DataError(f"{where}lacks {key!r}", file)
