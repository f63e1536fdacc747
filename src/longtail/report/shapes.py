"""The marks that figures are made of: lines, markers, rules, legends, and pictures for wide and narrow screens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from longtail.drawing.axes import Box
from longtail.drawing.markup import Safe, join, tag

COLOURS = 8  # the ninth recipe takes the first colour again, with another dash and marker
_DASHES = (None, "7 4", "2 3", "9 3 2 3", "12 4", "4 4", "1 4", "9 3 2 3 2 3")
_SHAPES = (  # of markers, within -1..1; distinct without colour
    "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
    "M-.88-.88H.88V.88H-.88Z",
    "M0-1.1L1.05.8H-1.05Z",
    "M0-1.2L1.2 0L0 1.2L-1.2 0Z",
    "M0 1.1L1.05-.8H-1.05Z",
    "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
    "M-.55-1H.55L1.1 0L.55 1H-.55L-1.1 0Z",
    "M0-1.2L.35-.4L1.2-.37L.55.2L.75 1.05L0 .58L-.75 1.05L-.55.2L-1.2-.37L-.35-.4Z",
)


def css_class(number: int) -> str:
    """The CSS class that colours a recipe.

    Args:
        number: of the recipe, from 0.

    Returns:
        The class name.
    """
    return f"s{number % COLOURS}"


def swatch(number: int) -> Safe:
    """The line and marker of a recipe, for legends and tables.

    Args:
        number: of the recipe, from 0.

    Returns:
        A small SVG.
    """
    return tag(
        "svg",
        stroke("M0 7H30", number),
        marker(15, 7, number),
        class_=f"swatch {css_class(number)}",
        viewBox="0 0 30 14",
        width=30,
        height=14,
        aria_hidden="true",
    )


def legend(names: Sequence[str], numbers: Sequence[int] | None = None) -> Safe:
    """A list of swatches and names.

    Args:
        names: of the recipes.
        numbers: their numbers; None means 0, 1, 2 ...

    Returns:
        The list.
    """
    shown = zip(range(len(names)) if numbers is None else numbers, names, strict=True)
    entries = (tag("li", swatch(number), tag("bdi", name, class_="name")) for number, name in shown)
    return tag("ul", join(entries), class_="legend", role="list")


def bars(names: Sequence[str], values: Sequence[float], written: Sequence[str], errors: Sequence[float] = ()) -> Safe:
    """Horizontal bars, one per recipe. Names are text of the page, so that long ones wrap instead of being cut.

    Args:
        names: of the recipes.
        values: the length of each bar, in any unit.
        written: each value as text.
        errors: half the length of each error bar; NaN: none.

    Returns:
        A list of bars.
    """
    spread = [error if math.isfinite(error) else 0.0 for error in errors] or [0.0] * len(values)
    tips = [value + error for value, error in zip(values, spread, strict=True)]
    highest = max((value for value in tips if math.isfinite(value)), default=0.0)
    rows = (
        tag(
            "li",
            tag("span", tag("bdi", name, class_="name"), class_="bar-name"),
            bar(value / highest, css_class(number), spread[number] / highest)
            if highest > 0
            else bar(0.0, css_class(number)),
            tag("span", text, class_="bar-value"),
        )
        for number, (name, value, text) in enumerate(zip(names, values, written, strict=True))
    )
    return tag("ul", join(rows), class_="bars with-errors" if any(spread) else "bars", role="list")


def bar(part: float, class_: str, error: float = 0.0) -> Safe:
    """A bar over its track. It is a rectangle, because browsers do not print backgrounds.

    Args:
        part: how much of the track the bar fills, from 0 to 1.
        class_: the CSS class that colours it.
        error: half the length of its error bar, in the same unit; 0: none.

    Returns:
        A small SVG.
    """
    filled = min(max(part, 0.004 if part > 0 else 0.0), 1.0) * 100 if math.isfinite(part) else 0.0
    return tag(
        "svg",
        tag("rect", width=100, height=1, class_="track"),
        tag("rect", width=filled, height=1, class_="fill"),
        tag("rect", x=max(part - error, 0) * 100, y=0.35, width=min(2 * error, 1) * 100, height=0.3, class_="whisker")
        if error > 0 and math.isfinite(part)
        else None,
        class_=f"bar {class_}",
        viewBox="0 0 100 1",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def both(draw: Callable[[int, int, bool], Safe], wide: tuple[int, int], narrow: tuple[int, int]) -> Safe:
    """Draws a chart for wide and for narrow screens; CSS shows one.

    Args:
        draw: called with width, height and whether the screen is wide.
        wide: width and height on a wide screen, in pixels.
        narrow: the same on a narrow one.

    Returns:
        Both charts.
    """
    return join((tag("div", draw(*wide, True), class_="wide"), tag("div", draw(*narrow, False), class_="narrow")))


def picture(width: int, height: int, title: str, parts: Sequence[Safe]) -> Safe:
    """A chart that scales with its column, up to 1.3 times its size: beyond that its text would look too large.

    Args:
        width: in pixels.
        height: in pixels.
        title: what a screen reader reads.
        parts: what is in the chart.

    Returns:
        The SVG element.
    """
    return tag(
        "svg",
        *parts,
        class_="chart",
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
        style=f"max-width:{1.3 * width:.0f}px",
    )


def stroke(path: str, number: int) -> Safe:
    """The line of a recipe, with its dashes.

    Args:
        path: SVG path data.
        number: of the recipe, from 0.

    Returns:
        The path element.
    """
    return tag("path", d=path, class_="line", stroke_dasharray=_DASHES[(number + number // COLOURS) % 8])


def marker(x: float, y: float, number: int, radius: float = 4.5) -> Safe:
    """The marker of a recipe.

    Args:
        x: of its centre, in pixels.
        y: of its centre, in pixels.
        number: of the recipe, from 0.
        radius: in pixels.

    Returns:
        The path element.
    """
    shape = _SHAPES[(number + number // COLOURS) % len(_SHAPES)]
    return tag("path", d=shape, transform=f"translate({x:.1f} {y:.1f}) scale({radius})", class_="marker")


def error_bar(x1: float, y1: float, x2: float, y2: float) -> Safe:
    """A thin line from one end of an interval to the other, with a short stroke across each end.

    Args:
        x1: of one end, in pixels.
        y1: of the same end.
        x2: of the other end.
        y2: of the other end.

    Returns:
        The path element.
    """
    across = (0, 3) if y1 == y2 else (3, 0)
    caps = "".join(
        f"M{x - across[0]:.1f} {y - across[1]:.1f}L{x + across[0]:.1f} {y + across[1]:.1f}"
        for x, y in ((x1, y1), (x2, y2))
    )
    return tag("path", d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}{caps}", class_="error")


def target(x: float, y: float, text: str) -> Safe:
    """An invisible spot, large enough for a finger, that shows a tooltip.

    Args:
        x: of its centre, in pixels.
        y: of its centre, in pixels.
        text: the tooltip.

    Returns:
        The circle element.
    """
    return tag("circle", cx=x, cy=y, r=11, class_="target", data_help=text)


def rules(marks: Sequence[float], down: Callable[[float], float], frame: Box) -> Safe:
    """Horizontal grid lines with their values at the left.

    Args:
        marks: the values.
        down: maps a value to its y, in pixels.
        frame: the lines run from its left to its right edge.

    Returns:
        Markup.
    """
    return join(
        part
        for mark in marks
        for part in (
            tag(
                "line",
                x1=frame.left,
                x2=frame.right,
                y1=down(mark),
                y2=down(mark),
                class_="rule base" if mark == 0 else "rule",
            ),
            tag("text", f"{mark:g}", x=frame.left - 7, y=down(mark) + 4, text_anchor="end", class_="tick"),
        )
    )
