"""The curve of `scaling.py` as a picture that stands alone: CPU seconds against entries x depth, both on log scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from longtail.report.axes import Box, Scale
from longtail.report.figures import look, marker, stroke
from longtail.report.markup import Safe, tag

WIDE, HIGH = 560, 380
STYLE = """
svg{background:#fff;font:12px system-ui,sans-serif;fill:#444}
.rule{stroke:#ddd}.line{fill:none;stroke-width:2}.even{stroke:#999;stroke-dasharray:2 4}
.s0 .line{stroke:#1f6fb2}.s0 .marker{fill:#1f6fb2}.s1 .line{stroke:#c4521b}.s1 .marker{fill:#c4521b}
"""


def figure(series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A line a series over a dotted one, along which cost would grow exactly as entries x depth does."""
    points = [point for line in series.values() for point in line]
    frame = Box(60, 40, WIDE - 44, HIGH - 44)
    (left, right), (low, high) = (_decades([point[axis] for point in points]) for axis in (0, 1))
    across = Scale(left, right, frame.left, frame.right)
    down = Scale(low, high, frame.bottom, frame.top)
    parts = [tag("style", Safe(STYLE)), *_grid(across, down, frame)]
    parts.append(_even(next(iter(series.values()))[0], across, down))
    for number, (name, line) in enumerate(series.items()):
        spots = [(across(math.log10(x)), down(math.log10(y))) for x, y in line]
        path = stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots), number)
        parts.append(tag("g", path, *(marker(x, y, number) for x, y in spots), class_=look(number)))
        at = frame.left + 40 + 110 * number
        parts.append(tag("g", marker(at, 20, number), class_=look(number)))
        parts.append(tag("text", name, x=at + 12, y=24))
    parts.append(tag("text", "dotted: in proportion", x=frame.right, y=24, text_anchor="end"))
    title = "CPU seconds to train against entries x depth"
    return str(
        tag(
            "svg",
            *parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDE} {HIGH}",
            width=WIDE,
            height=HIGH,
            role="img",
            aria_label=title,
        )
    )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def _grid(across: Scale, down: Scale, frame: Box) -> list[Safe]:
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


def _even(first: tuple[float, float], across: Scale, down: Scale) -> Safe:
    """From the first point on, seconds in proportion to entries x depth, up to the frame's right or upper edge."""
    x, y = math.log10(first[0]), math.log10(first[1])
    end = min(across.high - x, down.high - y)
    return tag("path", d=f"M{across(x):.1f} {down(y):.1f}L{across(x + end):.1f} {down(y + end):.1f}", class_="even")
