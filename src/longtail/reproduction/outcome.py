"""What came out: our figures and effects, beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longtail.errors import counted
from longtail.report.result import Result, finite
from longtail.reproduction.paper_tables import COSTS, IN_BIN, PAIRS, PaperTable
from longtail.reproduction.table_rows import TableRow

FORMAT = "longtail.reproduction.v1"
BIN_FIGURES = {"P": "contribution", "R": "recall", "C": "coverage"}
IN_KIND, IN_PART, NOT = "reproduced in kind", "reproduced in part", "not reproduced"


@dataclass(frozen=True)
class Figure:
    """A mean over seeds and its standard deviation (n - 1), which is NaN with one seed."""

    mean: float
    deviation: float = math.nan

    def text(self, sign: bool = False, decimals: int = 2) -> str:
        """Write it in percent or points.

        Args:
            sign: with + or -, for an effect.
            decimals: behind the point.

        Returns:
            Such as "44.31 ± 0.12" or "+4.64".
        """
        if not math.isfinite(self.mean):
            return "-"
        spread = f" ± {self.deviation:.{decimals}f}" if math.isfinite(self.deviation) else ""
        return (f"{self.mean:+.{decimals}f}" if sign else f"{self.mean:.{decimals}f}") + spread


@dataclass(frozen=True, eq=False)
class TableOutcome:
    """One table on one data set."""

    table: PaperTable
    results: dict[str, Result]  # by key of the row, of those that were trained
    left: tuple[str, ...] = ()  # rows that time was too short for
    refused: tuple[str, ...] = ()  # rows that cannot be trained on this data or machine, with the reason
    pairs_per_label: float = math.nan  # training pairs as given

    def result(self, row: TableRow) -> Result | None:
        """Find the result of a row; None where it was not trained."""
        return self.results.get(row.key) if row.recipe else None

    def figure(self, row: TableRow, column: str) -> Figure | None:
        """Our figure of a row; None where it was not trained or the measure does not exist on this data."""
        found = self.result(row)
        value = None if found is None else self._value(found, column)
        if found is None or value is None:
            return None
        values = [one for run in found.runs if (one := self._value(run, column)) is not None]
        return Figure(value, float(np.std(values, ddof=1)) if len(values) > 1 else math.nan)

    def effect(self, row: TableRow, column: str) -> Figure | None:
        """Our effect of a row against its control, by seed where both have seeds; None where one is missing."""
        control = next((one for one in self.table.rows if one.name == row.control), None)
        ours, theirs = self.result(row), None if control is None else self.result(control)
        if ours is None or theirs is None:
            return None
        mine, other = self._value(ours, column), self._value(theirs, column)
        if mine is None or other is None:
            return None
        before = {run.seeds[0]: self._value(run, column) for run in theirs.runs}
        pairs = [
            (self._value(run, column), before.get(run.seeds[0], other)) for run in (ours.runs or (ours,))
        ]  # a control that draws no random numbers was trained once
        if not ours.runs and before:  # the control alone draws random numbers
            pairs = [(mine, value) for value in before.values()]
        changes = [a - b for a, b in pairs if a is not None and b is not None]
        return Figure(float(np.mean(changes)), float(np.std(changes, ddof=1)) if len(changes) > 1 else math.nan)

    def _value(self, found: Result, column: str) -> float | None:
        """A measure, one of a frequency bin, the training pairs a label, or a cost."""
        if column in COSTS:
            name, unit = COSTS[column]
            return float(getattr(found, name)) / unit
        if column == PAIRS:
            added = 0 if found.teaching is None else found.teaching.entries
            return self.pairs_per_label + added / max(len(found.predictions.labels), 1)
        if (part := IN_BIN.fullmatch(column)) is None:
            return found.measures.values.get(column)
        bins = {one.name: one for one in found.measures.bins}
        return getattr(bins[part[2]], BIN_FIGURES[part[1]]) if part[2] in bins else None

    def verdict(self, row: TableRow) -> str:
        """Compare the direction of our effects with the published ones.

        Args:
            row: with a control.

        Returns:
            In kind where every effect has the published sign and exceeds its deviation; "" where nothing is published.
        """
        published = self.table.effects_of(row)
        agree = []
        for number, column in enumerate(self.table.columns):
            values = [one[number] for one in published.values()]
            known = [value for value in values if value is not None]
            ours = self.effect(row, column)
            if known and ours is not None:
                spread = ours.deviation if math.isfinite(ours.deviation) else 0.0
                agree.append(ours.mean * float(np.mean(known)) > 0 and abs(ours.mean) > spread)
        if not agree:
            return ""
        return IN_KIND if all(agree) else IN_PART if any(agree) else NOT

    def sentence(self, row: TableRow) -> str:
        """One sentence on a row: our effect on the first column, the published range, and the verdict; or ""."""
        verdict, column = self.verdict(row), self.table.columns[0]
        ours = self.effect(row, column)
        known = [one[0] for one in self.table.effects_of(row).values() if one[0] is not None]
        if not verdict or ours is None or not known:
            return ""
        low, high = min(known), max(known)
        theirs = f"{low:+.2f}" if low == high else f"{low:+.2f} to {high:+.2f}"
        here = ours.text(True, decimals(column))
        return f"{row.name} against {row.control}, {column}: {here} here, {theirs} published; {verdict}."

    def as_json(self) -> dict[str, Any]:
        """Every figure as plain data."""
        return {
            "table": self.table.name,
            "title": self.table.title,
            "columns": list(self.table.columns),
            "left_out_for_time": list(self.left),
            "refused": list(self.refused),
            "rows": [self._row(row) for row in self.table.rows],
        }

    def _row(self, row: TableRow) -> dict[str, Any]:
        columns, found = self.table.columns, self.result(row)
        published = {name: rows[row.name] for name, rows in (self.table.published or {}).items() if row.name in rows}
        return {
            "name": row.name,
            "recipe": row.recipe,
            "control": row.control,
            "examples_per_label": row.examples_per_label,
            "missing": row.missing(),
            "figures": {column: _plain(self.figure(row, column)) for column in columns},
            "effects": {column: _plain(self.effect(row, column)) for column in columns} if row.control else {},
            "published": {name: dict(zip(columns, one, strict=True)) for name, one in published.items()},
            "published_effects": {
                name: dict(zip(columns, one, strict=True)) for name, one in self.table.effects_of(row).items()
            },
            "verdict": self.verdict(row) if row.control else "",
            "runs": [] if found is None else found.as_json()["runs"],
        }


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What `longtail reproduce` found."""

    paper: str
    data: str
    seeds: tuple[int, ...]
    outcomes: tuple[TableOutcome, ...]
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)  # sizes and constants of the data
    notes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """One sentence on the paper: its verdict, how many rows came out which way, and the range of the effects.

        Returns:
            The sentence; it says so where no trained row has a published effect.
        """
        judged = [(one, row) for one in self.outcomes for row in one.table.rows if one.verdict(row)]
        if not judged:
            return f"No row of {self.paper} that was trained on {self.data} has a published effect."
        verdicts = [one.verdict(row) for one, row in judged]
        counts = {each: verdicts.count(each) for each in (IN_KIND, IN_PART, NOT)}
        whole = IN_KIND if counts[IN_KIND] == len(judged) else NOT if counts[NOT] == len(judged) else IN_PART
        column = judged[0][0].table.columns[0]
        once = "; one seed, so an effect of any size counts" if len(self.seeds) == 1 else ""
        same = [(one, row) for one, row in judged if one.table.columns[0] == column]
        here = [found.mean for one, row in same if (found := one.effect(row, column)) is not None]
        theirs = [figures[0] for one, row in same for figures in one.table.effects_of(row).values()]
        return (
            f"{self.paper} is {whole} on {self.data}: of {counted(len(judged), 'row')} with published effects "
            f"{counts[IN_KIND]} in kind, {counts[IN_PART]} in part, {counts[NOT]} not; {column} {_range(here)} here, "
            f"{_range([one for one in theirs if one is not None])} published{once}."
        )

    def as_json(self, command: str = "", versions: dict[str, str] | None = None) -> dict[str, Any]:
        """Plain data for a JSON file.

        Args:
            command: the command line.
            versions: of longtail and libraries.

        Returns:
            Every figure with its seed.
        """
        return {
            "format": FORMAT,
            "paper": self.paper,
            "data": {"name": self.data, **self.facts},
            "seeds": list(self.seeds),
            "seconds": self.seconds,
            "command": command,
            "versions": dict(versions or {}),
            "notes": list(self.notes),
            "verdict": self.sentence(),
            "tables": [one.as_json() for one in self.outcomes],
        }


