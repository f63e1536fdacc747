"""The dial: how precision turns into hits on rare labels, one line per recipe whose scores are probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from longtail.dial import CURVE_MEASURES, DialPoint
from longtail.drawing import words
from longtail.drawing.axes import AxisScale, Box, beside, ticks
from longtail.drawing.markup import Safe, join, tag
from longtail.report.download import csv_link
from longtail.report.how_to_repeat import table_box
from longtail.report.result import Result
from longtail.report.sections import section
from longtail.report.shapes import both, css_class, error_bar, legend, marker, picture, rules, stroke, target

ACROSS = "P@1"
UP = (
    ("PSP@1", "A hit counts by how rare its label is."),
    ("C@5", "Labels found at least once, of those with a test positive."),
)
WRITTEN = (0.0, 0.3, 0.6, 1.0)  # settings whose number stands beside the line


def dial_section(results: Sequence[Result]) -> Safe | None:
    """The section of the page on the dial: two charts and the figures behind them.

    Args:
        results: a result per recipe.

    Returns:
        The section; None where no recipe has scores that are probabilities.
    """
    shown = [number for number, result in enumerate(results) if result.dial]
    if not shown:
        return None
    without = [number for number in range(len(results)) if number not in shown]
    charts = (
        tag(
            "figure",
            tag(
                "figcaption",
                tag("h3", f"{ACROSS} against {up} as the dial turns"),
                tag("p", f"{meaning} ", _saved(results, up)),
            ),
            dial_svg(results, up),
        )
        for up, meaning in UP
    )
    return section(
        "dial",
        "The dial: from frequent to rare labels",
        tag(
            "p",
            "Scores that are probabilities can be weighted when a model predicts: labels are ranked by probability × "
            "(inverse propensity)",
            tag("sup", "t"),
            ". The large mark is t = 0, the ranking of the table above; along the line t grows in steps of 0.1 to 1. ",
            tag("code", "longtail predict MODEL --dial 0.3"),
            " predicts with t = 0.3. These are test documents: choose t on others, with ",
            tag("code", "longtail evaluate MODEL DATA --split valid --dial 0.3"),
            ".",
            " Bars are standard deviations over seeds." if any(result.runs for result in results) else None,
            class_="lead",
        ),
        legend([result.recipe for result in results]) if len(results) > 1 else None,
        tag("div", *charts, class_="pair even"),
        tag(
            "p",
            "A single mark, because its scores are not probabilities (",
            tag("code", "+ calibrate"),
            " makes them so): ",
            tag("bdi", ", ".join(results[number].recipe for number in without)),
            ".",
            class_="note",
        )
        if without
        else None,
        _table([results[number] for number in shown]),
    )


def dial_svg(results: Sequence[Result], up: str) -> Safe:
    """Draws a measure of rare labels over P@1, one line per recipe with a dial, one mark for the others.

    Args:
        results: a result per recipe.
        up: the measure of the y axis.

    Returns:
        The chart.
    """
    title = f"{ACROSS} against {up} as the dial turns from 0 to 1: " + "; ".join(
        f"{result.recipe} from {_pair(result.dial[0], up)} to {_pair(result.dial[-1], up)}"
        for result in results
        if result.dial
    )
    curves = [_points(result, up) for result in results]
    errors = [_errors(result, up) for result in results]
    ends = [
        (x - wide, x + wide, y - high, y + high)
        for curve, error in zip(curves, errors, strict=True)
        for (x, y, _), (wide, high) in zip(curve, error, strict=True)
    ]

    def draw(width: int, height: int, roomy: bool) -> Safe:
        frame = Box(44, 26, width - 16, height - 44)
        right = AxisScale(*_ends([x for one in ends for x in one[:2]]), frame.left, frame.right)
        down = AxisScale(*_ends([y for one in ends for y in one[2:]]), frame.bottom, frame.top)
        parts = [rules(_inside(down, 5), down, frame), _rules_across(_inside(right, 6 if roomy else 4), right, frame)]
        parts.append(tag("text", ACROSS, x=frame.right, y=height - 6, text_anchor="end", class_="axis-name"))
        parts.append(tag("text", up, x=2, y=13, class_="axis-name"))
        drawn, dots, numbers, bars = [], [], [], []
        for number, (result, curve, error) in enumerate(zip(results, curves, errors, strict=True)):
            spots = [(right(x), down(y), dial) for x, y, dial in curve]
            line = [stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in spots), number)] if len(spots) > 1 else []
            for place, ((x, y, dial), (across, high, _), (x_error, y_error)) in enumerate(
                zip(spots, curve, error, strict=True)
            ):
                setting = "" if dial is None else f", t = {dial:g}"
                left, top = right(across - x_error), down(high + y_error)
                far, bottom = right(across + x_error), down(high - y_error)
                line += [error_bar(left, y, far, y)] if x_error else []
                line += [error_bar(x, bottom, x, top)] if y_error else []
                line.append(marker(x, y, number, 6.5 if place == 0 else 3.0))
                figures = f"{ACROSS} {_figure(across, x_error)}, {up} {_figure(high, y_error)}"
                line.append(target(x, y, f"{result.recipe}{setting}: {figures}"))
                dots.append((x, y))
                bars.append(Box(left, top, far, bottom))
                numbers.append(f"{dial:g}" if dial in WRITTEN else "")
            between = [((x + right_x) / 2, (y + right_y) / 2) for (x, y, _), (right_x, right_y, _) in pairwise(spots)]
            dots += between  # numbers keep off the line, too
            bars += [Box(x, y, x, y) for x, y in between]
            numbers += [""] * len(between)
            drawn.append(tag("g", *line, class_=css_class(number)))
        parts += reversed(drawn)  # the first recipe on top
        for name, spot in zip(numbers, beside(dots, numbers, frame, bars), strict=True):
            if name and spot is not None:
                parts.append(tag("text", name, x=spot.x, y=spot.y, text_anchor=spot.anchor, class_="tick"))
        return picture(width, height, title, parts)

    return both(draw, (540, 370), (360, 320))


def _saved(results: Sequence[Result], up: str) -> Safe:
    rows = [
        (result.recipe, dial, x, y, *errors)
        for result in results
        for (x, y, dial), errors in zip(_points(result, up), _errors(result, up), strict=True)
    ]
    header = ["recipe", "dial", ACROSS, up]
    header += [f"deviation of {name}" for name in (ACROSS, up)] if any(result.runs for result in results) else []
    return csv_link(f"dial-{ACROSS}-against-{up}".replace("@", ""), header, [row[: len(header)] for row in rows])


def _points(result: Result, up: str) -> list[tuple[float, float, float | None]]:
    """(x, y, setting) of each point; a recipe without a dial has one point and no setting."""
    if result.dial:
        return [(point.values[ACROSS], point.values[up], point.dial) for point in result.dial]
    values = result.measures.values
    return [(values[ACROSS], values[up], None)] if ACROSS in values and up in values else []


def _errors(result: Result, up: str) -> list[tuple[float, float]]:
    """Half the lengths of each point's error bars, across and up; 0 where there is none."""
    names = (ACROSS, up)
    if result.dial:
        found = [[result.dial_deviation(place, name) for name in names] for place in range(len(result.dial))]
    else:
        found = [[result.deviation(name) for name in names] for _ in _points(result, up)]
    return [(x if x > 0 else 0.0, y if y > 0 else 0.0) for x, y in found]  # NaN is not above 0


