"""CSV, TSV and Parquet: one file, or a folder with `train`, `valid`, `test` and `labels` in these formats."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.data.columns import ENDINGS, column_names, few, records
from longtail.data.files import find, shown
from longtail.data.labels import Propensity
from longtail.data.limits import MAX_LIST
from longtail.data.mending import pass_over
from longtail.data.rows import Gathered, LabelIndex, Splits, as_id, check_ids
from longtail.errors import DataError, did_you_mean

TEXT_NAMES = ("text", "title", "content", "body", "abstract", "description", "document", "sentence", "query")
# A string, a number or a word, as Python writes them in a list.
_ITEM = r"""\s*(?:[bru]?'(?:[^'\\]|\\.)*+'|[bru]?"(?:[^"\\]|\\.)*+"|[-+]?[\w.]++(?:[-+]\w++)?)\s*"""
_FLAT = re.compile(rf"[\[{{](?:{_ITEM}(?::{_ITEM})?(?:,|(?=[\]}}])))*+\s*[\]}}]", re.DOTALL)
LABEL_NAMES = ("labels", "label", "subjects", "tags", "categories")


@dataclass(frozen=True)
class Columns:
    """The columns of a table that hold texts, labels and ids; None looks for the usual names.

    Raises:
        DataError: the separator is empty.
    """

    text: str | None = None  # one or more, separated by commas; their texts are joined with a space
    labels: str | None = None
    id: str | None = None
    separator: str = "|"  # between the labels of a cell

    def __post_init__(self) -> None:
        if not self.separator:
            raise DataError("the label separator is empty; pass the characters between two labels, such as |")


@dataclass(frozen=True)
class _Chosen:
    """The columns of a table that are used."""

    text: tuple[str, ...]
    labels: str
    id: str | None


@dataclass
class _Tally:
    """How many label cells have which separator in them, to notice a wrong one."""

    cells: int = 0
    separated: int = 0
    semicolons: int = 0
    commas: int = 0

    def count(self, cell: str, separator: str) -> None:
        """Counts one cell."""
        self.cells += 1
        self.separated += separator in cell
        self.semicolons += ";" in cell
        self.commas += "," in cell

    def notes(self, separator: str) -> list[str]:
        """A note where another separator looks right."""
        number, other = max((self.semicolons, ";"), (self.commas, ","))
        if self.separated or number * 2 <= self.cells:
            return []
        return [
            f"no cell of labels has {separator!r} in it, but {number} of {self.cells} have {other!r}: "
            f"if that separates the labels, pass --label-separator {other!r}"
        ]


def find_tables(folder: Path) -> dict[str, Path]:
    """Finds the tables of a folder.

    Args:
        folder: the folder.

    Returns:
        Files by "train", "valid", "test" and "labels"; those that are missing are left out.
    """
    found = {
        name: find(folder, *(name + ending for ending in ENDINGS)) for name in ("train", "valid", "test", "labels")
    }
    return {name: path for name, path in found.items() if path is not None}


def read_tables(paths: dict[str, Path], columns: Columns, text: str | None, propensity: Propensity) -> Splits:
    """Reads tables.

    Args:
        paths: files by "train", "valid", "test" and "labels"; only train is needed.
        columns: that hold texts, labels and ids.
        text: names the text columns where `columns` does not: "title", "text" or "title+text".
        propensity: the constants of the data set.

    Returns:
        The splits; notes name the columns that were guessed.

    Raises:
        DataError: a column is missing, or a line is wrong.
    """
    names = column_names(paths["train"])
    chosen, notes = _choose(names, columns, text, paths["train"])
    labels = _read_labels(paths["labels"]) if "labels" in paths else LabelIndex()
    tally = _Tally()
    gathered = {
        split: _read_split(paths[split], split, chosen, columns.separator, labels, tally)
        for split in ("train", "valid", "test")
        if split in paths
    }
    check_ids(list(gathered.values()))
    label_set = labels.label_set(propensity)
    found = {split: part.dataset(label_set) for split, part in gathered.items()}
    return Splits(
        train=found["train"],
        valid=found.get("valid"),
        test=found.get("test"),
        text_field="+".join(chosen.text),
        id_field=chosen.id or "id",
        notes=(*notes, *tally.notes(columns.separator)),
    )


