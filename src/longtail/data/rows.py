"""Collects the documents of a split while its file is read: ids, texts, and targets in flat arrays."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Matrix
from longtail.data.dataset import Dataset
from longtail.data.files import shown
from longtail.data.labels import LabelSet, Propensity
from longtail.data.mending import DUPLICATE, PAIRS, pass_over
from longtail.data.table_facts import TableFacts
from longtail.errors import DataError, did_you_mean

MIN_WEIGHT = 2.0**-150  # a weight must be larger: this and less rounds to 0 in float32


@dataclass(frozen=True, eq=False, kw_only=True)
class Splits:
    """What a reader found; None for a split that was not given."""

    train: Dataset
    valid: Dataset | None = None
    test: Dataset | None = None
    text_field: str = "text"
    id_field: str = "id"
    language_field: str | None = None  # the field or column that has the language of a document
    table: TableFacts | None = None  # how a table was read
    subjects: bool = False  # documents with subjects of a vocabulary
    notes: tuple[str, ...] = ()


def as_id(value: Any) -> str | None:
    """An id from a file.

    Args:
        value: any JSON value.

    Returns:
        A non-empty string, or an integer as a string; None for anything else.
    """
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int else None


def check_weight(weight: Any, label: str, path: Path, line: int) -> float:
    """Checks the weight of a label.

    Args:
        weight: any JSON value.
        label: its id, for the message.
        path: the file, for the message.
        line: the line, for the message.

    Returns:
        The weight.

    Raises:
        DataError: it is not a number in (0, 1].
    """
    if type(weight) not in (int, float) or not MIN_WEIGHT < weight <= 1:
        wrong = f"weight {shown(weight)} of label {shown(label)}"
        raise DataError(f"{wrong} does not lie in (0, 1]; rescale it", path, line)
    return float(weight)


@dataclass(eq=False)
class LabelIndex:
    """Maps label ids to columns. A labels file fixes the labels; without one, new labels are added as they appear."""

    source: Path | None = None  # the labels file
    row_of: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # the line of each label in the labels file
    described: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # names, broader, related: by label

    def define(self, name: str, text: str, line: int) -> None:
        """Adds a label of the labels file.

        Args:
            name: its id.
            text: its text, "" for none.
            line: its line in the file.

        Raises:
            DataError: the id occurs twice.
        """
        if name in self.row_of:
            first = self.lines[self.row_of[name]]
            raise DataError(f"label id {shown(name)} is already on line {first}; remove one", self.source, line)
        self.row_of[name] = len(self.texts)
        self.texts.append(text)
        self.lines.append(line)

    def describe(self, kind: str, name: str, given: list[str]) -> None:
        """Adds further names of a label, or its relations.

        Args:
            kind: names, broader or related.
            name: the id of the label.
            given: names, or ids of labels.
        """
        self.described.setdefault(kind, {})[name] = given

    def column(self, label: Any, path: Path, line: int) -> int:
        """Finds or adds the column of a label; slower than `row_of`, but with checks.

        Args:
            label: any JSON value.
            path: the file, for the message.
            line: the line, for the message.

        Returns:
            The column.

        Raises:
            DataError: it is not an id, or the labels file does not have it.
        """
        name = as_id(label)
        if name is None:
            raise DataError(f"label {shown(label)} is not a label id; ids must be non-empty strings", path, line)
        column = self.row_of.get(name)
        if column is None:
            if self.source is not None:
                near = did_you_mean(name, islice(self.row_of, 50_000))  # comparing with millions would take minutes
                raise DataError(
                    f"unknown label id {shown(name)}{near or ','} add it to {self.source.name} or remove it", path, line
                )
            column = self.row_of[name] = len(self.texts)
            self.texts.append(name)
        return column

    def label_set(self, propensity: Propensity) -> LabelSet:
        """The labels so far, without counts."""
        names = self.described.get("names", {})
        return LabelSet(
            ids=tuple(self.row_of),
            texts=tuple(self.texts),
            propensity=propensity,
            names=tuple(tuple(names.get(label, ())) for label in self.row_of) if names else (),
            broader=self._linked("broader"),
            related=self._linked("related"),
        )

    def _linked(self, kind: str) -> Matrix | None:
        """(labels, labels) the relations of this kind; None where no label has one."""
        found = self.described.get(kind)
        if not found:
            return None
        ends: list[tuple[int, int]] = []
        for label, others in found.items():
            row = self.row_of[label]
            for other in others:
                if other not in self.row_of:
                    raise DataError(
                        f"label {shown(label)} has the {kind} label {shown(other)}, which is not in the file; add it "
                        "or remove it",
                        self.source,
                        self.lines[row],
                    )
                ends.append((row, self.row_of[other]))
        rows, columns = np.array(sorted(set(ends)), dtype=np.int32).reshape(-1, 2).T
        size = len(self.row_of)
        return sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(size, size))


@dataclass(eq=False)
class Gathered:
    """The documents of one split so far, in flat arrays, because lists of lists take ten times the memory."""

    path: Path
    labels: LabelIndex
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lines: array[int] = field(default_factory=lambda: array("q"))  # the line of each document in its file
    columns: array[int] = field(default_factory=lambda: array("i"))
    weights: array[float] = field(default_factory=lambda: array("f"))
    starts: array[int] = field(default_factory=lambda: array("q", [0]))
    languages: list[str] = field(default_factory=list)  # of the documents, where a field or column has them

    def add(
        self, line: int, name: str, text: str, labels: list[Any] | dict[str, Any], language: str | None = None
    ) -> None:
        """Adds a document.

        Args:
            line: its line in the file.
            name: its id.
            text: its text.
            labels: ids, or weights by id.
            language: its code, or ""; None where no field or column has it.

        Raises:
            DataError: a label or weight is wrong.
        """
        row_of = self.labels.row_of
        try:
            columns = [row_of[label] for label in labels]
        except (KeyError, TypeError):  # an unknown or new label, or an integer
            columns = [self.labels.column(label, self.path, line) for label in labels]
        if type(labels) is list:
            self.weights.extend([1.0] * len(columns))
        else:
            assert type(labels) is dict
            self.weights.extend([check_weight(weight, label, self.path, line) for label, weight in labels.items()])
        self.columns.extend(columns)
        self.starts.append(len(self.columns))
        self.ids.append(name)
        self.texts.append(text)
        self.lines.append(line)
        if language is not None:
            self.languages.append(language)

    def take_lines(self, text: str) -> bool:
        """Whether it read its JSON lines itself; `text`: the fields of a document's text. This one does not."""
        return False

    def content(self, row: int) -> tuple[str, list[int]]:
        """The text and the columns of a document."""
        return self.texts[row], self.columns[self.starts[row] : self.starts[row + 1]].tolist()

    def keep(self, rows: list[int]) -> None:
        """Leaves out all documents but these, which are in rising order."""
        if len(rows) == len(self.ids):
            return
        spans = [(self.starts[row], self.starts[row + 1]) for row in rows]
        columns, weights, starts = array("i"), array("f"), array("q", [0])
        for begin, end in spans:
            columns.extend(self.columns[begin:end])
            weights.extend(self.weights[begin:end])
            starts.append(len(columns))
        self.columns, self.weights, self.starts = columns, weights, starts
        self.ids, self.texts = [self.ids[row] for row in rows], [self.texts[row] for row in rows]
        self.lines = array("q", [self.lines[row] for row in rows])
        self.languages = [self.languages[row] for row in rows] if self.languages else []

    def dataset(self, labels: LabelSet, excluded: Matrix | None = None) -> Dataset:
        """The documents as a data set.

        Args:
            labels: all labels.
            excluded: csr bool (rows, labels) pairs that must never be predicted.

        Returns:
            The data set.
        """
        targets = sparse.csr_array(
            (np.array(self.weights), np.array(self.columns), np.array(self.starts)),
            shape=(len(self.ids), len(labels)),
        )
        return Dataset(
            labels=labels,
            targets=without_repeats(targets),
            ids=tuple(self.ids),
            texts=tuple(self.texts),
            excluded=excluded,
            languages=self.languages or None,
        )


