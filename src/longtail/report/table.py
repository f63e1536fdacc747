"""The comparison as a table: one row a recipe, for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtail.report import words
from longtail.report.result import Result

if TYPE_CHECKING:
    from rich.table import Table

COVERAGE = "labels hit at least once over labels with a test positive"
_NAME = 12  # letters a recipe's name keeps in a narrow terminal; it folds over more lines
_LEFT_OUT = ("@3", "predict", "memory", "@5", "train")  # first to go where a terminal is too narrow


@dataclass(frozen=True)
class Column:
    """One figure of a result: how to take it, write it, and which end of it is better."""

    name: str  # "P@1", "train"
    group: str  # "P", "PSP", "C", "cost"
    value: Callable[[Result], float]
    write: Callable[[float], str]
    lower_is_better: bool = False

    def best(self, results: Sequence[Result]) -> str | None:
        """The best value as written, so that what reads the same is marked the same; None for one result."""
        values = [value for value in map(self.value, results) if math.isfinite(value)]
        if len(results) < 2 or not values:
            return None
        return self.write(min(values) if self.lower_is_better else max(values))

    def delta(self, result: Result, first: Result) -> tuple[str, str]:
        """Difference to the first recipe, signed, and whether it is "better", "worse" or "same"."""
        difference = self.value(result) - self.value(first)
        written = self.write(abs(difference))
        if not math.isfinite(difference):
            return "", "same"
        if written == self.write(0.0):
            return "±0", "same"
        sign = "+" if difference > 0 else words.MINUS
        return sign + written, "better" if (difference < 0) == self.lower_is_better else "worse"


def columns(results: Sequence[Result]) -> list[Column]:
    """P, PSP and C at 1, 3 and 5, where they were measured, then what the recipe cost."""
    measured = [
        Column(f"{group}@{k}", group, _measure(f"{group}@{k}"), words.percent)
        for group in ("P", "PSP", "C")
        for k in (1, 3, 5)
        if any(f"{group}@{k}" in result.measures.values for result in results)
    ]
    return [
        *measured,
        Column("train", "cost", lambda result: result.train_seconds, words.seconds, True),
        Column("predict", "cost", lambda result: result.predict_seconds, words.seconds, True),
        Column("memory", "cost", lambda result: float(result.peak_bytes), words.size, True),
    ]


def caption(results: Sequence[Result]) -> str:
    return f"PSP with {results[0].measures.propensity}; C = {COVERAGE}"


def comparison_table(results: Sequence[Result], width: int | None = None) -> Table:
    """One row a recipe, the best value of each column bold.

    Where the terminal's `width` is given, columns that do not fit are left out, those at 3 first: a figure
    cut short by the edge would read as another figure.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
        caption=caption(results) if results else None,
        caption_justify="left",
    )
    table.add_column("recipe", overflow="fold", min_width=_NAME)
    shown = _fitting(columns(results), results, width)
    for column in shown:
        table.add_column(column.name, justify="right", no_wrap=True)
    best = [column.best(results) for column in shown]
    for result in results:
        figures = [column.write(column.value(result)) for column in shown]
        table.add_row(
            Text(words.clean(result.recipe)),  # not markup: a recipe may hold brackets
            *(Text(figure, style="bold" if figure == top else "") for figure, top in zip(figures, best, strict=True)),
        )
    return table


def _fitting(shown: list[Column], results: Sequence[Result], width: int | None) -> list[Column]:
    """The columns that a terminal of this width can show in full."""

    def needed() -> int:
        wide = (
            max(len(column.name), *(len(column.write(column.value(result))) for result in results)) for column in shown
        )
        return 2 + _NAME + sum(letters + 2 for letters in wide)

    for ending in _LEFT_OUT:
        if not results or width is None or needed() <= width:
            break
        shown = [column for column in shown if not column.name.endswith(ending)]
    return shown


def _measure(name: str) -> Callable[[Result], float]:
    return lambda result: result.measures.values.get(name, math.nan)
