"""Lines through the figures of a result page, each point with its name where nothing else is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from longtail.drawing.axes import AxisScale, Box, beside, ticks
from longtail.drawing.markup import Safe, tag
from longtail.report.shapes import marker, rules
from shared.figures import entry, line, svg
from shared.page_tables import plain, read_table

WIDE, HIGH, ENTRY = 640, 460, 22  # pixels: of the picture, of its frame, of a name in the legend
STEP = 6  # pixels between the boxes that keep names off a line


@dataclass(frozen=True)
class Columns:
    """A table on a page in docs/results, and its columns that name a line and its points."""

    page: str
    header: str  # the first cells of the table
    lines: str
    points: str
    after: str = ""  # the table stands after this text
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the rows that are drawn, by column
    together: str = ""  # the points belong to no line; the legend has this name for all


@dataclass(frozen=True)
class Curves:
    """A line for each name in the tables."""

    x: str  # the columns of the two axes
    y: str
    tables: tuple[Columns, ...]
    letters: tuple[str, str] = ("", "")  # stand before the name of a line, of a point
    named: str = ""  # the only line whose points are named; "": all are
    below: str = ""  # the title of the x axis; "": its column

    def read(self, pages: Path) -> dict[str, list[tuple[float, float, str]]]:
        """The points of each line: x, y, name."""
        found: dict[str, list[tuple[float, float, str]]] = {}
        for table in self.tables:
            text = (pages / table.page).read_text()
            for row in read_table(text[text.index(table.after) :], table.header):
                if all(row[column] in values for column, values in table.where.items()):
                    x, y = (float(row[column].replace(",", "")) for column in (self.x, self.y))
                    name = plain(row[table.lines])
                    said = self.letters[1] + plain(row[table.points]) if self.named in ("", name) else ""
                    found.setdefault(table.together or self.letters[0] + name, []).append((x, y, said))
        return found


def drawn(curves: Curves, pages: Path) -> str:
    """The picture as SVG."""
    found = curves.read(pages)
    top = ENTRY * len(found) + 34
    frame = Box(56, top, WIDE - 24, top + HIGH)
    flat = [point for points in found.values() for point in points]
    flat.sort(key=lambda point: -len(point[2]))  # long names first: they find room in fewer places
    marks = [ticks(min(values), max(values)) for values in ([x for x, _, _ in flat], [y for _, y, _ in flat])]
    across = AxisScale(marks[0][0], marks[0][-1], frame.left, frame.right)
    up = AxisScale(marks[1][0], marks[1][-1], frame.bottom, frame.top)
    parts: list[Safe] = [
        rules(marks[1], up, frame),
        *(
            tag("text", f"{mark:,g}", x=f"{across(mark):g}", y=frame.bottom + 18, text_anchor="middle")
            for mark in marks[0]
        ),
        tag("text", curves.below or curves.x, x=frame.right, y=frame.bottom + 38, text_anchor="end"),
        tag("text", curves.y, x=16, y=top - 14),
    ]
    loose = {table.together for table in curves.tables}
    along: list[Box] = []
    for number, (name, points) in enumerate(found.items()):
        spots = [(across(x), up(y)) for x, y, _ in points]
        parts += entry(name, frame.left + 8, 20 + ENTRY * number, number)
        if name in loose:
            parts.append(tag("g", *(marker(x, y, number) for x, y in spots), class_=f"s{number}"))
        else:
            parts.append(line(spots, number))
            along += _along(spots)
    spots = [(across(x), up(y)) for x, y, _ in flat]
    places = beside(spots, [said for _, _, said in flat], frame, lines=along)
    for place, (_, _, said) in zip(places, flat, strict=True):
        if said and place is None:
            raise SystemExit(f"there is no room for the name {said!r}")
        if said and place is not None:
            parts.append(tag("text", said, x=f"{place.x:.1f}", y=f"{place.y:.1f}", text_anchor=place.anchor))
    label = f"{curves.y} against {curves.below or curves.x}"
    return svg(parts, WIDE, frame.bottom + 50, label) + "\n"


def _along(spots: list[tuple[float, float]]) -> list[Box]:
    """Small boxes that cover a line through these spots."""
    boxes = []
    for (x, y), (right, bottom) in pairwise(spots):
        steps = int(max(abs(right - x), abs(bottom - y)) / STEP) + 1
        for step in range(steps + 1):
            here, there = x + (right - x) * step / steps, y + (bottom - y) * step / steps
            boxes.append(Box(here - 2, there - 2, here + 2, there + 2))
    return boxes
