"""CSV, TSV, Parquet and Excel: one file, or a folder with `train`, `valid`, `test` and `labels` in these formats.

The labels of a document are a list in a cell, several columns, one-hot columns, or several rows of one label each.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from longtail.data.columns import ENDINGS, column_names, few, records
from longtail.data.files import find, shown
from longtail.data.label_cells import SeparatorTally, is_mark, labels_of_cell, labels_of_cells, marked_labels
from longtail.data.labels import Propensity
from longtail.data.mending import pass_over
from longtail.data.rows import Gathered, LabelIndex, Splits, as_id, check_ids, gather
from longtail.data.table_facts import SHAPES, TableFacts
from longtail.data.text_language import LanguageCells
from longtail.errors import DataError, did_you_mean

TEXT_NAMES = ("text", "title", "content", "body", "abstract", "description", "document", "sentence", "query")
LABEL_NAMES = ("labels", "label", "subjects", "tags", "categories")
LOOKED_AT = 1000  # records whose cells tell columns of labels from one-hot columns
MARKS = 0.9  # share of the filled cells that are 0, 1, yes, no or the like in one-hot columns


@dataclass(frozen=True)
class Columns:
    """The columns of a table that hold texts, labels, ids and languages; None looks for the usual names.

    Only `language` is for JSON lines, too, where it is the name of a field; None is no column and no field.

    Raises:
        DataError: the separator is empty, or there is no such shape.
    """

    # One or more, separated by commas; their texts are joined with a space. "title/blurb": the first on its own line.
    text: str | tuple[str, ...] | None = None
    labels: str | None = None  # one or more, separated by commas; * stands for anything: tag_*
    id: str | None = None
    separator: str = "|"  # between the labels of a cell
    shape: str | None = None  # of the labels, one of SHAPES; None: a list, or by the cells of several columns
    title_apart: bool = False  # the first text column is a line of its own
    language: str | None = None  # has the code of each document's language, such as de or ger

    def __post_init__(self) -> None:
        if self.shape is not None and self.shape not in SHAPES:
            near = did_you_mean(self.shape, SHAPES)
            raise DataError(f"--label-shape must be one of {', '.join(SHAPES)}, got {self.shape!r}{near}")
        if not self.separator:
            raise DataError("the label separator is empty; pass the characters between two labels, such as |")

    @classmethod
    def of(cls, facts: TableFacts) -> Columns:
        """The columns of a table that was read before.

        Args:
            facts: how it was read.

        Returns:
            Its columns.
        """
        return cls(facts.text, facts.labels, facts.id, facts.separator, facts.shape, facts.title_apart, facts.language)

    def over(self, known: Columns) -> Columns:
        """The columns of a table that was read before, but for those that are named here.

        Args:
            known: of the other table.

        Returns:
            The columns.
        """
        single = ("labels", "id", "shape", "language")
        named = {name: getattr(self, name) for name in single if getattr(self, name) is not None}
        if self.text is not None:
            named |= {"text": self.text, "title_apart": self.title_apart}
        if self.separator != Columns.separator:
            named["separator"] = self.separator
        if self.labels is not None:
            named["shape"] = self.shape  # other columns may have another
        return replace(known, **named)


@dataclass(frozen=True)
class _Chosen:
    """The columns of a table that are used."""

    text: tuple[str, ...]
    labels: tuple[str, ...]
    id: str | None
    shape: str = "list"
    label_names: tuple[str, ...] = ()  # of one-hot columns: the label of each
    title_apart: bool = False
    language: str | None = None

    def facts(self, columns: Columns) -> TableFacts:
        """What other tables are read by."""
        labels = columns.labels or self.labels[0]
        return TableFacts(
            self.text, labels, self.id, columns.separator, self.shape, title_apart=self.title_apart,
            language=self.language,
        )  # fmt: skip


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
    tally, languages = SeparatorTally(), LanguageCells()
    gathered = {
        split: _read_split(paths[split], split, chosen, columns.separator, labels, tally, languages)
        for split in ("train", "valid", "test")
        if split in paths
    }
    guessed = columns.shape is None and chosen.shape == "list"
    check_ids(list(gathered.values()), lists=guessed)
    if guessed and chosen.id is None:
        notes += _pairs_note(gathered["train"])
    label_set = labels.label_set(propensity)
    found = {split: part.dataset(label_set) for split, part in gathered.items()}
    return Splits(
        train=found["train"],
        valid=found.get("valid"),
        test=found.get("test"),
        text_field=chosen.facts(columns).text_field,
        id_field=chosen.id or "id",
        language_field=chosen.language,
        notes=(*notes, *tally.notes(columns.separator), *languages.notes(chosen.language or "")),
        table=chosen.facts(columns),
    )


def _choose(names: list[str], columns: Columns, text: str | None, path: Path) -> tuple[_Chosen, list[str]]:
    notes = []
    apart = columns.title_apart
    if isinstance(columns.text, tuple):
        texts = list(columns.text)
    elif columns.text is not None:
        whole = columns.text.strip()  # a name may have a comma in it
        title, slash, rest = whole.partition("/")
        apart = bool(slash) and whole not in names and title.strip() in names
        texts = [whole] if whole in names else [name.strip() for name in whole.split(",")]
        if apart:
            texts = [title.strip(), *(name.strip() for name in rest.split(","))]
    elif text is not None:
        apart = "/" in text
        texts = [_usual(names, (name,)) or name for name in text.replace("/", "+").split("+")]
    else:
        guess = _usual(names, TEXT_NAMES)
        if guess is None:
            raise _no_column("text", TEXT_NAMES, names, path)
        # Title and text are joined, as in a folder of JSON lines.
        texts = ["title", "text"] if guess == "text" and "title" in names else [guess]
        notes.append(f"the text is column {shown(' + '.join(texts))}: pass --text-column to choose others")
    named = columns.id or _usual(names, ("id",))
    if columns.labels is None:
        guess = _usual(names, LABEL_NAMES)
        if guess is None:
            raise _no_column("labels", LABEL_NAMES, names, path)
        if guess != LABEL_NAMES[0]:
            notes.append(f"the labels are column {shown(guess)}: pass --label-column to choose another")
        labels, label_names = [guess], [guess]
    else:
        others = {*texts, *filter(None, (named, columns.language))}
        labels, label_names = _label_columns(columns.labels, names, others, path)
    shape = columns.shape or "list"
    chosen = _Chosen(tuple(texts), tuple(labels), named, shape, tuple(label_names), apart, columns.language)
    _check(chosen, names, path)
    if columns.shape is None and len(labels) > 1:
        shape = _guessed_shape(chosen, names, path)
        chosen = replace(chosen, shape=shape)
        notes.append(f"the {len(labels):,} label columns are read as {shape}: pass --label-shape to choose another")
    if chosen.shape in ("list", "pairs") and len(labels) > 1:
        raise DataError(
            f"--label-shape {chosen.shape} has one label column, got {few(labels)}; give one, or another shape", path
        )
    return chosen, notes


def _label_columns(given: str, names: list[str], others: set[str], path: Path) -> tuple[list[str], list[str]]:
    """The label columns, and the label of each where they are one-hot: what stands in the place of the star."""
    whole = given.strip()  # a name may have a comma in it
    columns: dict[str, str] = {}
    for word in [whole] if whole in names else [name.strip() for name in whole.split(",")]:
        if "*" not in word or word in names:
            columns[word] = word
            continue
        found = [name for name in names if name not in others and fnmatchcase(name, word)]
        if not found:
            raise DataError(f"no column looks like {shown(word)}; the columns are {few(names)}", path)
        before, _, after = word.partition("*")
        for name in found:
            columns[name] = name if "*" in after else name[len(before) : len(name) - len(after)] or name
    return list(columns), list(columns.values())


def _guessed_shape(chosen: _Chosen, names: list[str], path: Path) -> str:
    """One-hot where nearly all cells are marks: those that are not are then named, and no labels."""
    with closing(records(path, names, chosen.labels)) as found:
        filled = [cell for _, record in islice(found, LOOKED_AT) for cell in record if cell not in (None, "")]
    return "one-hot" if sum(map(is_mark, filled)) >= MARKS * len(filled) else "columns"


def _usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that the table has, in upper or lower case."""
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in usual if name in by_lower), None)


