"""The comparison as a table with one row per recipe, for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from longtail.drawing import words
from longtail.errors import counted
from longtail.metrics.significance import BETTER, SAME, WORSE
from longtail.report.result import Result

if TYPE_CHECKING:
    from rich.table import Table

MARKS = {BETTER: "▲", WORSE: "▼", SAME: ""}
KEY = f"{MARKS[BETTER]} better, {MARKS[WORSE]} worse than the first recipe (95%); no mark: no difference shown"
TESTED = ("P@1", "PSP@5", "C@5")  # what the table of differences shows
UNSEEN = "recall of labels with (S) and without (U) training examples, H their harmonic mean"
COVERAGE = "share of labels with a test positive that are found at least once"
RETRIEVAL = (
    "R = recall; MRR = 1 / rank of the first hit; nearly all labels have no training example, where PSP and coverage "
    "say little"
)
_NAME = 12  # letters per line of a recipe's name in a narrow terminal; longer names fold
_WHOLE = 24  # letters of a word of a name that stays whole where the other columns fold, too
# What a narrow terminal leaves out, in this order: P@1, PSP@5 and C@5 stay, which recipes are chosen by.
_SHALLOW = ("MRR@3", "R@3", "R@1", "MRR@5", "R@5")
_LEFT_OUT = ("P@3", "PSP@3", "C@3", "predict", "memory", "P@5", "C@1", "PSP@1", "train")


@dataclass(frozen=True)
class Column:
    """One figure of a result: how to read it, how to write it, and whether lower is better."""

    name: str  # "P@1", "train"
    group: str  # "P", "PSP", "C", "cost"
    value: Callable[[Result], float]
    write: Callable[[float], str]
    lower_is_better: bool = False
    cost: str = ""  # the field of a result, where the figure is a cost

    def spread(self, result: Result) -> str:
        """The deviation over seeds.

        Args:
            result: of the recipe.

        Returns:
            The deviation as it is written; empty with one seed.
        """
        deviation = result.deviation(self.cost or self.name)
        return self.write(deviation) if math.isfinite(deviation) else ""

    def mark(self, result: Result) -> str:
        """Whether the recipe is shown to differ from the first.

        Args:
            result: of the recipe.

        Returns:
            One of MARKS; empty for the first recipe and for costs.
        """
        found = result.against_first.get(self.name)
        return "" if found is None else MARKS[found.verdict]

    def best(self, results: Sequence[Result]) -> str | None:
        """The best value as it is written, so that values that read the same are all marked.

        Args:
            results: a result per recipe.

        Returns:
            The text of the best value; None where there is only one result, or no value.
        """
        values = [value for value in map(self.value, results) if math.isfinite(value)]
        if len(results) < 2 or not values:
            return None
        return self.write(min(values) if self.lower_is_better else max(values))

    def delta(self, result: Result, first: Result) -> tuple[str, str]:
        """The difference to the first recipe.

        Args:
            result: of the recipe.
            first: of the first recipe.

        Returns:
            The difference with its sign, and "better", "worse" or "same".
        """
        difference = self.value(result) - self.value(first)
        written = self.write(abs(difference))
        if not math.isfinite(difference):
            return "", "same"
        if written == self.write(0.0):
            return "±0", "same"
        sign = "+" if difference > 0 else words.MINUS
        return sign + written, "better" if (difference < 0) == self.lower_is_better else "worse"


def columns(results: Sequence[Result]) -> list[Column]:
    """P, PSP and C, and S, U and H of held-out labels, at each k that was measured, then the costs.

    Where nearly all labels have no training example, as in passage retrieval: P@1, MRR and R instead.

    Args:
        results: a result per recipe.

    Returns:
        The columns, from left to right.
    """
    ks = measured_at(results)
    if _retrieval(results):
        names = ["P@1", *(f"MRR@{k}" for k in ks if 1 < k <= 10), *(f"R@{k}" for k in ks)]
    else:
        names = [f"{group}@{k}" for group in ("P", "PSP", "C", "S", "U", "H") for k in ks]
    measured = [
        Column(name, name.partition("@")[0], _measure(name), words.percent)
        for name in names
        if any(name in result.measures.values for result in results)
    ]
    return [
        *measured,
        Column("train", "cost", lambda result: result.train_seconds, words.seconds, True, "train_seconds"),
        Column("predict", "cost", lambda result: result.predict_seconds, words.seconds, True, "predict_seconds"),
        Column("memory", "cost", lambda result: float(result.peak_bytes), words.size, True),
    ]


def _retrieval(results: Sequence[Result]) -> bool:
    return bool(results) and results[0].predictions.labels.mostly_unseen


def measured_at(results: Sequence[Result]) -> list[int]:
    """The values of k that were measured.

    Args:
        results: a result per recipe.

    Returns:
        Rising.
    """
    return sorted({int(name.partition("@")[2]) for result in results for name in result.measures.values})


def caption(results: Sequence[Result]) -> str:
    """The lines under the table: PSP and C, seeds, and the marks.

    Args:
        results: a result per recipe.

    Returns:
        One to three lines.
    """
    unseen = f"; {UNSEEN}" if any("H@1" in result.measures.values for result in results) else ""
    lines = [RETRIEVAL if _retrieval(results) else f"PSP with {results[0].measures.propensity}; C = {COVERAGE}{unseen}"]
    if any(result.runs for result in results):
        lines.append(f"mean ± deviation over {max(len(result.seeds) for result in results)} seeds")
    if any(result.against_first for result in results):
        lines.append(KEY)
    return "\n".join(lines)


def comparison_table(results: Sequence[Result], width: int | None = None, *, costs: bool = True) -> Table:
    """The table for a terminal, the best value of each column in bold.

    Columns that do not fit are left out, those at 3 first: a figure that the edge cuts would read as another figure.

    Args:
        results: a result per recipe.
        width: of the terminal, in letters; None keeps every column.
        costs: shows time and memory.

    Returns:
        A table for rich to print.
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
    every = [one for one in columns(results) if costs or one.group != "cost"]
    shown = _fitting(every, results, width)
    for column in shown:
        table.add_column(column.name, justify="right", no_wrap=True)
    if hidden := [column.name for column in every if column not in shown]:
        table.caption = f"{table.caption}\nno room here for {', '.join(hidden)}: see --json or the report"
    best = [column.best(results) for column in shown]
    for result in results:
        figures = [column.write(column.value(result)) for column in shown]
        table.add_row(
            Text(words.clean(result.recipe)),  # not markup: a recipe may hold brackets
            *(
                Text(_cell(column, result), style="bold" if figure == top else "")
                for column, figure, top in zip(shown, figures, best, strict=True)
            ),
        )
    return table


