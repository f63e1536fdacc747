"""How long the classifier rows are, against how frequent their labels: a picture and its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from longtail.metrics.norms import NormBin
from longtail.report import words
from longtail.report.axes import Box, Scale, log_ticks
from longtail.report.facts import table_box
from longtail.report.figures import both, legend, look, marker, picture, rules, stroke, target
from longtail.report.markup import Safe, join, tag
from longtail.report.result import Result
from longtail.report.sections import section


@dataclass(frozen=True)
class Line:
    """The rows of one recipe, and the later recipes that have the same."""

    number: int
    name: str
    same: tuple[str, ...]
    bins: tuple[NormBin, ...]


def norm_lines(results: Sequence[Result]) -> list[Line]:
    """A line for each recipe with classifier rows; recipes with the same rows share one."""
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
            lines.append(Line(number, result.recipe, same, bins))
    return lines


def norms_section(results: Sequence[Result]) -> Safe | None:
    """The chart, who is not in it and why, and the figures; nothing where no recipe has classifier rows."""
    lines = norm_lines(results)
    if not lines:
        return None
    return section(
        "norms",
        "How long the classifier rows are",
        tag(
            "p",
            "A linear classifier has a row of weights for each label. Where the rows of rare labels are short, their "
            "scores stay small whatever the text says, and frequent labels win. A line is the mean length over labels "
            "with about as many training rows, its band the middle 80% of these labels; both scales are "
            "logarithmic. The flatter the line, the more alike head and tail are treated.",
            class_="lead",
        ),
        legend([line.name for line in lines], [line.number for line in lines]),
        tag("figure", norms_svg(lines)),
        _absent(results, lines),
        _figures(lines),
    )


def norms_svg(lines: Sequence[Line]) -> Safe:
    """Length of the rows over training rows, both on log scales; most frequent left, as in the other charts."""
    title = "Mean length of classifier rows against training rows of the label: " + "; ".join(
        f"{line.name} from {_length(line.bins[-1].mean)} for the most frequent to {_length(line.bins[0].mean)}"
        for line in lines
    )

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(40, 26, width - 16, height - 52)
        every = [one for line in lines for one in line.bins]
        fewest, most = min(one.middle for one in every), max(one.middle for one in every)
        across = Scale(math.log(most), math.log(fewest), frame.left + 14, frame.right - 14)
        down, marks = _down([value for one in every for value in (one.lowest, one.mean, one.highest)], frame)
        parts = [rules(marks, down, frame), _powers(fewest, most, across, frame.bottom)]
        parts.append(tag("text", "length of the row", x=2, y=13, class_="axis-name"))
        names = (
            ("← most frequent", frame.left, "start"),
            ("training rows", (frame.left + frame.right) / 2, "middle"),
            ("rarest →", frame.right, "end"),
        )
        parts += [tag("text", name, x=x, y=height - 6, text_anchor=side, class_="axis-name") for name, x, side in names]
        parts += [tag("path", d=_band(line, across, down), class_=f"spread {look(line.number)}") for line in lines]
        parts += reversed([_mean(line, across, down) for line in lines])  # the first recipe on top
        return picture(width, height, title, parts)

    return both(draw, (680, 360), (360, 300))


def _down(lengths: Sequence[float], frame: Box) -> tuple[Callable[[float], float], list[float]]:
    """A log scale for lengths and its tick marks; lengths of 0, from rows whose every weight was dropped, lie at its
    foot, and so does what is shorter than a thousandth of the longest."""
    longest = max(lengths) or 1.0
    marks = log_ticks(min((one for one in lengths if one >= longest / 1000), default=longest / 10), longest)
    scale = Scale(math.log(marks[0]), math.log(marks[-1]), frame.bottom, frame.top)
    return lambda length: scale(math.log(max(length, marks[0]))), marks


def _powers(fewest: float, most: float, across: Scale, bottom: float) -> Safe:
    """Tick marks at 1, 10, 100 ..., or, where these are fewer than two, at the ends."""
    powers = [10**power for power in range(9) if fewest <= 10**power <= most]
    shown = powers if len(powers) > 1 else sorted({round(fewest), round(most)})
    return join(
        tag("text", words.short_count(n), x=across(math.log(n)), y=bottom + 17, text_anchor="middle", class_="tick")
        for n in shown
    )


def _band(line: Line, across: Scale, down: Callable[[float], float]) -> str:
    there = [f"{across(math.log(one.middle)):.1f} {down(one.highest):.1f}" for one in line.bins]
    back = [f"{across(math.log(one.middle)):.1f} {down(one.lowest):.1f}" for one in reversed(line.bins)]
    return "M" + "L".join([*there, *back]) + "Z"


def _mean(line: Line, across: Scale, down: Callable[[float], float]) -> Safe:
    spots = [(across(math.log(one.middle)), down(one.mean), one) for one in line.bins]
    parts = [stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in spots), line.number)]
    for x, y, one in spots:
        told = f"{line.name}, labels of {_range(one)} training rows: {_length(one.mean)}"
        parts += [marker(x, y, line.number), target(x, y, told)]
    return tag("g", *parts, class_=look(line.number))


def _absent(results: Sequence[Result], lines: Sequence[Line]) -> Safe | None:
    """Which recipes have no line of their own, and why."""
    items = [
        tag(
            "li",
            _names(line.same),
            " has" if len(line.same) == 1 else " have",
            " the same rows as ",
            tag("bdi", line.name),
            ", and so the same line: re-ranking acts on the scores.",
        )
        for line in lines
        if line.same
    ]
    without = [result.recipe for result in results if result.row_norms is None]
    if without:
        items.append(tag("li", _names(without), " has" if len(without) == 1 else " have", " no classifier rows."))
    return tag("ul", *items, class_="notes") if items else None


def _names(recipes: Sequence[str]) -> Safe:
    between = ["", *[", "] * (len(recipes) - 2), " and "][: len(recipes)]
    return join(join((before, tag("bdi", name))) for before, name in zip(between, recipes, strict=True))


def _figures(lines: Sequence[Line]) -> Safe:
    """The table behind the chart, most frequent first."""
    head = tag(
        "thead",
        tag("tr", *(tag("th", name, scope="col") for name in ("Training rows", "labels", "mean", "10%", "90%"))),
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
                    *(tag("td", _length(value)) for value in (one.mean, one.lowest, one.highest)),
                )
                for one in reversed(line.bins)
            ),
        )
        for line in lines
    )
    table = table_box("Length of classifier rows by label frequency", head, *bodies, class_="plain bins")
    return tag("details", tag("summary", "The figures behind this chart"), table)


def _range(one: NormBin) -> str:
    low, high = words.count(one.low), words.count(one.high)
    return low if low == high else f"{low}–{high}"


def _length(value: float) -> str:
    return f"{value:.2f}"
