"""SVG figures: the colours of lines and markers, a legend, one line through its points, and the frame of a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from longtail.drawing.markup import Safe, tag
from longtail.report.shapes import css_class, marker, stroke

COLOURS = ("#1f6fb2", "#c4521b", "#2b8a5a", "#7a4fa3", "#777")
STYLE = (
    "\nsvg{background:#fff;font:12px system-ui,sans-serif;fill:#444}\n.rule{stroke:#ddd}"
    ".line{fill:none;stroke-width:2}.dotted{stroke:#999;stroke-dasharray:2 4}\n"
    + "\n".join(
        f".s{number} .line{{stroke:{colour}}}.s{number} .marker{{fill:{colour}}}"
        for number, colour in enumerate(COLOURS)
    )
    + "\n"
)


def svg(parts: Sequence[Safe], width: float, height: float, label: str) -> str:
    """A picture that needs no other file."""
    size = {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
    style = tag("style", Safe(STYLE))
    return str(tag("svg", style, *parts, xmlns="http://www.w3.org/2000/svg", **size, role="img", aria_label=label))


def entry(name: str, x: float, y: float, number: int) -> list[Safe]:
    """A name in the legend beside the marker of its line."""
    return [tag("g", marker(x, y - 4, number), class_=css_class(number)), tag("text", name, x=x + 12, y=y)]


def line(spots: Iterable[tuple[float, float]], number: int, radius: float = 4.5) -> Safe:
    """A line through its points, each with a marker."""
    spots = list(spots)
    path = stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots), number)
    marks = [marker(x, y, number, radius) for x, y in spots]
    return tag("g", path, *marks, class_=css_class(number))