Gatherer = Callable[[Path, LabelIndex, str], Gathered]
_gatherer: ContextVar[Gatherer | None] = ContextVar("longtail_gatherer", default=None)


def gather(path: Path, labels: LabelIndex, split: str) -> Gathered:
    """What collects the documents of a split.

    Args:
        path: the file that is read.
        labels: the labels so far.
        split: train, valid or test.

    Returns:
        A collection in memory, or what `gathering_by` names.
    """
    make = _gatherer.get()
    return Gathered(path, labels) if make is None else make(path, labels, split)


@contextmanager
def gathering_by(make: Gatherer) -> Iterator[None]:
    """Let the readers inside this block hand their documents to another collection.

    Args:
        make: given a file, labels and a split, what collects its documents.

    Yields:
        Nothing.
    """
    token = _gatherer.set(make)
    try:
        yield
    finally:
        _gatherer.reset(token)


def check_ids(gathered: Sequence[Gathered], lists: bool = False) -> None:
    """Checks that document ids are unique over all splits.

    Args:
        gathered: the splits.
        lists: of a table that is read as one document a row; perhaps a row is one label of a document.

    Raises:
        DataError: an id occurs twice; names both places.
    """
    everything = [name for part in gathered for name in part.ids]
    if len(set(everything)) == len(everything):
        return
    places: dict[str, tuple[Gathered, int]] = {}
    for part in gathered:
        kept: list[int] = []
        for row, (name, line) in enumerate(zip(part.ids, part.lines, strict=True)):
            if name not in places:
                places[name] = part, row
                kept.append(row)
                continue
            other, at = places[name]
            same = other is part and part.content(row) == part.content(at)
            relabelled = lists and not same and other is part and part.texts[row] == part.texts[at]
            hint = ", or pass --drop-duplicates" if same else ""
            if relabelled:
                hint = "; where a document has a row for each of its labels, pass --label-shape pairs"
            error = DataError(
                f"document id {shown(name)} is already at {other.path.name}:{other.lines[at]}; ids must be unique over "
                f"all splits, so rename or remove one{hint}",
                part.path,
                line,
            )
            if relabelled:
                pass_over(error, "rows with the id and text of another row and other labels", remedy=PAIRS)
            elif same:
                pass_over(error, "rows that repeat an earlier one, id and all", remedy=DUPLICATE)
            else:
                pass_over(error, "rows with the id of another row", {"id": name, "text": part.texts[row]})
        part.keep(kept)