def _figure(value: float, error: float) -> str:
    return f"{value:.1f} ± {error:.1f}" if error else f"{value:.1f}"


def _pair(point: DialPoint, up: str) -> str:
    return f"{words.percent(point.values[ACROSS])} and {words.percent(point.values[up])}"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """The range of the values with a margin on both sides."""
    low, high = min(values), max(values)
    margin = max((high - low) * 0.12, 0.5)
    return max(low - margin, 0.0), high + margin


def _inside(scale: AxisScale, about: int) -> list[float]:
    return [mark for mark in ticks(scale.low, scale.high, about) if scale.low <= mark <= scale.high]


def _rules_across(marks: Sequence[float], right: AxisScale, frame: Box) -> Safe:
    base = tag("path", d=f"M{frame.left} {frame.top}V{frame.bottom}H{frame.right}", class_="base", fill="none")
    return join(
        [
            base,
            *(
                tag("text", f"{mark:g}", x=right(mark), y=frame.bottom + 17, text_anchor="middle", class_="tick")
                for mark in marks
            ),
        ]
    )


def _table(results: Sequence[Result]) -> Safe:
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "Dial", scope="col", class_="stick"),
            *(tag("th", name, scope="col") for name in CURVE_MEASURES),
        ),
    )
    bodies = (
        tag(
            "tbody",
            tag(
                "tr",
                tag("th", tag("bdi", result.recipe), scope="rowgroup", colspan=len(CURVE_MEASURES) + 1, class_="of"),
            ),
            *(
                tag(
                    "tr",
                    tag("th", f"{point.dial:g}", scope="row", class_="stick"),
                    *(_cell(point.values[name], result.dial_deviation(place, name)) for name in CURVE_MEASURES),
                )
                for place, point in enumerate(result.dial)
            ),
        )
        for result in results
    )
    table = table_box("Measures by setting of the dial", head, *bodies, class_="plain bins")
    return tag("details", tag("summary", "The figures behind these charts"), table)


def _cell(value: float, error: float) -> Safe:
    return tag("td", words.percent(value), tag("small", f" ± {words.percent(error)}") if error > 0 else None)
