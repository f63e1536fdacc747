"""The labels of a record of a table, in each of the shapes that people keep them in.

list      one cell holds all labels, separated, or as a JSON list or object
columns   several columns hold labels, most often one each
one-hot   a column is a label, and its cells say yes or no
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from longtail.data.files import shown
from longtail.data.limits import MAX_LIST
from longtail.errors import DataError

# A string, a number or a word, as Python writes them in a list.
_ITEM = r"""\s*(?:[bru]?'(?:[^'\\]|\\.)*+'|[bru]?"(?:[^"\\]|\\.)*+"|[-+]?[\w.]++(?:[-+]\w++)?)\s*"""
_FLAT = re.compile(rf"[\[{{](?:{_ITEM}(?::{_ITEM})?(?:,|(?=[\]}}])))*+\s*[\]}}]", re.DOTALL)
# Words or whole numbers without commas, as NumPy prints an array.
_WORD = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[-+]?\d++(?!\w))"""
_SPACED = re.compile(rf"\[\s*{_WORD}(?:\s++{_WORD})*+\s*\]", re.DOTALL)
# In English, German, French, Spanish, Portuguese and Italian: spreadsheets write them as their user speaks.
YES_WORDS = "1 1.0 true t yes y x ✓ ✔ ja j wahr oui vrai si sí verdadero sim verdadeiro sì vero"
NO_WORDS = "0 0.0 false f no n - nein falsch non faux falso não"
_IN_QUOTES = re.compile(r'"(?:[^"]|"")*+"')
YES, NO = frozenset(YES_WORDS.split()), frozenset(("", *NO_WORDS.split()))


@dataclass
class SeparatorTally:
    """How many label cells have which separator in them, to notice a wrong one."""

    cells: int = 0
    separated: int = 0
    semicolons: int = 0
    commas: int = 0

    def count(self, cell: str, separator: str) -> None:
        """Counts one cell.

        Args:
            cell: with labels in it.
            separator: the one that was asked for.
        """
        self.cells += 1
        self.separated += separator in cell
        bare = cell if '"' not in cell else _IN_QUOTES.sub("", cell)  # a comma of a label separates nothing
        self.semicolons += ";" in bare
        self.commas += "," in bare

    def notes(self, separator: str) -> list[str]:
        """Looks for another separator that fits the cells better.

        Args:
            separator: the one that was asked for.

        Returns:
            A note where there is one; else nothing.
        """
        number, other = max((self.semicolons, ";"), (self.commas, ","))
        if self.separated or number * 2 <= self.cells:
            return []
        return [
            f"no cell of labels has {separator!r} in it, but {number} of {self.cells} have {other!r}: "
            f"if that separates the labels, pass --label-separator {other!r}"
        ]


def labels_of_cell(
    cell: Any, separator: str, tally: SeparatorTally, path: Path, line: int
) -> list[Any] | dict[str, Any]:
    """The labels of a cell: separated by the separator, or a JSON list or object, or a Parquet list.

    Args:
        cell: its value.
        separator: between two labels.
        tally: counts the separators.
        path: the file, for the message.
        line: the line, for the message.

    Returns:
        Label ids, or weights by id.

    Raises:
        DataError: what stands in brackets is no list or object.
    """
    if type(cell) is str:
        stripped = cell.strip()
        if stripped[:1] + stripped[-1:] in ("[]", "{}"):
            return _from_brackets(stripped, path, line)
        tally.count(cell, separator)
        if '"' in cell:
            return split_quoted(cell, separator)
        return [label for part in cell.split(separator) if (label := part.strip())]
    if cell is None:
        return []
    if type(cell) is list:
        if cell and all(type(item) is tuple for item in cell):  # a Parquet map
            return {str(label): weight for label, weight in cell}
        return [item for item in cell if item is not None]
    if type(cell) is dict:  # a Parquet struct has every key in every record
        return {label: weight for label, weight in cell.items() if weight is not None}
    return [cell]


def split_quoted(cell: str, separator: str) -> list[str]:
    """Splits a cell in which labels may stand in quotes, because the separator is part of them.

    Args:
        cell: such as `"Fiction, historical", Drama`.
        separator: between two labels.

    Returns:
        The labels, without their quotes. A quote that is not around a whole label is a letter of it.
    """
    quoted, found, place = _quoted(separator), [], 0
    while place <= len(cell):
        match = quoted.match(cell, place)
        if match is not None:
            part, end = match[1].replace('""', '"'), match.end()
        else:
            end = cell.find(separator, place)
            end = len(cell) if end < 0 else end
            part = cell[place:end]
        if label := part.strip():
            found.append(label)
        place = end + len(separator)
    return found


@lru_cache(maxsize=8)
def _quoted(separator: str) -> re.Pattern[str]:
    # Space before a quote is no separator, and the end is looked for once: a cell of spaces is read once.
    space = rf"[^\S{re.escape(separator)}]" if separator.isspace() else r"\s"
    return re.compile(rf'{space}*+"((?:[^"]|"")*+)"(?:(?=\s*+\Z)|\s*?(?={re.escape(separator)}))')


def labels_of_cells(
    cells: Sequence[Any], separator: str, tally: SeparatorTally, path: Path, line: int
) -> list[Any] | dict[str, Any]:
    """The labels of several cells together.

    Args:
        cells: of the label columns.
        separator: between two labels of a cell.
        tally: counts the separators.
        path: the file, for the message.
        line: the line, for the message.

    Returns:
        Label ids, or weights by id where a cell has weights.

    Raises:
        DataError: a cell cannot be read.
    """
    found: list[Any] = []
    weights: dict[str, Any] = {}
    for cell in cells:
        labels = labels_of_cell(cell, separator, tally, path, line)
        if type(labels) is dict:
            weights.update(labels)
        else:
            found.extend(labels)
    return {**{str(label): 1.0 for label in found}, **weights} if weights else found


def is_mark(cell: Any) -> bool:
    """Tell whether a cell says yes, no or how much.

    Args:
        cell: of a table.

    Returns:
        Whether it could be a cell of a one-hot column.
    """
    return _mark(cell) is not None


def _mark(cell: Any) -> float | None:
    """0 to 1; None for anything else."""
    if cell is None:
        return 0.0
    if type(cell) is str:
        word = cell.strip().casefold()
        if word in NO:
            return 0.0
        if word in YES:
            return 1.0
        try:
            cell = float(word)
        except ValueError:
            return None
    if isinstance(cell, bool | int | float) and 0 <= cell <= 1:
        return float(cell)
    return None


def marked_labels(cells: Sequence[Any], names: Sequence[str], path: Path, line: int) -> dict[str, float]:
    """The labels of one-hot columns.

    Args:
        cells: of the label columns.
        names: the label that each column stands for.
        path: the file, for the message.
        line: the line, for the message.

    Returns:
        Weights by label; 1 for yes.

    Raises:
        DataError: a cell says neither yes nor no.
    """
    found = {}
    for cell, name in zip(cells, names, strict=True):
        mark = _mark(cell)
        if mark is None:
            raise DataError(
                f"label column {shown(name)} has {shown(cell)}, and a one-hot column has 0, 1, yes, no, x or nothing; "
                "correct it, or pass --label-shape columns if cells hold labels",
                path,
                line,
            )
        if mark:
            found[name] = mark
    return found


def _from_brackets(cell: str, path: Path, line: int) -> list[Any] | dict[str, Any]:
    """A list or object in JSON, or as Python or NumPy print it: data frames write lists to CSV like that."""
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        value = None
        # Python parses only what is short and flat: it can crash on brackets that are deep inside each other.
        with contextlib.suppress(ValueError, SyntaxError, RecursionError):
            if len(cell) <= MAX_LIST and _SPACED.fullmatch(cell):
                words = re.findall(_WORD, cell, re.DOTALL)
                value = [ast.literal_eval(word) if word[0] in "'\"" else word for word in words]
            elif len(cell) <= MAX_LIST and _FLAT.fullmatch(cell):
                value = ast.literal_eval(cell)
    if type(value) is list or type(value) is dict:
        return value
    long = f" of at most {MAX_LIST:,} characters, or" if len(cell) > MAX_LIST else ""
    raise DataError(f"labels in brackets must be a{long} JSON list or object, got {cell[:60]!r}", path, line)
