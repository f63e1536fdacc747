"""The figures of docs/results/unidec.md, drawn from its tables.

    python benchmarks/unidec_figure.py docs/results/unidec.md

Writes beside the page: unidec-pools.svg and unidec-pools-yso.svg (figure 2.2b: positives of a row in its pool against
the size of the pool; one line for each beta, with more mined labels along it), unidec-lengths.svg (P@1 against PSP@1 on
test; one line for each training, with more of the classifiers' norms along it), unidec-time.svg and unidec-time-yso.svg
(P@1 against the seconds of whole trainings; one line for each learner, with more epochs along it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from longtail.drawing.axes import AxisScale, Box, ticks
from longtail.drawing.markup import Safe, tag
from longtail.report.shapes import css_class, marker, stroke
from shared.command import parser_for
from shared.figures import entry, svg

WIDE, HIGH, LEGEND = 560, 380, 22  # of the picture, and of a line of its legend


@dataclass(frozen=True)
class Line:
    """Points of one line, each with the text beside it."""

    name: str
    points: tuple[tuple[float, float, str], ...]


def tables(page: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The head and the rows of every table of a page, cell by cell."""
    block: list[list[str]] = []
    for line in (*page.splitlines(), ""):
        if line.startswith("|"):
            block.append([cell.strip().strip("`") for cell in line.strip("|").split(" | ")])
        elif block:
            yield block[0], block[2:]
            block = []


def pools(page: str, number: int) -> list[Line]:
    rows = [rows for head, rows in tables(page) if head[:2] == ["β", "η"]][number]
    lines = []
    for beta in dict.fromkeys(row[0] for row in rows):
        points = tuple(
            (float(row[2].replace(",", "")), float(row[3]), f"η {row[1]}" if beta == rows[0][0] else "")
            for row in rows
            if row[0] == beta
        )
        lines.append(Line(f"β {beta}", points))
    return lines


def lengths(page: str) -> list[Line]:
    head, rows = next(found for found in tables(page) if found[0][:2] == ["trained by", "lengths"])
    across, down = head.index("PSP@1"), head.index("P@1")
    lines = [
        Line(
            f"unidec, {how}",
            tuple((float(row[across]), float(row[down]), row[1]) for row in rows if row[0] == how),
        )
        for how in dict.fromkeys(row[0] for row in rows)
    ]
    head, rows = next(found for found in tables(page) if found[0][0] == "recipe")
    across, down = head.index("PSP@1"), head.index("P@1")
    least = min(point[1] for line in lines for point in line.points) - 2  # what is far below would compress the scale
    others = [row for row in rows if not row[0].startswith("unidec") and float(row[down]) > least]
    return [*lines, Line("others", tuple((float(row[across]), float(row[down]), row[0]) for row in others))]


def seconds(page: str, data: str) -> list[Line]:
    head, rows = next(found for found in tables(page) if found[0][:3] == [data, "epochs", "s"])
    across, down = head.index("s"), head.index("P@1")
    return [
        Line(
            recipe,
            tuple((float(row[across]), float(row[down]), row[1].strip("*")) for row in rows if row[0] == recipe),
        )
        for recipe in dict.fromkeys(row[0] for row in rows)
    ]


def figure(lines: Sequence[Line], across_name: str, down_name: str, joined: int) -> str:
    """The first `joined` lines are drawn as such, the others as points."""
    top = LEGEND * len(lines) + 24
    frame = Box(56, top, WIDE - 24, top + HIGH - 60)
    points = [point for line in lines for point in line.points]
    marks = [ticks(min(point[axis] for point in points), max(point[axis] for point in points)) for axis in (0, 1)]
    across = AxisScale(marks[0][0], marks[0][-1], frame.left, frame.right)
    down = AxisScale(marks[1][0], marks[1][-1], frame.bottom, frame.top)
    parts: list[Safe] = []
    for number, line in enumerate(lines):
        parts += entry(line.name, frame.left, 20 + LEGEND * number, number)
    for mark in marks[1]:
        parts.append(tag("line", x1=frame.left, x2=frame.right, y1=down(mark), y2=down(mark), class_="rule"))
        parts.append(tag("text", f"{mark:g}", x=frame.left - 6, y=down(mark) + 4, text_anchor="end"))
    for mark in marks[0]:
        parts.append(tag("text", f"{mark:,g}", x=across(mark), y=frame.bottom + 18, text_anchor="middle"))
    for number, line in enumerate(lines):
        spots = [(across(x), down(y), text) for x, y, text in line.points]
        drawn = [marker(x, y, number) for x, y, _ in spots]
        if number < joined:
            drawn.append(stroke("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in spots), number))
        parts.append(tag("g", *drawn, class_=css_class(number)))
        for x, y, text in spots:
            below = number == 1  # lines come close: the text of one is above, of the other below
            place = {"x": x - 6 if below else x + 8, "y": y + (17 if below else -6)}
            parts.append(tag("text", text, text_anchor="end" if below else "start", **place))
    parts.append(tag("text", across_name, x=frame.right, y=frame.bottom + 38, text_anchor="end"))
    parts.append(tag("text", down_name, x=frame.left, y=frame.top - 8, text_anchor="middle"))
    return svg(parts, WIDE, frame.bottom + 48, f"{down_name} against {across_name}")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("page", type=Path, help="the Markdown page")
    page = parser.parse_args().page
    text = page.read_text()
    for name, lines, *words in (
        ("unidec-pools", pools(text, 0), "labels of a pool", "positives of a row"),
        ("unidec-pools-yso", pools(text, 1), "labels of a pool", "positives of a row"),
        ("unidec-lengths", lengths(text), "PSP@1", "P@1"),
        ("unidec-time", seconds(text, "gutenberg"), "seconds of training", "P@1"),
        ("unidec-time-yso", seconds(text, "yso"), "seconds of training", "P@1"),
    ):
        joined = len(lines) - (name == "unidec-lengths")
        page.with_name(f"{name}.svg").write_text(figure(lines, words[0], words[1], joined) + "\n")


if __name__ == "__main__":
    main()
