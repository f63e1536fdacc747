"""TAUG's figures 2 and 5 as SVG: PSP against the noisy copies of a tail row, and against the share of head labels.

    python benchmarks/taug_figure.py gutenberg [eurlex57k] --checkpoint-dir FOLDER --out docs/results

Reads the results that `ranknet_taug.py --parts taug --checkpoint-dir FOLDER` has stored. Writes taug-copies.svg and
taug-head.svg: one panel for each data set, with lines for PSP@1, PSP@3 and PSP@5. Settings are drawn at equal
distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from longtail.drawing.axes import AxisScale, Box, ticks
from longtail.drawing.markup import Safe, tag
from longtail.report.shapes import rules
from ranknet_taug import BASE, COPIES, HEADS, Stored, Values, taug_with
from shared.command import parser_for
from shared.figures import entry, line, svg

WIDE, HIGH, LEGEND = 380, 300, 30  # of a panel, and of the strip above them
LINES = ("PSP@1", "PSP@3", "PSP@5")


def figure(title: str, settings: Sequence[str], found: dict[str, tuple[list[Values], Values]]) -> str:
    """A panel for each data set: the measures at each setting, and dotted those of the learner without TAUG."""
    parts = [part for number, name in enumerate(LINES) for part in entry(name, 40 + 90 * number, 20, number)]
    for number, (data, (values, before)) in enumerate(found.items()):
        frame = Box(WIDE * number + 40, LEGEND + 26, WIDE * (number + 1) - 16, LEGEND + HIGH - 40)
        parts += [tag("text", data, x=frame.left, y=frame.top - 10), *_panel(frame, settings, values, before)]
        parts.append(tag("text", "dotted: without TAUG", x=frame.right, y=frame.top - 10, text_anchor="end"))
        parts.append(tag("text", title, x=frame.right, y=frame.bottom + 34, text_anchor="end"))
    return svg(parts, WIDE * len(found), HIGH + LEGEND, f"PSP against {title}")


def _panel(frame: Box, settings: Sequence[str], values: Sequence[Values], before: Values) -> list[Safe]:
    marks = ticks(*(bound(one[name] for one in (*values, before) for name in LINES) for bound in (min, max)))
    across = AxisScale(0, len(settings) - 1, frame.left + 14, frame.right - 14)
    down = AxisScale(marks[0], marks[-1], frame.bottom, frame.top)
    parts = [rules(marks, down, frame)]
    for place, setting in enumerate(settings):
        parts.append(tag("text", setting, x=across(place), y=frame.bottom + 16, text_anchor="middle"))
    for number, name in enumerate(LINES):
        y = down(before[name])
        parts.append(tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="dotted"))
        parts.append(line([(across(place), down(one[name])) for place, one in enumerate(values)], number))
    return parts


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("data", nargs="+", help="names of data sets")
    parser.add_argument("--checkpoint-dir", type=Path, required=True, help="folder of the stored results")
    parser.add_argument("--out", type=Path, required=True, help="folder of the figures")
    options = parser.parse_args()
    stored = Stored(options.checkpoint_dir, closed=True)

    def values(data: str, recipe: str) -> Values:
        return stored.values(data, f"{recipe}, features", dict)

    for name, title, setting, sweep in (
        ("taug-copies", "noisy copies of a tail row", "copies", COPIES),
        ("taug-head", "share of labels that are head", "head_share", HEADS),
    ):
        made = {
            data: ([values(data, f"{BASE} + {taug_with(setting, value)}") for value in sweep], values(data, BASE))
            for data in options.data
        }
        (options.out / f"{name}.svg").write_text(figure(title, [f"{value:g}" for value in sweep], made) + "\n")


if __name__ == "__main__":
    main()
