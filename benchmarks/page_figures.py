"""Claim: bars and curves of the result pages show the figures of the tables beside them.

    python benchmarks/page_figures.py [--out docs/results]

Reads columns of tables on pages in docs/results and draws them as bars or curves, so that picture and table cannot
differ. Seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from longtail.drawing.markup import Safe, join, tag
from shared import curves
from shared.command import parser_for
from shared.curves import Columns, Curves
from shared.page_tables import plain, read_table

PAGES = Path(__file__).parent.parent / "docs" / "results"
WIDTH, LINE = 720, 26  # pixels: of the picture, of a bar
LETTER, NARROW, LONGEST = 7.2, 250, 44  # pixels of a letter and of names; letters of a name
DARK, LIGHT = "#0072b2", "#8fb8d0"  # of the bars that the page is about, of the others


@dataclass(frozen=True)
class Bars:
    """A column of the table whose header starts with `header`."""

    page: str
    header: str  # the first cell
    names: tuple[str, ...]  # columns that name a bar
    values: str  # the column of its length
    where: dict[str, str]  # rows to draw, by column
    title: str
    about: str = ""  # in the names of the dark bars; "": the first bar is dark


FIGURES = {
    "linear-train.svg": Bars(
        "linear.md", "gutenberg", ("gutenberg",), "train s", {}, "Seconds to train on gutenberg, two threads"
    ),
    "head-step.svg": Bars(
        "head.md", "labels", ("step",), "ms", {"labels": "1,305,265"}, "Milliseconds a step, 1,305,265 labels, one H200"
    ),
    "fuse-tail.svg": Bars(
        "fuse.md", "data", ("recipe",), "PSP@5", {"data": "gutenberg"}, "PSP@5 on gutenberg, in percent", "fuse"
    ),
    "auto-sum.svg": Bars(
        "auto.md", "data", ("recipe",), "P@1 + PSP@5", {"data": "gutenberg"}, "P@1 + PSP@5 on gutenberg", "auto"
    ),
    "manual-pages-tail.svg": Bars(
        "manual-pages.md", "recipe", ("recipe",), "PSP@5", {}, "PSP@5 on manual pages, in percent", "gandalf"
    ),
    "tree-nets-tail.svg": Bars(
        "tree-nets.md", "gutenberg", ("gutenberg",), "PSP@5", {}, "PSP@5 on gutenberg, in percent", "lever"
    ),
    "words-ndcg.svg": Bars(
        "words.md", "recipe", ("recipe",), "nDCG@20", {}, "nDCG@20 on tibkat, in percent", "lexical"
    ),
}


UNIDEC = "appendix/unidec.md"
CURVES = {
    "unidec-lengths.svg": Curves(
        "PSP@1",
        "P@1",
        (
            Columns(UNIDEC, "trained by | lengths", "trained by", "lengths"),
            Columns(
                "unidec.md",
                "gutenberg",
                "gutenberg",
                "gutenberg",
                where={"gutenberg": ("`ngame`", "`renee(init_from=...)`", "`dexml`", "`depsl`")},
                together="others",
            ),
        ),
    ),
    **{
        name: Curves(
            "labels of a pool", "positives of a row", (Columns(UNIDEC, "β | η", "β", "η", after),), ("β ", "η "), "1"
        )
        for name, after in (("unidec-pools.svg", "\ngutenberg, "), ("unidec-pools-yso.svg", "\nyso, 3.64 labels"))
    },
    **{
        name: Curves("s", "P@1", (Columns(UNIDEC, f"{data} | epochs", data, "epochs"),), below="seconds of training")
        for name, data in (("unidec-time.svg", "gutenberg"), ("unidec-time-yso.svg", "yso"))
    },
}


def shortened(name: str) -> str:
    """A name without Markdown, and without the end of a long one."""
    whole = plain(name)
    return whole if len(whole) <= LONGEST else whole[: LONGEST - 1] + "…"


def drawn(bars: Bars, text: str) -> str:
    """The picture as SVG."""
    rows = [
        row for row in read_table(text, bars.header) if all(row[name] == value for name, value in bars.where.items())
    ]
    names = [shortened(" ".join(row[name] for name in bars.names)) for row in rows]
    values = [float(row[bars.values].rstrip("▲▼")) for row in rows]
    most, left = max(values), max(NARROW, int(LETTER * max(map(len, names))) + 8)
    parts = [tag("title", bars.title), tag("text", bars.title, x=0, y=18, font_weight="bold")]
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        y = 34 + number * LINE
        length = max((WIDTH - left - 60) * value / most, 1)
        dark = bars.about in name if bars.about else number == 0
        parts += [
            tag("text", name, x=left - 8, y=y + 15, text_anchor="end"),
            tag("rect", x=left, y=y, width=f"{length:.1f}", height=LINE - 8, fill=DARK if dark else LIGHT),
            tag("text", rows[number][bars.values], x=f"{left + length + 6:.1f}", y=y + 15),
        ]
    height = 40 + len(rows) * LINE
    style = {"font_family": "sans-serif", "font_size": 13, "fill": "#333"}
    content = tag("g", join(parts), **style)
    box = f"0 0 {WIDTH} {height}"
    picture: Safe = tag("svg", content, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img")
    return str(picture) + "\n"


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the pictures")
    options = parser.parse_args()
    pictures = {name: drawn(bars, (PAGES / bars.page).read_text()) for name, bars in FIGURES.items()}
    pictures |= {name: curves.drawn(one, PAGES) for name, one in CURVES.items()}
    for name, picture in pictures.items():
        (options.out / name).write_text(picture)
        print(f"wrote {options.out / name}")


if __name__ == "__main__":
    main()
