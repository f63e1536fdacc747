"""The norms of classifiers against the frequency of their labels: a chart and its figures.

The norms are those of the rows as learned, by the optional `row_norms()` of a scorer. In trees the row is the label's
own classifier, and the norm is the mean over trees; after `taug` it is the row on the label's side; in `centroid` it is
1, since means are normalised. Re-rankers change scores and leave the rows as they are, so recipes that differ only in
re-rankers share a line: no row could show what they do to a tree's product of probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.drawing import words
from longtail.drawing.axes import AxisScale, Box, log_ticks
from longtail.drawing.markup import Safe, join, tag
from longtail.metrics.norms import NormBin
from longtail.report.download import csv_link
from longtail.report.how_to_repeat import table_box
from longtail.report.result import Result
from longtail.report.sections import section
from longtail.report.shapes import both, css_class, error_bar, legend, marker, picture, rules, stroke, target


@dataclass(frozen=True)
class Line:
    """The classifier norms of one recipe, and the later recipes that have the same classifiers."""

    number: int
    name: str
    same: tuple[str, ...]
    bins: tuple[NormBin, ...]
    errors: tuple[float, ...]  # half the length of the error bar of each bin's mean; NaN: none


def norm_lines(results: Sequence[Result]) -> list[Line]:
    """The lines of the chart; recipes with the same classifiers share one.

    Args:
        results: a result per recipe.

    Returns:
        A line for each recipe with classifiers.
    """
    lines: list[Line] = []
    for number, result in enumerate(results):
        norms = result.row_norms
        if norms is None or any(result.recipe in line.same for line in lines):
            continue
        same = tuple(
            other.recipe
            for other in results[number + 1 :]
            if other.row_norms is not None and np.array_equal(norms, other.row_norms, equal_nan=True)
        )
        bins = result.norm_bins()
        if bins:
            lines.append(Line(number, result.recipe, same, bins, result.norm_deviations()))
    return lines


def norms_section(results: Sequence[Result]) -> Safe | None:
    """The section of the page on classifier norms: the chart, the recipes without a line, and the figures.

    Args:
        results: a result per recipe.

    Returns:
        The section; None where no recipe has classifiers.
    """
    lines = norm_lines(results)
    if not lines:
        return None
    return section(
        "norms",
        "Norms of the classifiers",
        tag(
            "p",
            "Each label has a classifier: a vector of weights. Where the classifiers of rare labels have small norms, "
            "their scores stay small for every text, and frequent labels win. A line shows the mean norm over labels "
            "with similar numbers of training examples; its band holds the middle 80% of these labels. Both scales "
            "are logarithmic. The flatter the line, the more equally head and tail are treated.",
            " Bars are standard deviations over seeds." if any(map(math.isfinite, _all_errors(lines))) else None,
            class_="lead",
        ),
        legend([line.name for line in lines], [line.number for line in lines]),
        tag("figure", norms_svg(lines)),
        tag("p", _saved(lines), class_="note"),
        _absent(results, lines),
        _figures(lines),
    )


def _saved(lines: Sequence[Line]) -> Safe:
    header = ["recipe", "fewest examples", "most examples", "labels", "mean norm", "10th percentile", "90th percentile"]
    header += ["deviation of the mean"] if any(map(math.isfinite, _all_errors(lines))) else []
    rows = [
        (line.name, one.low, one.high, one.labels, one.mean, one.lowest, one.highest, error)
        for line in lines
        for one, error in zip(line.bins, line.errors, strict=True)
    ]
    return csv_link("classifier-norms", header, [row[: len(header)] for row in rows])


def _all_errors(lines: Sequence[Line]) -> list[float]:
    return [error for line in lines for error in line.errors]


def norms_svg(lines: Sequence[Line]) -> Safe:
    """Draws norms over training examples, both on log scales; the most frequent labels are left.

    Args:
        lines: of the recipes.

    Returns:
        The chart.
    """
    title = "Mean norm of classifiers against training examples of the label: " + "; ".join(
        f"{line.name} from {_norm(line.bins[-1].mean)} for the most frequent to {_norm(line.bins[0].mean)}"
        for line in lines
    )

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(40, 26, width - 16, height - 52)
        every = [one for line in lines for one in line.bins]
        tips = [one.mean + error for line in lines for one, error in zip(line.bins, line.errors, strict=True)]
        tips = [tip for tip in tips if math.isfinite(tip)]
        rarest, commonest = min(one.middle for one in every), max(one.middle for one in every)
        across = AxisScale(math.log(commonest), math.log(rarest), frame.left + 14, frame.right - 14)
        down, marks = _down([value for one in every for value in (one.lowest, one.mean, one.highest)] + tips, frame)
        parts = [rules(marks, down, frame), _powers(rarest, commonest, across, frame.bottom)]
        parts.append(tag("text", "norm of the classifier", x=2, y=13, class_="axis-name"))
        names = (
            ("← most frequent", frame.left, "start"),
            ("training examples", (frame.left + frame.right) / 2, "middle"),
            ("rarest →", frame.right, "end"),
        )
        parts += [tag("text", name, x=x, y=height - 6, text_anchor=side, class_="axis-name") for name, x, side in names]
        parts += [tag("path", d=_band(line, across, down), class_=f"middle {css_class(line.number)}") for line in lines]
        parts += reversed([_mean(line, across, down) for line in lines])  # the first recipe on top
        return picture(width, height, title, parts)

    return both(draw, (680, 360), (360, 300))


def _down(norms: Sequence[float], frame: Box) -> tuple[Callable[[float], float], list[float]]:
    """A log scale for norms, and its tick marks.

    Norms below a thousandth of the largest are drawn at the bottom, and so is 0, the norm of a classifier whose weights
    were all dropped.
    """
    largest = max(norms) or 1.0
    marks = log_ticks(min((one for one in norms if one >= largest / 1000), default=largest / 10), largest)
    scale = AxisScale(math.log(marks[0]), math.log(marks[-1]), frame.bottom, frame.top)
    return lambda norm: scale(math.log(max(norm, marks[0]))), marks


def _powers(low: float, high: float, across: AxisScale, bottom: float) -> Safe:
    """Tick marks at 1, 10, 100 ..., or at both ends where fewer than two of these lie between them."""
    powers = [10**power for power in range(9) if low <= 10**power <= high]
    shown = powers if len(powers) > 1 else sorted({round(low), round(high)})
    return join(
        tag("text", words.short_count(n), x=across(math.log(n)), y=bottom + 17, text_anchor="middle", class_="tick")
        for n in shown
    )


def _band(line: Line, across: AxisScale, down: Callable[[float], float]) -> str:
    upper = [f"{across(math.log(one.middle)):.1f} {down(one.highest):.1f}" for one in line.bins]
    lower = [f"{across(math.log(one.middle)):.1f} {down(one.lowest):.1f}" for one in reversed(line.bins)]
    return "M" + "L".join([*upper, *lower]) + "Z"


def _mean(line: Line, across: AxisScale, down: Callable[[float], float]) -> Safe:
    spots = [(across(math.log(one.middle)), down(one.mean), one) for one in line.bins]
    parts = [stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in spots), line.number)]
    for (x, y, one), error in zip(spots, line.errors, strict=True):
        figures = f"{line.name}, labels with {_range(one)} training examples: {_norm(one.mean)}"
        if error > 0:
            figures += f" ± {_norm(error)}"
            parts.append(error_bar(x, down(max(one.mean - error, 0.0)), x, down(one.mean + error)))
        parts += [marker(x, y, line.number), target(x, y, figures)]
    return tag("g", *parts, class_=css_class(line.number))


def _absent(results: Sequence[Result], lines: Sequence[Line]) -> Safe | None:
    """The recipes without a line of their own, and why."""
    items = [
        tag(
            "li",
            _names(line.same),
            " has" if len(line.same) == 1 else " have",
            " the same classifiers as ",
            tag("bdi", line.name),
            ", so the lines coincide: re-ranking only changes scores.",
        )
        for line in lines
        if line.same
    ]
    without = [result.recipe for result in results if result.row_norms is None]
    if without:
        items.append(tag("li", _names(without), " has" if len(without) == 1 else " have", " no classifiers."))
    return tag("ul", *items, class_="notes") if items else None


def _names(recipes: Sequence[str]) -> Safe:
    between = ["", *[", "] * (len(recipes) - 2), " and "][: len(recipes)]
    return join(join((before, tag("bdi", name))) for before, name in zip(between, recipes, strict=True))


def _figures(lines: Sequence[Line]) -> Safe:
    """The table behind the chart, most frequent first."""
    head = tag(
        "thead",
        tag("tr", *(tag("th", name, scope="col") for name in ("Training examples", "labels", "mean", "10%", "90%"))),
    )
    bodies = (
        tag(
            "tbody",
            tag("tr", tag("th", tag("bdi", line.name), scope="rowgroup", colspan=5, class_="of")),
            *(
                tag(
                    "tr",
                    tag("th", _range(one), scope="row", class_="stick"),
                    tag("td", words.count(one.labels)),
                    *(tag("td", _norm(value)) for value in (one.mean, one.lowest, one.highest)),
                )
                for one in reversed(line.bins)
            ),
        )
        for line in lines
    )
    table = table_box("Norms of classifiers by label frequency", head, *bodies, class_="plain bins")
    return tag("details", tag("summary", "The figures behind this chart"), table)


def _range(one: NormBin) -> str:
    low, high = words.count(one.low), words.count(one.high)
    return low if low == high else f"{low}–{high}"


def _norm(value: float) -> str:
    return f"{value:.2f}"