def _choose(names: list[str], columns: Columns, text: str | None, path: Path) -> tuple[_Chosen, list[str]]:
    notes = []
    if columns.text is not None:
        whole = columns.text.strip()  # a name may have a comma in it
        texts = [whole] if whole in names else [name.strip() for name in whole.split(",")]
    elif text is not None:
        texts = [_usual(names, (name,)) or name for name in text.split("+")]
    else:
        guess = _usual(names, TEXT_NAMES)
        if guess is None:
            raise _no_column("text", TEXT_NAMES, names, path)
        # Title and text are joined, as in a folder of JSON lines.
        texts = ["title", "text"] if guess == "text" and "title" in names else [guess]
        notes.append(f"the text is column {shown(' + '.join(texts))}: pass --text-column to choose others")
    labels = columns.labels
    if labels is None:
        labels = _usual(names, LABEL_NAMES)
        if labels is None:
            raise _no_column("labels", LABEL_NAMES, names, path)
        if labels != LABEL_NAMES[0]:
            notes.append(f"the labels are column {shown(labels)}: pass --label-column to choose another")
    chosen = _Chosen(tuple(texts), labels, columns.id or _usual(names, ("id",)))
    _check(chosen, names, path)
    return chosen, notes


def _usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that the table has, in upper or lower case."""
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in usual if name in by_lower), None)


def _no_column(what: str, usual: Sequence[str], names: list[str], path: Path) -> DataError:
    option = {"text": "--text-column", "labels": "--label-column"}[what]
    return DataError(f"no {what} column: looked for {', '.join(usual)}; found {few(names)}; pass {option}", path)


def _check(chosen: _Chosen, names: list[str], path: Path) -> None:
    for name in (*chosen.text, chosen.labels, *([chosen.id] if chosen.id else [])):
        if name not in names:
            near = did_you_mean(name, names)
            raise DataError(f"no column {shown(name)}{near or ';'} the columns are {few(names)}", path)
        if names.count(name) > 1:
            raise DataError(f"column {shown(name)} occurs twice in the header; rename one", path)


def _read_split(path: Path, split: str, chosen: _Chosen, separator: str, labels: LabelIndex, tally: _Tally) -> Gathered:
    names = column_names(path)
    _check(chosen, names, path)
    gathered = Gathered(path, labels)
    wanted = [chosen.labels, *chosen.text, *([chosen.id] if chosen.id else [])]
    texts_end = 1 + len(chosen.text)
    with closing(records(path, names, wanted)) as found:
        for row, (line, record) in enumerate(found, 1):
            name = f"{split}-{row}"
            try:
                if chosen.id:
                    given = as_id(record[-1])
                    if given is None:
                        raise DataError(f"the id is {shown(record[-1])}; give each document its own id", path, line)
                    name = given
                text = " ".join(str(part) for part in record[1:texts_end] if part is not None and part != "")
                gathered.add(line, name, text, _labels_of(record[0], separator, tally, path, line))
            except DataError as error:
                pass_over(error, "rows whose id or labels cannot be read", record)
    return gathered


def _labels_of(cell: Any, separator: str, tally: _Tally, path: Path, line: int) -> list[Any] | dict[str, Any]:
    """The labels of a cell: separated by the separator, or a JSON list or object, or a Parquet list."""
    if type(cell) is str:
        stripped = cell.strip()
        if stripped[:1] + stripped[-1:] in ("[]", "{}"):
            return _from_brackets(stripped, path, line)
        tally.count(cell, separator)
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


def _from_brackets(cell: str, path: Path, line: int) -> list[Any] | dict[str, Any]:
    """A list or object in JSON, or as Python prints it: data frames write lists to CSV like that."""
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        value = None
        # Python parses only what is short and flat: it can crash on brackets that are deep inside each other.
        if len(cell) <= MAX_LIST and _FLAT.fullmatch(cell):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError):
                value = ast.literal_eval(cell)
    if type(value) is list or type(value) is dict:
        return value
    long = f" of at most {MAX_LIST:,} characters, or" if len(cell) > MAX_LIST else ""
    raise DataError(f"labels in brackets must be a{long} JSON list or object, got {cell[:60]!r}", path, line)


def _read_labels(path: Path) -> LabelIndex:
    """A table of label ids and texts."""
    names = column_names(path)
    key = _usual(names, ("id", "label", "uid"))
    if key is None:
        raise DataError(f"no id column: looked for id, label, uid; found {few(names)}", path)
    text = _usual(names, ("text", "title", "name", "label"))
    labels = LabelIndex(source=path)
    with closing(records(path, names, [key, text] if text else [key])) as found:
        for line, record in found:
            name = as_id(record[0])
            if name is None:
                raise DataError(f"label id {shown(record[0])} is not a non-empty string; correct it", path, line)
            labels.define(name, "" if text is None or record[1] is None else str(record[1]), line)
    return labels