def cells(outcome: TableOutcome, row: TableRow) -> list[str]:
    """Our cells of a row.

    Args:
        outcome: of the table.
        row: of the table.

    Returns:
        One text a column: figure ± deviation, and in parentheses the effect.
    """
    found = []
    for column in outcome.table.columns:
        figure, effect = outcome.figure(row, column), outcome.effect(row, column)
        text = "" if figure is None else figure.text(decimals=decimals(column))
        found.append(text if effect is None else f"{text} ({effect.text(True, decimals(column))})")
    return found


def published_cells(table: PaperTable, row: TableRow) -> dict[str, list[str]]:
    """The published cells of a row.

    Args:
        table: of the paper.
        row: of the table.

    Returns:
        By data set, one text a column: the figure, and in parentheses the effect. None where another row has them.
    """
    if row.published_as:
        return {}
    effects = table.effects_of(row)
    figures = {name: rows[row.name] for name, rows in (table.published or {}).items() if row.name in rows}
    none: Sequence[float | None] = (None,) * len(table.columns)
    found = {}
    for name in dict.fromkeys((*figures, *effects)):
        pairs = zip(figures.get(name, none), effects.get(name, none), strict=True)
        found[name] = [
            " ".join([*([] if a is None else [f"{a:.2f}"]), *([] if b is None else [f"({b:+.2f})"])]) for a, b in pairs
        ]
    return found


def decimals(column: str) -> int:
    """How many decimals a figure of ours has: hours and gigabytes of small data are small.

    Args:
        column: of a table.

    Returns:
        The number.
    """
    return 4 if column in COSTS else 2


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    low, high = f"{min(values):+.2f}", f"{max(values):+.2f}"
    return low if low == high else f"{low} to {high}"


def _plain(figure: Figure | None) -> dict[str, Any] | None:
    return None if figure is None else {"mean": finite(figure.mean), "deviation": finite(figure.deviation)}