def _no_column(what: str, usual: Sequence[str], names: list[str], path: Path) -> DataError:
    option = {"text": "--text-column", "labels": "--label-column"}[what]
    return DataError(f"no {what} column: looked for {', '.join(usual)}; found {few(names)}; pass {option}", path)


def _check(chosen: _Chosen, names: list[str], path: Path) -> None:
    for name in (*chosen.text, *chosen.labels, *filter(None, (chosen.id, chosen.language))):
        if name not in names:
            near = did_you_mean(name, names)
            raise DataError(f"no column {shown(name)}{near or ';'} the columns are {few(names)}", path)
        if names.count(name) > 1:
            raise DataError(f"column {shown(name)} occurs twice in the header; rename one", path)


def _read_split(
    path: Path,
    split: str,
    chosen: _Chosen,
    separator: str,
    labels: LabelIndex,
    tally: SeparatorTally,
    languages: LanguageCells,
) -> Gathered:
    names = column_names(path)
    _check(chosen, names, path)
    gathered = gather(path, labels, split)
    add = _Pairs(gathered) if chosen.shape == "pairs" else gathered
    if chosen.shape == "one-hot":  # a label without a document is one all the same
        for name in chosen.label_names:
            labels.column(name, path, 1)
    wanted = [*chosen.labels, *chosen.text, *filter(None, (chosen.language, chosen.id))]
    joined = chosen.facts(Columns()).joined
    first, texts_end = len(chosen.labels), len(chosen.labels) + len(chosen.text)
    with closing(records(path, names, wanted)) as found:
        for row, (line, record) in enumerate(found, 1):
            name = f"{split}-{row}"
            try:
                if chosen.id:
                    given = as_id(record[-1])
                    if given is None:
                        raise DataError(f"the id is {shown(record[-1])}; give each document its own id", path, line)
                    name = given
                text = joined(record[first:texts_end])
                spoken = None if chosen.language is None else languages.code(record[texts_end], path, line)
                own: list[Any] | dict[str, Any]
                if chosen.shape == "one-hot":
                    own = marked_labels(record[:first], chosen.label_names, path, line)
                elif first > 1:
                    own = labels_of_cells(record[:first], separator, tally, path, line)
                else:
                    own = labels_of_cell(record[0], separator, tally, path, line)
                add.add(line, name if chosen.id or chosen.shape != "pairs" else "", text, own, spoken)
            except DataError as error:
                pass_over(error, "rows whose id or labels cannot be read", record)
    if isinstance(add, _Pairs):
        add.finish(split)
    return gathered


