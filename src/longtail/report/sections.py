"""The sections of the page with charts of the results: head and tail, trade-off, cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from longtail.drawing import words
from longtail.drawing.markup import Safe, tag
from longtail.errors import counted
from longtail.metrics.measures import Bin
from longtail.report import figures
from longtail.report.download import Cell, csv_link
from longtail.report.figures import Series, Slot
from longtail.report.how_to_repeat import table_box
from longtail.report.result import Result
from longtail.report.shapes import bars, legend


def section(name: str, title: str, *content: str | Safe | None) -> Safe:
    """One section of the page.

    Args:
        name: its HTML id.
        title: its heading.
        content: text, which is escaped, or markup; None is left out.

    Returns:
        The section.
    """
    heading = tag("h2", title, id=f"{name}-title")
    return tag("section", heading, *content, id=name, aria_labelledby=f"{name}-title")


def bins_section(results: Sequence[Result]) -> Safe:
    """Hits and labels found, by label frequency.

    Args:
        results: a result per recipe.

    Returns:
        The section.
    """
    k = results[0].measures.bins_at
    heading = "Where the tail was won and where the head paid" if len(results) > 1 else "Where the hits come from"
    bins = [one for one in results[0].measures.bins if one.labels]
    if not bins:
        return section("bins", heading, nothing())
    slots = [_slot(one) for one in bins]
    names = [result.recipe for result in results]

    def series(field: str) -> list[Series]:
        return [
            Series(
                result.recipe,
                tuple(_of_bin(result, one.name, field) for one in bins),
                tuple(result.bin_deviation(one.name, field) for one in bins),
            )
            for result in results
        ]

    def saved(field: str) -> Safe:
        rows = [
            (
                result.recipe,
                _range(one),
                one.labels,
                _of_bin(result, one.name, field),
                result.bin_deviation(one.name, field),
            )
            for result in results
            for one in bins
        ]
        return csv_link(f"{field}-by-frequency", ("recipe", "training examples", "labels", field, "deviation"), rows)

    contribution = tag(
        "figure",
        tag(
            "figcaption",
            tag("h3", f"Points of P@{k} from each group of labels"),
            tag("p", f"The points of one line add up to the recipe's P@{k}. ", saved("contribution")),
        ),
        figures.lines(
            series("contribution"),
            slots,
            title=f"Contribution to P@{k} by label frequency, one line per recipe; the table below has the figures",
            direct=True,
        ),
    )
    coverage = tag(
        "figure",
        tag(
            "figcaption",
            tag("h3", "Labels found at least once"),
            tag(
                "p",
                f"Percent of the group's labels with a test positive that the top {k} of a document finds. ",
                saved("coverage"),
            ),
        ),
        figures.lines(
            series("coverage"),
            slots,
            title="Labels found at least once by label frequency; the table below has the figures",
            wide=(440, 376),
            most=100.0,
        ),
    )
    return section(
        "bins",
        heading,
        tag(
            "p",
            "Labels are sorted by training examples, the most frequent left, and cut into groups that hold equal "
            "shares of the training positives: a few frequent labels count as much as very many rare ones. Under each "
            "group: how many training examples its labels have, and how many labels it has.",
            class_="lead",
        ),
        legend(names) if len(names) > 1 else None,
        tag("div", contribution, coverage, class_="pair"),
        _bins_table(results, bins, k),
    )


def tradeoff_section(results: Sequence[Result]) -> Safe:
    """Precision against measures of the tail: P@1 against PSP@1, and P@5 against C@5.

    Args:
        results: a result per recipe.

    Returns:
        The section.
    """
    names = [result.recipe for result in results]
    charts = []
    for across, up, meaning in (
        ("P@1", "PSP@1", f"A hit counts by how rare its label is ({results[0].measures.propensity})."),
        ("P@5", "C@5", "Labels found at least once, of those with a test positive."),
    ):
        points = [
            (result.measures.values.get(across, math.nan), result.measures.values.get(up, math.nan))
            for result in results
        ]
        if all(math.isnan(x) or math.isnan(y) for x, y in points):
            continue
        title = f"{across} against {up}: " + "; ".join(
            f"{name} {words.percent(x)} and {words.percent(y)}" for name, (x, y) in zip(names, points, strict=True)
        )
        ranges = [_ranges(result, across, up) for result in results]
        header = ("recipe", across, f"{across} low", f"{across} high", up, f"{up} low", f"{up} high")
        rows: list[tuple[Cell, ...]] = [
            (name, x, *(span[0] if span else (None, None)), y, *(span[1] if span else (None, None)))
            for name, (x, y), span in zip(names, points, ranges, strict=True)
        ]
        charts.append(
            tag(
                "figure",
                tag(
                    "figcaption",
                    tag("h3", f"{across} against {up}"),
                    tag("p", f"{meaning} ", csv_link(f"{across}-against-{up}".replace("@", ""), header, rows)),
                ),
                figures.scatter(names, points, title=title, across_name=across, up_name=up, ranges=ranges),
            )
        )
    return section(
        "tradeoff",
        "Trade-off",
        tag(
            "p",
            "Precision counts every hit the same, so frequent labels dominate it. Up and right is better at both. "
            "Bars are 95% intervals.",
            class_="lead",
        ),
        legend(names) if len(names) > 1 else None,
        tag("div", *charts, class_="pair even"),
    )


def cost_section(results: Sequence[Result]) -> Safe:
    """Time, memory and size of each recipe.

    Args:
        results: a result per recipe.

    Returns:
        The section.
    """
    panels = [
        ("Training time", "train_seconds", words.seconds),
        ("Peak memory", "peak_bytes", words.size),
        ("Prediction time", "predict_seconds", words.seconds),
        ("Model on disk", "model_bytes", words.size),
    ]
    return section(
        "cost",
        "Cost",
        tag(
            "div",
            *(_cost(results, title, name, write) for title, name, write in panels),
            class_="pair even",
        ),
    )


def _cost(results: Sequence[Result], title: str, name: str, write: Callable[[float], str]) -> Safe:
    values = [float(getattr(result, name)) for result in results]
    errors = [result.deviation(name) if name.endswith("seconds") else math.nan for result in results]
    written = [
        write(value) + (f" ± {write(error)}" if math.isfinite(error) else "")
        for value, error in zip(values, errors, strict=True)
    ]
    rows = [(one.recipe, value, error) for one, value, error in zip(results, values, errors, strict=True)]
    link = csv_link(name.replace("_", "-"), ("recipe", name, "deviation"), rows)
    names = [result.recipe for result in results]
    return tag("figure", tag("figcaption", tag("h3", title), tag("p", link)), bars(names, values, written, errors))


def _ranges(result: Result, across: str, up: str) -> tuple[figures.Range, figures.Range] | None:
    """The intervals of both measures; None where one of them has none."""
    found = [result.intervals.get(name) for name in (across, up)]
    if found[0] is None or found[1] is None:
        return None
    return (found[0].low, found[0].high), (found[1].low, found[1].high)


def _slot(one: Bin) -> Slot:
    if one.name == "zero-shot":
        return Slot("never seen", _labels(one), apart=True)
    low, high = words.short_count(one.low), words.short_count(one.high)
    return Slot(low if low == high else f"{low}–{high}", _labels(one))


def _labels(one: Bin) -> str:
    return f"{words.short_count(one.labels)} {'label' if one.labels == 1 else 'labels'}"


def _of_bin(result: Result, name: str, field: str) -> float:
    """A figure of a bin; NaN where the test split has no positive of the bin."""
    found = next((one for one in result.measures.bins if one.name == name), None)
    return math.nan if found is None or not found.positives else float(getattr(found, field))


def _bins_table(results: Sequence[Result], bins: Sequence[Bin], k: int) -> Safe:
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "Training examples", scope="col", class_="stick"),
            *(tag("th", _range(one), *_sizes(one), scope="col") for one in bins),
        ),
    )
    fields = (("contribution", f"points of P@{k}"), ("recall", "recall"), ("coverage", "coverage"))
    bodies = (
        tag(
            "tbody",
            tag("tr", tag("th", tag("bdi", result.recipe), scope="rowgroup", colspan=len(bins) + 1, class_="of")),
            *(
                tag(
                    "tr",
                    tag("th", name, scope="row", class_="stick"),
                    *(tag("td", words.percent(_of_bin(result, one.name, field))) for one in bins),
                )
                for field, name in fields
            ),
        )
        for result in results
    )
    table = table_box("Figures by frequency group", head, *bodies, class_="plain bins")
    return tag("details", tag("summary", "The figures behind these charts"), table)


def _range(one: Bin) -> str:
    low, high = words.count(one.low), words.count(one.high)
    return "never seen" if one.name == "zero-shot" else low if low == high else f"{low}–{high}"


def _sizes(one: Bin) -> list[Safe]:
    return [tag("small", counted(one.labels, "label")), tag("small", counted(one.positives, "positive"))]


def nothing() -> Safe:
    """What stands where a section has nothing to show.

    Returns:
        A paragraph.
    """
    return tag("p", "The test split has no true labels.", class_="note")
