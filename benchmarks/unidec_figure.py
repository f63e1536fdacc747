"""The pictures of docs/results/unidec.md, drawn from its tables: what pools bring together, what lengths trade, and how
soon P@1 is there.

    python benchmarks/unidec_figure.py docs/results/unidec.md

Writes unidec-pools.svg and unidec-pools-yso.svg (figure 2.2b: positives of a row in its pool against the pool's size; a
line for each beta, with more mined labels along it) and unidec-lengths.svg (P@1 against PSP@1 on test; a line for each
training, with more of the classifiers' lengths along it), and unidec-time.svg and unidec-time-yso.svg (P@1 against the
seconds of whole trainings; a line for each learner, with more epochs along it) beside the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from longtail.report.axes import Box, Scale, ticks
from longtail.report.figures import look, marker, stroke
from longtail.report.markup import Safe, tag

WIDE, HIGH, LEGEND = 560, 380, 22  # of the picture, and of a line of its legend
STYLE = """
svg{background:#fff;font:12px system-ui,sans-serif;fill:#444}
.rule{stroke:#ddd}.line{fill:none;stroke-width:2}
.s0 .line{stroke:#1f6fb2}.s0 .marker{fill:#1f6fb2}.s1 .line{stroke:#c4521b}.s1 .marker{fill:#c4521b}
.s2 .line{stroke:#2b8a5a}.s2 .marker{fill:#2b8a5a}.s3 .line{stroke:#8053a8}.s3 .marker{fill:#8053a8}
.s4 .line{stroke:#777}.s4 .marker{fill:#777}
"""


@dataclass(frozen=True)
class Line:
    """Points that belong together, each with what is written beside it."""

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
    least = min(point[1] for line in lines for point in line.points) - 2  # far below, they would press these together
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
    across = Scale(marks[0][0], marks[0][-1], frame.left, frame.right)
    down = Scale(marks[1][0], marks[1][-1], frame.bottom, frame.top)
    parts: list[Safe] = [tag("style", Safe(STYLE))]
    for number, line in enumerate(lines):
        y = 16 + LEGEND * number
        parts += [tag("g", marker(frame.left, y, number), class_=look(number)), tag("text", line.name, x=70, y=y + 4)]
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
        parts.append(tag("g", *drawn, class_=look(number)))
        for x, y, text in spots:
            below = number == 1  # lines come near each other: one is named above, the other below
            place = {"x": x - 6 if below else x + 8, "y": y + (17 if below else -6)}
            parts.append(tag("text", text, text_anchor="end" if below else "start", **place))
    parts.append(tag("text", across_name, x=frame.right, y=frame.bottom + 38, text_anchor="end"))
    parts.append(tag("text", down_name, x=frame.left, y=frame.top - 8, text_anchor="middle"))
    high = frame.bottom + 48
    view, label = f"0 0 {WIDE} {high:g}", f"{down_name} against {across_name}"
    size = {"width": WIDE, "height": f"{high:g}"}
    return str(
        tag("svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=view, **size, role="img", aria_label=label)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
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