def _pairs_note(train: Gathered) -> list[str]:
    """A note where rows look like one label of a document each."""
    rows = len(train.ids)
    if not np.array_equal(train.starts, np.arange(rows + 1)):  # not one label a row
        return []
    again = len(set(zip(train.texts, train.columns, strict=True))) - len(set(train.texts))
    if again * 10 < rows:
        return []
    return [
        f"{again:,} of {rows:,} rows have the text of an earlier row and another label: if a document has a row for "
        "each of its labels, pass --label-shape pairs"
    ]


class _Pairs:
    """Rows of one document each with some of its labels; they need not stand together.

    A document is known by its id, or by its text where there are no ids.
    """

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._found: dict[str, tuple[int, str, dict[str, Any]]] = {}
        self._languages: dict[str, str] = {}
        self._by_text = False

    def add(
        self, line: int, name: str, text: str, labels: list[Any] | dict[str, Any], language: str | None = None
    ) -> None:
        """Adds the labels of a row to its document."""
        path = self._gathered.path
        self._by_text = not name
        weights = {}
        for label in labels:
            known = as_id(label)
            if known is None:
                raise DataError(f"label {shown(label)} is not a label id; ids must be non-empty strings", path, line)
            weights[known] = labels[label] if isinstance(labels, dict) else 1.0
        first, before, own = self._found.setdefault(name or text, (line, text, {}))
        if text and before and text.split() != before.split():
            raise DataError(
                f"document {shown(name)} has another text than on line {first}; give it one text, or an id of its own",
                path,
                line,
            )
        own.update(weights)
        if language is not None:
            self._languages[name or text] = self._languages.get(name or text) or language
        if text and not before:
            self._found[name or text] = first, text, own

    def finish(self, split: str) -> None:
        """Hands the documents on, in the order of their first rows."""
        for number, (name, (line, text, labels)) in enumerate(self._found.items(), 1):
            whole = all(weight == 1.0 for weight in labels.values())
            own = f"{split}-{number}" if self._by_text else name
            try:
                self._gathered.add(line, own, text, list(labels) if whole else labels, self._languages.get(name))
            except DataError as error:
                pass_over(error, "rows whose id or labels cannot be read", [own, text])


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
