"""Gathering the rows of a split while its file streams by: ids, texts, and targets in flat arrays."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from longtail.arrays import AnyArray, Matrix
from longtail.data.dataset import Dataset
from longtail.data.labels import LabelSet, Propensity
from longtail.errors import DataError, did_you_mean

LEAST_WEIGHT = 2.0**-150  # a weight must be larger: this and less rounds to 0 in float32


@dataclass(frozen=True, eq=False, kw_only=True)
class Splits:
    """What a reader found; `None` is a split that was not given."""

    train: Dataset
    valid: Dataset | None = None
    test: Dataset | None = None
    text_field: str = "text"
    id_field: str = "id"
    notes: tuple[str, ...] = ()


def as_id(value: Any) -> str | None:
    """A string, or an integer written as one; anything else is no id."""
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int else None


def check_weight(weight: Any, label: str, path: Path, line: int) -> float:
    if type(weight) not in (int, float) or not LEAST_WEIGHT < weight <= 1:
        raise DataError(f"weight {weight!r} of label {label!r} does not lie in (0, 1]; rescale it", path, line)
    return float(weight)


@dataclass(eq=False)
class LabelIndex:
    """Label ids to columns. Closed where a labels file names them all, else growing as labels appear."""

    source: Path | None = None  # the labels file
    row_of: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # where the labels file names each

    def define(self, name: str, text: str, line: int) -> None:
        """One label of the labels file."""
        if name in self.row_of:
            first = self.lines[self.row_of[name]]
            raise DataError(f"label id {name!r} is already on line {first}; remove one", self.source, line)
        self.row_of[name] = len(self.texts)
        self.texts.append(text)
        self.lines.append(line)

    def column(self, label: Any, path: Path, line: int) -> int:
        """The column of one label; slower than `row_of`, and sure."""
        name = as_id(label)
        if name is None:
            raise DataError(f"label {label!r} is not a label id; ids are strings that are not empty", path, line)
        column = self.row_of.get(name)
        if column is None:
            if self.source is not None:
                near = did_you_mean(name, islice(self.row_of, 50_000))  # comparing with millions takes minutes
                raise DataError(
                    f"unknown label id {name!r}{near or ','} add it to {self.source.name} or remove it", path, line
                )
            column = self.row_of[name] = len(self.texts)
            self.texts.append(name)
        return column

    def label_set(self, propensity: Propensity) -> LabelSet:
        return LabelSet(ids=tuple(self.row_of), texts=tuple(self.texts), propensity=propensity)


@dataclass(eq=False)
class Gathered:
    """The rows of one split so far. Flat arrays, because lists of lists cost ten times the memory."""

    path: Path
    labels: LabelIndex
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lines: array[int] = field(default_factory=lambda: array("q"))  # where each row stands in its file
    columns: array[int] = field(default_factory=lambda: array("i"))
    weights: array[float] = field(default_factory=lambda: array("f"))
    starts: array[int] = field(default_factory=lambda: array("q", [0]))

    def add(self, line: int, name: str, text: str, labels: list[Any] | dict[str, Any]) -> None:
        """One row, with its labels as a list of ids or an object of weights."""
        row_of = self.labels.row_of
        try:
            columns = [row_of[label] for label in labels]
        except (KeyError, TypeError):  # unknown, new or an integer
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

    def dataset(self, labels: LabelSet, excluded: Matrix | None = None) -> Dataset:
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
        )


def check_ids(gathered: Sequence[Gathered]) -> None:
    """Row ids are unique over all splits; the error names both places."""
    everything = [name for part in gathered for name in part.ids]
    if len(set(everything)) == len(everything):
        return
    places: dict[str, tuple[Path, int]] = {}
    for part in gathered:
        for name, line in zip(part.ids, part.lines, strict=True):
            if name in places:
                path, first = places[name]
                raise DataError(
                    f"row id {name!r} is already at {path.name}:{first}; ids are unique over all splits, "
                    "so rename or remove one",
                    part.path,
                    line,
                )
            places[name] = part.path, line


def without_repeats(targets: Matrix) -> Matrix:
    """Canonical CSR where a label that stands twice in a row counts once, with its larger weight."""
    targets.sort_indices()
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    first = np.ones(targets.nnz, dtype=np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (targets.indices[1:] != targets.indices[:-1])
    if first.all():
        return targets
    begins = np.flatnonzero(first)
    starts = np.concatenate([[0], np.cumsum(first)])[targets.indptr]
    return sparse.csr_array(
        (np.maximum.reduceat(targets.data, begins), targets.indices[begins], starts), shape=targets.shape
    )


def pairs(rows: AnyArray | Sequence[int], columns: AnyArray | Sequence[int], shape: tuple[int, int]) -> Matrix:
    """Excluded pairs as a boolean matrix; a pair that stands twice counts once."""
    marks = np.ones(len(rows), dtype=np.bool_)
    return sparse.csr_array((marks, (np.asarray(rows, np.int64), np.asarray(columns, np.int64))), shape=shape)
