"""The table of the page: every recipe and measure, with intervals, marks of significance, and columns that sort."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from longtail.drawing import words
from longtail.drawing.markup import Safe, breakable, tag
from longtail.errors import counted
from longtail.metrics.significance import BETTER, WORSE
from longtail.report.comparison_table import MARKS, Column, columns, shared_notes, signed
from longtail.report.download import Cell, csv_link
from longtail.report.how_to_repeat import MEANING, table_box
from longtail.report.more_measures import more_measures
from longtail.report.result import Result
from longtail.report.sections import section
from longtail.report.shapes import swatch


def table_section(results: Sequence[Result]) -> Safe:
    """The comparison: best values, differences to the first recipe with their significance, clean documents.

    Args:
        results: a result per recipe.

    Returns:
        The section.
    """
    several, tested = len(results) > 1, any(result.against_first for result in results)
    seeds = max(len(result.seeds) for result in results)
    key: list[str | Safe] = []
    if several:
        key += [
            tag("b", "Bold", class_="best-key"),
            " is the best of its column; the small figure is the difference to ",
        ]
        key += ["the first recipe, ", tag("bdi", results[0].recipe, class_="name"), ". "]
    if tested:
        key.append(
            f"{MARKS[BETTER]} better and {MARKS[WORSE]} worse than it at the 5% level (randomisation test, corrected "
            "by Holm); without a mark no difference is shown. Point at a figure for its 95% interval. "
        )
    if any(result.runs for result in results):
        key.append(f"Figures are means ± deviations over {seeds} seeds. Labels found and examples are those of ")
        key.append("the first seed. ")
    key.append("Measures are in percent, on the test split. Point at, tap or tab to a column's name for its meaning. ")
    key.append(_saved(results))
    lines = shared_notes(results)
    return section(
        "table",
        "Results",
        results_table(results, "Results by recipe"),
        tag("p", *key, class_="note"),
        _notes(results),
        tag("ul", *(tag("li", line) for line in lines), class_="notes") if lines else None,
        *_clean(results),
        more_measures(results),
    )


def results_table(results: Sequence[Result], name: str, *, costs: bool = True) -> Safe:
    """A table with a row per recipe and a column per measure, which the page's script sorts.

    Args:
        results: a result per recipe.
        name: what a screen reader calls it.
        costs: shows time and memory.

    Returns:
        The table in its box.
    """
    shown = [column for column in columns(results) if costs or column.group != "cost"]
    groups = [(group, len(list(members))) for group, members in groupby(shown, key=lambda one: one.group)]
    starts = {next(column.name for column in shown if column.group == group) for group, _ in groups}
    titles = {
        "P": "Precision",
        "PSP": "Propensity-scored precision",
        "C": "Coverage",
        "S": "Seen labels",
        "U": "Unseen labels",
        "H": "Harmonic mean",
        "MRR": "Mean reciprocal rank",
        "R": "Recall",
        "cost": "Cost",
    }
    sorts = len(results) > 1
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "Recipe", _sorter("Recipe", 0) if sorts else None, scope="col", rowspan=2, class_="stick"),
            *(
                tag(
                    "th",
                    titles[group],
                    tag("small", str(results[0].measures.propensity)) if group == "PSP" else None,
                    scope="colgroup",
                    colspan=span,
                    class_="group",
                )
                for group, span in groups
            ),
        ),
        tag("tr", *(_header(column, at + 1, column.name in starts, sorts) for at, column in enumerate(shown))),
    )
    best = [column.best(results) for column in shown]
    body = tag(
        "tbody",
        *(
            tag(
                "tr",
                recipe_name(number, result),
                *(
                    _cell(column, result, results[0], top, column.name in starts)
                    for column, top in zip(shown, best, strict=True)
                ),
                data_recipe=number,
            )
            for number, result in enumerate(results)
        ),
    )
    return table_box(name, head, body, class_="results" if costs else "clean")


def recipe_name(number: int, result: Result) -> Safe:
    """The first cell of a recipe's row.

    Args:
        number: of the recipe, which decides its colour and marker.
        result: of the recipe.

    Returns:
        A header cell.
    """
    name = tag("div", swatch(number), tag("bdi", breakable(result.recipe), class_="name"), class_="who")
    return tag("th", name, scope="row", class_="stick")


def _header(column: Column, at: int, start: bool, sorts: bool) -> Safe:
    meaning = MEANING[column.group if column.group != "cost" else column.name]
    k = column.name.partition("@")[2]
    text = f"{column.name}: {meaning.replace('the top k', f'the top {k}')}"
    button = tag("button", column.name, type="button", class_="help", data_help=text)
    sorter = _sorter(column.name, at) if sorts else None
    return tag("th", button, sorter, scope="col", class_="start" if start else None)


def _sorter(name: str, at: int) -> Safe:
    return tag("button", "↕", type="button", class_="sort", data_column=at, aria_label=f"Sort by {name}")


def _cell(column: Column, result: Result, first: Result, best: str | None, start: bool) -> Safe:
    value = column.value(result)
    written, spread = column.write(value), column.spread(result)
    marked = written == best
    interval = result.intervals.get(column.name)
    span = None if interval is None else f"95% interval {words.percent(interval.low)} to {words.percent(interval.high)}"
    spread_tag = tag("span", f" ± {spread}", class_="spread") if spread else None
    parts: list[Safe | str] = [tag("span", written, spread_tag, class_="value", data_help=span)]
    if marked:
        parts.append(tag("span", " (best)", class_="unseen-text"))
    if result is not first:
        parts.append(_delta(column, result, first))
    classes = " ".join(name for name, yes in (("best", marked), ("start", start)) if yes)
    return tag("td", *parts, class_=classes or None, data_value=repr(value) if math.isfinite(value) else "")


def _delta(column: Column, result: Result, first: Result) -> Safe:
    """The difference to the first recipe; coloured only where it is shown, as costs always are."""
    difference, kind = column.delta(result, first)
    found = result.against_first.get(column.name)
    if found is None:
        return tag("span", difference, class_=f"delta {kind}")
    text = (
        f"{found.verdict}: {signed(found.difference)} points, 95% interval {signed(found.low)} to {signed(found.high)}"
        f"; p = {found.p_corrected:.2g} after Holm's correction, {found.p:.2g} before"
    )
    kind = {BETTER: "better", WORSE: "worse"}.get(found.verdict, "same")
    return tag("span", f"{difference} {MARKS[found.verdict]}".rstrip(), class_=f"delta {kind}", data_help=text)


def _saved(results: Sequence[Result]) -> Safe:
    """Every measure of every recipe as CSV."""
    names = list(dict.fromkeys(name for result in results for name in result.measures.values))
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        for name in names:
            span, against = result.intervals.get(name), result.against_first.get(name)
            rows.append(
                (
                    result.recipe,
                    name,
                    result.measures.values.get(name),
                    result.deviation(name),
                    span.low if span else None,
                    span.high if span else None,
                    against.difference if against else None,
                    against.p_corrected if against else None,
                    against.verdict if against else None,
                )
            )
    header = ("recipe", "measure", "value", "deviation", "low", "high", "minus first", "p corrected", "verdict")
    return csv_link("results", header, rows)


def _clean(results: Sequence[Result]) -> list[Safe]:
    """The same table on the documents without a problem, where more than 1% have one."""
    clean = [
        replace(one, measures=one.clean, runs=(), intervals={}, against_first={})
        for one in results
        if one.clean is not None
    ]
    if not clean:
        return []
    rows = counted(results[0].measures.rows, "document")
    title = tag("h3", f"On the {clean[0].measures.rows:,} of {rows} without the problems above")
    return [title, results_table(clean, "Results on clean documents", costs=False)]


def _notes(results: Sequence[Result]) -> Safe | None:
    """Notes of the evaluation; one that holds for all recipes is written once, without their names."""
    recipes_of: dict[str, list[str]] = {}
    for result in results:
        for note in result.measures.notes:
            recipes_of.setdefault(note, []).append(result.recipe)
    if not recipes_of:
        return None
    items = []
    for note, recipes in recipes_of.items():
        named = ", ".join(recipes) if len(recipes) < 3 else f"{recipes[0]} and {len(recipes) - 1} more"
        items.append(tag("li", *([] if len(recipes) == len(results) else [tag("bdi", named), ": "]), note))
    return tag("ul", *items, class_="notes")
