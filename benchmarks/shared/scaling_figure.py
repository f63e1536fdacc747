"""The curve of `scaling.py` as SVG: CPU seconds against entries x depth, both on log scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from longtail.drawing.axes import AxisScale, Box
from longtail.drawing.markup import Safe, tag
from shared.figures import entry, svg
from shared.figures import line as drawn

WIDE, HIGH = 560, 380


def figure(series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """One line for each series, and a dotted one for a cost in proportion to entries x depth."""
    points = [point for line in series.values() for point in line]
    frame = Box(60, 40, WIDE - 44, HIGH - 44)
    (left, right), (low, high) = (_decades([point[axis] for point in points]) for axis in (0, 1))
    across = AxisScale(left, right, frame.left, frame.right)
    down = AxisScale(low, high, frame.bottom, frame.top)
    parts = _grid(across, down, frame)
    parts.append(_in_proportion(next(iter(series.values()))[0], across, down))
    for number, (name, line) in enumerate(series.items()):
        spots = [(across(math.log10(x)), down(math.log10(y))) for x, y in line]
        parts += [drawn(spots, number), *entry(name, frame.left + 40 + 110 * number, 24, number)]
    parts.append(tag("text", "dotted: in proportion", x=frame.right, y=24, text_anchor="end"))
    return svg(parts, WIDE, HIGH, "CPU seconds to train against entries x depth")


def _decades(values: Sequence[float]) -> tuple[int, int]:
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def _grid(across: AxisScale, down: AxisScale, frame: Box) -> list[Safe]:
    parts = []
    for power in range(int(across.low), int(across.high) + 1):
        x = across(power)
        parts.append(tag("line", x1=x, x2=x, y1=frame.top, y2=frame.bottom, class_="rule"))
        parts.append(tag("text", f"{10**power:,}", x=x, y=frame.bottom + 16, text_anchor="middle"))
    for power in range(int(down.low), int(down.high) + 1):
        y = down(power)
        parts.append(tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="rule"))
        parts.append(tag("text", f"{10.0**power:g} s", x=frame.left - 7, y=y + 4, text_anchor="end"))
    parts.append(tag("text", "entries x depth", x=frame.right, y=HIGH - 8, text_anchor="end"))
    return [*parts, tag("text", "CPU time", x=8, y=24)]


def _in_proportion(first: tuple[float, float], across: AxisScale, down: AxisScale) -> Safe:
    """From the first point on, seconds in proportion to entries x depth, up to the frame's right or upper edge."""
    x, y = math.log10(first[0]), math.log10(first[1])
    end = min(across.high - x, down.high - y)
    return tag("path", d=f"M{across(x):.1f} {down(y):.1f}L{across(x + end):.1f} {down(y + end):.1f}", class_="dotted")