def without_repeats(targets: Matrix) -> Matrix:
    """Merges duplicate entries: a label that occurs twice in a row counts once, with its larger weight.

    Args:
        targets: csr (rows, labels); its indices are sorted in place.

    Returns:
        Canonical csr (rows, labels).
    """
    targets.sort_indices()
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    first = np.ones(targets.nnz, dtype=np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (targets.indices[1:] != targets.indices[:-1])
    if first.all():
        return targets
    kept = np.flatnonzero(first)
    starts = np.concatenate([[0], np.cumsum(first)])[targets.indptr]
    return sparse.csr_array(
        (np.maximum.reduceat(targets.data, kept), targets.indices[kept], starts), shape=targets.shape
    )


def pairs(rows: AnyArray | Sequence[int], columns: AnyArray | Sequence[int], shape: tuple[int, int]) -> Matrix:
    """Excluded pairs as a boolean matrix; duplicate pairs count once.

    Args:
        rows: (pairs,) row numbers.
        columns: (pairs,) label numbers.
        shape: (rows, labels)

    Returns:
        csr bool (rows, labels)
    """
    marks = np.ones(len(rows), dtype=np.bool_)
    return sparse.csr_array((marks, (np.asarray(rows, np.int64), np.asarray(columns, np.int64))), shape=shape)