def difference_table(results: Sequence[Result]) -> Table | None:
    """The first recipe with its intervals, and each other one against it: the difference and whether it is shown.

    Args:
        results: a result per recipe.

    Returns:
        A table for rich to print; None without intervals.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    last = {column.group: column.name for column in columns(results) if column.group != "cost"}
    tested = last.values() if _retrieval(results) else TESTED
    first = results[0]
    names = [name for name in tested if name in first.intervals]
    if not names:
        return None
    how = ""
    if len(results) > 1:
        how = "; below the first recipe differences to it, with p-values of a randomisation test, corrected by Holm"
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        caption=f"95% intervals over documents (C: over labels){how}",
        caption_justify="left",
    )
    longest = max(len(word) for result in results for word in words.clean(result.recipe).split() or [""])
    table.add_column("recipe", overflow="fold", min_width=min(max(longest, _NAME), _WHOLE))
    for name in names:
        table.add_column(name)
    table.add_row(Text(words.clean(first.recipe)), *(Text(interval(first, name)) for name in names))
    for result in results[1:]:
        table.add_row(Text(words.clean(result.recipe)), *(Text(difference(result, name)) for name in names))
    return table


def interval(result: Result, name: str) -> str:
    """A recipe's figure with its interval.

    Args:
        result: of the recipe.
        name: of the measure.

    Returns:
        Such as "62.1 [61.4, 62.8]".
    """
    found = result.intervals[name]
    return f"{words.percent(result.measures[name])} [{words.percent(found.low)}, {words.percent(found.high)}]"


def difference(result: Result, name: str) -> str:
    """A recipe's difference to the first in words.

    Args:
        result: of the recipe.
        name: of the measure.

    Returns:
        Such as "+3.4 [2.8, 4.1] better"; a dash where it was not tested.
    """
    found = result.against_first.get(name)
    if found is None:
        return words.NOTHING
    return f"{signed(found.difference)} [{signed(found.low)}, {signed(found.high)}] {found.verdict}"


def signed(value: float) -> str:
    """A difference in points, with its sign.

    Args:
        value: the difference.

    Returns:
        One decimal.
    """
    return f"{value:+.1f}".replace("-", words.MINUS)


def clean_table(results: Sequence[Result], width: int | None = None) -> Table | None:
    """The comparison on the documents without a problem, where more than 1% have one.

    Args:
        results: a result per recipe.
        width: of the terminal, in letters; None keeps every column.

    Returns:
        A table for rich to print; None where there is no need of it.
    """
    clean = [
        replace(result, measures=result.clean, runs=(), against_first={})
        for result in results
        if result.clean is not None
    ]
    if not clean:
        return None
    table = comparison_table(clean, width, costs=False)
    rows = counted(results[0].measures.rows, "document")
    table.caption = f"on the {clean[0].measures.rows:,} of {rows} without the problems above"
    return table


def shared_notes(results: Sequence[Result]) -> list[str]:
    """The notes of all recipes: which one trained a stage that others share, and what a recipe notes itself.

    Args:
        results: a result per recipe.

    Returns:
        Sentences.
    """
    lines: list[str] = []
    recipes_of: dict[str, list[str]] = {}
    for result in results:
        name = words.clean(result.recipe)
        own = result.train_seconds - sum(one.seconds for one in result.shared)
        if result.shared:
            whose = ", ".join(f"{words.seconds(one.seconds)} by {words.clean(one.recipe)}" for one in result.shared)
            lines.append(f"{name}: trained in {words.seconds(max(own, 0.0))} of its own; the rest once, {whose}")
        for note in result.notes:
            recipes_of.setdefault(note, []).append(name)
    return lines + [f"{', '.join(names)}: {note}" for note, names in recipes_of.items()]


def _cell(column: Column, result: Result) -> str:
    spread = column.spread(result)
    return column.write(column.value(result)) + (f" ± {spread}" if spread else "") + column.mark(result)


def _fitting(shown: list[Column], results: Sequence[Result], width: int | None) -> list[Column]:
    """The columns that a terminal of this width can show in full."""

    def needed() -> int:
        wide = (max(len(column.name), *(len(_cell(column, result)) for result in results)) for column in shown)
        return 2 + _NAME + sum(letters + 2 for letters in wide)

    others = [one.name for one in reversed(shown) if one.group != "cost" and not one.name.endswith(("@1", "@3", "@5"))]
    if _retrieval(results) and others:  # the k that were asked for are those that papers of retrieval print
        others = [name for name in _SHALLOW if any(name == one.name for one in shown)] + others
    for name in (*others, *_LEFT_OUT):
        if not results or width is None or needed() <= width:
            break
        shown = [column for column in shown if column.name != name]
    return shown


def _measure(name: str) -> Callable[[Result], float]:
    return lambda result: result.measures.values.get(name, math.nan)
