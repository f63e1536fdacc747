"""CSV, TSV and Parquet: one file, or a folder with `train/valid/test` and perhaps `labels` in one of them."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.data.columns import ENDINGS, column_names, records
from longtail.data.files import find
from longtail.data.labels import Propensity
from longtail.data.rows import Gathered, LabelIndex, Splits, as_id, check_ids
from longtail.errors import DataError, did_you_mean

TEXT_NAMES = ("text", "title", "content", "body", "abstract", "description", "document", "sentence", "query")
LABEL_NAMES = ("labels", "label", "subjects", "tags", "categories")


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold what; a column not named is looked for under its usual names."""

    text: str | None = None  # one or more, parted by commas; joined with a space
    labels: str | None = None
    id: str | None = None
    separator: str = "|"  # between the labels of a cell

    def __post_init__(self) -> None:
        if not self.separator:
            raise DataError("the label separator is empty; pass the characters between two labels, such as |")


@dataclass(frozen=True)
class _Chosen:
    """Columns that are there."""

    text: tuple[str, ...]
    labels: str
    id: str | None


@dataclass
class _Tally:
    """How many label cells hold which separator, to notice a wrong one."""

    cells: int = 0
    parted: int = 0
    semicolons: int = 0
    commas: int = 0

    def count(self, cell: str, separator: str) -> None:
        self.cells += 1
        self.parted += separator in cell
        self.semicolons += ";" in cell
        self.commas += "," in cell

    def notes(self, separator: str) -> list[str]:
        most = max((self.semicolons, ";"), (self.commas, ","))
        if self.parted or most[0] * 2 <= self.cells:
            return []
        return [
            f"no labels cell holds {separator!r} but {most[0]} of {self.cells} hold {most[1]!r}: "
            f"if that parts the labels, pass --label-separator {most[1]!r}"
        ]


def find_tables(folder: Path) -> dict[str, Path]:
    """The tables of a folder by split name, and `labels`."""
    found = {
        name: find(folder, *(name + ending for ending in ENDINGS)) for name in ("train", "valid", "test", "labels")
    }
    return {name: path for name, path in found.items() if path is not None}


def read_tables(paths: dict[str, Path], columns: Columns, text: str | None, propensity: Propensity) -> Splits:
    """Read tables by split name; `text` ("title+text") names the text columns where `columns` does not."""
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
        whole = columns.text.strip()  # a name may hold a comma itself
        texts = [whole] if whole in names else [name.strip() for name in whole.split(",")]
    elif text is not None:
        texts = [_usual(names, (name,)) or name for name in text.split("+")]
    else:
        guess = _usual(names, TEXT_NAMES)
        if guess is None:
            raise _no_column("text", TEXT_NAMES, names, path)
        # A title and a text are read as one, as in a folder of JSON lines.
        texts = ["title", "text"] if guess == "text" and "title" in names else [guess]
        notes.append(f"the text is column {' + '.join(texts)!r}: pass --text-column to choose others")
    labels = columns.labels
    if labels is None:
        labels = _usual(names, LABEL_NAMES)
        if labels is None:
            raise _no_column("labels", LABEL_NAMES, names, path)
        if labels != LABEL_NAMES[0]:
            notes.append(f"the labels are column {labels!r}: pass --label-column to choose another")
    chosen = _Chosen(tuple(texts), labels, columns.id or _usual(names, ("id",)))
    _check(chosen, names, path)
    return chosen, notes


def _usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that is there, in whatever case."""
    there = {name.lower(): name for name in reversed(names)}
    return next((there[name] for name in usual if name in there), None)


def _no_column(what: str, usual: Sequence[str], names: list[str], path: Path) -> DataError:
    option = {"text": "--text-column", "labels": "--label-column"}[what]
    return DataError(f"no {what} column: looked for {', '.join(usual)}; found {', '.join(names)}; pass {option}", path)


def _check(chosen: _Chosen, names: list[str], path: Path) -> None:
    for name in (*chosen.text, chosen.labels, *([chosen.id] if chosen.id else [])):
        if name not in names:
            near = did_you_mean(name, names)
            raise DataError(f"no column {name!r}{near or ';'} the columns are {', '.join(names)}", path)
        if names.count(name) > 1:
            raise DataError(f"column {name!r} stands twice in the header; rename one", path)


def _read_split(path: Path, split: str, chosen: _Chosen, separator: str, labels: LabelIndex, tally: _Tally) -> Gathered:
    names = column_names(path)
    _check(chosen, names, path)
    gathered = Gathered(path, labels)
    wanted = [chosen.labels, *chosen.text, *([chosen.id] if chosen.id else [])]
    texts_end = 1 + len(chosen.text)
    with closing(records(path, names, wanted)) as found:
        for row, (line, record) in enumerate(found, 1):
            name = f"{split}-{row}"
            if chosen.id:
                given = as_id(record[-1])
                if given is None:
                    raise DataError(f"the id is {record[-1]!r}; every row needs an id of its own", path, line)
                name = given
            text = " ".join(str(part) for part in record[1:texts_end] if part is not None and part != "")
            gathered.add(line, name, text, _labels_of(record[0], separator, tally, path, line))
    return gathered


def _labels_of(cell: Any, separator: str, tally: _Tally, path: Path, line: int) -> list[Any] | dict[str, Any]:
    """The labels of a cell: parted by the separator, or a JSON list or object, or a Parquet list."""
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
            return dict(cell)
        return [item for item in cell if item is not None]
    if type(cell) is dict:  # a Parquet struct has every key in every row
        return {label: weight for label, weight in cell.items() if weight is not None}
    return [cell]


def _from_brackets(cell: str, path: Path, line: int) -> list[Any] | dict[str, Any]:
    """A list or object in JSON, or as Python prints it, which is how data frames write lists to CSV."""
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            value = None
    if type(value) is list or type(value) is dict:
        return value
    raise DataError(f"labels in brackets must be a JSON list or object, got {cell[:60]!r}", path, line)


def _read_labels(path: Path) -> LabelIndex:
    """A table of label ids and texts."""
    names = column_names(path)
    key = _usual(names, ("id", "label", "uid"))
    if key is None:
        raise DataError(f"no id column: looked for id, label, uid; found {', '.join(names)}", path)
    text = _usual(names, ("text", "title", "name", "label"))
    labels = LabelIndex(source=path)
    with closing(records(path, names, [key, text] if text else [key])) as found:
        for line, record in found:
            name = as_id(record[0])
            if name is None:
                raise DataError(f"label id {record[0]!r} is not a string that is not empty", path, line)
            labels.define(name, "" if text is None or record[1] is None else str(record[1]), line)
    return labels
