"""Claim: the bars of the result pages show the figures of the tables beside them.

    python benchmarks/page_figures.py [--out docs/results]

Reads a column of a table on a page in docs/results and draws it as bars, so that
picture and table cannot differ. Seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from longtail.drawing.markup import Safe, join, tag
from shared.command import parser_for

ROOT = Path(__file__).parent.parent
WIDTH, LEFT, LINE = 720, 250, 26  # pixels: of the picture, of the names, of a bar
COLOURS = ("#0072b2", "#8fb8d0")  # of the first bar, of the others


@dataclass(frozen=True)
class Bars:
    """A column of the table whose header starts with `header`."""

    page: str
    header: str  # the first cell
    names: tuple[str, ...]  # columns that name a bar
    values: str  # the column of its length
    where: dict[str, str]  # rows to draw, by column
    title: str


FIGURES = {
    "linear-train.svg": Bars(
        "linear.md", "gutenberg", ("gutenberg",), "train s", {}, "Seconds to train on gutenberg, two threads"
    ),
    "head-step.svg": Bars(
        "head.md", "labels", ("step",), "ms", {"labels": "1,305,265"}, "Milliseconds a step, 1,305,265 labels, one H200"
    ),
}


def table(text: str, header: str) -> list[dict[str, str]]:
    """The rows of the first table whose header starts with this cell, by column."""
    lines = iter(text.splitlines())
    names = next(cells(line) for line in lines if line.startswith(f"| {header} |"))
    next(lines)  # the rule under the header
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, cells(line), strict=True)))
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def drawn(bars: Bars, text: str) -> str:
    """The picture as SVG."""
    rows = [row for row in table(text, bars.header) if all(row[name] == value for name, value in bars.where.items())]
    values = [float(row[bars.values]) for row in rows]
    most = max(values)
    parts = [tag("title", bars.title), tag("text", bars.title, x=0, y=18, font_weight="bold")]
    for number, (row, value) in enumerate(zip(rows, values, strict=True)):
        y = 34 + number * LINE
        length = max((WIDTH - LEFT - 60) * value / most, 1)
        parts += [
            tag("text", " ".join(row[name] for name in bars.names), x=LEFT - 8, y=y + 15, text_anchor="end"),
            tag(
                "rect",
                x=LEFT,
                y=y,
                width=f"{length:.1f}",
                height=LINE - 8,
                fill="#0072b2" if number == 0 else "#8fb8d0",
            ),
            tag("text", row[bars.values], x=f"{LEFT + length + 6:.1f}", y=y + 15),
        ]
    height = 40 + len(rows) * LINE
    style = {"font_family": "sans-serif", "font_size": 13, "fill": "#333"}
    content = tag("g", join(parts), **style)
    box = f"0 0 {WIDTH} {height}"
    picture: Safe = tag("svg", content, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img")
    return str(picture) + "\n"


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results", help="folder of the pictures")
    options = parser.parse_args()
    for name, bars in FIGURES.items():
        text = (ROOT / "docs" / "results" / bars.page).read_text()
        (options.out / name).write_text(drawn(bars, text))
        print(f"wrote {options.out / name}")


if __name__ == "__main__":
    main()
