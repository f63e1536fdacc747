"""The neighbours of one label as a bar chart, a file of its own."""

from __future__ import annotations

from collections.abc import Sequence

from longtail.drawing.axes import LETTER, AxisScale
from longtail.drawing.markup import tag

WIDTH, ROW, TOP, FOOT = 720, 26, 64, 34
BLUE, GREY, DARK, RULE = "#0072b2", "#5b6068", "#1f2328", "#dfe1e5"
MAX_LETTERS = 44


def links_svg(name: str, subtitle: str, links: Sequence[tuple[str, float]], mark: float | None = None) -> str:
    """Draws a bar for each neighbour of a label.

    Args:
        name: of the label.
        subtitle: the line under the name.
        links: name and weight, from 0 to 1, of each neighbour, the strongest first.
        mark: a threshold to draw; None draws none.

    Returns:
        The SVG file.
    """
    shown = [(_cut(label), weight) for label, weight in links]
    left = min(max((len(label) for label, _ in shown), default=0) * LETTER + 24, WIDTH / 2)
    height = TOP + ROW * max(len(shown), 1) + FOOT
    across = AxisScale(0, 1, left, WIDTH - 64)
    bottom = height - FOOT
    parts = [
        tag("rect", x=0, y=0, width=WIDTH, height=height, fill="#fff"),
        tag("text", _cut(name, 80), x=12, y=24, font_weight="bold", font_size=15, fill=DARK),
        tag("text", subtitle, x=12, y=44),
    ]
    for step in range(6):
        x = across(step / 5)
        parts.append(tag("path", d=f"M{x:.1f} {TOP - 6}V{bottom}", stroke=RULE, fill="none"))
        parts.append(tag("text", f"{step / 5:g}", x=x, y=bottom + 18, text_anchor="middle"))
    for place, (label, weight) in enumerate(shown):
        y = TOP + ROW * place
        bar = {"x": left, "y": y + 3, "width": across(weight) - left, "height": ROW - 8}
        parts.append(tag("rect", tag("title", f"{label}: {weight:.2f}"), fill=BLUE, rx=2, **bar))
        parts.append(tag("text", label, x=left - 8, y=y + ROW / 2 + 3, text_anchor="end", fill=DARK))
        parts.append(tag("text", f"{weight:.2f}", x=across(weight) + 6, y=y + ROW / 2 + 3))
    if not shown:
        parts.append(tag("text", "no other label", x=left, y=TOP + ROW / 2))
    if mark:
        x = across(mark)
        parts.append(tag("path", d=f"M{x:.1f} {TOP - 6}V{bottom}", stroke=GREY, stroke_dasharray="4 3", fill="none"))
        parts.append(tag("text", f"threshold {mark:g}", x=x + 4, y=bottom + 32))
    title = f"{name}: " + "; ".join(f"{label} {weight:.2f}" for label, weight in links)
    return str(
        tag(
            "svg",
            tag("title", title),
            *parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {height}",
            width=WIDTH,
            height=height,
            font_family="system-ui, sans-serif",
            font_size=12,
            fill=GREY,
        )
    )


def _cut(text: str, letters: int = MAX_LETTERS) -> str:
    text = " ".join(text.split())
    return text if len(text) <= letters else text[: letters - 1].rstrip() + "…"
